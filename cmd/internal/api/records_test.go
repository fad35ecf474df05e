package api_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/cmd/internal/api"
	"tidings/store/storetest"
	"tidings/streams"
	"tidings/streams/event"
)

// records appends a claim of n events, and returns their records.
func (w *world) records(from, n int) []event.Record {
	w.t.Helper()
	var out []event.Record
	for i := range n {
		r := event.NewRecord(storetest.Ref("acme", from+i), event.State{}, time.Now(), event.Settled{})
		_, err := w.stream.Outcomes.Append(w.t.Context(), r, 0)
		require.NoError(w.t, err)
		out = append(out, r)
	}
	return out
}

func (w *world) followable() {
	w.options.Records = func() api.Records { return followed{w.stream.Outcomes} }
	w.serve()
}

// take follows until n entries were handled.
func (w *world) take(q api.RecordQuery, n int) []api.Followed {
	w.t.Helper()
	enough := errors.New("enough")
	var got []api.Followed
	err := w.client.Follow(w.t.Context(), q, func(f api.Followed) error {
		if got = append(got, f); len(got) == n {
			return enough
		}
		return nil
	})
	require.ErrorIs(w.t, err, enough)
	return got
}

func TestRecordsAreFollowed(t *testing.T) {
	w := newWorld(t)
	w.followable()
	written := w.records(1, 3)

	t.Run("from the beginning, each with its kind, its id and the record as it is stored", func(t *testing.T) {
		got := w.take(api.RecordQuery{}, 3)
		for i, f := range got {
			r, err := event.DecodeRecord(f.Data)
			require.NoError(t, err)
			require.Equal(t, written[i].ID, r.ID)
			require.Equal(t, event.KindSettled, f.Kind)
			require.Equal(t, fmt.Sprintf("%d.%s", i+1, r.ID), f.ID)
		}
	})
	t.Run("behind what was seen", func(t *testing.T) {
		seen := w.take(api.RecordQuery{}, 2)[1]
		got := w.take(api.RecordQuery{After: seen.ID}, 1)
		require.Equal(t, "3."+written[2].ID, got[0].ID)
	})
	t.Run("and as they come", func(t *testing.T) {
		got := make(chan api.Followed)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- w.client.Follow(ctx, api.RecordQuery{After: "3"}, func(f api.Followed) error { got <- f; return nil })
		}()
		next := w.records(4, 1)
		require.Equal(t, "4."+next[0].ID, (<-got).ID)
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
	t.Run("chosen by a filter", func(t *testing.T) {
		got := w.take(api.RecordQuery{Key: written[1].Event.Key, Tenant: "acme", Kinds: []string{"settled", "dead"}, Final: true}, 1)
		require.Equal(t, "2."+written[1].ID, got[0].ID)
	})
	t.Run("chosen by what events ended with", func(t *testing.T) {
		r := event.NewRecord(storetest.Ref("acme", 50), event.State{}, time.Now(), event.Expired{}, event.Settled{})
		_, err := w.stream.Outcomes.Append(w.t.Context(), r, 0)
		require.NoError(t, err)
		got := w.take(api.RecordQuery{Outcomes: []string{"stale", "failed"}}, 1)
		require.Contains(t, got[0].ID, r.ID)
		require.Contains(t, problem(t, w.ask(http.MethodGet, "/v1/records?outcome=lost", ""), http.StatusBadRequest), "outcome:")
	})
}

func TestAFollowerGoesOnAfterItsConnectionIsLost(t *testing.T) {
	w := newWorld(t)
	w.followable()
	w.records(1, 2)
	got := make(chan api.Followed)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- w.client.Follow(ctx, api.RecordQuery{}, func(f api.Followed) error { got <- f; return nil })
	}()
	for range 2 {
		<-got
	}
	w.server.CloseClientConnections()
	last := w.records(3, 1)
	require.Equal(t, "3."+last[0].ID, (<-got).ID, "each once, in order")
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

func TestWhoCannotFollowIsToldWhy(t *testing.T) {
	w := newWorld(t)
	w.followable()
	w.records(1, 2)
	for name, c := range map[string]struct {
		query  string
		status int
		name   string
	}{
		"a place that the log does not have any more": {"after=2.another", http.StatusConflict, "rewritten"},
		"a place that the log does not have yet":      {"after=17", http.StatusConflict, "rewritten"},
		"no place at all":                             {"after=yesterday", http.StatusBadRequest, "invalid"},
		"an unknown parameter":                        {"from=1", http.StatusBadRequest, "invalid"},
		"a word that is neither true nor false":       {"final=perhaps", http.StatusBadRequest, "invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			res := w.get(t, c.query, nil)
			require.Equal(t, c.status, res.StatusCode)
			require.Equal(t, "application/problem+json", res.Header.Get("Content-Type"))
		})
	}
	t.Run("while the log is not open", func(t *testing.T) {
		w.options.Records = func() api.Records { return nil }
		w.serve()
		res := w.get(t, "", nil)
		require.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
		require.NotEmpty(t, res.Header.Get("Retry-After"))
	})
	t.Run("what was forgotten", func(t *testing.T) {
		w.options.Records = func() api.Records { return forgetful{w.stream.Outcomes} }
		w.serve()
		require.Equal(t, http.StatusGone, w.get(t, "after=1", nil).StatusCode)
	})
}

