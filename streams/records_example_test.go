package streams_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"tidings/streams"
	"tidings/streams/embedded"
	"tidings/streams/event"
	"tidings/streams/streamstest"
)

// record is as much of a record as a small program needs.
type record struct {
	ID    string
	Event struct{ Key, Type string }
	State struct{ Phase, Outcome string }
}

// followOutcomes is the example of docs/records.md.
func followOutcomes(ctx context.Context, url string, after uint64, handle func(record, uint64)) error {
	nc, err := nats.Connect(url, nats.MaxReconnects(-1))
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	consumer, err := js.OrderedConsumer(ctx, "OUTCOMES", jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{"outcomes.*.*"},
		DeliverPolicy:  jetstream.DeliverByStartSequencePolicy, OptStartSeq: after + 1,
	})
	if err != nil {
		return err
	}
	consuming, err := consumer.Consume(func(m jetstream.Msg) {
		var r record
		at, err := m.Metadata()
		if err == nil && json.Unmarshal(m.Data(), &r) == nil {
			handle(r, at.Sequence.Stream)
		}
	})
	if err != nil {
		return err
	}
	defer consuming.Stop()
	<-ctx.Done()
	return nil
}

func TestTheExampleOfThePageFollows(t *testing.T) {
	srv, err := embedded.Start(t.Context(), embedded.Options{
		StoreDir: t.TempDir(), Followers: &embedded.Followers{Listen: "127.0.0.1:0", User: "follower", Password: "secret"},
	})
	require.NoError(t, err)
	t.Cleanup(srv.Shutdown)
	nc, err := srv.Connect("test")
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	l, err := streams.Open(t.Context(), nc, streams.Options{OutcomesMaxBytes: 1 << 30, EventsMaxBytes: 1 << 30, DeadLettersMaxBytes: 1 << 30})
	require.NoError(t, err)
	streamstest.Run(t, l.Run)
	require.NoError(t, srv.OpenFollowers(t.Context()))
	url := strings.Replace(srv.ClientURL(), "nats://", "nats://follower:secret@", 1)

	first := claim(ref("1"), event.State{})
	sequence, err := l.Outcomes.Append(t.Context(), first, 0)
	require.NoError(t, err)
	_, err = l.Outcomes.Append(t.Context(), settle(ref("1"), first.State), sequence.Sequence)
	require.NoError(t, err)

	follow := func(t *testing.T, after uint64) <-chan record {
		got := make(chan record, 10)
		streamstest.Run(t, func(ctx context.Context) error {
			return followOutcomes(ctx, url, after, func(r record, _ uint64) { got <- r })
		})
		return got
	}
	t.Run("from the beginning", func(t *testing.T) {
		got := follow(t, 0)
		require.Equal(t, "claimed", receive(t, got).State.Phase)
		last := receive(t, got)
		require.Equal(t, "no_recipient", last.State.Outcome)
		require.Equal(t, string(first.Event.Key), last.Event.Key)
		require.NotEmpty(t, last.ID)
	})
	t.Run("and behind what was seen", func(t *testing.T) {
		require.Equal(t, "settled", receive(t, follow(t, sequence.Sequence)).State.Phase)
	})
	t.Run("and the page shows it as it is here", func(t *testing.T) {
		source, err := os.ReadFile("records_example_test.go")
		require.NoError(t, err)
		_, code, _ := strings.Cut(string(source), "// record is as much")
		code, _, _ = strings.Cut("// record is as much"+code, "\n\nfunc TestTheExample")
		page, err := os.ReadFile(filepath.Join("..", "docs", "records.md"))
		require.NoError(t, err)
		require.Contains(t, string(page), "\n```go\n"+code+"\n```\n")
	})
}
