package api_test

import (
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/cmd/internal/api"
	"tidings/projector"
	"tidings/store"
	"tidings/store/storetest"
	"tidings/streams/event"
	"tidings/streams/streamstest"
)

// kept serves what operators have done with the world's ledger, into which a
// projector follows the world's log.
func (w *world) kept() {
	w.t.Helper()
	live := projector.New(projector.Options{Outcomes: w.stream.Outcomes, DeadLetters: w.stream.DeadLetters, Store: w.ledger})
	w.t.Cleanup(streamstest.Run(w.t, live.Run))
	w.options.Upkeep = projector.NewUpkeep(projector.UpkeepOptions{Store: w.ledger, Source: func() (projector.Source, bool) {
		return projector.Source{Outcomes: w.stream.Outcomes, DeadLetters: w.stream.DeadLetters, Live: live}, true
	}})
	w.t.Cleanup(streamstest.Run(w.t, w.options.Upkeep.Run))
	w.serve()
	w.client.Operator = "ann"
	w.records(1, 20)
	info, err := w.stream.Outcomes.Info(w.t.Context())
	require.NoError(w.t, err)
	require.NoError(w.t, live.CaughtUp(w.t.Context(), info.Last))
}

// ended waits for the end of what is being done with the ledger.
func (w *world) ended() (o api.Operation) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		f, err := w.client.Ledger(w.t.Context())
		require.NoError(w.t, err)
		o = *f.Operation
		return o.Over()
	}, 30*time.Second, 5*time.Millisecond)
	return o
}

func TestLedger(t *testing.T) {
	w := newWorld(t)
	t.Run("nothing is done with it where nobody can", func(t *testing.T) {
		_, err := w.client.Ledger(t.Context())
		require.Equal(t, http.StatusServiceUnavailable, problemOf(t, err).Status)
		_, err = w.client.BackupLedger(t.Context())
		require.Equal(t, http.StatusServiceUnavailable, problemOf(t, err).Status)
	})
	w.kept()

	t.Run("is shown with how far it is", func(t *testing.T) {
		f, err := w.client.Ledger(t.Context())
		require.NoError(t, err)
		require.Equal(t, store.Schema, f.Schema)
		require.Positive(t, f.Bytes)
		require.Nil(t, f.Operation)
		require.Equal(t, "OUTCOMES", f.Checkpoints[len(f.Checkpoints)-1].Stream)
	})
	t.Run("is compared and made anew", func(t *testing.T) {
		begun, err := w.client.VerifyLedger(t.Context())
		require.NoError(t, err)
		require.Equal(t, api.KindVerify, begun.Kind)
		require.Equal(t, api.ResultSame, w.ended().Result)
		_, err = w.client.RebuildLedger(t.Context(), false)
		require.NoError(t, err)
		o := w.ended()
		require.Equal(t, api.ResultSame, o.Result)
		require.Equal(t, "ann", o.Operator)
		require.True(t, o.Found.Replaced)
	})
	t.Run("a row that cannot be is named, and is gone when that is accepted", func(t *testing.T) {
		ref := storetest.Ref("nobody", 999)
		require.NoError(t, w.ledger.Update(func(tx *store.Tx) error {
			return tx.Record(store.Place{Sequence: 1, Time: storetest.Start}, event.NewRecord(ref, event.State{}, storetest.Start, event.Claimed{}))
		}))
		_, err := w.client.VerifyLedger(t.Context())
		require.NoError(t, err)
		o := w.ended()
		require.Equal(t, api.ResultDiffers, o.Result)
		require.Contains(t, o.Found.Differences.First[0].String(), `(id "order-999", tenant "nobody"): live says`)
		_, err = w.client.RebuildLedger(t.Context(), true)
		require.NoError(t, err)
		require.Equal(t, api.ResultAccepted, w.ended().Result)
		_, err = w.ledger.Event(ref.Key)
		require.ErrorIs(t, err, store.ErrNotFound)
	})
	t.Run("a copy of it is the same, and there is one at a time", func(t *testing.T) {
		b, err := w.client.BackupLedger(t.Context())
		require.NoError(t, err)
		c, err := store.Save(t.Context(), b, filepath.Join(t.TempDir(), "copy.db"))
		require.NoError(t, err)
		require.NoError(t, b.Close())
		want, err := w.ledger.Digest()
		require.NoError(t, err)
		require.Equal(t, want, c.Digest)
		require.Equal(t, b.Size, c.Bytes)

		_, release, err := w.options.Upkeep.Backup()
		require.NoError(t, err)
		_, err = w.client.VerifyLedger(t.Context())
		require.Equal(t, "busy", problemOf(t, err).Name)
		_, err = w.client.BackupLedger(t.Context())
		require.Equal(t, http.StatusConflict, problemOf(t, err).Status)
		require.NoError(t, release())
	})
	t.Run("who wants it must be named", func(t *testing.T) {
		problem(t, w.ask(http.MethodPost, "/v1/ledger/rebuild", `{}`), http.StatusBadRequest)
		problem(t, w.ask(http.MethodPost, "/v1/ledger/verify", ``), http.StatusBadRequest)
	})
	t.Run("where nothing is under way nothing is cancelled", func(t *testing.T) {
		_, err := w.client.CancelLedger(t.Context())
		require.Equal(t, "idle", problemOf(t, err).Name)
	})
	t.Run("a backup takes no parameters", func(t *testing.T) {
		problem(t, w.ask(http.MethodGet, "/v1/ledger/backup?x=1", ``), http.StatusBadRequest)
	})
}
