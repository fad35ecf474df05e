package streams

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Drift is one difference between a stream as it is and as it should be.
type Drift struct {
	Stream string
	Field  string // as the nats command line calls it
	Want   string
	Have   string
	Do     string // what to do about it
}

// DriftError says how existing streams or consumers differ from what Tidings
// needs. Nothing was changed.
type DriftError struct{ Drifts []Drift }

// Error implements error. Each difference is a line of its own.
func (e *DriftError) Error() string {
	var b strings.Builder
	b.WriteString("streams differ from what is configured, and changing them could lose data:")
	for _, d := range e.Drifts {
		fmt.Fprintf(&b, "\n  %s %s: want %s, have %s: %s", d.Stream, d.Field, d.Want, d.Have, d.Do)
	}
	return b.String()
}

// field is one setting of a stream that Tidings relies on. What is not listed
// in [fields] (description, placement, compression, republish, …) is the
// operator's own.
type field struct {
	name string
	get  func(jetstream.StreamConfig) any
	// grows reports that going from have to want loses nothing. nil: never.
	grows func(want, have any) bool
	// fixed: the server never allows a change.
	fixed bool
}

var fields = []field{
	{name: "subjects", get: func(c jetstream.StreamConfig) any { return c.Subjects }, grows: moreSubjects},
	{name: "retention", get: func(c jetstream.StreamConfig) any { return c.Retention }, fixed: true},
	{name: "storage", get: func(c jetstream.StreamConfig) any { return c.Storage }, fixed: true},
	{name: "discard", get: func(c jetstream.StreamConfig) any { return c.Discard }},
	{name: "max-msgs", get: func(c jetstream.StreamConfig) any { return c.MaxMsgs }},
	{name: "max-bytes", get: func(c jetstream.StreamConfig) any { return c.MaxBytes }, grows: biggerLimit},
	{name: "max-age", get: func(c jetstream.StreamConfig) any { return c.MaxAge }, grows: longerAge},
	{name: "max-msgs-per-subject", get: func(c jetstream.StreamConfig) any { return c.MaxMsgsPerSubject }, grows: forEachSubject},
	{name: "discard-per-subject", get: func(c jetstream.StreamConfig) any { return c.DiscardNewPerSubject }},
	{name: "max-msg-size", get: func(c jetstream.StreamConfig) any { return int64(c.MaxMsgSize) }, grows: biggerLimit},
	{name: "replicas", get: func(c jetstream.StreamConfig) any { return c.Replicas }},
	{name: "dupe-window", get: func(c jetstream.StreamConfig) any { return c.Duplicates }, grows: longer},
	{name: "no-ack", get: func(c jetstream.StreamConfig) any { return c.NoAck }},
	{name: "sealed", get: func(c jetstream.StreamConfig) any { return c.Sealed }, fixed: true},
	{name: "deny-delete", get: func(c jetstream.StreamConfig) any { return c.DenyDelete }, fixed: true},
	{name: "deny-purge", get: func(c jetstream.StreamConfig) any { return c.DenyPurge }, fixed: true},
	{name: "allow-rollup", get: func(c jetstream.StreamConfig) any { return c.AllowRollup }},
	{name: "allow-direct", get: func(c jetstream.StreamConfig) any { return c.AllowDirect }, grows: turnedOn},
	{name: "allow-batch", get: func(c jetstream.StreamConfig) any { return c.AllowAtomicPublish }, grows: turnedOn},
	{name: "allow-schedules", get: func(c jetstream.StreamConfig) any { return c.AllowMsgSchedules }, grows: turnedOn},
	{name: "allow-msg-ttl", get: func(c jetstream.StreamConfig) any { return c.AllowMsgTTL }, fixed: true},
	{name: "subject-del-markers-ttl", get: func(c jetstream.StreamConfig) any { return c.SubjectDeleteMarkerTTL }},
	{name: "allow-counter", get: func(c jetstream.StreamConfig) any { return c.AllowMsgCounter }, fixed: true},
	{name: "persist-mode", get: func(c jetstream.StreamConfig) any { return c.PersistMode }, fixed: true},
	{name: "mirror", get: func(c jetstream.StreamConfig) any { return c.Mirror != nil }, fixed: true},
	{name: "sources", get: func(c jetstream.StreamConfig) any { return len(c.Sources) > 0 }},
	{name: "transform", get: func(c jetstream.StreamConfig) any { return c.SubjectTransform != nil }},
	{name: "metadata " + schemaKey, get: func(c jetstream.StreamConfig) any { return c.Metadata[schemaKey] }},
}

