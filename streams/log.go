package streams

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"tidings/streams/event"
)

// Durability says when an append counts as stored.
type Durability int

const (
	// Strict: when it is on disk. Needs a server that syncs always, or
	// replicated streams. Appends are committed in groups.
	Strict Durability = iota
	// Relaxed: when the server has written it. It survives the death of the
	// process, and a power cut but for the last second or so.
	Relaxed
)

// String implements fmt.Stringer.
func (d Durability) String() string {
	if d == Relaxed {
		return "relaxed"
	}
	return "strict"
}

// Options says how the log is to be. The zero value works.
type Options struct {
	Durability Durability // zero: Strict
	Replicas   int        // of every stream; zero: 1
	// Horizon is how long an event is remembered, from its last record on.
	// Zero: 30 days; negative: for ever.
	Horizon time.Duration
	// DuplicateWindow is how long EVENTS itself recognises an id; beyond it,
	// OUTCOMES decides. Zero: 2 minutes.
	DuplicateWindow time.Duration
	// Sizes of the streams in bytes. Zero: 8 GiB, 8 GiB, 2 GiB and 2 GiB. The
	// server sets the space aside, so it must allow for the sum.
	EventsMaxBytes, OutcomesMaxBytes, DeadLettersMaxBytes, OversizeMaxBytes int64

	Identity event.Identity
	Logger   *slog.Logger // nil: none

	// Ungrouped commits what is strict one by one, a sync each: it is as safe, and
	// slower. Measurements use it, to show what groups are worth.
	Ungrouped bool

	// Steady leaves out the jitter of the pauses between two attempts, so that a
	// simulation can be repeated.
	Steady bool
}

func (o Options) withDefaults() Options {
	o.Replicas = cmp.Or(o.Replicas, 1)
	o.Horizon = cmp.Or(o.Horizon, 30*24*time.Hour)
	o.DuplicateWindow = cmp.Or(o.DuplicateWindow, 2*time.Minute)
	o.EventsMaxBytes = cmp.Or(o.EventsMaxBytes, 8<<30)
	o.OutcomesMaxBytes = cmp.Or(o.OutcomesMaxBytes, 8<<30)
	o.DeadLettersMaxBytes = cmp.Or(o.DeadLettersMaxBytes, 2<<30)
	o.OversizeMaxBytes = cmp.Or(o.OversizeMaxBytes, 2<<30)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Log is the log on JetStream: its four streams, and an object store for what
// does not fit them. Its methods may be called by any number of goroutines.
type Log struct {
	Events      *Events
	Outcomes    *Outcomes
	DeadLetters *DeadLetters
	Retries     *Retries
	Oversize    *Oversize

	nc     *nats.Conn
	js     jetstream.JetStream
	log    *slog.Logger
	events appender
	outs   appender
}

// ackWait is how long an answer is waited for before the fate of an append
// counts as unknown.
const ackWait = 10 * time.Second

// maxInFlight bounds the appends to a stream whose answer is outstanding; more
// are refused.
const maxInFlight = 16 << 10

// minMaxPayload is what a server must take in one message. The default of
// nats-server is exactly that.
const minMaxPayload = 1 << 20

// Open returns the log on the server that nc is connected to. It creates the
// streams that are missing and widens limits that were raised in the
// configuration. It returns a *[VersionError] if the server is too old, and a
// *[DriftError] if a stream differs in a way that must not be mended silently.
// It starts nothing: see [Log.Run]. nc stays the caller's to close, after Run
// and every Consume and Follow have returned.
func Open(ctx context.Context, nc *nats.Conn, o Options) (*Log, error) {
	o = o.withDefaults()
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(ackWait))
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	if err := checkVersion(ctx, nc, js); err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	if nc.MaxPayload() < minMaxPayload {
		return nil, fmt.Errorf("open log: the server takes messages of at most %d bytes: set its max_payload to 12MB (at least 1MB)", nc.MaxPayload())
	}
	handles, err := ensureAll(ctx, js, o)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	l := &Log{nc: nc, js: js, log: o.Logger}
	l.wire(handles, o)
	l.warnAboutDurability(o)
	return l, nil
}

