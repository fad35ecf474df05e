package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"sync/atomic"

	"github.com/danielgtaylor/huma/v2"
	"golang.org/x/sync/errgroup"

	"tidings/bridge"
)

const (
	// maxBatch is how many events a batch may hold. They share the time that one
	// request has for the log.
	maxBatch = 1000
	// batchWidth is how many events of a batch are at the door at once, so that
	// they share the log's commits.
	batchWidth = 64
)

// publishBatch takes in the events of a batch as if each had come alone in
// structured mode, and answers with what became of each, in their order. What is
// no batch at all is one dead letter.
func (s *Server) publishBatch(w http.ResponseWriter, r *http.Request, body []byte) {
	events, err := bridge.SplitBatch(body, maxBatch)
	switch {
	case errors.Is(err, bridge.ErrBatchTooLong):
		writeProblem(w, problem(http.StatusRequestEntityTooLarge, "too-large",
			fmt.Sprintf("the batch has more than %d events: send it in parts", maxBatch)))
		return
	case err == nil && len(events) == 0:
		writeProblem(w, problem(http.StatusBadRequest, "empty-batch", "the batch is empty: send at least one event"))
		return
	}
	b := newBatch(s.Door, r.Header, body, events, err)
	ctx, cancel := context.WithTimeout(r.Context(), acceptTimeout)
	defer cancel()
	b.accept(ctx)
	if i, err := b.err(); err != nil {
		s.Logger.Warn("a batch was not taken in", "events", len(b.arrivals), "first", i, "error", err)
		writeProblem(w, b.refused(w.Header(), err))
		return
	}
	writeAccepted(w, b.accepted)
}

// batch is events that came in one request, and what became of each.
type batch struct {
	door     Door
	arrivals []bridge.Arrival
	accepted []Accepted
	errs     []error
	shut     atomic.Bool // the log takes nothing: what has not been tried is not tried
}

func newBatch(door Door, header http.Header, body []byte, events [][]byte, notOne error) *batch {
	b := &batch{door: door}
	if notOne != nil {
		a := arrival(header, body)
		a.Err = notOne
		b.arrivals = []bridge.Arrival{a}
	}
	header = header.Clone()
	header.Set("Content-Type", bridge.TypeStructured)
	for _, e := range events {
		b.arrivals = append(b.arrivals, arrival(header, e))
	}
	b.accepted, b.errs = make([]Accepted, len(b.arrivals)), make([]error, len(b.arrivals))
	return b
}

// accept takes the events to the door, many at once. When it returns, none is
// under way. A panic in one is a panic of the request.
func (b *batch) accept(ctx context.Context) {
	var group errgroup.Group
	group.SetLimit(batchWidth)
	var panicked atomic.Pointer[string]
	for _, lane := range b.lanes() {
		group.Go(func() error {
			defer func() {
				if r := recover(); r != nil {
					panicked.Store(new(fmt.Sprintf("%v, in %s", r, debug.Stack())))
				}
			}()
			for _, i := range lane {
				b.acceptOne(ctx, i)
			}
			return nil
		})
	}
	_ = group.Wait() // each event has its own error
	if reason := panicked.Load(); reason != nil {
		panic(*reason)
	}
}

// lanes puts events that may be the same one behind each other, so that the
// first of them is the event and the others its repeats.
func (b *batch) lanes() [][]int {
	var lanes [][]int
	byID := map[string]int{}
	for i, a := range b.arrivals {
		id := cmp.Or(a.Envelope.ID, string(a.Body))
		n, known := byID[id]
		if !known {
			n = len(lanes)
			byID[id], lanes = n, append(lanes, nil)
		}
		lanes[n] = append(lanes[n], i)
	}
	return lanes
}

// errNotTried stands for an event that was behind another's failure.
var errNotTried = errors.New("not tried, since the log takes nothing")

func (b *batch) acceptOne(ctx context.Context, i int) {
	if b.shut.Load() {
		b.errs[i] = errNotTried
		return
	}
	receipt, err := b.door.Accept(ctx, b.arrivals[i])
	b.accepted[i], b.errs[i] = Accepted(receipt), err
	if err != nil {
		b.shut.Store(true)
	}
}

// err returns the first error of an event that was tried, and its place.
func (b *batch) err() (at int, err error) {
	for i, err := range b.errs {
		if err != nil && !errors.Is(err, errNotTried) {
			return i, err
		}
	}
	return 0, nil
}

func (b *batch) refused(answer http.Header, err error) *huma.ErrorModel {
	p := refused(answer, "the batch", err)
	p.Detail += "; those of its events that are stored are recognised"
	return p
}
