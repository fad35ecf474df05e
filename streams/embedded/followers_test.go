package embedded_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"tidings/streams"
	"tidings/streams/embedded"
	"tidings/streams/event"
	"tidings/streams/streamstest"
)

const password = "the password of followers"

// house is a server that followers may connect to, with a log.
type house struct {
	*embedded.Server
	log *streams.Log
	own *nats.Conn
}

func open(t *testing.T, mend ...func(*embedded.Options)) *house {
	t.Helper()
	o := embedded.Options{
		StoreDir: t.TempDir(), Durability: streams.Relaxed,
		Followers: &embedded.Followers{Listen: "127.0.0.1:0", User: "follower", Password: password},
	}
	for _, m := range mend {
		m(&o)
	}
	h := &house{Server: start(t, o)}
	h.own = connect(t, h.Server)
	var err error
	h.log, err = streams.Open(t.Context(), h.own, streams.Options{
		Durability: streams.Relaxed, EventsMaxBytes: 1 << 30, OutcomesMaxBytes: 1 << 30, DeadLettersMaxBytes: 1 << 30, OversizeMaxBytes: 1 << 30,
	})
	require.NoError(t, err)
	streamstest.Run(t, h.log.Run)
	require.NoError(t, h.OpenFollowers(t.Context()))
	return h
}

// follower returns a connection as another program has it, and the errors that the
// server tells it.
func (h *house) follower(t *testing.T, options ...nats.Option) (*nats.Conn, <-chan error) {
	t.Helper()
	told := make(chan error, 100)
	nc, err := nats.Connect(h.ClientURL(), append([]nats.Option{
		nats.UserInfo("follower", password),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { told <- err }),
	}, options...)...)
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	return nc, told
}

func (h *house) append(t *testing.T, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		id := fmt.Sprint(i)
		_, err := h.log.Outcomes.Append(t.Context(), event.NewRecord(event.Ref{
			Key: event.NewKey(id), Tenant: "acme", Source: "/shop", ID: id, Type: "order.placed", Sequence: 1,
		}, event.State{}, time.Now().UTC(), event.Claimed{Owner: event.Owner{Instance: "i", Boot: "b"}, LeaseMS: 60000, Limit: 64}), 0)
		require.NoError(t, err)
	}
}

