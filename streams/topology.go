package streams

import (
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// The streams.
const (
	EventsStream      = "EVENTS"
	OutcomesStream    = "OUTCOMES"
	DeadLettersStream = "DEADLETTERS"
	RetriesStream     = "RETRIES"
	OversizeStream    = "OBJ_" + OversizeBucket
)

// schemaKey is where a stream's metadata says which version of the layout of
// subjects and headers it was made for.
const (
	schemaKey     = "tidings.schema"
	schemaVersion = "1"
)

// retriesAge is longer than any wake-up waits.
const retriesAge = 7 * 24 * time.Hour

// topology returns the streams as they should be.
func topology(o Options) []jetstream.StreamConfig {
	return []jetstream.StreamConfig{events(o), outcomes(o), deadLetters(o), retries(o), oversize(o)}
}

func base(o Options, name, description string, subjects ...string) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: name, Description: description, Subjects: subjects,
		Retention: jetstream.LimitsPolicy, Storage: jetstream.FileStorage, Discard: jetstream.DiscardNew,
		MaxConsumers: -1, MaxMsgs: -1, MaxBytes: -1, MaxMsgsPerSubject: -1, MaxMsgSize: -1,
		Replicas: o.Replicas, AllowDirect: true,
		Metadata: map[string]string{schemaKey: schemaVersion},
	}
}

// events has no MaxAge: only the steward removes events, because it knows
// which have ended. DiscardNew turns a full stream into back-pressure.
func events(o Options) jetstream.StreamConfig {
	c := base(o, EventsStream, "What producers published.", "events.>")
	c.MaxBytes = o.EventsMaxBytes
	c.Duplicates = o.DuplicateWindow
	c.AllowAtomicPublish = true
	return c
}

// outcomes forbids deletion, so that a gap in its sequences always means
// damage. DiscardNew, since discarding old entries would forget claims early.
func outcomes(o Options) jetstream.StreamConfig {
	c := base(o, OutcomesStream, "What was decided and done about each event.", "outcomes.*.*", "audit.*", "plans.*")
	c.MaxBytes = o.OutcomesMaxBytes
	c.MaxAge = max(o.Horizon, 0)     // the server's 0 is for ever
	c.Duplicates = o.DuplicateWindow // not used: entries carry no message id
	if c.MaxAge > 0 {
		c.Duplicates = min(c.Duplicates, c.MaxAge)
	}
	c.DenyDelete, c.DenyPurge = true, true
	c.AllowAtomicPublish = true
	return c
}

// deadLetters are never evicted: an operator or a new generation ends them. The
// last letter of an event counts; those before it are removed one by one. A limit
// for each subject would do that too, but the server writes nowhere what a limit
// removed: killed after the last letter was removed, it would have found the one
// before again.
func deadLetters(o Options) jetstream.StreamConfig {
	c := base(o, DeadLettersStream, "What an operator must look at.", "dead.*.*")
	c.MaxBytes = o.DeadLettersMaxBytes
	c.Duplicates = o.DuplicateWindow
	return c
}

// retries holds wake-ups only. The server allows schedules with neither
// DiscardNew nor DenyPurge, and wants roll-ups.
func retries(o Options) jetstream.StreamConfig {
	c := base(o, RetriesStream, "Which events to look at again, and when.", "retries.*.*", "schedules.*", "aside.*.*")
	c.Discard = jetstream.DiscardOld
	c.MaxAge = retriesAge
	c.MaxMsgsPerSubject = 1
	c.Duplicates = o.DuplicateWindow
	c.AllowMsgSchedules, c.AllowRollup = true, true
	return c
}

// oversize is a bucket as the client's object stores make it, but for what
// every stream of Tidings has. Its objects go with their letters.
func oversize(o Options) jetstream.StreamConfig {
	c := base(o, OversizeStream, "What is too large for a dead letter.", chunkPrefix+">", infoPrefix+">")
	c.MaxBytes = o.OversizeMaxBytes
	c.Duplicates = o.DuplicateWindow
	c.AllowRollup = true
	return c
}
