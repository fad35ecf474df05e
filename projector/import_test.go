package projector_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"tidings/store/storetest"
	"tidings/streams"
	"tidings/streams/archive"
	"tidings/streams/embedded"
	"tidings/streams/event"
	"tidings/streams/streamstest"
)

// bare is a server without streams.
type bare struct {
	*testing.T
	dir string
	srv *embedded.Server
}

func newBare(t *testing.T, dir string) *bare {
	b := &bare{T: t, dir: dir}
	b.start()
	t.Cleanup(func() { b.srv.Shutdown() })
	return b
}

func (b *bare) start() {
	srv, err := embedded.Start(context.WithoutCancel(b.Context()), embedded.Options{StoreDir: b.dir, Durability: streams.Relaxed})
	require.NoError(b, err)
	b.srv = srv
}

// killed goes on with the files as they are at this moment.
func (b *bare) killed() {
	image := b.TempDir()
	require.NoError(b, os.CopyFS(image, os.DirFS(b.dir)))
	b.srv.Shutdown()
	b.dir = image
	b.start()
}

func limits() streams.Options {
	return streams.Options{Durability: streams.Relaxed, EventsMaxBytes: 1 << 30, OutcomesMaxBytes: 1 << 30, DeadLettersMaxBytes: 1 << 30}
}

// importInto imports a file, until progress panics, or to its end.
func (b *bare) importInto(f *archive.File, ctx context.Context, progress func(done, total uint64)) error {
	nc, err := b.srv.Connect("import")
	require.NoError(b, err)
	defer nc.Close()
	to, err := streams.OpenImporter(ctx, nc, f.ImportOptions(limits()))
	if err != nil {
		return err
	}
	if err := f.Import(ctx, to, progress); err != nil {
		return err
	}
	nc.Close()
	b.srv.Shutdown()
	b.start()
	if nc, err = b.srv.Connect("import"); err != nil {
		return err
	}
	defer nc.Close()
	if to, err = streams.OpenImporter(ctx, nc, f.ImportOptions(limits())); err != nil {
		return err
	}
	return to.Finish(ctx)
}

func (b *bare) open() (*streams.Log, error) {
	nc, err := b.srv.Connect("test")
	require.NoError(b, err)
	b.Cleanup(nc.Close)
	return streams.Open(b.Context(), nc, limits())
}

func (b *bare) log() *streams.Log {
	l, err := b.open()
	require.NoError(b, err)
	streamstest.Run(b.T, l.Run)
	return l
}

// furnished is a log with one of everything: an entry that is skipped, letters that
// were removed at the beginning, in between and at the end, and objects.
func furnished(t *testing.T, seed int) *streams.Log {
	t.Helper()
	server := streamstest.NewServer(t)
	w := newWriter(t, server)
	w.write(t, history(seed))
	odd := nats.NewMsg("plans.odd")
	odd.Header.Set(streams.HeaderKind, string(event.KindSettled))
	odd.Data = []byte("this cannot be folded")
	ack, err := w.js.PublishMsg(t.Context(), odd)
	require.NoError(t, err)
	require.NoError(t, w.log.Outcomes.AcceptGap(t.Context(), streams.Gap{From: ack.Sequence, To: ack.Sequence, Accepted: "ann: not ours", Skipped: true}))
	for i := range 8 {
		w.letter(t, storetest.Ref("acme", i))
	}
	_, _, err = w.log.DeadLetters.Put(t.Context(), event.Letter{
		Kind: event.LetterDelivery, Key: event.NewKey("large"), Tenant: "acme", Cause: event.CauseOversize, At: storetest.Start, Data: make([]byte, 14<<20),
	})
	require.NoError(t, err)
	last := w.letter(t, storetest.Ref("acme", 99))
	for _, sequence := range []uint64{1, 4, 5, last} {
		require.NoError(t, w.log.DeadLetters.Remove(t.Context(), sequence))
	}
	return w.log
}

