package processes_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"tidings/dispatcher/channel/channeltest/sink"
	"tidings/streams/event"
)

// A process is this test binary with these set.
const (
	envStory  = "TIDINGS_TEST_STORY"
	envDir    = "TIDINGS_TEST_DIR"
	envSink   = "TIDINGS_TEST_SINK"   // where the receiver is
	envPoint  = "TIDINGS_TEST_POINT"  // where it kills itself; empty: nowhere
	envPoints = "TIDINGS_TEST_POINTS" // the file in which it writes down the points that it came by
)

func TestMain(m *testing.M) {
	if name := os.Getenv(envStory); name != "" {
		if err := tell(stories[name]); err != nil {
			_, _ = fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if name := os.Getenv(envServer); name != "" {
		if err := serve(name); err != nil {
			_, _ = fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// tell is the process: it does what the story says, until that is over.
func tell(s story) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	points, err := os.Create(os.Getenv(envPoints))
	if err != nil {
		return err
	}
	var began atomic.Bool // what the server is asked for at the start is no point
	n, err := openNode(ctx, os.Getenv(envDir), func(server nats.InProcessConnProvider) nats.InProcessConnProvider {
		return newLine(server, os.Getenv(envPoint), func(point string) {
			if began.Load() {
				_, _ = points.WriteString(point + "\n")
			}
		})
	})
	if err != nil {
		return err
	}
	began.Store(true)
	n.keep = s.keep
	if err := n.runAll(); err != nil {
		return err
	}
	if s.act != nil {
		if err := s.act(ctx, n, func(path string) string { return os.Getenv(envSink) + path }); err != nil {
			return err
		}
	}
	if err := n.until(ctx, s.over); err != nil {
		return err
	}
	n.close()
	return nil
}

// telling is a story, told by processes that are killed.
type telling struct {
	*testing.T
	name  string
	story story
	sink  *sink.HTTP
	down  atomic.Bool
	image string // the directory of the server as it is when the story begins
	sent  map[string]int
}

func newTelling(t *testing.T, name string) *telling {
	t.Helper()
	w := &telling{T: t, name: name, story: stories[name], image: t.TempDir()}
	var err error
	w.sink, err = sink.StartHTTP(sink.HTTPOptions{Keep: 100_000, Handle: map[string]http.HandlerFunc{"/partner": func(rw http.ResponseWriter, _ *http.Request) {
		if w.down.Load() {
			rw.WriteHeader(http.StatusInternalServerError)
		}
	}}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.sink.Close() })
	w.down.Store(true)
	w.prepare()
	w.down.Store(w.story.down)
	w.sent = w.accepted()
	return w
}

// prepare makes the image.
func (w *telling) prepare() {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), 30*time.Second)
	defer cancel()
	n, err := openNode(ctx, w.image, straight)
	require.NoError(w, err)
	defer n.close()
	var keys []event.Key
	for i := range w.story.events {
		key, err := n.publish(ctx, fmt.Sprint(i), w.sink.URL("/ok"), w.sink.URL("/partner"))
		require.NoError(w, err)
		keys = append(keys, key)
	}
	if w.story.fresh {
		return
	}
	stop, err := n.dispatch()
	require.NoError(w, err)
	require.NoError(w, n.until(ctx, func(v view) bool {
		return v.all(len(keys), func(s event.State) bool { return s.Phase == event.PhaseDead })
	}))
	stop()
	if w.story.prepare != nil {
		require.NoError(w, w.story.prepare(ctx, n, keys))
	}
}

// accepted counts the calls that the receiver answered well, by idempotency key.
func (w *telling) accepted() map[string]int {
	n := map[string]int{}
	for _, r := range w.sink.Requests() {
		if r.Status == http.StatusOK {
			n[r.ID]++
		}
	}
	return n
}

// begin returns a directory in which the story begins.
func (w *telling) begin() string {
	w.Helper()
	dir := filepath.Join(w.TempDir(), "log")
	require.NoError(w, os.CopyFS(dir, os.DirFS(w.image)))
	return dir
}

// process runs a process, and reports whether it was killed and which points it came by.
func (w *telling) process(dir, point string) (killed bool, points []string) {
	w.Helper()
	file := filepath.Join(w.TempDir(), "points")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envStory+"="+w.name, envDir+"="+dir, envSink+"="+w.sink.URL(""), envPoint+"="+point, envPoints+"="+file)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	err := cmd.Run()
	said, readErr := os.ReadFile(file)
	require.NoError(w, readErr)
	points = strings.Split(strings.TrimSpace(string(said)), "\n")
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		require.Equal(w, syscall.SIGKILL, status.Signal())
		return true, points
	}
	require.NoError(w, err, "%s: %s", point, &stderr)
	return false, points
}

// check looks at what the log holds in the end, and at what the receiver got since
// the calls that were there before.
func (w *telling) check(dir, point string, before map[string]int) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), 30*time.Second)
	defer cancel()
	n, err := openNode(ctx, dir, straight)
	require.NoError(w, err, point)
	defer n.close()
	v, err := n.look(ctx)
	require.NoError(w, err, point)
	require.True(w, w.story.over(v), "%s: it stays as it ended: %s", point, v)
	now, uncertain := w.accepted(), map[string]bool{}
	for key, records := range v.records {
		var s event.State
		for _, r := range records {
			s, err = s.Fold(r)
			require.NoError(w, err, point)
			require.Equal(w, r.State, s, "%s: each record holds the state after it", point)
			for _, m := range s.Messages {
				uncertain[m.ID] = uncertain[m.ID] || m.State == event.MessageUncertain
			}
		}
		letter, there := v.letters[key]
		require.Equal(w, s.Phase == event.PhaseDead, there, "%s: a dead event has a letter, and no other has: %s", point, v)
		if there {
			require.Equal(w, s.Generation, letter.Generation, "%s: the letter is that of the generation: %s", point, v)
		}
		if !w.story.fresh && w.story.prepare == nil {
			require.Equal(w, w.story.requeued, count(records, "requeued"), "%s: what the operator asked for is done once: %s", point, v)
		}
		for _, m := range s.Messages {
			calls := w.sent[m.ID] + now[m.ID] - before[m.ID]
			if id := s.IdempotencyKey(m.ID); id != m.ID { // what an edit sends has another
				calls += now[id] - before[id]
			}
			if m.State == event.MessageDelivered {
				require.Positive(w, calls, "%s: what is recorded as delivered was: %s", point, v)
			}
			if calls > 1 {
				require.True(w, uncertain[m.ID], "%s: what was sent again was uncertain: %s", point, v)
				require.Equal(w, 2, calls, "%s: one crash repeats a message once: %s", point, v)
			}
		}
	}
}

func TestKilledAtEveryWrite(t *testing.T) {
	for name := range stories {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTelling(t, name)
			before, dir := w.accepted(), w.begin()
			killed, points := w.process(dir, "")
			require.False(t, killed)
			w.check(dir, "not killed", before)
			for _, p := range w.story.points {
				require.Contains(t, points, "before "+p+" 1", "the story is the one that is meant")
			}
			slices.Sort(points)
			kills := map[string]bool{}
			for _, point := range slices.Compact(points) {
				before, dir := w.accepted(), w.begin()
				killed, _ := w.process(dir, point)
				if killed {
					kills[strings.Fields(point)[1]] = true
					again, _ := w.process(dir, "")
					require.False(t, again)
				}
				w.check(dir, point, before)
			}
			for _, p := range w.story.points {
				require.True(t, kills[p], "a process was killed at a %s", p)
			}
		})
	}
}
