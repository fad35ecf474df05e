package projector_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"tidings/projector"
	"tidings/store"
	"tidings/store/storetest"
	"tidings/streams"
	"tidings/streams/archive"
	"tidings/streams/event"
	"tidings/streams/streamstest"
)

// exported exports a log into a file.
func exported(t *testing.T, log *streams.Log) *archive.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "export.jsonl.zst")
	out, err := os.Create(path)
	require.NoError(t, err)
	_, err = archive.Export(t.Context(), out, archive.Source{Outcomes: log.Outcomes, DeadLetters: log.DeadLetters, Objects: log.Oversize}, archive.Options{})
	require.NoError(t, err)
	require.NoError(t, out.Close())
	f, err := archive.Open(path)
	require.NoError(t, err)
	return f
}

// fold folds two streams that do not grow into a new ledger.
func fold(t *testing.T, outcomes, letters projector.Stream) *store.Store {
	t.Helper()
	s := storetest.Open(t)
	p := projector.New(projector.Options{Outcomes: outcomes, DeadLetters: letters, Store: s})
	stop := streamstest.Run(t, p.Run)
	eventually(t, func() bool { return p.Status().Ready() })
	stop()
	return s
}

func TestALedgerThatIsFoldedFromAnExportIsThatOfTheLog(t *testing.T) {
	for seed := range 3 {
		server := streamstest.NewServer(t)
		w := newWriter(t, server)
		w.write(t, history(seed))
		for i := range 4 {
			w.letter(t, storetest.Ref("acme", i))
		}
		require.NoError(t, w.log.DeadLetters.Remove(t.Context(), 2))
		_, _, err := w.log.DeadLetters.Put(t.Context(), event.Letter{
			Kind: event.LetterDelivery, Key: event.NewKey("large"), Tenant: "acme", Cause: event.CauseOversize, At: storetest.Start,
			Data: bytes.Repeat([]byte("payload "), 2<<20),
		})
		require.NoError(t, err)

		live := fold(t, w.log.Outcomes, w.log.DeadLetters)
		file := exported(t, w.log)
		rebuilt := fold(t, file.Outcomes(), file.DeadLetters())
		require.Equal(t, digest(t, live), digest(t, rebuilt))

		for _, name := range []string{streams.OutcomesStream, streams.DeadLettersStream} {
			want, err := live.Checkpoint(name)
			require.NoError(t, err)
			got, err := rebuilt.Checkpoint(name)
			require.NoError(t, err)
			require.Equal(t, want, got, "it goes on with the log where the export ends")
		}
	}
}

func TestALedgerIsMadeAnewFromAnExport(t *testing.T) {
	source := furnished(t, 1)
	ledger := fold(t, source.Outcomes, source.DeadLetters)
	want := digest(t, ledger)
	f := exported(t, source)
	o := projector.RebuildOptions{Outcomes: f.Outcomes(), DeadLetters: f.DeadLetters(), Store: ledger}

	found, err := projector.Verify(t.Context(), o)
	require.NoError(t, err)
	require.True(t, found.Differences.None())

	found, err = projector.Rebuild(t.Context(), o)
	require.NoError(t, err)
	require.True(t, found.Replaced)
	require.Equal(t, want, digest(t, ledger))
}

func TestAnExportIsOfOneMomentWhileTheLogGrows(t *testing.T) {
	server := streamstest.NewServer(t)
	w := newWriter(t, server)
	before := w.write(t, history(1))
	log := server.Log()
	grown := make(chan struct{})
	stop := streamstest.Run(t, func(ctx context.Context) error {
		for i := 0; ctx.Err() == nil; i++ {
			ref := storetest.Ref("acme", 1000+i)
			if _, err := log.Outcomes.Append(ctx, event.NewRecord(ref, event.State{}, storetest.Start, event.Settled{}), 0); err != nil {
				return ctx.Err()
			}
			if i == 10 {
				close(grown)
			}
		}
		return ctx.Err()
	})
	<-grown
	f := exported(t, w.log)
	stop()
	last := f.Header().Streams[1].Last
	require.Greater(t, last, before)
	live, err := w.log.Outcomes.Info(t.Context())
	require.NoError(t, err)
	require.Less(t, last, live.Last)
	require.Equal(t, last, f.End().Streams[1].At)
	require.Equal(t, last, f.End().Streams[1].Entries)
}
