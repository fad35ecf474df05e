package app_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"tidings/cmd/internal/app"
	"tidings/cmd/internal/config"
	"tidings/store"
	"tidings/streams"
	"tidings/streams/archive"
	"tidings/streams/embedded"
	"tidings/streams/event"
)

// A process that imports under test is this test binary, started again with childFile
// naming the file to import, childData where to, and childConfig a configuration. It
// ends itself by SIGKILL after childKill entries.
const (
	childFile = "TIDINGS_TEST_CHILD_IMPORT"
	childData = "TIDINGS_TEST_CHILD_DATA"
	childKill = "TIDINGS_TEST_CHILD_KILL"
)

// importing is the process that imports.
func importing(conf config.Config, file string) error {
	f, err := archive.Open(file)
	if err != nil {
		return err
	}
	conf.Data = os.Getenv(childData)
	at, _ := strconv.ParseUint(os.Getenv(childKill), 10, 64)
	_, _, err = app.Import(context.Background(), app.ImportOptions{
		Config: conf, File: f, Confirm: yes,
		Progress: func(done, _ uint64) {
			if done == at {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
		},
	})
	return err
}

func yes(context.Context, app.ImportPlan) (bool, error) { return true, nil }

// exportOf writes what a running tidings exports into a file.
func (w *world) exportOf(body io.ReadCloser, err error) string {
	w.Helper()
	require.NoError(w, err)
	defer body.Close()
	path := filepath.Join(w.TempDir(), "export")
	out, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	require.NoError(w, err)
	_, err = io.Copy(out, body)
	require.NoError(w, errors.Join(err, out.Close()))
	return path
}

// moved returns a configuration of the same world with a data directory of its own.
func (w *world) moved() config.Config {
	w.Helper()
	conf := w.conf
	conf.Data = filepath.Join(w.TempDir(), "moved")
	require.NoError(w, os.MkdirAll(conf.Data, 0o700))
	key, err := os.ReadFile(filepath.Join(w.conf.Data, "recipients.key"))
	require.NoError(w, err)
	require.NoError(w, os.WriteFile(filepath.Join(conf.Data, "recipients.key"), key, 0o600))
	return conf
}

func TestAnInstanceIsMovedByAnExport(t *testing.T) {
	const n = 30
	w := newWorld(t, nil)
	client, stop := w.start()
	for i := range n {
		w.post(client, fmt.Sprint(i), "/ok")
	}
	w.rows(client, n)
	path := w.exportOf(client.Export(t.Context(), nil))
	stop()
	require.Equal(t, n, w.hooks.Count())
	file, err := archive.Open(path)
	require.NoError(t, err)
	digest := w.digest()
	old := w.conf

	t.Run("an export of the stopped one is the same", func(t *testing.T) {
		var b bytes.Buffer
		end, err := app.ExportStopped(t.Context(), w.conf, nil, &b, archive.Options{})
		require.NoError(t, err)
		require.Equal(t, file.End().Streams, end.Streams)
	})
	t.Run("and of one that runs there is none beside it", func(t *testing.T) {
		_, stop := w.start()
		defer stop()
		_, err := app.ExportStopped(t.Context(), w.conf, nil, io.Discard, archive.Options{})
		require.ErrorIs(t, err, app.ErrInUse)
		_, _, err = app.Import(t.Context(), app.ImportOptions{Config: w.conf, File: file, Confirm: yes})
		require.ErrorIs(t, err, app.ErrInUse)
	})
	t.Run("what was sent before is not sent again, and the ledger is the same", func(t *testing.T) {
		w.conf = w.moved()
		defer func() { w.conf = old }()
		_, done, err := app.Import(t.Context(), app.ImportOptions{Config: w.conf, File: file, Confirm: yes})
		require.NoError(t, err)
		require.True(t, done)
		client, stop := w.start()
		w.rows(client, n)
		stop()
		require.Equal(t, digest, w.digest())

		client, _ = w.start()
		for i := range n {
			w.post(client, fmt.Sprint(i), "/ok")
		}
		w.post(client, "new", "/ok")
		w.rows(client, n+1)
		require.Equal(t, n+1, w.hooks.Count())
	})
	t.Run("it is refused where a log is", func(t *testing.T) {
		_, _, err := app.Import(t.Context(), app.ImportOptions{Config: old, File: file, Confirm: yes})
		require.ErrorIs(t, err, streams.ErrNotEmpty)
	})
	t.Run("without consent nothing is made", func(t *testing.T) {
		conf := w.conf
		conf.Data = filepath.Join(t.TempDir(), "nothing")
		plan, done, err := app.Import(t.Context(), app.ImportOptions{
			Config: conf, File: file, Confirm: func(context.Context, app.ImportPlan) (bool, error) { return false, nil },
		})
		require.NoError(t, err)
		require.False(t, done)
		require.False(t, plan.Key)
		require.NoDirExists(t, conf.Data)
	})
	t.Run("where there is no log there is nothing to export", func(t *testing.T) {
		conf := w.conf
		conf.Data = filepath.Join(t.TempDir(), "nothing")
		_, err := app.ExportStopped(t.Context(), conf, nil, io.Discard, archive.Options{})
		require.ErrorIs(t, err, app.ErrNoLog)
		require.NoDirExists(t, conf.Data)
	})
}

func TestAnEventThatWasUnderWayComesBackWithoutItsPayload(t *testing.T) {
	asked, release := make(chan struct{}, 1), make(chan struct{})
	w := newWorld(t, map[string]http.HandlerFunc{"/slow": func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-release
	}})
	client, stop := w.start()
	w.post(client, "under way", "/slow")
	<-asked
	path := w.exportOf(client.Export(t.Context(), nil))
	close(release)
	w.rows(client, 1)
	stop()
	file, err := archive.Open(path)
	require.NoError(t, err)

	conf := w.moved()
	instance, err := os.ReadFile(filepath.Join(w.conf.Data, "instance")) // its claims are over, without waiting
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(conf.Data, "instance"), instance, 0o600))
	_, _, err = app.Import(t.Context(), app.ImportOptions{Config: conf, File: file, Confirm: yes})
	require.NoError(t, err)
	w.conf = conf
	client, _ = w.start()
	w.eventually("it is a dead letter that says why", func() bool {
		letters, err := client.DeadLetters(t.Context(), store.LetterQuery{})
		return err == nil && len(letters.Items) == 1 && letters.Items[0].Cause == event.CauseEventMissing
	})
	require.Equal(t, 1, w.hooks.Count(), "and nobody was asked again")
}

