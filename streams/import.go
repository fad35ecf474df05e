package streams

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Where the metadata of a stream says that an import into it is not done, and that
// one was; both are the id of what is imported.
const (
	importKey   = "tidings.import"
	importedKey = "tidings.imported"
)

// filler is the subject of entries of a stream that hold a sequence that is to be left
// out. There are none when an import is done.
func filler(stream string) string { return "import.filler." + stream }

// Errors of an import.
var (
	// ErrNotEmpty means that a stream has held entries before.
	ErrNotEmpty = errors.New("an import wants a log that never held anything: give it a data directory of its own, or move the streams of this one away")
	// ErrImporting means that an import was begun and is not done.
	ErrImporting = errors.New("an import into this log was begun and is not done: run tidings ledger import again with the same file, which goes on " +
		"where it was; or remove the log, if it is not wanted")
	// ErrOtherEntry means that something else is in the place of an entry.
	ErrOtherEntry = errors.New("another entry is there")
)

// Extent is what an import brings into a stream.
type Extent struct {
	First, Last uint64 // sequences; a first behind the last is no entry
	Gaps        []Gap  // between them that an operator accepted
	Bytes       uint64 // about
}

// ImportOptions say what is imported. All is needed.
type ImportOptions struct {
	Options
	// ID is of what is imported, so that an import that was cut off goes on with the same.
	ID                    string
	Outcomes, DeadLetters Extent
}

// Importer brings entries into OUTCOMES and DEADLETTERS of a log that never held
// anything, at the sequences that they had. Nothing else may use the log meanwhile.
// It belongs to one goroutine.
type Importer struct {
	nc       *nats.Conn
	js       jetstream.JetStream
	streams  map[string]*importing
	oversize *Oversize
	object   objectImport

	sent  []sent
	bytes int
}

// importing is one stream that is imported into.
type importing struct {
	stream
	want jetstream.StreamConfig // when the import is done
	last uint64                 // sequence of the last entry that is there, or is under way
	end  uint64                 // sequence of the last one when the import is done
	done bool
}

// sent is an entry whose answer is outstanding.
type sent struct {
	stream   string
	sequence uint64
	future   jetstream.PubAckFuture
	bytes    int
}

// Bounds of what is sent and not answered.
const (
	importInFlight = 512
	importBytes    = 8 << 20
)

// OpenImporter returns what imports into the log on the server that nc is connected
// to. It makes the streams, or goes on with those of an import of the same id. It
// returns [ErrNotEmpty], or [ErrImporting] where that of another id was begun, and
// changes nothing then.
func OpenImporter(ctx context.Context, nc *nats.Conn, o ImportOptions) (*Importer, error) {
	o.Options = o.withDefaults()
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(ackWait), jetstream.WithPublishAsyncMaxPending(2*importInFlight))
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	if err := checkVersion(ctx, nc, js); err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	i := &Importer{nc: nc, js: js, streams: map[string]*importing{}}
	plan, err := i.plan(ctx, o)
	if err != nil {
		return nil, err
	}
	for _, p := range plan {
		if err := i.open(ctx, p, o); err != nil {
			return nil, err
		}
	}
	handle, _, err := ensure(ctx, js, oversize(o.Options))
	if err != nil {
		return nil, err
	}
	i.oversize = &Oversize{stream: stream{name: OversizeStream, nc: nc, js: js, handle: handle, log: o.Logger}}
	return i, nil
}

// CheckImport returns how many entries an import of that id has brought in already,
// and where it would be refused the error of [OpenImporter]. It changes nothing.
func CheckImport(ctx context.Context, nc *nats.Conn, o ImportOptions) (there uint64, err error) {
	o.Options = o.withDefaults()
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(ackWait))
	if err != nil {
		return 0, fmt.Errorf("open log: %w", err)
	}
	plan, err := (&Importer{nc: nc, js: js}).plan(ctx, o)
	if err != nil {
		return 0, err
	}
	for _, p := range plan {
		if p.there != nil {
			there += p.there.CachedInfo().State.Msgs
		}
	}
	return there, nil
}

// planned is a stream before anything is changed.
type planned struct {
	want   jetstream.StreamConfig
	extent Extent
	there  jetstream.Stream // nil: it is to be made
	fresh  bool             // there is one that never held anything
}

