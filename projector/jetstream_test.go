package projector_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tidings/projector"
	"tidings/store"
	"tidings/store/storetest"
	"tidings/streams"
	"tidings/streams/event"
	"tidings/streams/streamstest"
)

// writer appends histories to a real log.
type writer struct {
	log  *streams.Log
	js   jetstream.JetStream
	last map[event.Key]uint64 // sequence of the last record
}

func newWriter(t *testing.T, s *streamstest.Server) *writer {
	js, err := jetstream.New(s.Connect())
	require.NoError(t, err)
	return &writer{log: s.Log(), js: js, last: map[event.Key]uint64{}}
}

// write appends the lines, and returns the sequence of the last.
func (w *writer) write(t *testing.T, lines []storetest.Line) uint64 {
	ctx := t.Context()
	for _, l := range lines {
		switch {
		case l.Record != nil:
			p, err := w.log.Outcomes.Append(ctx, *l.Record, w.last[l.Record.Event.Key])
			require.NoError(t, err)
			w.last[l.Record.Event.Key] = p.Sequence
		case l.Duplicate != nil:
			require.NoError(t, w.log.Outcomes.AppendDuplicate(ctx, *l.Duplicate))
		case l.Operation != nil:
			_, err := w.log.Outcomes.AppendOperation(ctx, *l.Operation)
			require.NoError(t, err)
		default:
			m := nats.NewMsg("plans.p1")
			m.Header.Set(streams.HeaderKind, string(l.Unknown.Kind))
			m.Data = l.Unknown.Data
			eventually(t, func() bool { // the connection may not be back yet
				_, err := w.js.PublishMsg(ctx, m)
				return err == nil
			})
		}
	}
	info, err := w.log.Outcomes.Info(ctx)
	require.NoError(t, err)
	return info.Last
}

func (w *writer) letter(t *testing.T, ref event.Ref) uint64 {
	sequence, _, err := w.log.DeadLetters.Put(t.Context(), event.Letter{
		Kind: event.LetterEvent, Key: ref.Key, Tenant: ref.Tenant, Cause: event.CauseCrashes, At: storetest.Start, Event: &ref,
	})
	require.NoError(t, err)
	return sequence
}

// project runs a projector on the log until stop is called.
func project(t *testing.T, log *streams.Log, path string, o projector.Options) (*projector.Projector, *store.Store, func()) {
	s := storetest.OpenFile(t, path)
	o.Outcomes, o.DeadLetters, o.Store = log.Outcomes, log.DeadLetters, s
	p := projector.New(o)
	stop := streamstest.Run(t, p.Run)
	return p, s, func() { stop(); require.NoError(t, s.Close()) }
}

// history is a random one, the same at every run.
func history(seed int) []storetest.Line {
	return rapid.Custom(func(t *rapid.T) *storetest.Log { return storetest.Draw(t, 300) }).
		Filter(func(l *storetest.Log) bool { return len(l.Lines) > 100 }).Example(seed).Lines
}