// followed is OUTCOMES as a reader of its own connection has it.
type followed struct{ *streams.Outcomes }

func (f followed) Follow(ctx context.Context, after streams.Mark, by streams.Filter, handle func(streams.Entry) error) error {
	return f.FollowFrom(ctx, after, by, handle)
}

// forgetful is an OUTCOMES whose beginning is beyond the horizon.
type forgetful struct{ *streams.Outcomes }

func (forgetful) Follow(context.Context, streams.Mark, streams.Filter, func(streams.Entry) error) error {
	return fmt.Errorf("after 1: %w", streams.ErrForgotten)
}

func TestWhatBrowsersSendGoesBeforeAfter(t *testing.T) {
	w := newWorld(t)
	w.followable()
	written := w.records(1, 2)
	res := w.get(t, "after=0", http.Header{api.LastEventID: {"1." + written[0].ID}})
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.Equal(t, "text/event-stream", res.Header.Get("Content-Type"))
	line, err := bufio.NewReader(res.Body).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "id: 2."+written[1].ID+"\n", line)
}

func TestFollowersAreBounded(t *testing.T) {
	w := newWorld(t)
	w.followable()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var refused atomic.Int32
	for i := 0; refused.Load() == 0; i++ {
		require.LessOrEqual(t, i, 64)
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.server.URL+"/v1/records", nil)
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+token)
		res, err := w.server.Client().Do(req)
		require.NoError(t, err)
		t.Cleanup(func() { _ = res.Body.Close() })
		if res.StatusCode != http.StatusOK {
			require.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
			require.Equal(t, 64, i)
			refused.Add(1)
		}
	}
}

func TestFollowersWantTheToken(t *testing.T) {
	w := newWorld(t)
	w.followable()
	w.client.Token = strings.Repeat("x", len(token))
	err := w.client.Follow(t.Context(), api.RecordQuery{}, func(api.Followed) error { return nil })
	problem := &api.ProblemError{}
	require.ErrorAs(t, err, &problem)
	require.Equal(t, http.StatusUnauthorized, problem.Status)
}

// get asks for records, and closes the answer at the end of the test.
func (w *world) get(t *testing.T, query string, header http.Header) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.server.URL+"/v1/records?"+query, nil)
	require.NoError(t, err)
	for name, v := range header {
		req.Header[name] = v
	}
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := w.server.Client().Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { _ = res.Body.Close() })
	return res
}
