package embedded_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/streams"
	"tidings/streams/event"
)

// They may share the connection that everything else of the process uses too.
func TestACrowdThatFollowsFromTheBeginningDoesNotBreakTheConnection(t *testing.T) {
	h := open(t)
	crowd(t, h, 512, 2000, h.log.Outcomes.FollowFrom)
	require.Zero(t, h.own.Stats().Reconnects, "the server has cut the connection")
}

// What is more than the server keeps for one connection costs the readers theirs,
// and they go on.
func TestACrowdThatFollowsLargeEntriesBreaksNoConnectionButItsOwn(t *testing.T) {
	h := open(t)
	readers := connect(t, h.Server)
	records, err := streams.OpenRecords(t.Context(), readers, nil)
	require.NoError(t, err)
	crowd(t, h, 128, 50_000, records.Follow)
	require.Zero(t, h.own.Stats().Reconnects, "the server has cut the connection of all others")
}

// crowd writes entries of a size, and has many follow all of them.
func crowd(t *testing.T, h *house, entries, size int, from func(context.Context, streams.Mark, streams.Filter, func(streams.Entry) error) error) {
	t.Helper()
	const many = 64
	for range entries {
		id := event.NewKey(t.Name(), time.Now().String())
		_, err := h.log.Outcomes.Append(t.Context(), event.NewRecord(event.Ref{
			Key: id, Tenant: "acme", Source: "/shop", ID: string(id), Type: strings.Repeat("x", size), Sequence: 1,
		}, event.State{}, time.Now().UTC(), event.Claimed{Owner: event.Owner{Instance: "i", Boot: "b"}, LeaseMS: 60000, Limit: 64}), 0)
		require.NoError(t, err)
	}
	end := errors.New("all of them")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var all sync.WaitGroup
	for range many {
		all.Go(func() {
			n := 0
			if err := from(ctx, streams.Mark{}, streams.Filter{}, func(streams.Entry) error {
				if n++; n == entries {
					return end
				}
				return nil
			}); !errors.Is(err, end) {
				t.Errorf("follow: %v after %d entries", err, n)
			}
		})
	}
	all.Wait()
}
