package streams_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tidings/streams"
)

// stand is a publisher whose messages somebody else than a stream answers.
type stand struct {
	streams.Publisher
	asked chan *nats.Msg
}

func newStand(t *testing.T) stand {
	s := plainServer(t, server.Options{})
	ours, theirs := inProcess(t, s), inProcess(t, s)
	st := stand{streams.NewPublisher(ours, "S"), make(chan *nats.Msg, streams.MaxInFlight)}
	_, err := theirs.ChanSubscribe("s.>", st.asked)
	require.NoError(t, err)
	require.NoError(t, theirs.Flush())
	up, stop, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() { ended <- st.Run(func() { close(up); <-stop }) }()
	<-up
	t.Cleanup(func() { close(stop); require.NoError(t, receive(t, ended)) })
	return st
}

func (s stand) send(body string) func() (uint64, bool, error) {
	return s.Send(&nats.Msg{Subject: "s.x", Data: []byte(body)})
}

func plainAnswer(sequence any) []byte { return fmt.Appendf(nil, `{"stream":"S","seq":%v}`, sequence) }

func TestEveryEntryGetsItsOwnAnswer(t *testing.T) {
	t.Run("in whatever order they come, however often subjects are used again", func(t *testing.T) {
		s := newStand(t)
		const n = 50
		for round := range 3 {
			ends := map[string]func() (uint64, bool, error){}
			for i := range n {
				body := fmt.Sprint(1 + round*n + i)
				ends[body] = s.send(body)
			}
			var asked []*nats.Msg
			for range n {
				asked = append(asked, receive(t, s.asked))
			}
			for i := range asked {
				m := asked[n-1-i]
				require.NoError(t, m.Respond(plainAnswer(string(m.Data))))
			}
			for body, end := range ends {
				sequence, duplicate, err := end()
				require.NoError(t, err)
				require.False(t, duplicate)
				require.Equal(t, body, fmt.Sprint(sequence))
			}
		}
	})
	t.Run("and never that to another, which came too late", func(t *testing.T) {
		s := newStand(t)
		first := s.send("1")
		late := receive(t, s.asked)
		s.LetTimePass()
		_, _, err := first()
		require.ErrorIs(t, err, streams.ErrUnknown)
		second := s.send("2")
		inTime := receive(t, s.asked)
		require.NoError(t, late.Respond(plainAnswer(1)))
		require.NoError(t, inTime.Respond(plainAnswer(2)))
		sequence, _, err := second()
		require.NoError(t, err)
		require.EqualValues(t, 2, sequence)
	})
	t.Run("unless there are too many without an answer", func(t *testing.T) {
		s := newStand(t)
		var last func() (uint64, bool, error)
		for range streams.MaxInFlight + 1 {
			last = s.send("")
		}
		_, _, err := last()
		require.ErrorIs(t, err, streams.ErrUnavailable)
		require.NotErrorIs(t, err, streams.ErrUnknown)
	})
}

func TestWhatNobodyTakesIsCertainlyNotStored(t *testing.T) {
	s := newStand(t)
	_, _, err := s.Send(&nats.Msg{Subject: "nobody"})()
	require.ErrorIs(t, err, streams.ErrUnavailable)
	require.NotErrorIs(t, err, streams.ErrUnknown)
}

func TestAnswers(t *testing.T) {
	s := newStand(t)
	for name, c := range map[string]struct {
		answer    string
		sequence  uint64
		duplicate bool
		err       error
	}{
		"stored":                         {`{"stream":"S","seq":17}`, 17, false, nil},
		"there already":                  {`{"stream":"S","seq":17,"duplicate": true}`, 17, true, nil},
		"of a server in a domain":        {`{"stream":"S","domain":"hub","seq":17}`, 17, false, nil},
		"with more than today":           {`{"stream":"S","seq":17,"val":"1"}`, 17, false, nil},
		"a large sequence":               {`{"stream":"S","seq":18446744073709551615}`, 1<<64 - 1, false, nil},
		"full":                           {`{"error":{"code":503,"err_code":10047,"description":"x"}}`, 0, false, streams.ErrFull},
		"refused":                        {`{"error":{"code":400,"err_code":1,"description":"x"},"stream":"S","seq":0}`, 0, false, streams.ErrRefused},
		"nothing, as a part of a batch":  {``, 0, false, streams.ErrUnknown},
		"no JSON":                        {`{"stream":"S","seq":17`, 0, false, streams.ErrUnknown},
		"a sequence that is none":        {`{"stream":"S","seq":}`, 0, false, streams.ErrUnknown},
		"a sequence that is too large":   {`{"stream":"S","seq":18446744073709551616}`, 0, false, streams.ErrUnknown},
		"no stream":                      {`{"seq":17}`, 0, false, streams.ErrUnknown},
		"the answer to something else":   {`[]`, 0, false, streams.ErrUnknown},
		"the usual one, and then others": {`{"stream":"S","seq":17}}`, 0, false, streams.ErrUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			end := s.send("")
			require.NoError(t, receive(t, s.asked).Respond([]byte(c.answer)))
			sequence, duplicate, err := end()
			require.ErrorIs(t, err, c.err)
			require.Equal(t, c.sequence, sequence)
			require.Equal(t, c.duplicate, duplicate)
		})
	}
}

// What is read by hand says the same when it is read as JSON.
func TestUsualAnswersAreReadAsJSONIs(t *testing.T) {
	s := newStand(t)
	rapid.Check(t, func(t *rapid.T) {
		digits := rapid.StringMatching(`[0-9]{0,20}`).Draw(t, "digits")
		end := rapid.SampledFrom([]string{"}", `,"duplicate": true}`, `,"duplicate": false}`, "", " }", ".5}"}).Draw(t, "end")
		data := []byte(strings.TrimSpace(`{"stream":"S","seq":` + digits + end))
		sequence, duplicate, ok := s.DecodePlain(data)
		if !ok {
			return
		}
		var ack jetstream.PubAck
		require.NoError(t, json.Unmarshal(data, &ack))
		require.Equal(t, ack, jetstream.PubAck{Stream: "S", Sequence: sequence, Duplicate: duplicate})
	})
}
