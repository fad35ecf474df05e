package app_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/cmd/internal/api"
	"tidings/streams/event"
)

// reload has the configuration read anew by an operator.
func (w *world) reload(client *api.Client) (api.Reload, error) {
	w.Helper()
	operator := *client
	operator.Operator = "ann"
	return operator.ReloadConfiguration(w.Context())
}

// rewrite puts another text in the place of the file, without looking whether it is right.
func (w *world) rewrite(text string) {
	w.Helper()
	require.NoError(w, os.WriteFile(w.path+".new", []byte(text), 0o600))
	require.NoError(w, os.Rename(w.path+".new", w.path))
}

// refused expects that the configuration is not taken, and returns the problem.
func (w *world) refused(client *api.Client) *api.ProblemError {
	w.Helper()
	_, err := w.reload(client)
	var problem *api.ProblemError
	require.ErrorAs(w, err, &problem)
	return problem
}

// Rules, senders, templates and files of secrets become others two hundred times while
// events are on the way, and now and then a file that is broken is refused.
func TestReloadedTwoHundredTimesUnderLoad(t *testing.T) {
	const reloads, events = 200, 600
	w := newWorld(t, map[string]http.HandlerFunc{"/slow": func(http.ResponseWriter, *http.Request) { time.Sleep(5 * time.Millisecond) }})
	w.mailsToo(w.mails)
	base := w.text()
	client, stop := w.start()
	w.eventually("the log is open", func() bool { return w.part(client, "dispatcher").Ready })

	var publishing sync.WaitGroup
	for worker := range 4 {
		publishing.Go(func() {
			for i := range events / 4 {
				w.tell(client, fmt.Sprintf("%d-%d", worker, i), "/slow")
			}
		})
	}
	letter := filepath.Join(filepath.Dir(w.path), "templates", "letter", "text.txt")
	first, err := client.Status(t.Context())
	require.NoError(t, err)
	revisions := map[string]bool{first.Configuration.Revision: true}
	for i := range reloads {
		text := base + fmt.Sprintf("vars: {n: %d}\n", i)
		switch i % 4 {
		case 0: // another sender of mails
			text = strings.ReplaceAll(text, "concurrency: 2}", fmt.Sprintf("concurrency: 2, helo: h%d.example}", i))
		case 1: // the same senders with other bounds
			text = strings.ReplaceAll(text, "concurrency: 2}", fmt.Sprintf("concurrency: %d}", 2+i%5))
		case 2:
			require.NoError(t, os.WriteFile(letter, fmt.Appendf(nil, "Order {{.id}}, %d", i), 0o600))
		}
		w.rewrite(text)
		done, err := w.reload(client)
		require.NoError(t, err)
		require.NotEqual(t, done.Before, done.Revision)
		revisions[done.Revision] = true
		if i%20 == 0 {
			w.rewrite(text + "plugins: []\n")
			require.Equal(t, "config", w.refused(client).Name)
		}
	}
	publishing.Wait()

	for _, r := range w.rows(client, events) {
		require.Equal(t, event.Processed, r.Outcome, "%s", r.EventID)
		require.Equal(t, event.Counts{Created: 2, Delivered: 2}, r.Messages, "%s", r.EventID)
		require.Equal(t, 2, r.Tries, "%s: one for each message", r.EventID)
		require.Zero(t, r.Crashes, "%s", r.EventID)
	}
	for name, sent := range map[string]map[string]int{"hooks": w.hooks.ByID(), "mails": w.mails.ByMessageID()} {
		require.Len(t, sent, events, name)
		for id, n := range sent {
			require.Equal(t, 1, n, "%s: %s", name, id)
		}
	}
	s, err := client.Status(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, reloads, s.Configuration.Reloads)
	require.EqualValues(t, reloads/20, s.Configuration.Failed)
	require.Len(t, revisions, reloads+1)

	t.Run("and the revision that an event was claimed by is in its history", func(t *testing.T) {
		w.tell(client, "last", "/ok")
		for _, r := range w.rows(client, events+1) {
			claimed := w.claims(client, r.Key)
			require.NotEmpty(t, claimed)
			for _, revision := range claimed {
				require.True(t, revisions[revision], "%s was in force", revision)
				require.True(t, r.EventID != "last" || revision == s.Configuration.Revision)
			}
		}
	})
	stop()
}

