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

// They share the connection that everything else of the process uses too.
func TestACrowdThatFollowsFromTheBeginningDoesNotBreakTheConnection(t *testing.T) {
	h := open(t)
	const entries, crowd = 512, 64
	for range entries {
		id := event.NewKey(t.Name(), time.Now().String())
		_, err := h.log.Outcomes.Append(t.Context(), event.NewRecord(event.Ref{
			Key: id, Tenant: "acme", Source: "/shop", ID: string(id), Type: strings.Repeat("long", 500), Sequence: 1,
		}, event.State{}, time.Now().UTC(), event.Claimed{Owner: event.Owner{Instance: "i", Boot: "b"}, LeaseMS: 60000, Limit: 64}), 0)
		require.NoError(t, err)
	}
	end := errors.New("all of them")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var all sync.WaitGroup
	for range crowd {
		all.Go(func() {
			n := 0
			if err := h.log.Outcomes.FollowFrom(ctx, streams.Mark{}, streams.Filter{}, func(streams.Entry) error {
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
	require.Zero(t, h.own.Stats().Reconnects, "the server has cut the connection")
}
