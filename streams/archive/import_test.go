package archive_test

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"tidings/streams"
	"tidings/streams/archive"
	"tidings/streams/embedded"
)

// server is one without streams.
func server(t *testing.T) *nats.Conn {
	t.Helper()
	s, err := embedded.Start(context.WithoutCancel(t.Context()), embedded.Options{StoreDir: t.TempDir(), Durability: streams.Relaxed})
	require.NoError(t, err)
	t.Cleanup(s.Shutdown)
	nc, err := s.Connect("test")
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	return nc
}

func limits() streams.Options {
	return streams.Options{Durability: streams.Relaxed, EventsMaxBytes: 1 << 30, OutcomesMaxBytes: 1 << 30, DeadLettersMaxBytes: 1 << 30}
}

func TestImportKeepsAllThatAFileHas(t *testing.T) {
	for name, from := range map[string]archive.Source{"small": small(), "big": big()} {
		t.Run(name, func(t *testing.T) {
			f, err := archive.Open(write(t, export(t, from)))
			require.NoError(t, err)
			nc := server(t)
			to, err := streams.OpenImporter(t.Context(), nc, f.ImportOptions(limits()))
			require.NoError(t, err)
			require.NoError(t, f.Import(t.Context(), to, nil))
			require.NoError(t, to.Finish(t.Context()))

			log, err := streams.Open(t.Context(), nc, limits())
			require.NoError(t, err)
			missing, err := log.Outcomes.Missing(t.Context())
			require.NoError(t, err)
			require.Empty(t, missing, "gaps stay accepted")

			again := export(t, archive.Source{Outcomes: log.Outcomes, DeadLetters: log.DeadLetters, Objects: log.Oversize})
			copied, err := archive.Open(write(t, again))
			require.NoError(t, err)
			for _, s := range []struct{ want, have *archive.Stream }{{f.Outcomes(), copied.Outcomes()}, {f.DeadLetters(), copied.DeadLetters()}} {
				require.Equal(t, all(t, s.want), all(t, s.have))
				want, err := s.want.Info(t.Context())
				require.NoError(t, err)
				have, err := s.have.Info(t.Context())
				require.NoError(t, err)
				want.Created = have.Created // it is another stream
				require.Equal(t, want, have)
			}
		})
	}
}

func TestAnObjectIsImported(t *testing.T) {
	f, err := archive.Open(write(t, export(t, small())))
	require.NoError(t, err)
	nc := server(t)
	to, err := streams.OpenImporter(t.Context(), nc, f.ImportOptions(limits()))
	require.NoError(t, err)
	require.NoError(t, f.Import(t.Context(), to, nil))
	require.NoError(t, to.Finish(t.Context()))
	log, err := streams.Open(t.Context(), nc, limits())
	require.NoError(t, err)
	large, err := log.Oversize.Find(t.Context(), "large")
	require.NoError(t, err)
	require.EqualValues(t, 80, large.Size)
	for _, name := range []string{"damaged", "gone"} {
		_, err := log.Oversize.Find(t.Context(), name)
		require.ErrorIs(t, err, streams.ErrNotFound, "%s is as it was", name)
	}
}

func TestAnImportGoesOnWhereOneStreamIsDone(t *testing.T) {
	f, err := archive.Open(write(t, export(t, small())))
	require.NoError(t, err)
	nc := server(t)
	o := f.ImportOptions(limits())
	to, err := streams.OpenImporter(t.Context(), nc, o)
	require.NoError(t, err)
	require.ErrorContains(t, to.Finish(t.Context()), "it ends at", "nothing is there yet")
	require.NoError(t, f.Import(t.Context(), to, nil))

	// What Finish does, up to the moment at which it is killed.
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	letters, err := js.Stream(t.Context(), streams.DeadLettersStream)
	require.NoError(t, err)
	c := letters.CachedInfo().Config
	delete(c.Metadata, "tidings.import")
	c.Metadata["tidings.imported"] = o.ID
	c.Subjects = []string{"dead.*.*"}
	_, err = js.UpdateStream(t.Context(), c)
	require.NoError(t, err)

	_, err = streams.Open(t.Context(), nc, limits())
	require.ErrorIs(t, err, streams.ErrImporting)
	to, err = streams.OpenImporter(t.Context(), nc, o)
	require.NoError(t, err)
	require.NoError(t, f.Import(t.Context(), to, nil))
	require.NoError(t, to.Finish(t.Context()))
	_, err = streams.Open(t.Context(), nc, limits())
	require.NoError(t, err)
	_, err = streams.OpenImporter(t.Context(), nc, o)
	require.ErrorIs(t, err, streams.ErrNotEmpty)
}

func TestAnImportOverOtherEntriesIsRefused(t *testing.T) {
	f, err := archive.Open(write(t, export(t, small())))
	require.NoError(t, err)
	nc := server(t)
	o := f.ImportOptions(limits())
	to, err := streams.OpenImporter(t.Context(), nc, o)
	require.NoError(t, err)
	another := entry(3, "claimed", `{"id":"another"}`)
	another.Header = nil
	require.NoError(t, to.Append(t.Context(), streams.OutcomesStream, another))
	require.NoError(t, to.Settle(t.Context()))
	to, err = streams.OpenImporter(t.Context(), nc, o)
	require.NoError(t, err)
	require.ErrorIs(t, f.Import(t.Context(), to, nil), streams.ErrOtherEntry)
}
