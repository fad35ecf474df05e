package simulation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"tidings/streams"
	"tidings/streams/event"
	"tidings/streams/streamstest"
)

// TestContract holds the simulated server to the real one: without faults the log
// says the same on both, whatever is asked of it, in the same order.
func TestContract(t *testing.T) {
	const seed = 7
	for name, script := range map[string]func(*caller){
		"appends, reads, letters and events in any order": func(c *caller) {
			for range 400 {
				c.anything()
			}
		},
		"deliveries come again until they are acknowledged": (*caller).redeliveries,
		"wake-ups replace one another and come when due":    (*caller).wakeups,
		"following an event from any sequence on":           (*caller).follow,
	} {
		for _, durability := range []streams.Durability{streams.Relaxed, streams.Strict} {
			t.Run(name+", "+durability.String(), func(t *testing.T) {
				var simulated []string
				bubble(t, func(t *testing.T) {
					c := newCaller(t, simulatedLog(t, durability), seed)
					script(c)
					simulated = c.said
				})
				runtime.GC() // see bubble
				runtime.GC()
				real := newCaller(t, streamstest.New(t, func(o *streams.Options) { *o = logOptions(o, durability) }), seed)
				script(real)
				require.Equal(t, real.said, simulated)
			})
		}
	}
}

func logOptions(o *streams.Options, d streams.Durability) streams.Options {
	o.Durability, o.DuplicateWindow, o.Steady = d, time.Minute, true
	return *o
}

// simulatedLog returns a log on a simulated server that answers at once.
func simulatedLog(t *testing.T, d streams.Durability) *streams.Log {
	s := &server{}
	nc, err := nats.Connect("", append(streams.ConnectOptions("contract", slog.New(slog.DiscardHandler)), nats.InProcessServer(dialer(func() (net.Conn, error) {
		return s.dial("contract"), nil
	})))...)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	log, err := streams.Open(ctx, nc, logOptions(&streams.Options{}, d))
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- log.Run(ctx) }()
	go func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				s.mu.Lock()
				s.tick()
				s.mu.Unlock()
			}
		}
	}()
	t.Cleanup(func() { cancel(); require.NoError(t, <-done); nc.Close() })
	return log
}

// dialer makes connections to a simulated server.
type dialer func() (net.Conn, error)

// InProcessConn implements nats.InProcessConnProvider.
func (d dialer) InProcessConn() (net.Conn, error) { return d() }

// caller asks things of a log and notes what it says.
type caller struct {
	testing.TB
	log     *streams.Log
	rand    *rand.Rand
	records []event.Record // of the last appends
	said    []string
}

func newCaller(tb testing.TB, log *streams.Log, seed uint64) *caller {
	return &caller{TB: tb, log: log, rand: rand.New(rand.NewPCG(seed, 0))}
}

func (c *caller) note(format string, args ...any) {
	c.said = append(c.said, fmt.Sprintf("%d: ", len(c.said))+fmt.Sprintf(format, args...))
}

func (c *caller) key() event.Key { return event.NewKey("contract", fmt.Sprint(c.rand.IntN(4))) }

func (c *caller) ref() event.Ref { return event.Ref{Key: c.key(), Tenant: "t", Sequence: 1} }