func TestAnExportIsImportedIntoAServerOfOnesOwn(t *testing.T) {
	w := newWorld(t, nil)
	client, stop := w.start()
	w.post(client, "1", "/ok")
	w.rows(client, 1)
	path := w.exportOf(client.Export(t.Context(), nil))
	stop()
	file, err := archive.Open(path)
	require.NoError(t, err)
	server, err := embedded.Start(context.WithoutCancel(t.Context()), embedded.Options{StoreDir: t.TempDir(), Listen: "127.0.0.1:0"})
	require.NoError(t, err)
	t.Cleanup(server.Shutdown)

	digest := w.digest()
	w.conf = w.moved()
	w.conf.Override("nats.url", server.ClientURL())
	_, done, err := app.Import(t.Context(), app.ImportOptions{Config: w.conf, File: file, Confirm: yes})
	require.NoError(t, err)
	require.True(t, done)
	client, stop = w.start()
	w.rows(client, 1)
	stop()
	require.Equal(t, digest, w.digest())
	_, _, err = app.Import(t.Context(), app.ImportOptions{Config: w.conf, File: file, Confirm: yes})
	require.ErrorIs(t, err, streams.ErrNotEmpty)
	end, err := app.ExportStopped(t.Context(), w.conf, nil, io.Discard, archive.Options{})
	require.NoError(t, err)
	require.Equal(t, file.End().Entries(), end.Entries())
}

func TestAnImportIsKilledAnywhereAndGoesOn(t *testing.T) {
	const n = 40
	w := newWorld(t, nil)
	client, stop := w.start()
	for i := range n {
		w.post(client, fmt.Sprint(i), "/ok")
	}
	w.rows(client, n)
	path := w.exportOf(client.Export(t.Context(), nil))
	stop()
	digest := w.digest()
	for _, at := range []int{1, 2, 17, 40, 79, 80} {
		t.Run(fmt.Sprint("after ", at), func(t *testing.T) {
			conf := w.moved()
			child := exec.Command(os.Args[0])
			child.Env = append(os.Environ(), childConfig+"="+w.path, childFile+"="+path, childKill+"="+strconv.Itoa(at), childData+"="+conf.Data)
			out, err := child.CombinedOutput()
			require.ErrorContains(t, err, "killed", "%s", out)

			a, err := app.New(app.Options{Config: conf})
			require.NoError(t, err)
			require.ErrorIs(t, a.Run(t.Context()), streams.ErrImporting, "it does not start")
			require.NoError(t, a.Close())

			file, err := archive.Open(path)
			require.NoError(t, err)
			plan, done, err := app.Import(t.Context(), app.ImportOptions{Config: conf, File: file, Confirm: yes})
			require.NoError(t, err)
			require.True(t, done)
			require.LessOrEqual(t, plan.There, uint64(at))

			before := w.conf
			defer func() { w.conf = before }()
			w.conf = conf
			client, stop := w.start()
			w.rows(client, n)
			stop()
			require.Equal(t, digest, w.digest())
		})
	}
	require.Equal(t, n, w.hooks.Count())
}
