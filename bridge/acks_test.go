package bridge

import (
	"maps"
	"slices"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func of(tag uint64) handled { return handled{delivery: amqp.Delivery{DeliveryTag: tag}} }

func tags(of []handled) (all []uint64) {
	for _, h := range of {
		all = append(all, h.delivery.DeliveryTag)
	}
	return all
}

func TestAcks(t *testing.T) {
	took := func(n uint64) *acks {
		a := &acks{}
		for tag := uint64(1); tag <= n; tag++ {
			a.took(tag)
		}
		return a
	}
	t.Run("put together what ended, in the order of the channel", func(t *testing.T) {
		a := took(3)
		require.True(t, a.add(of(2)))
		require.False(t, a.add(of(1)))
		together, alone := a.next()
		require.Equal(t, []uint64{1, 2}, tags(together))
		require.Empty(t, alone)
	})
	t.Run("do not make others wait for what takes longer", func(t *testing.T) {
		a := took(4)
		a.add(of(1))
		a.add(of(4))
		a.add(of(3))
		together, alone := a.next()
		require.Equal(t, []uint64{1}, tags(together))
		require.Equal(t, []uint64{3, 4}, tags(alone))
	})
	t.Run("are the next one's to write once there was nothing", func(t *testing.T) {
		a := took(2)
		require.True(t, a.add(of(1)))
		a.next()
		require.False(t, a.add(of(2)), "somebody is at it until next returned nothing")
		a.next()
		a.next()
		a.took(3)
		require.True(t, a.add(of(3)))
	})
}

// TestAcksLikeABroker holds acks against what a broker does: one that is for
// several takes all that is outstanding up to its tag, which must be
// outstanding itself.
func TestAcksLikeABroker(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, broker, ended := &acks{}, map[uint64]bool{}, map[uint64]bool{}
		var inHand []uint64
		next := uint64(1)
		t.Repeat(map[string]func(*rapid.T){
			"deliver": func(*rapid.T) {
				a.took(next)
				broker[next], inHand = true, append(inHand, next)
				next++
			},
			"end": func(t *rapid.T) {
				if len(inHand) == 0 {
					t.Skip("nothing is in hand")
				}
				i := rapid.IntRange(0, len(inHand)-1).Draw(t, "i")
				ended[inHand[i]] = true
				a.add(of(inHand[i]))
				inHand = slices.Delete(inHand, i, i+1)
			},
			"acknowledge": func(t *rapid.T) {
				together, alone := a.next()
				if len(together) > 0 {
					last := together[len(together)-1].delivery.DeliveryTag
					require.True(t, broker[last], "unknown delivery tag")
					for tag := range maps.Clone(broker) {
						if tag <= last {
							require.True(t, ended[tag], "acknowledged in hand")
							delete(broker, tag)
						}
					}
				}
				for _, h := range alone {
					require.True(t, broker[h.delivery.DeliveryTag], "unknown delivery tag")
					delete(broker, h.delivery.DeliveryTag)
				}
				require.ElementsMatch(t, inHand, slices.Collect(maps.Keys(broker)), "all that ended is acknowledged")
			},
		})
	})
}