// anything asks one thing.
func (c *caller) anything() {
	ctx := c.Context()
	switch c.rand.IntN(14) {
	case 0, 1, 2:
		c.append(event.NewRecord(c.ref(), event.State{}, time.Unix(0, 0), event.Claimed{Owner: event.Owner{Instance: "i", Boot: "b"}}))
	case 3: // the very same again, as after a lost answer
		if n := len(c.records); n > 0 {
			c.append(c.records[c.rand.IntN(n)])
		}
	case 4:
		r, err := c.log.Outcomes.Last(ctx, "t", c.key())
		c.note("last: %d %d %s", r.Sequence, c.place(r.Record.ID), class(err))
	case 5:
		r, err := c.log.Outcomes.Next(ctx, "t", c.key(), uint64(c.rand.IntN(40)))
		c.note("next: %d %d %s", r.Sequence, c.place(r.Record.ID), class(err))
	case 6:
		seq, created, err := c.log.DeadLetters.Put(ctx, event.Letter{Key: c.key(), Tenant: "t", Generation: c.rand.IntN(3)})
		c.note("put: %d %v %s", seq, created, class(err))
	case 7:
		seq, err := c.log.DeadLetters.Replace(ctx, event.Letter{Key: c.key(), Tenant: "t", Generation: c.rand.IntN(3)}, uint64(c.rand.IntN(20)))
		c.note("replace: %d %s", seq, class(err))
	case 8:
		l, seq, err := c.log.DeadLetters.Get(ctx, "t", c.key())
		c.note("letter: %d %d %s", seq, l.Generation, class(err))
	case 9:
		c.note("remove: %s", class(c.log.DeadLetters.Remove(ctx, uint64(c.rand.IntN(20)))))
	case 10:
		c.publish(fmt.Sprint(c.rand.IntN(8)), false)
	case 11:
		e, err := c.log.Events.Get(ctx, uint64(c.rand.IntN(10)))
		c.note("event: %s %s %d %s", e.Ref.ID, e.Envelope.Data, e.Ref.Sequence, class(err))
	case 12:
		after, limit := uint64(c.rand.IntN(10)), 1+c.rand.IntN(5)
		copies, err := c.log.Events.Copies(ctx, after, limit)
		c.note("copies: %d after %d: %s", limit, after, class(err))
		for _, e := range copies {
			c.note("copy: %d %s", e.Sequence, e.Ref.ID)
		}
	case 13:
		if c.rand.IntN(10) == 0 {
			c.note("trim: %s", class(c.log.Events.Trim(ctx, uint64(c.rand.IntN(4)))))
		}
	}
}

func (c *caller) append(r event.Record) {
	after := uint64(c.rand.IntN(len(c.records) + 1))
	if c.rand.IntN(2) == 0 {
		last, _ := c.log.Outcomes.Last(c.Context(), "t", r.Event.Key)
		after = last.Sequence
	}
	pos, err := c.log.Outcomes.Append(c.Context(), r, after)
	conflict, _ := errors.AsType[*streams.ConflictError](err)
	c.note("append %d after %d: %d %s", c.place(r.ID), after, pos.Sequence, class(err))
	if conflict != nil {
		c.note("conflict: last %d landed %d", conflict.Last.Sequence, conflict.Landed)
	}
	c.records = append(c.records, r)
}

// place returns which of the records it is: ids are random.
func (c *caller) place(id string) int {
	for i, r := range c.records {
		if r.ID == id {
			return i
		}
	}
	return -1
}

func (c *caller) publish(id string, again bool) {
	got, err := c.log.Events.Publish(c.Context(), streams.Incoming{
		Envelope: event.Envelope{Tenant: "t", ID: id, IDSource: event.IDMessageID, Type: "x", Data: []byte("data of " + id)},
		Nonce:    "n", Again: again,
	})
	c.note("publish %s: %d %v %s", id, got.Sequence, got.Duplicate, class(err))
}

func class(err error) string {
	if _, conflict := errors.AsType[*streams.ConflictError](err); conflict {
		return "conflict"
	}
	for _, is := range []error{streams.ErrNotFound, streams.ErrChanged, streams.ErrFull, streams.ErrForeign, streams.ErrUnknown, streams.ErrUnavailable} {
		if errors.Is(err, is) {
			return is.Error()
		}
	}
	return fmt.Sprint(err)
}

