package bridge

import (
	"maps"
	"slices"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func of(tag uint64) *held { return &held{Delivery: amqp.Delivery{DeliveryTag: tag}} }

func tags(of []*held) (all []uint64) {
	for _, h := range of {
		all = append(all, h.DeliveryTag)
	}
	return all
}

func TestAcks(t *testing.T) {
	// took returns acks for which n deliveries were taken, and how often late was asked for.
	took := func(n uint64, many int) (*acks, *int) {
		waits := new(int)
		a := &acks{many: many, wait: func() { *waits++ }}
		for tag := uint64(1); tag <= n; tag++ {
			a.took(of(tag))
		}
		return a, waits
	}
	next := func(a *acks) (together, alone []uint64) {
		x, y := a.next()
		return tags(x), tags(y)
	}
	t.Run("come at once when nothing else is in hand", func(t *testing.T) {
		a, waits := took(1, 64)
		require.True(t, a.add(of(1)))
		together, _ := next(a)
		require.Equal(t, []uint64{1}, together)
		require.Zero(t, *waits)
	})
	t.Run("come together when there are many, in the order of the channel", func(t *testing.T) {
		a, waits := took(5, 3)
		require.False(t, a.add(of(3)))
		require.False(t, a.add(of(1)))
		require.True(t, a.add(of(2)))
		together, alone := next(a)
		require.Equal(t, []uint64{1, 2, 3}, together)
		require.Empty(t, alone)
		require.Equal(t, 1, *waits, "it was not known then that there would be many")
	})
	t.Run("wait for a moment at most", func(t *testing.T) {
		a, _ := took(3, 64)
		require.False(t, a.add(of(1)))
		require.True(t, a.late())
		together, _ := next(a)
		require.Equal(t, []uint64{1}, together)
	})
	t.Run("do not wait longer than that for what takes longer", func(t *testing.T) {
		a, waits := took(4, 1)
		require.True(t, a.add(of(1)))
		together, alone := next(a)
		require.Equal(t, []uint64{1}, together)
		require.Empty(t, alone)
		next(a)

		require.False(t, a.add(of(4)), "2 and 3 may end in a moment")
		require.Equal(t, 1, *waits)
		require.True(t, a.late())
		together, alone = next(a)
		require.Empty(t, together)
		require.Empty(t, alone)
		require.Equal(t, 2, *waits)
		require.True(t, a.late())
		together, alone = next(a)
		require.Empty(t, together)
		require.Equal(t, []uint64{4}, alone)
		next(a)
		require.Equal(t, 2, *waits, "nothing waits")
	})
	t.Run("do not wait at all when half the window would", func(t *testing.T) {
		a, _ := took(8, 2)
		for _, tag := range []uint64{8, 4, 7} {
			require.False(t, a.add(of(tag)))
		}
		require.True(t, a.add(of(5)))
		together, alone := next(a)
		require.Empty(t, together)
		require.Equal(t, []uint64{4, 5, 7, 8}, alone)
	})
	t.Run("are the next one's to write once there was nothing", func(t *testing.T) {
		a, _ := took(2, 1)
		require.True(t, a.add(of(1)))
		next(a)
		require.False(t, a.add(of(2)), "somebody is at it until next returned nothing")
		require.False(t, a.late())
		together, _ := next(a)
		require.Equal(t, []uint64{2}, together)
		next(a)
		a.took(of(3))
		require.True(t, a.add(of(3)))
	})
}

// TestAcksLikeABroker holds acks against what a broker does: one that is for
// several takes all that is outstanding up to its tag, which must be
// outstanding itself.
func TestAcksLikeABroker(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		broker, ended := map[uint64]bool{}, map[uint64]bool{}
		var inHand []uint64
		var waiting, busy bool
		a := &acks{many: rapid.IntRange(1, 5).Draw(t, "many"), wait: func() {
			require.False(t, waiting, "it waits already")
			waiting = true
		}}
		acknowledge := func() bool {
			together, alone := a.next()
			if len(together) > 0 {
				last := together[len(together)-1].DeliveryTag
				require.True(t, broker[last], "unknown delivery tag")
				for tag := range maps.Clone(broker) {
					if tag <= last {
						require.True(t, ended[tag], "acknowledged in hand")
						delete(broker, tag)
					}
				}
			}
			for _, h := range alone {
				require.True(t, broker[h.DeliveryTag], "unknown delivery tag")
				delete(broker, h.DeliveryTag)
			}
			return len(together)+len(alone) > 0
		}
		next := uint64(1)
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				if !busy && !waiting {
					require.ElementsMatch(t, inHand, slices.Collect(maps.Keys(broker)), "what has ended is acknowledged, or will be")
				}
			},
			"deliver": func(*rapid.T) {
				a.took(of(next))
				broker[next], inHand = true, append(inHand, next)
				next++
			},
			"end": func(t *rapid.T) {
				if len(inHand) == 0 {
					t.Skip("nothing is in hand")
				}
				i := rapid.IntRange(0, len(inHand)-1).Draw(t, "i")
				ended[inHand[i]] = true
				begun := a.add(of(inHand[i]))
				require.False(t, begun && busy, "two at it")
				busy = busy || begun
				inHand = slices.Delete(inHand, i, i+1)
			},
			"the moment is over": func(t *rapid.T) {
				if !waiting {
					t.Skip("nobody waits")
				}
				waiting = false
				begun := a.late()
				require.False(t, begun && busy, "two at it")
				busy = busy || begun
			},
			"acknowledge": func(t *rapid.T) {
				if !busy {
					t.Skip("nobody is at it")
				}
				busy = acknowledge()
			},
		})
	})
}
