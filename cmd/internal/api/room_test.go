package api_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidings/bridge"
)

// slow holds what comes until it may go on.
type slow struct {
	in   chan int // the size of a body
	goOn chan struct{}
}

func (s slow) Accept(_ context.Context, a bridge.Arrival) (bridge.Receipt, error) {
	s.in <- len(a.Body)
	<-s.goOn
	return bridge.Receipt{}, nil
}

func TestBodiesInHandAreBounded(t *testing.T) {
	w := newWorld(t)
	door := slow{in: make(chan int, 100), goOn: make(chan struct{})}
	w.options.Door, w.options.MaxBody = door, 1<<20
	w.serve()
	var all sync.WaitGroup
	post := func(size int) {
		all.Go(func() {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.server.URL+"/v1/events", strings.NewReader(strings.Repeat("x", size)))
			if !assert.NoError(t, err) {
				return
			}
			req.Header.Set("Authorization", "Bearer "+token)
			req.Header.Set("Event-Type", "order.placed")
			res, err := http.DefaultClient.Do(req)
			if assert.NoError(t, err) {
				_ = res.Body.Close()
				assert.Equal(t, http.StatusAccepted, res.StatusCode)
			}
		})
	}
	const most = 1 << 20
	for range 10 {
		post(most)
	}
	for range 4 {
		require.Equal(t, most, <-door.in)
	}
	post(1000)
	require.Equal(t, 1000, <-door.in, "small events do not wait for large ones")
	require.Empty(t, door.in, "the other large ones wait outside")
	close(door.goOn)
	all.Wait()
	require.Len(t, door.in, 6)
}