// consume notes deliveries until enough of them came. Some are not acknowledged.
func (c *caller) consume(enough int, keep func(*streams.Delivery) bool, consume func(context.Context, streams.ConsumeOptions, func(context.Context, *streams.Delivery)) error) {
	ctx, cancel := context.WithCancel(c.Context())
	n := 0
	err := consume(ctx, streams.ConsumeOptions{Workers: 1, AckWait: 300 * time.Millisecond, MaxDeliver: 3}, func(ctx context.Context, d *streams.Delivery) {
		ack := "left"
		if keep(d) {
			ack = class(d.Ack(ctx))
		}
		c.note("delivery: %s %s %d %v: %s", d.Wakeup().Key, d.Data(), d.NumDelivered(), d.LastDelivery(), ack)
		if n++; n == enough {
			cancel()
		}
	})
	c.note("consumed: %v", err)
}

func (c *caller) redeliveries() {
	for i := range 5 {
		c.publish(fmt.Sprint(i), i%2 == 0)
		c.publish(fmt.Sprint(i), true)
	}
	c.consume(8, func(d *streams.Delivery) bool { return d.Sequence() != 2 || d.NumDelivered() > 3 }, c.log.Events.Consume)
	c.publish("later", false)
	c.handled()
	c.consume(1, func(*streams.Delivery) bool { return true }, c.log.Events.Consume)
}

func (c *caller) handled() {
	upTo, err := c.log.Events.Handled(c.Context())
	c.note("handled: %d %s", upTo, class(err))
}

func (c *caller) wakeups() {
	w := func(i int) streams.Wakeup {
		return streams.Wakeup{Tenant: "t", Key: event.NewKey("wake", fmt.Sprint(i)), Sequence: uint64(i)}
	}
	soon := time.Now()
	for i := range 4 {
		c.note("schedule: %s", class(c.log.Retries.Schedule(c.Context(), w(i), soon.Add(time.Duration(4-i)*700*time.Millisecond))))
	}
	c.note("sooner: %s", class(c.log.Retries.Schedule(c.Context(), w(0), soon.Add(-time.Second))))
	c.note("wake: %s", class(c.log.Retries.Wake(c.Context(), w(9))))
	c.note("wake: %s", class(c.log.Retries.Wake(c.Context(), w(9))))
	c.consume(5, func(*streams.Delivery) bool { return true }, c.log.Retries.Consume)
	c.note("aside: %s %s", class(c.log.Retries.SetAside(c.Context(), w(1), "mail")), class(c.log.Retries.SetAside(c.Context(), w(1), "hook")))
	c.note("aside: %s %s", class(c.log.Retries.SetAside(c.Context(), w(2), "mail")), class(c.log.Retries.SetAside(c.Context(), w(1), "mail")))
	c.consume(2, func(*streams.Delivery) bool { return true }, func(ctx context.Context, o streams.ConsumeOptions, handle func(context.Context, *streams.Delivery)) error {
		return c.log.Retries.ConsumeAside(ctx, "mail", o, handle)
	})
	aside, err := c.log.Retries.Aside(c.Context())
	c.note("aside: %v %s", aside, class(err))
	// What is in hand and is replaced is in hand no more: it makes room for others.
	n := 0
	c.consume(8, func(*streams.Delivery) bool {
		if n++; n < 8 {
			c.note("wake: %s", class(c.log.Retries.Wake(c.Context(), w(9))))
		}
		return n == 8
	}, func(ctx context.Context, o streams.ConsumeOptions, handle func(context.Context, *streams.Delivery)) error {
		c.note("wake: %s", class(c.log.Retries.Wake(ctx, w(9))))
		return c.log.Retries.Consume(ctx, o, handle)
	})
}

func (c *caller) follow() {
	for range 50 {
		c.anything()
	}
	for range 5 {
		from, n, enough := uint64(c.rand.IntN(10)), 0, errors.New("enough")
		err := c.log.Outcomes.Follow(c.Context(), from, func(e streams.Entry) error {
			c.note("from %d: %d %s", from, e.Sequence, e.Subject)
			if n++; n == 5 {
				return enough
			}
			return nil
		})
		require.ErrorIs(c, err, enough)
	}
}
