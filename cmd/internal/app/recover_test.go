package app_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"tidings/cmd/internal/app"
	"tidings/streams/embedded"
	"tidings/streams/event"
)

// Each case damages the log of a process that has sent 20 events. The producers
// send all of them again, and whatever is done about the damage, nothing is sent twice.
func TestWhatTheLogLosesIsNotSentAgain(t *testing.T) {
	const n = 20
	for name, c := range map[string]struct {
		damage func(t *testing.T, nats, image string)
		reason string // why the projector halts
	}{
		"the log lost its end, as an older image of it": {
			damage: func(t *testing.T, nats, image string) {
				require.NoError(t, os.RemoveAll(nats))
				require.NoError(t, os.CopyFS(nats, os.DirFS(image)))
			},
			reason: "OUTCOMES at sequence 21: the stream ends at 20, the ledger has folded 40",
		},
		"the log is gone": {
			damage: func(t *testing.T, nats, _ string) { require.NoError(t, os.RemoveAll(nats)) },
			reason: "this one was made at",
		},
		"the block of the histories is cut short": {
			damage: func(t *testing.T, nats, _ string) {
				block := blockOf(t, nats, "OUTCOMES")
				info, err := os.Stat(block)
				require.NoError(t, err)
				require.NoError(t, os.Truncate(block, info.Size()*3/4))
			},
			reason: "OUTCOMES at sequence 40: entry 40 is missing",
		},
		"the log lost its beginning, to a limit that somebody set": {
			damage: func(t *testing.T, nats, _ string) {
				onLog(t, nats, func(js jetstream.JetStream) {
					stream, err := js.Stream(t.Context(), "OUTCOMES")
					require.NoError(t, err)
					was := stream.CachedInfo().Config
					limited := was
					limited.MaxMsgs, limited.Discard = 10, jetstream.DiscardOld
					for _, c := range []jetstream.StreamConfig{limited, was} {
						_, err := js.UpdateStream(t.Context(), c)
						require.NoError(t, err)
					}
				})
			},
			reason: "OUTCOMES at sequence 1: the stream begins at 31, although the horizon is",
		},
		"a bit of the histories has flipped": {
			damage: func(t *testing.T, nats, _ string) { flip(t, blockOf(t, nats, "OUTCOMES")) },
			reason: "OUTCOMES at sequence 2",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			nats, image := filepath.Join(w.conf.Data, "nats"), filepath.Join(t.TempDir(), "image")
			client, stop := w.start()
			for i := range n / 2 {
				w.post(client, fmt.Sprint(i), "/ok")
			}
			w.rows(client, n/2)
			stop()
			require.NoError(t, os.CopyFS(image, os.DirFS(nats)))
			client, stop = w.start()
			for i := n / 2; i < n; i++ {
				w.post(client, fmt.Sprint(i), "/ok")
			}
			w.rows(client, n)
			stop()
			require.Equal(t, n, w.hooks.Count())

			c.damage(t, nats, image)
			client, stop = w.start()
			w.eventually("it says what is damaged", func() bool {
				return strings.Contains(w.part(client, "projector").Reason, c.reason) &&
					strings.Contains(w.part(client, "dispatcher").Reason, "paused")
			})
			for i := range n {
				w.post(client, fmt.Sprint(i), "/ok")
			}
			stop()
			require.Equal(t, n, w.hooks.Count(), "nothing is sent while log and ledger do not fit")

			found, kept, err := w.recover(true)
			require.NoError(t, err)
			require.False(t, found.Nothing())
			require.FileExists(t, kept)
			client, _ = w.start()
			for _, row := range w.rows(client, n) {
				require.Equal(t, event.Processed, row.Outcome)
			}
			w.post(client, "new", "/ok")
			w.rows(client, n+1)
			require.Equal(t, n+1, w.hooks.Count(), "and nothing is sent again, only what is new")
		})
	}
}

func TestRecoverChangesNothing(t *testing.T) {
	t.Run("where log and ledger fit", func(t *testing.T) {
		w := newWorld(t, nil)
		client, stop := w.start()
		w.post(client, "1", "/ok")
		w.rows(client, 1)
		stop()
		found, kept, err := w.recover(true)
		require.NoError(t, err)
		require.True(t, found.Nothing())
		require.Equal(t, 1, found.Looked)
		require.Empty(t, kept)
	})
	t.Run("without consent", func(t *testing.T) {
		w := newWorld(t, nil)
		client, stop := w.start()
		w.post(client, "1", "/ok")
		w.rows(client, 1)
		stop()
		require.NoError(t, os.RemoveAll(filepath.Join(w.conf.Data, "nats")))
		found, kept, err := w.recover(false)
		require.NoError(t, err)
		require.Len(t, found.Lost, 1)
		require.Empty(t, kept)
		found, _, err = w.recover(false)
		require.NoError(t, err)
		require.Len(t, found.Lost, 1)
	})
	t.Run("while a process runs", func(t *testing.T) {
		w := newWorld(t, nil)
		w.start()
		_, _, err := w.recover(true)
		require.ErrorIs(t, err, app.ErrInUse)
	})
	t.Run("without a ledger", func(t *testing.T) {
		w := newWorld(t, nil)
		_, stop := w.start()
		stop()
		require.NoError(t, os.Remove(filepath.Join(w.conf.Data, "ledger.db")))
		_, _, err := w.recover(true)
		require.ErrorIs(t, err, app.ErrNoLedger)
	})
}

func (w *world) recover(consent bool) (app.Findings, string, error) {
	return app.Recover(w.Context(), app.RecoverOptions{
		Config: w.conf, Operator: "ann", Reason: "a power cut",
		Confirm: func(context.Context, app.Findings) (bool, error) { return consent, nil },
	})
}

// onLog does something with the log of a process that is stopped.
func onLog(t *testing.T, nats string, do func(jetstream.JetStream)) {
	t.Helper()
	s, err := embedded.Start(t.Context(), embedded.Options{StoreDir: nats})
	require.NoError(t, err)
	defer s.Shutdown()
	nc, err := s.Connect("a stranger")
	require.NoError(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	do(js)
}

// blockOf returns the file that holds the first messages of a stream.
func blockOf(t *testing.T, nats, stream string) string {
	t.Helper()
	blocks, err := filepath.Glob(filepath.Join(nats, "jetstream", "*", "streams", stream, "msgs", "*.blk"))
	require.NoError(t, err)
	require.NotEmpty(t, blocks)
	return blocks[0]
}

// flip turns a bit in the middle of a file.
func flip(t *testing.T, file string) {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	data[len(data)/2] ^= 1
	require.NoError(t, os.WriteFile(file, data, 0o600))
}
