package streams_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
		MaxResetAttempts: 5, // then it is told why it cannot go on, and tries again
	})
	if err != nil {
		return err
	}
	gone := make(chan error, 1)
	consuming, err := consumer.Consume(func(m jetstream.Msg) {
		var r record
		at, err := m.Metadata()
		if err == nil && json.Unmarshal(m.Data(), &r) == nil {
			handle(r, at.Sequence.Stream)
		}
	}, jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) {
		refused, ok := errors.AsType[*jetstream.APIError](err)
		if ok && (refused.Code == 409 || refused.Code == 410) && len(gone) == 0 {
			gone <- err // what comes next
		}
	}))
	if err != nil {
		return err
	}
	defer consuming.Stop()
	select {
	case err := <-gone:
		return err
	case <-ctx.Done():
		return nil
	}
}

// printEnds is the example of README.md.
func printEnds(ctx context.Context, js jetstream.JetStream, after uint64, out io.Writer) error {
	consumer, err := js.OrderedConsumer(ctx, "OUTCOMES", jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{"outcomes.*.*"},
		DeliverPolicy:  jetstream.DeliverByStartSequencePolicy, OptStartSeq: after + 1,
	})
	if err != nil {
		return err // also if what comes next is gone: nothing is passed over in silence
	}
	for {
		m, err := consumer.Next(jetstream.FetchContext(ctx))
		if err != nil {
			return err
		}
		if h := m.Headers(); h.Get("Tidings-Final") == "true" {
			fmt.Fprintln(out, h.Get("Tidings-Type"), h.Get("Tidings-Key"), h.Get("Tidings-Outcome"))
		}
	}
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
	t.Run("and is told when what comes next is gone", func(t *testing.T) {
		err := followOutcomes(t.Context(), url, 100, nil)
		require.ErrorContains(t, err, "the log ends at 2")
	})
	t.Run("that of README.md prints ends", func(t *testing.T) {
		nc, err := nats.Connect(url)
		require.NoError(t, err)
		t.Cleanup(nc.Close)
		js, err := jetstream.New(nc)
		require.NoError(t, err)
		read, written := io.Pipe()
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- printEnds(ctx, js, 0, written) }()
		line, err := bufio.NewReader(read).ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "order.placed "+string(first.Event.Key)+" no_recipient\n", line)
		stop()
		require.ErrorIs(t, receive(t, done), context.Canceled)
	})
	t.Run("and the pages show them as they are here", func(t *testing.T) {
		source, err := os.ReadFile("records_example_test.go")
		require.NoError(t, err)
		between := func(from, to string) string {
			_, code, found := strings.Cut(string(source), from)
			require.True(t, found)
			code, _, _ = strings.Cut(from+code, "\n\n"+to)
			return "\n```go\n" + code + "\n```\n"
		}
		for page, code := range map[string]string{
			filepath.Join("..", "docs", "records.md"): between("// record is as much", "// printEnds is"),
			filepath.Join("..", "README.md"):          between("func printEnds", "func TestTheExample"),
		} {
			text, err := os.ReadFile(page)
			require.NoError(t, err)
			require.Contains(t, string(text), code)
		}
	})
}
