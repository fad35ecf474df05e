package bridge_test

import (
	"log"
	"os"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wamqp "github.com/ThreeDotsLabs/watermill-amqp/v2/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/tests"
	"github.com/stretchr/testify/require"

	"tidings/bridge"
	"tidings/bridge/bridgetest"
)

type pubSubTest func(*testing.T, tests.TestContext, tests.PubSubConstructor)

// Watermill's own tests of subscribers, in their short form. Left out are:
//   - TestConsumerGroups and TestNewSubscriberReceivesOldMessages: who shares a
//     queue shares its messages, and what was acknowledged is gone.
//   - TestReconnect: the publisher of watermill-amqp has a data race when it
//     connects again. TestNoGhosts, TestNothingIsLostWhileConnectionsAreClosed
//     and TestBrokerInTrouble close connections and restart the broker.
func TestPubSub(t *testing.T) {
	log.SetOutput(t.Output()) // where Watermill's tests tell their story
	t.Cleanup(func() { log.SetOutput(os.Stderr) })
	anyWindow := map[string]pubSubTest{
		"PublishSubscribe":                  tests.TestPublishSubscribe,
		"ConcurrentSubscribe":               tests.TestConcurrentSubscribe,
		"ConcurrentSubscribeMultipleTopics": tests.TestConcurrentSubscribeMultipleTopics,
		"ResendOnError":                     tests.TestResendOnError,
		"ContinueAfterSubscribeClose":       tests.TestContinueAfterSubscribeClose,
		"ConcurrentClose":                   tests.TestConcurrentClose,
		"ContinueAfterErrors":               tests.TestContinueAfterErrors,
		"PublisherClose":                    tests.TestPublisherClose,
		"Topic":                             tests.TestTopic,
		"MessageCtx":                        tests.TestMessageCtx,
		"SubscribeCtx":                      tests.TestSubscribeCtx,
	}
	// Order is kept only where one is in hand at a time.
	windowOfOne := map[string]pubSubTest{
		"PublishSubscribeInOrder": tests.TestPublishSubscribeInOrder,
		"NoAck":                   tests.TestNoAck,
	}
	for _, subscriber := range []bridge.Subscriber{bridge.SubscriberWindowed, bridge.SubscriberWatermill} {
		t.Run(string(subscriber), func(t *testing.T) {
			config := bridge.Config{
				URL: bridgetest.Private(t).Vhost(t).URL, Subscriber: subscriber, Window: 8, Drain: 100 * time.Millisecond,
				Reconnect: bridge.Reconnect{Initial: 10 * time.Millisecond, Max: 10 * time.Millisecond},
			}
			features := tests.Features{Persistent: true, ForceShort: true}
			t.Run("any window", func(t *testing.T) { runPubSub(t, config, features, anyWindow) })
			config.Window = 1
			features.GuaranteedOrder, features.GuaranteedOrderWithSingleSubscriber = true, true
			t.Run("a window of one", func(t *testing.T) { runPubSub(t, config, features, windowOfOne) })
		})
	}
}

func runPubSub(t *testing.T, config bridge.Config, features tests.Features, all map[string]pubSubTest) {
	pubSub := func(t *testing.T) (message.Publisher, message.Subscriber) {
		p, err := wamqp.NewPublisher(wamqp.NewDurableQueueConfig(config.URL), watermill.NopLogger{})
		require.NoError(t, err)
		s := &bridge.Topics{Config: config}
		t.Cleanup(func() { require.NoError(t, s.Close()) }) // not every test does
		return p, s
	}
	for name, test := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // several wait for the end of a drain
			test(t, tests.TestContext{TestID: tests.NewTestID(), Features: features}, pubSub)
		})
	}
}