func TestOnJetStream(t *testing.T) {
	server := streamstest.NewServer(t)
	w := newWriter(t, server)
	path := filepath.Join(t.TempDir(), "ledger.db")
	lines := history(1)
	half := len(lines) / 2

	p, s, stop := project(t, server.Log(), path, projector.Options{VerifyEvery: 20 * time.Millisecond})
	caughtUp(t, p, w.write(t, lines[:half]))
	server.Restart()
	last := w.write(t, lines[half:])
	w.letter(t, storetest.Ref("acme", 1))
	gone := w.letter(t, storetest.Ref("acme", 3))
	caughtUp(t, p, last)
	eventually(t, func() bool { return p.Status().DeadLetters.Applied == gone })

	t.Run("rows stand where their last records say", func(t *testing.T) {
		n := 0
		for key, sequence := range w.last {
			stored, err := w.log.Outcomes.Last(t.Context(), tenantOf(lines, key), key)
			require.NoError(t, err)
			row, err := s.Event(key)
			require.NoError(t, err)
			require.Equal(t, sequence, row.RecordSequence)
			require.Equal(t, stored.Record.State.Phase, row.Phase)
			require.Equal(t, stored.Record.State.Outcome, row.Outcome)
			require.Equal(t, stored.Record.State.Tries(), row.Tries)
			n++
		}
		require.Positive(t, n)
		require.Zero(t, p.Status().Outcomes.Problems)
	})
	t.Run("a letter that is deleted from the stream leaves the list", func(t *testing.T) {
		stream, err := w.js.Stream(t.Context(), streams.DeadLettersStream)
		require.NoError(t, err)
		require.NoError(t, stream.DeleteMsg(t.Context(), gone))
		eventually(t, func() bool {
			_, err := s.DeadLetter(storetest.Ref("acme", 3).Key)
			return err != nil
		})
	})
	want := digest(t, s)
	stop()

	t.Run("it goes on where it was after a restart", func(t *testing.T) {
		p, s, stop := project(t, server.Log(), path, projector.Options{})
		defer stop()
		eventually(t, func() bool { return p.Status().Ready() })
		require.Equal(t, last, p.Status().Outcomes.Applied)
		require.Equal(t, want, digest(t, s))
	})
	t.Run("a deleted file is built again, the same", func(t *testing.T) {
		require.NoError(t, os.Remove(path))
		p, s, stop := project(t, server.Log(), path, projector.Options{})
		defer stop()
		eventually(t, func() bool { return p.Status().Ready() })
		require.Equal(t, want, digest(t, s))
	})
	t.Run("a ledger of another log is refused", func(t *testing.T) {
		p, _, stop := project(t, streamstest.New(t), path, projector.Options{})
		defer stop()
		require.Equal(t, projector.ReasonOtherStream, halted(t, p, outcomes).Reason)
		require.Equal(t, projector.ReasonOtherStream, halted(t, p, letters).Reason)
	})
}

func tenantOf(lines []storetest.Line, key event.Key) string {
	for _, l := range lines {
		if l.Record != nil && l.Record.Event.Key == key {
			return l.Record.Event.Tenant
		}
	}
	return ""
}

func TestAPowerCutIsNoticed(t *testing.T) {
	server := streamstest.NewServer(t)
	w := newWriter(t, server)
	path := filepath.Join(t.TempDir(), "ledger.db")
	lines := history(2)

	before := w.write(t, lines[:50])
	image := filepath.Join(t.TempDir(), "image")
	require.NoError(t, os.CopyFS(image, os.DirFS(server.Dir())))
	p, _, stop := project(t, server.Log(), path, projector.Options{})
	caughtUp(t, p, w.write(t, lines[50:80]))
	stop()

	server.Stop()
	require.NoError(t, os.RemoveAll(server.Dir()))
	require.NoError(t, os.CopyFS(server.Dir(), os.DirFS(image)))
	server.Start()

	t.Run("the log lost its end", func(t *testing.T) {
		p, _, stop := project(t, server.Log(), path, projector.Options{})
		defer stop()
		halt := halted(t, p, outcomes)
		require.Equal(t, projector.ReasonLostTail, halt.Reason)
		require.Equal(t, before+1, halt.Sequence)
	})
	t.Run("and wrote others there", func(t *testing.T) {
		for i := range 40 {
			require.NoError(t, w.log.Outcomes.AppendDuplicate(t.Context(), event.Duplicate{
				ID: event.NewNonce(), Kind: event.KindDuplicate, Event: storetest.Ref("acme", i),
			}))
		}
		p, _, stop := project(t, server.Log(), path, projector.Options{})
		defer stop()
		halt := halted(t, p, outcomes)
		require.Equal(t, projector.ReasonOtherEntry, halt.Reason)
		require.Equal(t, before+30, halt.Sequence)
	})
}