func receive[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(20 * time.Second):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

func TestFollowersRead(t *testing.T) {
	h := open(t)
	h.append(t, 0, 700)
	nc, _ := h.follower(t)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	t.Run("with an ordered consumer of the client: all there is, then what comes", func(t *testing.T) {
		c, err := js.OrderedConsumer(t.Context(), "OUTCOMES", jetstream.OrderedConsumerConfig{FilterSubjects: []string{"outcomes.acme.*"}})
		require.NoError(t, err)
		got := make(chan jetstream.Msg, 1000)
		consuming, err := c.Consume(func(m jetstream.Msg) { got <- m })
		require.NoError(t, err)
		defer consuming.Stop()
		for want := uint64(1); want <= 703; want++ {
			if want == 701 {
				h.append(t, 700, 703)
			}
			m := receive(t, got)
			at, err := m.Metadata()
			require.NoError(t, err)
			require.Equal(t, want, at.Sequence.Stream)
			r, err := event.DecodeRecord(m.Data())
			require.NoError(t, err)
			subject, err := streams.OutcomeSubject("acme", r.Event.Key)
			require.NoError(t, err)
			require.Equal(t, subject, m.Subject())
			require.Equal(t, r.ID, m.Headers().Get(streams.HeaderRecordID))
		}
	})
	t.Run("with a consumer that fetches, and lets it go", func(t *testing.T) {
		c, err := js.CreateConsumer(t.Context(), "OUTCOMES", jetstream.ConsumerConfig{AckPolicy: jetstream.AckNonePolicy, DeliverPolicy: jetstream.DeliverLastPolicy})
		require.NoError(t, err)
		m, err := c.Next()
		require.NoError(t, err)
		at, err := m.Metadata()
		require.NoError(t, err)
		info, err := h.log.Outcomes.Info(t.Context())
		require.NoError(t, err)
		require.Equal(t, info.Last, at.Sequence.Stream)
		_, err = c.Info(t.Context())
		require.NoError(t, err)
		require.NoError(t, js.DeleteConsumer(t.Context(), "OUTCOMES", c.CachedInfo().Name))
		_, err = c.Info(t.Context())
		require.ErrorIs(t, err, jetstream.ErrConsumerNotFound)
	})
	t.Run("single entries, and where the stream stands", func(t *testing.T) {
		s, err := js.Stream(t.Context(), "OUTCOMES")
		require.NoError(t, err)
		require.EqualValues(t, 703, s.CachedInfo().State.LastSeq)
		m, err := s.GetMsg(t.Context(), 5)
		require.NoError(t, err)
		last, err := s.GetLastMsgForSubject(t.Context(), m.Subject)
		require.NoError(t, err)
		require.Equal(t, m.Data, last.Data)
	})
	t.Run("with Follow of this module", func(t *testing.T) {
		records, err := streams.OpenRecords(t.Context(), nc, nil)
		require.NoError(t, err)
		fifth, err := records.Entry(t.Context(), 5)
		require.NoError(t, err)
		got := make(chan streams.Entry, 1000)
		streamstest.Run(t, func(ctx context.Context) error {
			return records.Follow(ctx, streams.MarkOf(fifth), streams.Filter{Tenant: "acme"}, func(e streams.Entry) error {
				got <- e
				return nil
			})
		})
		for want := uint64(6); want <= 703; want++ {
			e := receive(t, got)
			require.Equal(t, want, e.Sequence)
			if want == 6 {
				own, err := h.log.Outcomes.Entry(t.Context(), 6)
				require.NoError(t, err)
				require.Equal(t, own, e, "it looks the same on both sides")
			}
		}
	})
}

func TestFollowersAreToldWhatIsGone(t *testing.T) {
	h := open(t)
	h.append(t, 0, 10)
	forget(t, h, 6)
	nc, _ := h.follower(t)
	records, err := streams.OpenRecords(t.Context(), nc, nil)
	require.NoError(t, err)
	nothing := func(streams.Entry) error { return nil }
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	from := func(sequence uint64) error {
		_, err := js.CreateConsumer(t.Context(), "OUTCOMES", jetstream.ConsumerConfig{
			AckPolicy: jetstream.AckNonePolicy, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: sequence,
		})
		return err
	}
	t.Run("by Follow", func(t *testing.T) {
		require.ErrorIs(t, records.Follow(t.Context(), streams.Mark{Sequence: 3}, streams.Filter{}, nothing), streams.ErrForgotten)
		require.ErrorIs(t, records.Follow(t.Context(), streams.Mark{Sequence: 30}, streams.Filter{}, nothing), streams.ErrRewritten)
	})
	t.Run("and by any client, which would begin elsewhere", func(t *testing.T) {
		require.ErrorContains(t, from(4), "4 is beyond the horizon: the first that is there is 6")
		require.ErrorContains(t, from(12), "the log ends at 10")
		for _, ok := range []uint64{6, 11, 1} {
			require.NoError(t, from(ok))
		}
	})
	t.Run("from the beginning is what is there", func(t *testing.T) {
		stop := fmt.Errorf("stop")
		require.Equal(t, stop, records.Follow(t.Context(), streams.Mark{}, streams.Filter{}, func(e streams.Entry) error {
			require.EqualValues(t, 6, e.Sequence)
			return stop
		}))
	})
}

// What comes next may go while a client is away: its ordered consumer is then made
// anew behind the last that it had.
func TestFollowersAreToldWhatIsGoneInTheMiddle(t *testing.T) {
	h := open(t)
	h.append(t, 0, 30)
	nc, _ := h.follower(t)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	c, err := js.OrderedConsumer(t.Context(), "OUTCOMES", jetstream.OrderedConsumerConfig{MaxResetAttempts: 1})
	require.NoError(t, err)
	had, goOn, refused := make(chan struct{}, 30), make(chan struct{}), make(chan *jetstream.APIError, 100)
	consuming, err := c.Consume(func(jetstream.Msg) {
		had <- struct{}{}
		<-goOn
	}, jetstream.PullMaxMessages(2), jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) {
		if api, ok := errors.AsType[*jetstream.APIError](err); ok {
			refused <- api
		}
	}))
	require.NoError(t, err)
	t.Cleanup(consuming.Stop)
	receive(t, had)
	forget(t, h, 20)
	inside, err := jetstream.New(h.own)
	require.NoError(t, err)
	s, err := inside.Stream(t.Context(), "OUTCOMES")
	require.NoError(t, err)
	for name := range s.ConsumerNames(t.Context()).Name() {
		require.NoError(t, s.DeleteConsumer(t.Context(), name)) // as a restart does
	}
	close(goOn)
	api := receive(t, refused)
	require.Equal(t, 410, api.Code)
	require.Equal(t, streams.CodeForgotten, api.ErrorCode)
	require.Contains(t, api.Description, "the first that is there is 20")
}