// biggerLimit: -1 is no limit.
func biggerLimit(want, have any) bool {
	w, h := want.(int64), have.(int64)
	return h > 0 && (w < 0 || w > h)
}

// longerAge: 0 is for ever.
func longerAge(want, have any) bool {
	w, h := want.(time.Duration), have.(time.Duration)
	return h > 0 && (w == 0 || w > h)
}

// forEachSubject: no limit loses nothing. Where one entry of a subject is enough,
// those before it were replaced by it and count for nothing.
func forEachSubject(want, have any) bool {
	return want.(int64) == -1 || want.(int64) == 1 && have.(int64) == -1
}

// moreSubjects: those of an earlier version, and more.
func moreSubjects(want, have any) bool {
	w, h := want.([]string), have.([]string)
	return !slices.ContainsFunc(h, func(s string) bool { return !slices.Contains(w, s) })
}

func longer(want, have any) bool { return want.(time.Duration) > have.(time.Duration) }

func turnedOn(want, _ any) bool { return want.(bool) }

// compare returns the differences that must not be resolved silently, and
// whether there are others, which may.
func compare(want, have jetstream.StreamConfig) (refuse []Drift, adapt bool) {
	for _, f := range fields {
		w, h := f.get(want), f.get(have)
		switch {
		case reflect.DeepEqual(w, h):
		case f.grows != nil && f.grows(w, h):
			adapt = true
		default:
			refuse = append(refuse, Drift{
				Stream: want.Name, Field: f.name, Want: fmt.Sprint(w), Have: fmt.Sprint(h), Do: f.advice(want.Name),
			})
		}
	}
	return refuse, adapt
}

func (f field) advice(stream string) string {
	if f.fixed {
		return "this cannot be changed; back the stream up, remove it and let Tidings make it again"
	}
	return "set the configuration back, or change the stream yourself with nats stream edit " + stream
}

// ensure returns the stream, creating it if it is missing and widening it if
// that loses nothing.
func ensure(ctx context.Context, js jetstream.JetStream, want jetstream.StreamConfig) (jetstream.Stream, []Drift, error) {
	s, err := js.Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		s, err = js.CreateStream(ctx, want)
		if err != nil {
			return nil, nil, fmt.Errorf("create stream %s: %w", want.Name, err)
		}
		return s, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("look up stream %s: %w", want.Name, err)
	}
	have := s.CachedInfo().Config
	if have.Metadata[importKey] != "" {
		return nil, nil, fmt.Errorf("stream %s: %w", want.Name, ErrImporting)
	}
	refuse, adapt := compare(want, have)
	if len(refuse) > 0 || !adapt {
		return s, refuse, nil
	}
	s, err = js.UpdateStream(ctx, widened(want, have))
	if err != nil {
		return nil, nil, fmt.Errorf("widen stream %s: %w", want.Name, err)
	}
	return s, nil, nil
}

// widened is the stream as it is with the settings that Tidings relies on as
// they should be: what the operator added stays.
func widened(want, have jetstream.StreamConfig) jetstream.StreamConfig {
	c := have
	c.Subjects = want.Subjects
	c.MaxBytes, c.MaxAge, c.MaxMsgSize, c.Duplicates = want.MaxBytes, want.MaxAge, want.MaxMsgSize, want.Duplicates
	c.MaxMsgsPerSubject = want.MaxMsgsPerSubject
	c.AllowDirect, c.AllowAtomicPublish, c.AllowMsgSchedules = want.AllowDirect, want.AllowAtomicPublish, want.AllowMsgSchedules
	return c
}