// claims returns the revisions by which an event was claimed.
func (w *world) claims(client *api.Client, key event.Key) (revisions []string) {
	w.Helper()
	entries, err := client.History(w.Context(), key)
	require.NoError(w, err)
	for _, e := range entries {
		for _, f := range e.Facts {
			if c, ok := f.(event.Claimed); ok {
				revisions = append(revisions, c.Config)
			}
		}
	}
	return revisions
}

func TestAConfigurationThatIsNotTakenChangesNothing(t *testing.T) {
	w := newWorld(t, nil)
	base := w.text()
	client, _ := w.start()
	before, err := client.Status(t.Context())
	require.NoError(t, err)
	require.Equal(t, "not shown", w.part(client, "configuration").Reason)
	w.rewrite(base + "# a word\n")
	require.Contains(t, w.part(client, "configuration").Reason, "it has changed since it was loaded", "nobody has told the process yet")
	for name, tt := range map[string]struct {
		text, problem string
		want          []string
	}{
		"a key that does not exist, with line and column": {
			base + "plugins: []\n", "config", []string{`tidings.yaml:8:1`, `unknown key "plugins"`},
		},
		"everything that is wrong": {
			strings.Replace(base, "channel: hook,", "channel: hock,", 1) + "staleness: 9000h\n", "config", []string{"tidings.yaml:7:36", "hock", "horizon: 336h is too short"},
		},
		"what takes a restart, by name": {
			base + "nats: {replicas: 3, url: nats://elsewhere:1}\nmax_waiting: 7\n", "restart", []string{
				"nats.replicas: 1 is 3 now", `nats.url: "" is "nats://elsewhere:1" now`, "max_waiting: 100000 is 7 now", "takes a restart",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w.rewrite(tt.text)
			problem := w.refused(client)
			require.Equal(t, tt.problem, problem.Name)
			for _, want := range tt.want {
				require.Contains(t, problem.Error(), want)
			}
			part := w.part(client, "configuration")
			require.True(t, part.Ready, "work moves by what was there before")
			require.Contains(t, part.Reason, "is not what runs")
			s, err := client.Status(t.Context())
			require.NoError(t, err)
			require.Equal(t, before.Configuration.Revision, s.Configuration.Revision)
			require.Len(t, s.Configuration.Refused.Problems, strings.Count(problem.Error(), "\n"))
		})
	}
	w.post(client, "1", "/ok")
	require.Equal(t, event.Processed, w.rows(client, 1)[0].Outcome)

	t.Run("and one that is well again is taken", func(t *testing.T) {
		w.rewrite(base)
		done, err := w.reload(client)
		require.NoError(t, err)
		require.Equal(t, done.Before, done.Revision)
		require.Empty(t, done.Changed)
		require.Equal(t, "not shown", w.part(client, "configuration").Reason)
	})
}

func TestWhatAReloadChanges(t *testing.T) {
	w := newWorld(t, nil)
	secret := filepath.Join(filepath.Dir(w.path), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=\n"), 0o600))
	w.write(strings.Replace(w.text(), "secret: whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=", "secret_file: secret", 1))
	client, _ := w.start()
	w.post(client, "1", "/ok")
	w.rows(client, 1)

	require.NoError(t, os.WriteFile(secret, []byte("whsec_OTg3NjU0MzIxMDk4NzY1NDMyMTA5ODc2NTQzMjEwOTg=\n"), 0o600))
	done, err := w.reload(client)
	require.NoError(t, err)
	require.Equal(t, []string{"channels.hook"}, done.Changed, "a secret is read anew from its file")

	w.rewrite(w.text() + "suppressions: [{address: " + w.hooks.URL("/ok") + ", reason: manual}]\n")
	done, err = w.reload(client)
	require.NoError(t, err)
	require.Equal(t, []string{"suppressions"}, done.Changed)
	w.post(client, "2", "/ok")
	w.rows(client, 2)
	require.Equal(t, 1, w.hooks.Count(), "the second has nobody to go to")
}
