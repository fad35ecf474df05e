package app_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"tidings/cmd/internal/api"
	"tidings/cmd/internal/app"
	"tidings/store"
	"tidings/streams"
)

func TestAnEntryThatCannotBeFoldedStopsNoNotificationAndIsSkippedWhileItRuns(t *testing.T) {
	w := newWorld(t, nil)
	client, stop := w.start()
	poisoned := w.post(client, "1", "/ok").Key
	w.rows(client, 1)
	stop()
	onLog(t, filepath.Join(w.conf.Data, "nats"), func(js jetstream.JetStream) {
		m := nats.NewMsg("outcomes.default." + string(poisoned))
		m.Header.Set(streams.HeaderKind, "settled")
		m.Data = []byte("{not a record")
		_, err := js.PublishMsg(t.Context(), m)
		require.NoError(t, err)
	})

	client, stop = w.start()
	w.eventually("it says what cannot be folded", func() bool {
		return strings.Contains(w.part(client, "projector").Reason, "OUTCOMES at sequence 3: this entry cannot be folded")
	})
	require.Contains(t, w.part(client, "projector").Reason, "tidings ledger skip 3")
	w.post(client, "2", "/ok")
	w.post(client, "1", "/ok")
	w.eventually("other events move", func() bool { return w.hooks.Count() == 2 })
	require.True(t, w.part(client, "dispatcher").Ready)

	client.Operator = "ann"
	shown, err := client.Unreadable(t.Context(), 3)
	require.NoError(t, err)
	require.Equal(t, "{not a record", string(shown.Data))
	_, err = client.Skip(t.Context(), 2, "a guess")
	require.ErrorContains(t, err, "the projector has not halted over this entry")
	skipped, err := client.Skip(t.Context(), 3, "a stranger wrote it")
	require.NoError(t, err)
	require.Equal(t, poisoned, skipped.Event)

	rows := w.rows(client, 2)
	require.Len(t, rows, 2)
	w.eventually("it goes on by itself", func() bool { return w.part(client, "projector").Ready })
	why := func(client *api.Client) (problem, reason string) {
		history, err := client.History(t.Context(), poisoned)
		require.NoError(t, err)
		for _, e := range history {
			if e.Unknown != nil {
				problem = e.Unknown.Problem
			}
			if e.Skip != nil {
				reason = e.Skip.Operator + ": " + e.Skip.Reason
			}
		}
		return problem, reason
	}
	problem, reason := why(client)
	require.Contains(t, problem, "skipped by the word of ann")
	require.Equal(t, "ann: a stranger wrote it", reason)
	stop()

	require.NoError(t, os.Remove(filepath.Join(w.conf.Data, "ledger.db")))
	client, _ = w.start()
	w.rows(client, 2)
	w.eventually("a ledger that is made anew skips it too", func() bool { return w.part(client, "projector").Ready })
	again, _ := why(client)
	require.Equal(t, problem, again)
	require.Equal(t, 2, w.hooks.Count(), "and nothing is sent for the event that nobody knows about")
}

func TestALedgerFileThatCannotBeUsedSaysWhatToDo(t *testing.T) {
	schema := func(version string) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			db, err := bbolt.Open(path, 0o600, nil)
			require.NoError(t, err)
			require.NoError(t, db.Update(func(tx *bbolt.Tx) error { return tx.Bucket([]byte("meta")).Put([]byte("schema"), []byte(version)) }))
			require.NoError(t, db.Close())
		}
	}
	for name, c := range map[string]struct {
		spoil func(t *testing.T, path string)
		is    error
		words string
	}{
		"an earlier version wrote it": {schema("1"), store.ErrSchema, "that of an earlier version: stop tidings and delete the file"},
		"a later version wrote it":    {schema("1000"), store.ErrSchema, "that of a later version: run that one, or stop tidings and delete the file"},
		"it is damaged": {func(t *testing.T, path string) {
			require.NoError(t, os.WriteFile(path, bytes.Repeat([]byte("rubbish "), 10_000), 0o600))
		}, store.ErrDamaged, "delete the file: it is built again from the streams"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			client, stop := w.start()
			w.post(client, "1", "/ok")
			before := w.rows(client, 1)
			stop()
			path := filepath.Join(w.conf.Data, "ledger.db")
			c.spoil(t, path)
			_, err := app.New(app.Options{Config: w.conf})
			require.ErrorIs(t, err, c.is)
			require.ErrorContains(t, err, c.words)
			require.NoError(t, os.Remove(path))
			client, _ = w.start()
			require.Equal(t, before, w.rows(client, 1), "the way out works")
			require.Equal(t, 1, w.hooks.Count(), "and sends nothing")
		})
	}
}
