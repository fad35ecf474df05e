package campaign_test

import (
	"fmt"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"tidings/bridge"
	"tidings/bridge/bridgetest"
)

// closeConsuming is what a node is told to do: as soon as a connection to a
// vhost consumes, all connections to that vhost are closed, until that was done
// so many times. It answers how many times it was.
const closeConsuming = `
V = <<"%s">>, N = %d,
Consuming = fun(Known) ->
  [P || C <- rabbit_channel:info_all([vhost, connection, consumer_count]),
        proplists:get_value(vhost, C) =:= V, proplists:get_value(consumer_count, C) > 0,
        P <- [proplists:get_value(connection, C)], not lists:member(P, Known)]
end,
Close = fun(_, {Done, Known}) ->
  Wait = fun Again(0) -> [];
             Again(Left) -> case Consuming(Known) of [] -> timer:sleep(10), Again(Left - 1); Found -> Found end
         end,
  case Wait(3000) of
    [] -> {Done, Known};
    Found ->
      timer:sleep(100),
      [catch rabbit_networking:close_connection(P, <<"for the test">>)
        || I <- rabbit_networking:connection_info_all([pid, vhost]), proplists:get_value(vhost, I) =:= V,
           P <- [proplists:get_value(pid, I)]],
      {Done + 1, Found ++ Known}
  end
end,
{Done, _} = lists:foldl(Close, {0, []}, lists:seq(1, N)), Done.`

func TestTheServerClosesTheConnectionFiftyTimes(t *testing.T) {
	t.Parallel()
	const times = 50
	node := bridgetest.Private(t)
	s := newSite(t, node)
	s.backlog(5000) // so that the hand is full whenever it is hit
	s.spawn()
	stop := s.produce(100)

	done, err := node.Ctl(t.Context(), "eval", fmt.Sprintf(closeConsuming, s.vhost.Name, times))

	require.NoError(t, err)
	require.Equal(t, fmt.Sprint(times), strings.TrimSpace(done))
	s.untilAcked(100)
	stop()
	status, _ := s.process.status()
	require.GreaterOrEqual(t, status.Reconnects, uint64(times))
	s.done.returns = times
	s.finish()
}

// A queue that is deleted takes with it what was waiting in it, and RabbitMQ
// says how much that was. What was in the bridge's hand is no part of it.
func TestTheQueueIsDeletedAndMadeAgainTenTimes(t *testing.T) {
	t.Parallel()
	s := siteWithoutQueue(t, bridgetest.Private(t))
	// RabbitMQ 3.10 now and then delivers the first message of a quorum queue to
	// nobody if another one had its name just before, so it is a classic queue.
	s.declare(nil)
	s.backlog(5000)
	s.spawn()
	stop := s.produce(200)
	for range 10 {
		s.untilAcked(50)
		s.load.quietly(func() { // what is not confirmed yet is in no count
			s.onChannel(func(ch *amqp.Channel) error {
				n, err := ch.QueueDelete(queueName, false, false, false)
				s.done.purged += n
				s.done.untold++ // RabbitMQ counts what is ready, and this is no longer
				return err
			})
			s.until("trouble", func(b bridge.Status) bool { return !b.Ready() })
			s.declare(nil)
		})
		s.backlog(500)
	}
	s.untilAcked(50)
	stop()
	s.finish()
}
