package embedded

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tidings/streams"
)

// The requests that followers may make.
const (
	streamInfoAPI = "$JS.API.STREAM.INFO." + streams.OutcomesStream
	messageAPI    = "$JS.API.STREAM.MSG.GET." + streams.OutcomesStream
	directAPI     = "$JS.API.DIRECT.GET." + streams.OutcomesStream
	createAPI     = "$JS.API.CONSUMER.CREATE." + streams.OutcomesStream
	consumerAPI   = "$JS.API.CONSUMER.INFO." + streams.OutcomesStream + "."
	deleteAPI     = "$JS.API.CONSUMER.DELETE." + streams.OutcomesStream + "."
	nextAPI       = "$JS.API.CONSUMER.MSG.NEXT." + streams.OutcomesStream + ".*"
)

// What one request may ask for.
const (
	maxRequest   = 64 << 10         // bytes of the request itself
	maxConsumers = 64               // of all followers
	maxFilters   = 16               // subjects of a consumer
	maxPulls     = 8                // of a consumer, waiting
	maxBatch     = 1000             // entries of a pull
	maxExpiry    = 30 * time.Second // what clients ask for unless told otherwise
	idle         = 5 * time.Minute
	proxyWait    = 5 * time.Second
)

// proxy answers, in the account of the followers, what they ask of JetStream's API.
// All that creates or deletes anything goes through it. What pulls does not: only the
// server can deliver an entry under its own subject. A pull needs the name of its
// consumer, and those of Tidings on OUTCOMES have random ones, which followers cannot
// list.
type proxy struct {
	inside  *nats.Conn // the account of the streams
	outside *nats.Conn // that of the followers
	js      jetstream.JetStream
	log     *slog.Logger

	mu   sync.Mutex
	made map[string]struct{} // consumers of followers that may be there
}

func newProxy(inside, outside *nats.Conn, log *slog.Logger) *proxy {
	return &proxy{inside: inside, outside: outside, log: log, made: map[string]struct{}{}}
}

// open begins to answer. It ends with the connections.
func (p *proxy) open(ctx context.Context) error {
	js, err := jetstream.New(p.inside, jetstream.WithDefaultTimeout(proxyWait))
	if err != nil {
		return err
	}
	p.js = js
	for subject, answer := range map[string]func(context.Context, *nats.Msg) ([]byte, error){
		streamInfoAPI:     p.pass,
		messageAPI:        p.pass,
		consumerAPI + "*": p.ofFollower(p.pass),
		deleteAPI + "*":   p.ofFollower(p.remove),
		createAPI:         p.create,
		createAPI + ".>":  p.create,
	} {
		sub, err := p.outside.Subscribe(subject, func(m *nats.Msg) { p.answer(m, answer) })
		if err != nil {
			return err
		}
		if err := sub.SetPendingLimits(1024, 1024*maxRequest); err != nil {
			return err
		}
	}
	return p.outside.FlushWithContext(ctx)
}

func (p *proxy) answer(m *nats.Msg, how func(context.Context, *nats.Msg) ([]byte, error)) {
	ctx, cancel := context.WithTimeout(context.Background(), proxyWait)
	defer cancel()
	var data []byte
	err := error(refusal(400, 0, "the request is larger than %d bytes", maxRequest))
	if len(m.Data) <= maxRequest {
		data, err = how(ctx, m)
	}
	if err != nil {
		data = failure(err)
	}
	if err := m.Respond(data); err != nil {
		p.log.Debug("answer to a follower", "subject", m.Subject, "error", err)
	}
}

// pass passes a request on as it is.
func (p *proxy) pass(ctx context.Context, m *nats.Msg) ([]byte, error) {
	answer, err := p.inside.RequestWithContext(ctx, m.Subject, m.Data)
	if err != nil {
		return nil, err
	}
	return answer.Data, nil
}

// ofFollower answers only where the consumer is one that a follower made.
func (p *proxy) ofFollower(answer func(context.Context, *nats.Msg) ([]byte, error)) func(context.Context, *nats.Msg) ([]byte, error) {
	return func(ctx context.Context, m *nats.Msg) ([]byte, error) {
		p.mu.Lock()
		_, ok := p.made[consumerOf(m.Subject)]
		p.mu.Unlock()
		if !ok {
			return nil, refusal(404, jetstream.JSErrCodeConsumerNotFound, "consumer not found")
		}
		return answer(ctx, m)
	}
}

func consumerOf(subject string) string { return subject[strings.LastIndexByte(subject, '.')+1:] }

func (p *proxy) remove(ctx context.Context, m *nats.Msg) ([]byte, error) {
	data, err := p.pass(ctx, m)
	if err == nil {
		p.mu.Lock()
		delete(p.made, consumerOf(m.Subject))
		p.mu.Unlock()
	}
	return data, err
}

