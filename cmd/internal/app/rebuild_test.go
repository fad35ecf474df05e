package app_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"tidings/cmd/internal/api"
	"tidings/cmd/internal/app"
	"tidings/projector"
	"tidings/store"
	"tidings/store/storetest"
	"tidings/streams/archive"
	"tidings/streams/event"
)

// operated waits for the end of what is being done with the ledger.
func (w *world) operated(client *api.Client) (o api.Operation) {
	w.Helper()
	w.eventually("it is over", func() bool {
		f, err := client.Ledger(w.Context())
		require.NoError(w, err)
		o = *f.Operation
		return o.Over()
	})
	return o
}

// plant writes the row of an event that never was into the ledger of a stopped process.
func (w *world) plant() event.Key {
	w.Helper()
	s := storetest.OpenFile(w, filepath.Join(w.conf.Data, "ledger.db"))
	ref := storetest.Ref("nobody", 999)
	require.NoError(w, s.Update(func(tx *store.Tx) error {
		return tx.Record(store.Place{Sequence: 1, Time: storetest.Start}, event.NewRecord(ref, event.State{}, storetest.Start, event.Claimed{}))
	}))
	require.NoError(w, s.Close())
	return ref.Key
}

func TestARebuildSendsNothing(t *testing.T) {
	const n = 50
	w := newWorld(t, nil)
	client, stop := w.start()
	client.Operator = "ann"
	for i := range n {
		w.post(client, fmt.Sprint(i), "/ok")
	}
	w.rows(client, n)
	for range 2 {
		_, err := client.RebuildLedger(t.Context(), false)
		require.NoError(t, err)
		require.Equal(t, api.ResultSame, w.operated(client).Result)
	}
	w.post(client, "meanwhile", "/ok")
	w.rows(client, n+1)
	stop()
	digest := w.digest()
	require.Equal(t, n+1, w.hooks.Count())
	require.Zero(t, w.mails.Count())

	t.Run("nor does one of an instance that is stopped", func(t *testing.T) {
		w.plant()
		_, _, err := app.RebuildStopped(t.Context(), app.RebuildOptions{Config: w.conf, Verify: true})
		require.ErrorIs(t, err, projector.ErrDiffers)
		found, _, err := app.RebuildStopped(t.Context(), app.RebuildOptions{Config: w.conf, Accept: true})
		require.NoError(t, err)
		require.True(t, found.Replaced)
		require.Equal(t, digest, w.digest())
	})
	t.Run("and after it the process goes on as before", func(t *testing.T) {
		key := w.plant()
		client, stop := w.start()
		client.Operator = "ann"
		w.eventually("the log is open", func() bool { _, err := client.RebuildLedger(t.Context(), true); return err == nil })
		require.Equal(t, api.ResultAccepted, w.operated(client).Result)
		_, err := client.Event(t.Context(), string(key), "")
		require.Error(t, err)
		w.post(client, "after", "/ok")
		w.rows(client, n+2)
		stop()
		require.Equal(t, n+2, w.hooks.Count())
	})
}

func TestABackupTakesThePlaceOfTheLedger(t *testing.T) {
	w := newWorld(t, nil)
	client, stop := w.start()
	w.post(client, "1", "/ok")
	w.rows(client, 1)
	path := filepath.Join(t.TempDir(), "copy.db")
	_, err := client.SaveLedger(t.Context(), path, nil)
	require.NoError(t, err)
	w.post(client, "2", "/ok")
	w.rows(client, 2)
	stop()
	digest := w.digest()
	require.NoError(t, os.Rename(path, filepath.Join(w.conf.Data, "ledger.db")))
	client, stop = w.start()
	w.rows(client, 2)
	stop()
	require.Equal(t, digest, w.digest())
	require.Equal(t, 2, w.hooks.Count())
}

func TestAnExportThatIsOlderThanTheLedgerIsRefused(t *testing.T) {
	w := newWorld(t, nil)
	client, stop := w.start()
	w.post(client, "1", "/ok")
	w.rows(client, 1)
	file, err := archive.Open(w.exportOf(client.Export(t.Context(), nil)))
	require.NoError(t, err)
	w.post(client, "2", "/ok")
	w.rows(client, 2)
	stop()
	before := w.digest()
	_, _, err = app.RebuildStopped(t.Context(), app.RebuildOptions{Config: w.conf, From: file, Accept: true})
	require.ErrorIs(t, err, app.ErrOldExport)
	require.Equal(t, before, w.digest())
}