func TestALogThatIsImportedIsTheOneThatWasExported(t *testing.T) {
	source := furnished(t, 1)
	f := exported(t, source)
	want := digest(t, fold(t, source.Outcomes, source.DeadLetters))
	b := newBare(t, t.TempDir())
	require.NoError(t, b.importInto(f, t.Context(), nil))
	log := b.log()

	t.Run("a ledger that is folded from it has the same digest", func(t *testing.T) {
		require.Equal(t, want, digest(t, fold(t, log.Outcomes, log.DeadLetters)))
	})
	t.Run("also after a restart", func(t *testing.T) {
		b.killed()
		log := b.log()
		require.Equal(t, want, digest(t, fold(t, log.Outcomes, log.DeadLetters)))
	})
	log = b.log()
	t.Run("its sequences are the same, also of what comes next", func(t *testing.T) {
		for _, s := range []struct{ want, have projectorStream }{{source.Outcomes, log.Outcomes}, {source.DeadLetters, log.DeadLetters}} {
			want, err := s.want.Info(t.Context())
			require.NoError(t, err)
			have, err := s.have.Info(t.Context())
			require.NoError(t, err)
			require.Equal(t, want.First, have.First)
			require.Equal(t, want.Last, have.Last)
			require.Equal(t, want.Messages, have.Messages)
		}
	})
	t.Run("the large payload is there", func(t *testing.T) {
		letter, _, err := log.DeadLetters.Get(t.Context(), "acme", event.NewKey("large"))
		require.NoError(t, err)
		require.Nil(t, letter.Data)
		r, err := log.DeadLetters.Payload(t.Context(), letter)
		require.NoError(t, err)
		n, err := r.(interface{ Read([]byte) (int, error) }).Read(make([]byte, 10))
		require.NoError(t, err)
		require.Equal(t, 10, n)
	})
	t.Run("a claim's lease counts from when it was made", func(t *testing.T) {
		for _, l := range history(1) {
			if l.Record == nil {
				continue
			}
			stored, err := log.Outcomes.Last(t.Context(), l.Record.Event.Tenant, l.Record.Event.Key)
			require.NoError(t, err)
			before, err := source.Outcomes.Last(t.Context(), l.Record.Event.Tenant, l.Record.Event.Key)
			require.NoError(t, err)
			require.Equal(t, before, stored)
		}
	})
	t.Run("an export of it has the same lines", func(t *testing.T) {
		again := exported(t, log)
		require.Equal(t, f.End().Entries(), again.End().Entries())
		for i := range again.End().Streams {
			require.Equal(t, f.End().Streams[i].Fingerprint, again.End().Streams[i].Fingerprint)
		}
	})
	t.Run("it goes on: what is appended conflicts and follows as ever", func(t *testing.T) {
		info, err := log.Outcomes.Info(t.Context())
		require.NoError(t, err)
		ref := storetest.Ref("acme", 1000)
		p, err := log.Outcomes.Append(t.Context(), event.NewRecord(ref, event.State{}, time.Now(), event.Claimed{LeaseMS: 1000}), 0)
		require.NoError(t, err)
		require.Equal(t, info.Last+1, p.Sequence)
		_, err = log.Outcomes.Append(t.Context(), event.NewRecord(ref, event.State{}, time.Now(), event.Claimed{LeaseMS: 1000}), 0)
		_, conflict := errors.AsType[*streams.ConflictError](err)
		require.True(t, conflict, "%v", err)
	})
	t.Run("nothing is imported into it again", func(t *testing.T) {
		require.ErrorIs(t, b.importInto(f, t.Context(), nil), streams.ErrNotEmpty)
	})
	t.Run("and nothing can be deleted from it", func(t *testing.T) {
		nc, err := b.srv.Connect("test")
		require.NoError(t, err)
		defer nc.Close()
		js, err := jetstream.New(nc)
		require.NoError(t, err)
		s, err := js.Stream(t.Context(), streams.OutcomesStream)
		require.NoError(t, err)
		require.Error(t, s.DeleteMsg(t.Context(), 3))
		require.NotContains(t, s.CachedInfo().Config.Subjects, "import.filler.OUTCOMES")
	})
}

type projectorStream interface {
	Info(context.Context) (streams.StreamInfo, error)
}

func TestAnImportThatWasCutOffGoesOn(t *testing.T) {
	source := furnished(t, 2)
	f := exported(t, source)
	want := digest(t, fold(t, source.Outcomes, source.DeadLetters))
	total := f.End().Entries()
	another := exported(t, furnished(t, 3))
	for _, at := range []uint64{1, 2, 5, 6, 7, 50, total - 1, total} {
		b := newBare(t, t.TempDir())
		ctx, cancel := context.WithCancel(t.Context())
		require.ErrorIs(t, b.importInto(f, ctx, func(done, _ uint64) {
			if done >= at {
				cancel()
			}
		}), context.Canceled)
		b.killed()
		_, err := b.open()
		require.ErrorIs(t, err, streams.ErrImporting, "nobody works on a part of a log")
		require.ErrorIs(t, b.importInto(another, t.Context(), nil), streams.ErrImporting, "and no other file is mixed in")
		require.NoError(t, b.importInto(f, t.Context(), nil))
		log := b.log()
		require.Equal(t, want, digest(t, fold(t, log.Outcomes, log.DeadLetters)), "cut off at %d", at)
	}
}

func TestWhereNothingIsImported(t *testing.T) {
	f := exported(t, furnished(t, 1))
	t.Run("a log that is in use", func(t *testing.T) {
		server := streamstest.NewServer(t)
		newWriter(t, server).write(t, history(2)[:10])
		_, err := streams.OpenImporter(t.Context(), server.Connect(), f.ImportOptions(limits()))
		require.ErrorIs(t, err, streams.ErrNotEmpty)
	})
	t.Run("a log that has not enough room", func(t *testing.T) {
		o := limits()
		o.OutcomesMaxBytes = 1000
		b := newBare(t, t.TempDir())
		nc, err := b.srv.Connect("test")
		require.NoError(t, err)
		defer nc.Close()
		_, err = streams.OpenImporter(t.Context(), nc, f.ImportOptions(o))
		require.ErrorIs(t, err, streams.ErrFull)
		require.ErrorContains(t, err, "max_bytes")
		_, err = b.open()
		require.NoError(t, err, "nothing was begun")
	})
	t.Run("but into one that is there and never held anything it is", func(t *testing.T) {
		b := newBare(t, t.TempDir())
		_, err := b.open()
		require.NoError(t, err)
		require.NoError(t, b.importInto(f, t.Context(), nil))
	})
}