// ensureAll returns the streams in the order of topology.
func ensureAll(ctx context.Context, js jetstream.JetStream, o Options) ([]jetstream.Stream, error) {
	var handles []jetstream.Stream
	var drifts []Drift
	for _, want := range topology(o) {
		s, refused, err := ensure(ctx, js, want)
		if err != nil {
			return nil, err
		}
		handles, drifts = append(handles, s), append(drifts, refused...)
	}
	if len(drifts) > 0 {
		return nil, &DriftError{Drifts: drifts}
	}
	return handles, nil
}

func (l *Log) wire(handles []jetstream.Stream, o Options) {
	base := func(i int) stream {
		return stream{name: handles[i].CachedInfo().Config.Name, nc: l.nc, js: l.js, handle: handles[i], log: l.log, steady: o.Steady}
	}
	events, outs := newPublisher(l.nc, EventsStream), newPublisher(l.nc, OutcomesStream)
	seen, spare := newSeen(seenGeneration), 0
	if o.Durability == Strict && !o.Ungrouped {
		spare = batchHeaders
		l.events = newCommitter(events, l.js, policy{alone: seen.mark})
		l.outs = newCommitter(outs, l.js, policy{sift: siftConflicts(l.js)})
	} else {
		l.events, l.outs = newPipeline(events), newPipeline(outs)
	}
	l.Events = &Events{stream: base(0), commits: l.events, identity: o.Identity, spare: spare, room: room{limit: handles[0].CachedInfo().Config.MaxBytes}}
	l.Outcomes = &Outcomes{stream: base(1), commits: l.outs, room: room{limit: handles[1].CachedInfo().Config.MaxBytes}}
	l.Outcomes.tally = &tally{append: l.Outcomes.appendDuplicate, lost: l.lostDuplicates}
	l.Oversize = &Oversize{stream: base(4), writing: make(chan struct{}, objectsInFlight)}
	l.DeadLetters = &DeadLetters{stream: base(2), oversize: l.Oversize}
	l.Retries = &Retries{stream: base(3)}
}

// warnAboutDurability says what cannot be checked from here: whether a server
// that somebody else runs syncs always.
func (l *Log) warnAboutDurability(o Options) {
	if o.Durability == Strict && o.Replicas == 1 && l.nc.Opts.InProcessServer == nil {
		l.log.Warn("streams have one replica: strict durability holds only if the server runs with sync_interval: always",
			"server", l.nc.ConnectedServerName())
	}
}

// Run commits what is appended until ctx is done; appends made before wait for
// it. When ctx ends, what is queued is still committed, the duplicates that were
// counted are noted, and later appends get [ErrClosed]. It returns nil then, and a
// *[VersionError] if a reconnect ends at a server that is too old. It may be
// called once. While it runs it sweeps, see [DeadLetters.Sweep], at once and then
// every hour.
func (l *Log) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	noting, noted := context.WithCancel(context.WithoutCancel(ctx))
	g.Go(func() error { return l.events.run(ctx) })
	g.Go(func() error { return l.outs.run(noting) })
	g.Go(func() error {
		defer noted()
		l.Outcomes.tally.run(ctx)
		return nil
	})
	g.Go(func() error { return l.watchVersion(ctx) })
	g.Go(func() error { return l.sweep(ctx) })
	return g.Wait()
}

func (l *Log) lostDuplicates(events, duplicates int, err error) {
	l.log.Warn("duplicates were counted and could not be noted in the audit", "events", events, "duplicates", duplicates, "error", err)
}

func (l *Log) watchVersion(ctx context.Context) error {
	status := l.nc.StatusChanged(nats.CONNECTED)
	defer l.nc.RemoveStatusListener(status)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-status:
		}
		err := checkVersion(ctx, l.nc, l.js)
		if tooOld, ok := errors.AsType[*VersionError](err); ok {
			return tooOld
		}
	}
}