// forget takes the entries before a sequence from OUTCOMES, as time would.
func forget(t *testing.T, h *house, first uint64) {
	t.Helper()
	js, err := jetstream.New(h.own)
	require.NoError(t, err)
	s, err := js.Stream(t.Context(), "OUTCOMES")
	require.NoError(t, err)
	c := s.CachedInfo().Config
	c.Discard, c.MaxMsgs = jetstream.DiscardOld, int64(s.CachedInfo().State.LastSeq-first+1)
	_, err = js.UpdateStream(t.Context(), c)
	require.NoError(t, err)
	c.Discard, c.MaxMsgs = jetstream.DiscardNew, -1
	_, err = js.UpdateStream(t.Context(), c)
	require.NoError(t, err)
}

func TestFollowersWithTLS(t *testing.T) {
	cert, roots := selfSigned(t)
	h := open(t, func(o *embedded.Options) {
		o.Followers.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	})
	h.append(t, 0, 1) // within the process, without TLS
	url := strings.Replace(h.ClientURL(), "nats://", "tls://", 1)
	nc, err := nats.Connect(url, nats.UserInfo("follower", password), nats.Secure(&tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	records, err := streams.OpenRecords(t.Context(), nc, nil)
	require.NoError(t, err)
	_, err = records.Entry(t.Context(), 1)
	require.NoError(t, err)
	_, err = nats.Connect(url, nats.UserInfo("follower", password))
	require.ErrorContains(t, err, "certificate")
}

func TestFollowersComeBackAfterARestart(t *testing.T) {
	dir := t.TempDir()
	in := func(address string) func(*embedded.Options) {
		return func(o *embedded.Options) { o.StoreDir, o.Followers.Listen = dir, address }
	}
	h := open(t, in("127.0.0.1:0"))
	address := strings.TrimPrefix(h.ClientURL(), "nats://")
	h.append(t, 0, 2)
	nc, _ := h.follower(t, nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond))
	records, err := streams.OpenRecords(t.Context(), nc, nil)
	require.NoError(t, err)
	got := make(chan uint64, 10)
	streamstest.Run(t, func(ctx context.Context) error {
		return records.Follow(ctx, streams.Mark{}, streams.Filter{}, func(e streams.Entry) error { got <- e.Sequence; return nil })
	})
	require.EqualValues(t, 1, receive(t, got))
	require.EqualValues(t, 2, receive(t, got))
	h.own.Close()
	h.Shutdown()
	h = open(t, in(address))
	h.append(t, 2, 4)
	require.EqualValues(t, 3, receive(t, got))
	require.EqualValues(t, 4, receive(t, got))
}

func TestFollowersAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		f    embedded.Followers
		want string
	}{
		"without a password":     {embedded.Followers{Listen: "127.0.0.1:0", User: "follower"}, "need a user and a password"},
		"without a user":         {embedded.Followers{Listen: "127.0.0.1:0", Password: password}, "need a user and a password"},
		"without a port":         {embedded.Followers{Listen: "127.0.0.1", User: "follower", Password: password}, "missing port"},
		"with a port that isn't": {embedded.Followers{Listen: "127.0.0.1:x", User: "follower", Password: password}, "not a number"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := embedded.Start(t.Context(), embedded.Options{StoreDir: t.TempDir(), Followers: &c.f})
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), password)
		})
	}
	t.Run("on an address that is taken", func(t *testing.T) {
		s := start(t, embedded.Options{StoreDir: t.TempDir(), Followers: &embedded.Followers{Listen: taken(t), User: "follower", Password: password}})
		require.ErrorContains(t, s.OpenFollowers(t.Context()), "address already in use")
	})
	t.Run("by a server that has none", func(t *testing.T) {
		require.ErrorContains(t, start(t, embedded.Options{StoreDir: t.TempDir()}).OpenFollowers(t.Context()), "started without")
	})
}
