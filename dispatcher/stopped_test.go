package dispatcher_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/streams/event"
)

// late counts the records of an owner that was taken over.
func (h history) late() (n int) {
	for _, r := range h.records {
		if r.Kind == event.KindLate {
			n++
		}
	}
	return n
}

// holds reports whether the instance has claimed something and not said how it ended.
func (h history) holds(instance string) bool {
	held := map[event.Key]bool{}
	for _, r := range h.records {
		held[r.Event.Key] = r.State.Claim != nil && r.State.Claim.Owner.Instance == instance
	}
	return slices.Contains(slices.Collect(maps.Values(held)), true)
}

// takenOverFrom counts the claims of an instance that another one found over.
func (h history) takenOverFrom(instance string) (n int) {
	for _, r := range h.records {
		for _, f := range r.Facts {
			if c, ok := f.(event.Crashed); ok && c.Owner.Instance == instance {
				n++
			}
		}
	}
	return n
}

func TestStoppedPastTheLease(t *testing.T) {
	t.Run("in the middle of a send: uncertain, repeated once by another process, and its own result is evidence", func(t *testing.T) {
		t.Parallel()
		var calls atomic.Int32
		inside, release := make(chan struct{}), make(chan struct{})
		p := newPeers(t, map[string]http.HandlerFunc{"/mid": func(http.ResponseWriter, *http.Request) {
			if calls.Add(1) == 1 {
				close(inside)
				<-release
			}
		}})
		stopped := p.start("a")[0]
		key := p.publish(p.order("1", "/mid"))
		<-inside
		stopped.stop()
		p.start("b")
		h := p.ended(key)
		require.Equal(t, []string{"claimed", "crashed claimed", "planned claimed", "tried:delivered settled"}, h.facts(key))
		require.Equal(t, event.MessageUncertain, h.records[2].State.Messages[0].State, "said before the repeat")
		close(release)
		stopped.resume()
		h = p.until("what became of its call is told", func(h history) bool { return h.late() == 1 })
		require.Equal(t, event.MessageDelivered, h.state(key).Messages[0].State)
		require.Equal(t, 1, p.checkRepeats(h))
	})
	t.Run("half-way through 100 recipients: what is recorded is not sent again, and no more than a claim is uncertain", func(t *testing.T) {
		t.Parallel()
		var calls atomic.Int32
		reached := make(chan struct{})
		p := newPeers(t, map[string]http.HandlerFunc{"/many/": func(_ http.ResponseWriter, req *http.Request) {
			if calls.Add(1) == 80 {
				close(reached)
			}
		}})
		paths := make([]string, 100)
		for i := range paths {
			paths[i] = fmt.Sprint("/many/", i)
		}
		stopped := p.start("a")[0]
		key := p.publish(p.order("1", paths...))
		<-reached
		stopped.stop()
		before := p.all().state(key)
		p.start("b")
		p.ended(key)
		stopped.resume()
		stopped.finish()
		h := p.all()
		require.Equal(t, event.Counts{Created: 100, Delivered: 100}, h.state(key).Counts())
		sent := ids(p.sink.Requests())
		for _, m := range before.Messages {
			if m.State == event.MessageDelivered {
				require.Equal(t, 1, sent[m.ID], "a recorded message is sent once")
			}
		}
		require.LessOrEqual(t, p.checkRepeats(h), 64)
	})
	t.Run("one after the other under load: repeats are what the histories call uncertain, and no more", func(t *testing.T) {
		t.Parallel()
		p := newPeers(t, map[string]http.HandlerFunc{"/work/": func(_ http.ResponseWriter, req *http.Request) {
			select { // a call takes a while, so that there is always something under way
			case <-time.After(200 * time.Millisecond):
			case <-req.Context().Done():
			}
		}})
		var keys []event.Key
		names := []string{"a", "b", "c"}
		for i, x := range p.start(names...) {
			// It may be slow to begin, and the others done with all that there is.
			for n := 0; n < 60 || !p.all().holds(names[i]); n++ {
				id := fmt.Sprint(i, "/", n)
				keys = append(keys, p.publish(p.order(id, "/work/"+id+"/a", "/work/"+id+"/b")))
			}
			x.stop()
			p.until("another one has taken over from it", func(h history) bool { return h.takenOverFrom(names[i]) > 0 })
			x.resume()
		}
		p.ended(keys...)
		p.checkRepeats(p.all())
	})
}