// plan looks at all streams before one is changed.
func (i *Importer) plan(ctx context.Context, o ImportOptions) ([]planned, error) {
	all := []planned{{want: deadLetters(o.Options), extent: o.DeadLetters}, {want: outcomes(o.Options), extent: o.Outcomes}}
	finished := 0
	for n := range all {
		p := &all[n]
		if limit := p.want.MaxBytes; limit > 0 && p.extent.Bytes > uint64(limit) {
			return nil, fmt.Errorf("%s: %w: what is imported has %d bytes, and it may have %d: set its max_bytes higher", p.want.Name, ErrFull, p.extent.Bytes, limit)
		}
		there, err := i.js.Stream(ctx, p.want.Name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("look up stream %s: %w", p.want.Name, err)
		}
		p.there = there
		info := there.CachedInfo()
		switch mark := info.Config.Metadata[importKey]; {
		case mark == o.ID:
		case mark != "":
			return nil, fmt.Errorf("%s: %w", p.want.Name, ErrImporting)
		case info.Config.Metadata[importedKey] == o.ID:
			finished++
		case info.State.LastSeq > 0:
			return nil, fmt.Errorf("%s has %d entries, the last one is %d: %w", p.want.Name, info.State.Msgs, info.State.LastSeq, ErrNotEmpty)
		default:
			p.fresh = true
		}
	}
	if finished == len(all) {
		return nil, fmt.Errorf("this export was imported already: %w", ErrNotEmpty)
	}
	return all, nil
}

// open makes a stream, or goes on with it.
func (i *Importer) open(ctx context.Context, p planned, o ImportOptions) (err error) {
	s := &importing{want: finished(p.want, p.extent, o.ID), end: p.extent.Last}
	config := during(s.want, o.ID)
	switch {
	case p.fresh:
		if err := i.js.DeleteStream(ctx, p.want.Name); err != nil {
			return fmt.Errorf("make stream %s anew: %w", p.want.Name, err)
		}
		fallthrough
	case p.there == nil:
		p.there, err = i.js.CreateStream(ctx, config)
	case p.there.CachedInfo().Config.Metadata[importKey] == "":
		s.done = true
	default: // the configuration may be another by now
		p.there, err = i.js.UpdateStream(ctx, config)
	}
	if err != nil {
		return fmt.Errorf("make stream %s: %w", p.want.Name, err)
	}
	info, err := p.there.Info(ctx)
	if err != nil {
		return fmt.Errorf("info of %s: %w: %w", p.want.Name, ErrUnavailable, err)
	}
	s.last = info.State.LastSeq
	s.stream = stream{name: p.want.Name, nc: i.nc, js: i.js, handle: p.there, log: o.Logger}
	i.streams[p.want.Name] = s
	return nil
}

// finished is the configuration of a stream when the import is done.
func finished(c jetstream.StreamConfig, e Extent, id string) jetstream.StreamConfig {
	c.Metadata = maps.Clone(c.Metadata)
	c.Metadata[importedKey] = id
	for _, g := range e.Gaps {
		c.Metadata[g.name()] = g.Accepted
	}
	if e.First > 1 {
		c.FirstSeq = e.First
	}
	return c
}

// during is its configuration until then. Nothing is forgotten meanwhile, and what
// holds the place of a gap can be removed.
func during(c jetstream.StreamConfig, id string) jetstream.StreamConfig {
	c.Metadata = maps.Clone(c.Metadata)
	delete(c.Metadata, importedKey)
	c.Metadata[importKey] = id
	c.Subjects = append(slices.Clone(c.Subjects), filler(c.Name))
	c.MaxAge, c.DenyDelete, c.DenyPurge = 0, false, false
	return c
}

// Last returns the sequence of the last entry of a stream that is there.
func (i *Importer) Last(stream string) uint64 { return i.streams[stream].last }

// errExisting ends the walk along what is there.
var errExisting = errors.New("that was the last one")

// Existing returns the entries of a stream that are there, in order. An error ends
// them.
func (i *Importer) Existing(ctx context.Context, stream string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		last, err := i.lastPresent(ctx, stream)
		if err == nil && last > 0 {
			err = i.streams[stream].Follow(ctx, 1, func(e Entry) error {
				if e.Subject != filler(stream) && !yield(e, nil) || e.Sequence >= last {
					return errExisting
				}
				return nil
			})
		}
		if err != nil && !errors.Is(err, errExisting) {
			yield(Entry{}, err)
		}
	}
}