// create makes a consumer, never changes one, and says so where entries that
// it should begin with are gone.
func (p *proxy) create(ctx context.Context, m *nats.Msg) ([]byte, error) {
	var r struct {
		Stream string                   `json:"stream_name"`
		Config jetstream.ConsumerConfig `json:"config"`
	}
	if err := json.Unmarshal(m.Data, &r); err != nil {
		return nil, refusal(400, 0, "the request is not JSON as JetStream has it")
	}
	if r.Stream != "" && r.Stream != streams.OutcomesStream {
		return nil, refusal(403, 0, "followers read %s, and not %q", streams.OutcomesStream, r.Stream)
	}
	if err := refused(r.Config); err != nil {
		return nil, err
	}
	if err := p.begins(ctx, r.Config); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.room(ctx); err != nil {
		return nil, err
	}
	c, err := p.js.CreateConsumer(ctx, streams.OutcomesStream, harmless(r.Config))
	if err != nil {
		return nil, err
	}
	info := c.CachedInfo()
	p.made[info.Name] = struct{}{}
	return json.Marshal(struct {
		Type string `json:"type"`
		*jetstream.ConsumerInfo
	}{"io.nats.jetstream.api.v1.consumer_create_response", info})
}

// refused says what a follower cannot have, rather than leave it out in silence.
func refused(c jetstream.ConsumerConfig) error {
	switch {
	case c.DeliverSubject != "":
		return refusal(403, 0, "followers pull: no deliver_subject")
	case c.Durable != "":
		return refusal(403, 0, "followers keep their own position: no durable_name")
	case c.AckPolicy != jetstream.AckNonePolicy:
		return refusal(403, 0, "followers acknowledge nothing: ack_policy must be none")
	case len(c.FilterSubjects) > maxFilters:
		return refusal(403, 0, "at most %d filter_subjects", maxFilters)
	}
	return nil
}

// harmless returns of what was asked for what chooses entries. It is kept in
// memory, bounded, and forgotten when nobody asks.
func harmless(c jetstream.ConsumerConfig) jetstream.ConsumerConfig {
	forgotten := c.InactiveThreshold
	if forgotten <= 0 || forgotten > idle {
		forgotten = idle
	}
	return jetstream.ConsumerConfig{
		Name: c.Name, Description: "a follower",
		DeliverPolicy: c.DeliverPolicy, OptStartSeq: c.OptStartSeq, OptStartTime: c.OptStartTime,
		FilterSubject: c.FilterSubject, FilterSubjects: c.FilterSubjects, HeadersOnly: c.HeadersOnly,
		AckPolicy: jetstream.AckNonePolicy, MaxWaiting: maxPulls, MaxRequestBatch: maxBatch, MaxRequestExpires: maxExpiry,
		InactiveThreshold: forgotten, Replicas: 1, MemoryStorage: true,
	}
}

// begins says why a consumer cannot begin at the sequence that it names: the
// server would begin elsewhere, and not mention it.
func (p *proxy) begins(ctx context.Context, c jetstream.ConsumerConfig) error {
	if c.DeliverPolicy != jetstream.DeliverByStartSequencePolicy || c.OptStartSeq <= 1 {
		return nil
	}
	s, err := p.js.Stream(ctx, streams.OutcomesStream)
	if err != nil {
		return err
	}
	switch state := s.CachedInfo().State; {
	case c.OptStartSeq < state.FirstSeq:
		return refusal(410, streams.CodeForgotten, "%d is beyond the horizon: the first that is there is %d", c.OptStartSeq, state.FirstSeq)
	case c.OptStartSeq > state.LastSeq+1:
		return refusal(409, streams.CodeRewritten, "%d is not there yet: the log ends at %d, so it lost its end", c.OptStartSeq, state.LastSeq)
	}
	return nil
}

// room returns an error if followers have as many consumers as they may. It
// forgets those that the server has forgotten.
func (p *proxy) room(ctx context.Context) error {
	if len(p.made) < maxConsumers {
		return nil
	}
	for name := range p.made {
		if _, err := p.js.Consumer(ctx, streams.OutcomesStream, name); errors.Is(err, jetstream.ErrConsumerNotFound) {
			delete(p.made, name)
		}
	}
	if len(p.made) >= maxConsumers {
		return refusal(429, 0, "followers have %d consumers already: delete some, or wait %s until those are gone that nobody uses", maxConsumers, idle)
	}
	return nil
}

func refusal(code int, kind jetstream.ErrorCode, format string, a ...any) *jetstream.APIError {
	return &jetstream.APIError{Code: code, ErrorCode: kind, Description: fmt.Sprintf(format, a...)}
}

// failure returns an error as JetStream's API has it.
func failure(err error) []byte {
	why := refusal(503, 0, "no answer from the log")
	if api, ok := errors.AsType[jetstream.JetStreamError](err); ok && api.APIError() != nil {
		why = api.APIError()
	}
	data, _ := json.Marshal(map[string]any{"error": why}) // of numbers and a text
	return data
}
