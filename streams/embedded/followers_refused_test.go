package embedded_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"tidings/streams"
	"tidings/streams/embedded"
)

// What a follower may try. The log must look the same after it.
func TestFollowersChangeNothingAndSeeNothingElse(t *testing.T) {
	h := open(t)
	h.append(t, 0, 3)
	inside, err := jetstream.New(h.own)
	require.NoError(t, err)
	for _, subject := range []string{"events.acme.order", "dead.acme.key"} {
		_, err := inside.Publish(t.Context(), subject, []byte("a person's name"))
		require.NoError(t, err)
	}
	events, err := inside.CreateOrUpdateConsumer(t.Context(), "EVENTS", jetstream.ConsumerConfig{Durable: "ours", AckPolicy: jetstream.AckExplicitPolicy})
	require.NoError(t, err)
	_, err = inside.CreateOrUpdateConsumer(t.Context(), "OUTCOMES", jetstream.ConsumerConfig{Durable: "projector", AckPolicy: jetstream.AckExplicitPolicy})
	require.NoError(t, err)
	before := everything(t, inside)
	nc, told := h.follower(t)
	inbox := func(t *testing.T) (string, *nats.Subscription) {
		reply := nats.NewInbox()
		sub, err := nc.SubscribeSync(reply)
		require.NoError(t, err)
		t.Cleanup(func() { _ = sub.Unsubscribe() })
		return reply, sub
	}

	for _, subject := range []string{
		"events.acme.order", "outcomes.acme.key", "audit.acme", "plans.x", "dead.acme.key", "retries.acme.key", "schedules.key", "anything", "_INBOX.another.follower",
		"$JS.API.INFO", "$JS.API.STREAM.NAMES", "$JS.API.STREAM.LIST",
		"$JS.API.STREAM.CREATE.OWN", "$JS.API.STREAM.UPDATE.OUTCOMES", "$JS.API.STREAM.DELETE.OUTCOMES", "$JS.API.STREAM.PURGE.OUTCOMES", "$JS.API.STREAM.MSG.DELETE.OUTCOMES",
		"$JS.API.STREAM.SNAPSHOT.OUTCOMES", "$JS.API.STREAM.RESTORE.OUTCOMES", "$JS.API.STREAM.LEADER.STEPDOWN.OUTCOMES",
		"$JS.API.CONSUMER.DURABLE.CREATE.OUTCOMES.own", "$JS.API.CONSUMER.NAMES.OUTCOMES", "$JS.API.CONSUMER.LIST.OUTCOMES", "$JS.API.CONSUMER.PAUSE.OUTCOMES.projector", "$JS.API.CONSUMER.RESET.OUTCOMES.projector",
		"$JS.API.CONSUMER.CREATE.EVENTS", "$JS.API.CONSUMER.CREATE.EVENTS.own", "$JS.API.CONSUMER.DELETE.EVENTS.ours", "$JS.API.CONSUMER.INFO.EVENTS.ours", "$JS.API.CONSUMER.MSG.NEXT.EVENTS.ours",
		"$JS.API.STREAM.INFO.EVENTS", "$JS.API.STREAM.MSG.GET.EVENTS", "$JS.API.DIRECT.GET.EVENTS", "$JS.API.DIRECT.GET.EVENTS.events.acme.order",
		"$JS.API.STREAM.MSG.GET.DEADLETTERS", "$JS.API.DIRECT.GET.DEADLETTERS", "$JS.API.DIRECT.GET.RETRIES", "$JS.API.DIRECT.GET.OBJ_OVERSIZE",
		"$JS.ACK.EVENTS.ours.1.1.1.1.0", "$JS.FC.OUTCOMES.projector.x", "$SYS.REQ.SERVER.PING", "$SYS.REQ.ACCOUNT.PING.CONNZ",
	} {
		t.Run("is refused "+subject, func(t *testing.T) {
			require.NoError(t, nc.Publish(subject, []byte(`{}`)))
			require.ErrorContains(t, receive(t, told), fmt.Sprintf("Permissions Violation for Publish to %q", subject))
		})
	}
	for _, subject := range []string{">", "events.>", "outcomes.>", "dead.>", "$JS.>", "$JS.API.>", "$SYS.>"} {
		t.Run("is refused to listen to "+subject, func(t *testing.T) {
			sub, err := nc.SubscribeSync(subject)
			require.NoError(t, err)
			require.ErrorContains(t, receive(t, told), "Permissions Violation for Subscription")
			_ = sub.Unsubscribe()
		})
	}
	for name, c := range map[string]struct{ subject, body, want string }{
		"a consumer that delivers into EVENTS":   {"$JS.API.CONSUMER.CREATE.OUTCOMES.own", `{"stream_name":"OUTCOMES","config":{"name":"own","ack_policy":"none","deliver_subject":"events.acme.order"}}`, "followers pull"},
		"one that delivers into the histories":   {"$JS.API.CONSUMER.CREATE.OUTCOMES", `{"stream_name":"OUTCOMES","config":{"ack_policy":"none","deliver_subject":"outcomes.acme.key"}}`, "followers pull"},
		"one that stays":                         {"$JS.API.CONSUMER.CREATE.OUTCOMES.own", `{"stream_name":"OUTCOMES","config":{"durable_name":"own","ack_policy":"none"}}`, "no durable_name"},
		"one that takes acknowledgements":        {"$JS.API.CONSUMER.CREATE.OUTCOMES.own", `{"stream_name":"OUTCOMES","config":{"name":"own","ack_policy":"explicit"}}`, "ack_policy must be none"},
		"one that is ours":                       {"$JS.API.CONSUMER.CREATE.OUTCOMES.projector", `{"stream_name":"OUTCOMES","config":{"name":"projector","ack_policy":"none"},"action":"update"}`, "consumer already exists"},
		"one of another stream":                  {"$JS.API.CONSUMER.CREATE.OUTCOMES.own", `{"stream_name":"EVENTS","config":{"name":"own","ack_policy":"none","filter_subject":"events.>"}}`, "followers read OUTCOMES, and not"},
		"with a request that is no JSON":         {"$JS.API.CONSUMER.CREATE.OUTCOMES.own", `{`, "not JSON"},
		"with a request that is large":           {"$JS.API.CONSUMER.CREATE.OUTCOMES.own", `{"config":{"description":"` + strings.Repeat("x", 70<<10) + `"}}`, "larger than"},
		"with hundreds of filters":               {"$JS.API.CONSUMER.CREATE.OUTCOMES.own", `{"config":{"ack_policy":"none","filter_subjects":["a"` + strings.Repeat(`,"a"`, 100) + `]}}`, "at most 16"},
		"deletes a consumer that is ours":        {"$JS.API.CONSUMER.DELETE.OUTCOMES.projector", ``, "consumer not found"},
		"looks at a consumer that is ours":       {"$JS.API.CONSUMER.INFO.OUTCOMES.projector", ``, "consumer not found"},
		"changes the stream by asking for it":    {"$JS.API.STREAM.INFO.OUTCOMES", `{"name":"OUTCOMES","subjects":["events.>"]}`, "stream_info_response"},
		"asks for an entry, and more than is ok": {"$JS.API.STREAM.MSG.GET.OUTCOMES", `{"last_by_subj":"events.acme.order"}`, "no message found"},
	} {
		t.Run("is not let: "+name, func(t *testing.T) {
			m, err := nc.Request(c.subject, []byte(c.body), 10*time.Second)
			require.NoError(t, err)
			require.Contains(t, string(m.Data), c.want)
		})
	}
	t.Run("answers that are led to a subject of the log do not get there", func(t *testing.T) {
		for _, into := range []string{"events.acme.order", "outcomes.acme.key", "$JS.API.STREAM.DELETE.OUTCOMES", "$JS.API.CONSUMER.CREATE.OUTCOMES", "$JS.API.CONSUMER.DELETE.OUTCOMES.projector"} {
			require.NoError(t, nc.PublishRequest("$JS.API.STREAM.INFO.OUTCOMES", into, nil))
			traced := &nats.Msg{Subject: "$JS.API.DIRECT.GET.OUTCOMES", Header: nats.Header{"Nats-Trace-Dest": {into}}, Data: []byte(`{"seq":1}`)}
			require.NoError(t, nc.PublishMsg(traced))
			require.NoError(t, nc.PublishRequest("$JS.API.DIRECT.GET.OUTCOMES", into, []byte(`{"seq":1}`)))
			require.NoError(t, nc.PublishRequest("$JS.API.CONSUMER.CREATE.OUTCOMES", into, []byte(`{"config":{"ack_policy":"none"}}`)))
			reply, sub := inbox(t)
			require.NoError(t, nc.PublishRequest("$JS.API.CONSUMER.CREATE.OUTCOMES.led", reply, []byte(`{"config":{"name":"led","ack_policy":"none"}}`)))
			_, err := sub.NextMsg(10 * time.Second)
			require.NoError(t, err)
			require.NoError(t, nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT.OUTCOMES.led", into, []byte(`{"batch":10}`)))
		}
		_, err := nc.Request("$JS.API.STREAM.INFO.OUTCOMES", nil, 10*time.Second)
		require.NoError(t, err)
	})
	require.Equal(t, before, everything(t, inside), "what the streams hold and how they are")
	info, err := events.Info(t.Context())
	require.NoError(t, err)
	require.Zero(t, info.Delivered.Consumer, "nothing was taken from our consumer")
}

// everything returns how the streams are and what they hold, and our consumers.
func everything(t *testing.T, js jetstream.JetStream) string {
	t.Helper()
	var all []any
	for _, name := range []string{"EVENTS", "OUTCOMES", "DEADLETTERS", "RETRIES", "OBJ_OVERSIZE"} {
		s, err := js.Stream(t.Context(), name)
		require.NoError(t, err)
		state := s.CachedInfo().State
		state.Consumers = 0
		all = append(all, s.CachedInfo().Config, state)
	}
	var names []string
	for name := range js.StreamNames(t.Context()).Name() {
		names = append(names, name)
	}
	slices.Sort(names)
	all = append(all, names)
	for stream, name := range map[string]string{"EVENTS": "ours", "OUTCOMES": "projector"} {
		_, err := js.Consumer(t.Context(), stream, name)
		require.NoError(t, err)
	}
	data, err := json.MarshalIndent(all, "", " ")
	require.NoError(t, err)
	return string(data)
}

func TestOnlyFollowersGetIn(t *testing.T) {
	var logged lockedBuffer
	h := open(t, func(o *embedded.Options) {
		o.Logger = slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	for name, options := range map[string][]nats.Option{
		"without a password":                        nil,
		"with another password":                     {nats.UserInfo("follower", "another")},
		"with an empty password":                    {nats.UserInfo("follower", "")},
		"as another user":                           {nats.UserInfo("admin", password)},
		"as this process":                           {nats.UserInfo("tidings", password)},
		"as this process among followers":           {nats.UserInfo("tidings-proxy", "")},
		"with a token that is the password":         {nats.Token(password)},
		"as the user of the system, by its account": {nats.UserInfo("sys", password)},
	} {
		t.Run("nobody "+name, func(t *testing.T) {
			_, err := nats.Connect(h.ClientURL(), options...)
			require.ErrorIs(t, err, nats.ErrAuthorization)
		})
	}
	t.Run("nobody who does not even say who he is", func(t *testing.T) {
		before, err := h.log.Events.Info(t.Context())
		require.NoError(t, err)
		c, err := net.Dial("tcp", strings.TrimPrefix(h.ClientURL(), "nats://"))
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		_, err = c.Write([]byte("PUB events.acme.order 2\r\nhi\r\nSUB > 1\r\n"))
		require.NoError(t, err)
		answer, _ := io.ReadAll(c) // reset, where what was sent is not read
		require.Contains(t, string(answer), "Authorization Violation")
		after, err := h.log.Events.Info(t.Context())
		require.NoError(t, err)
		before.Asked, after.Asked = time.Time{}, time.Time{}
		require.Equal(t, before, after)
	})
	t.Run("not more than 32 at a time, and this process all the same", func(t *testing.T) {
		for range 32 {
			h.follower(t)
		}
		_, err := nats.Connect(h.ClientURL(), nats.UserInfo("follower", password))
		require.ErrorIs(t, err, nats.ErrAuthorization)
		require.NoError(t, connect(t, h.Server).Flush())
		h.append(t, 0, 1)
	})
	require.Contains(t, logged.String(), "followers are served")
	require.NotContains(t, logged.String(), password)
}

func TestFollowersDoNotUseUsUp(t *testing.T) {
	h := open(t)
	h.append(t, 0, 3)
	nc, _ := h.follower(t)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	var last jetstream.Consumer
	for range 64 {
		last, err = js.CreateConsumer(t.Context(), "OUTCOMES", jetstream.ConsumerConfig{AckPolicy: jetstream.AckNonePolicy, InactiveThreshold: 24 * time.Hour})
		require.NoError(t, err)
	}
	config := last.CachedInfo().Config
	require.True(t, config.MemoryStorage)
	require.Equal(t, 5*time.Minute, config.InactiveThreshold)
	t.Run("consumers are counted", func(t *testing.T) {
		_, err := js.CreateConsumer(t.Context(), "OUTCOMES", jetstream.ConsumerConfig{AckPolicy: jetstream.AckNonePolicy})
		require.ErrorContains(t, err, "followers have 64 consumers already")
		_, err = h.log.Outcomes.Entry(t.Context(), 1)
		require.NoError(t, err)
	})
	t.Run("ours are not", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		require.ErrorIs(t, h.log.Outcomes.Follow(ctx, 1, func(streams.Entry) error { cancel(); return nil }), context.Canceled)
	})
	t.Run("one that is gone makes room", func(t *testing.T) {
		inside, err := jetstream.New(h.own)
		require.NoError(t, err)
		require.NoError(t, inside.DeleteConsumer(t.Context(), "OUTCOMES", last.CachedInfo().Name)) // as the server does with an idle one
		_, err = js.CreateConsumer(t.Context(), "OUTCOMES", jetstream.ConsumerConfig{AckPolicy: jetstream.AckNonePolicy})
		require.NoError(t, err)
	})
	t.Run("a pull is bounded", func(t *testing.T) {
		batch, err := last.Fetch(5000)
		if err == nil {
			for range batch.Messages() {
			}
			err = batch.Error()
		}
		require.Error(t, err)
	})
	t.Run("so is the number of subscriptions", func(t *testing.T) {
		gone := make(chan error, 1)
		many, _ := h.follower(t, nats.NoReconnect(), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			select {
			case gone <- err:
			default:
			}
		}))
		for range 5000 {
			_, err := many.SubscribeSync(nats.NewInbox())
			if err != nil {
				break
			}
		}
		require.ErrorContains(t, receive(t, gone), "maximum subscriptions exceeded")
	})
}

// lockedBuffer is what several goroutines log to.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