// lastPresent returns the sequence of the last entry that was not removed, 0 if none
// is left.
func (i *Importer) lastPresent(ctx context.Context, stream string) (uint64, error) {
	info, err := i.streams[stream].Info(ctx)
	if err != nil || info.Messages == 0 {
		return 0, err
	}
	for last := info.Last; last >= info.First; last-- {
		_, err := i.streams[stream].Entry(ctx, last)
		if !errors.Is(err, ErrNotFound) {
			return last, err
		}
	}
	return 0, nil
}

// Append stores an entry at its own sequence, behind fillers where some are left out
// before it. It returns when the entry is under way; a later call may return its error.
func (i *Importer) Append(ctx context.Context, stream string, e Entry) error {
	s := i.streams[stream]
	if err := i.Fill(ctx, stream, e.Sequence-1); err != nil {
		return err
	}
	if e.Sequence != s.last+1 {
		return fmt.Errorf("import entry %d of %s: %w: the last one is %d", e.Sequence, stream, ErrOtherEntry, s.last)
	}
	h := maps.Clone(e.Header)
	if h == nil {
		h = nats.Header{}
	}
	h[HeaderStoredAt] = []string{e.Time.UTC().Format(time.RFC3339Nano)}
	return i.send(ctx, s, &nats.Msg{Subject: e.Subject, Header: h, Data: e.Data})
}

// Fill leaves out what is missing up to a sequence.
func (i *Importer) Fill(ctx context.Context, stream string, to uint64) error {
	for s := i.streams[stream]; s.last < to; {
		if err := i.send(ctx, s, &nats.Msg{Subject: filler(stream), Header: nats.Header{}}); err != nil {
			return err
		}
	}
	return nil
}

// send publishes what is to be the next entry of a stream.
func (i *Importer) send(ctx context.Context, s *importing, msg *nats.Msg) error {
	msg.Header.Set(jetstream.ExpectedStreamHeader, s.name)
	msg.Header.Set(jetstream.ExpectedLastSeqHeader, strconv.FormatUint(s.last, 10))
	future, err := i.js.PublishMsgAsync(msg)
	if err != nil {
		return fmt.Errorf("import entry %d of %s: %w", s.last+1, s.name, publishError(err))
	}
	s.last++
	i.sent = append(i.sent, sent{s.name, s.last, future, len(msg.Data)})
	i.bytes += len(msg.Data)
	for len(i.sent) > importInFlight || i.bytes > importBytes {
		if err := i.await(ctx); err != nil {
			return err
		}
	}
	return nil
}

// await waits for the oldest answer.
func (i *Importer) await(ctx context.Context) error {
	oldest := i.sent[0]
	i.sent, i.bytes = i.sent[1:], i.bytes-oldest.bytes
	select {
	case ack := <-oldest.future.Ok():
		if ack.Sequence == oldest.sequence {
			return nil
		}
		return fmt.Errorf("import entry %d of %s: it is at %d: something else writes to the log: stop it", oldest.sequence, oldest.stream, ack.Sequence)
	case err := <-oldest.future.Err():
		return fmt.Errorf("import entry %d of %s: %w", oldest.sequence, oldest.stream, publishError(err))
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Settle returns when all that was appended is stored, and removes the fillers. A
// server that was not told to sync has them on disk only when it was shut down.
func (i *Importer) Settle(ctx context.Context) error {
	for len(i.sent) > 0 {
		if err := i.await(ctx); err != nil {
			return err
		}
	}
	for _, s := range i.streams {
		if s.done {
			continue
		}
		if err := s.handle.Purge(ctx, jetstream.WithPurgeSubject(filler(s.name))); err != nil {
			return fmt.Errorf("remove the fillers of %s: %w: %w", s.name, ErrUnavailable, err)
		}
	}
	return nil
}

// Finish makes of the streams what they are to be. All entries must be stored, to
// the durability that the log is to have: the import counts as done then.
func (i *Importer) Finish(ctx context.Context) error {
	if err := i.Settle(ctx); err != nil {
		return err
	}
	for _, name := range []string{DeadLettersStream, OutcomesStream} {
		s := i.streams[name]
		if s.done {
			continue
		}
		if s.last != s.end {
			return fmt.Errorf("finish the import into %s: it ends at %d and not at %d", name, s.last, s.end)
		}
		if _, err := i.js.UpdateStream(ctx, s.want); err != nil {
			return fmt.Errorf("finish the import into %s: %w", name, err)
		}
		s.done = true
	}
	return nil
}
