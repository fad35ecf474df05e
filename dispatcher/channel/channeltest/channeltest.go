// Package channeltest is the suite that every sender passes. It holds the
// contract of [channel.Sender] against a provider that behaves well or badly
// over a real socket; package sink beneath it has providers to start from.
package channeltest

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"tidings/dispatcher/channel"
	"tidings/streams/event"
)

// Behaviour is what a provider does with every message.
type Behaviour string

// The behaviours. The last four never answer: in two of them the message was
// not handed over in full, in two it was.
const (
	Takes          Behaviour = "takes it"
	Refuses        Behaviour = "refuses it for good"
	RefusesForNow  Behaviour = "refuses it for now"
	Unreachable    Behaviour = "listens nowhere"
	StopsReading   Behaviour = "stops reading before the message was handed over"
	CutsBefore     Behaviour = "cuts the connection before the message was handed over"
	TakesInSilence Behaviour = "reads the message and says nothing"
	CutsAfter      Behaviour = "reads the message and cuts the connection"
)

// Provider is a provider that behaves in one way, and a sender that calls it.
type Provider struct {
	Sender channel.Sender
	// Message returns a message with the given id that the sender addresses to
	// this provider. With StopsReading and CutsBefore it has to be too large for
	// the buffers of a connection, unless the provider stops earlier.
	Message func(id string) channel.Message
	// Secrets may not appear in any error: passwords, tokens, parts of addresses
	// and of contents, words of the provider.
	Secrets []string
	// Code is the code expected of a call that ends by the provider's behaviour.
	Code string
	// Held is closed when the provider is where it stops reading or keeps silent.
	Held <-chan struct{}
	// Left is closed when a provider that keeps silent sees its caller leave.
	Left <-chan struct{}
	// IDs returns the idempotency keys of the messages read in full, in order.
	IDs func() []string
}

// Factory starts a provider for one subtest, and cleans up by t. It starts no
// goroutine that outlives the test.
type Factory func(t *testing.T, b Behaviour) Provider

// patience bounds what has to happen at once.
const patience = 30 * time.Second

// Run runs the suite.
func Run(t *testing.T, start Factory) {
	t.Helper()
	for _, c := range []struct {
		behaviour Behaviour
		result    event.TryResult
		read      int // messages that the provider read in full
	}{
		{Refuses, event.TryPermanent, 1},
		{RefusesForNow, event.TryTransient, 1},
		{Unreachable, event.TryTransient, 0},
		{CutsBefore, event.TryTransient, 0},
		{CutsAfter, event.TryUnknown, 1},
	} {
		run(t, fmt.Sprintf("a provider that %s makes one call %s", c.behaviour, c.result), func(t *testing.T) {
			p := start(t, c.behaviour)
			code := p.fails(t, t.Context(), p.Message("m-1"), c.result)
			require.Equal(t, p.Code, code)
			require.Len(t, p.IDs(), c.read, "it was called once")
		})
	}
	run(t, "what the provider takes is delivered", func(t *testing.T) { delivers(t, start(t, Takes)) })
	run(t, "the idempotency key is the same in every try", func(t *testing.T) { repeats(t, start(t, Takes)) })
	run(t, "concurrent sends are one call each", func(t *testing.T) { concurs(t, start(t, Takes)) })
	run(t, "a header that would break out of its line is refused unsent", func(t *testing.T) { injects(t, start(t, Takes)) })
	run(t, "a timeout before the message was handed over is transient", func(t *testing.T) {
		timesOut(t, start(t, StopsReading), event.TryTransient)
	})
	run(t, "a timeout after the message was handed over is unknown", func(t *testing.T) {
		timesOut(t, start(t, TakesInSilence), event.TryUnknown)
	})
	run(t, "a context that has ended calls nobody and is transient", func(t *testing.T) { ended(t, start(t, Takes)) })
	run(t, "a cancel before the message was handed over is transient", func(t *testing.T) {
		canceled(t, start(t, StopsReading), event.TryTransient)
	})
	run(t, "a cancel after the message was handed over is unknown and closes the connection", func(t *testing.T) {
		p := start(t, TakesInSilence)
		canceled(t, p, event.TryUnknown)
		receive(t, p.Left, "the provider sees the caller leave")
	})
}

// run runs a subtest that leaves no goroutine behind.
func run(t *testing.T, name string, test func(t *testing.T)) {
	t.Run(name, func(t *testing.T) {
		before := goleak.IgnoreCurrent()
		t.Cleanup(func() { goleak.VerifyNone(t, before) })
		test(t)
	})
}

func delivers(t *testing.T, p Provider) {
	defer p.close(t)
	receipt, err := p.Sender.Send(t.Context(), p.Message("m-1"))
	require.NoError(t, err)
	require.Equal(t, p.Code, receipt.Code)
	require.NotEmpty(t, receipt.Provider)
	require.Equal(t, []string{"m-1"}, p.IDs())
}

func repeats(t *testing.T, p Provider) {
	defer p.close(t)
	for range 2 {
		_, err := p.Sender.Send(t.Context(), p.Message("m-1"))
		require.NoError(t, err)
	}
	require.Equal(t, []string{"m-1", "m-1"}, p.IDs())
}

func concurs(t *testing.T, p Provider) {
	defer p.close(t)
	const sends = 16
	var wg sync.WaitGroup
	errs := make([]error, sends)
	want := make([]string, sends)
	for i := range sends {
		want[i] = fmt.Sprintf("m-%02d", i)
		wg.Go(func() { _, errs[i] = p.Sender.Send(t.Context(), p.Message(want[i])) })
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	require.ElementsMatch(t, want, p.IDs())
}

func injects(t *testing.T, p Provider) {
	defer p.close(t)
	for _, breaker := range []string{"\r\nBcc: x@example.com", "\n", "\r", "\x00"} {
		inID := p.Message("m-1" + breaker)
		inName, inValue := p.Message("m-1"), p.Message("m-1")
		inName.Headers = map[string]string{"X-Name" + breaker: "v"}
		inValue.Headers = map[string]string{"X-Name": "v" + breaker}
		for _, m := range []channel.Message{inID, inName, inValue} {
			require.Equal(t, channel.CodeInvalidHeader, p.sendFails(t, t.Context(), m, event.TryPermanent))
		}
		inAddress := p.Message("m-1")
		inAddress.To += breaker
		p.sendFails(t, t.Context(), inAddress, event.TryPermanent)
	}
	require.Empty(t, p.IDs(), "nobody was called")
}

// timesOut gives a call more and more time, until it is enough to come to where
// the provider stops.
func timesOut(t *testing.T, p Provider, want event.TryResult) {
	defer p.close(t)
	for timeout := 50 * time.Millisecond; timeout < patience; timeout *= 4 {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		_, err := p.Sender.Send(ctx, p.Message("m-1"))
		cancel()
		p.keepsSecrets(t, err)
		select {
		case <-p.Held:
			result, code, _ := channel.Classify(err)
			require.Equal(t, want, result, "%v", err)
			require.Equal(t, channel.CodeTimeout, code)
			return
		default:
		}
	}
	require.Fail(t, "the provider was never reached")
}

func ended(t *testing.T, p Provider) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	code := p.fails(t, ctx, p.Message("m-1"), event.TryTransient)
	require.Equal(t, channel.CodeCanceled, code)
	require.Empty(t, p.IDs())
}

func canceled(t *testing.T, p Provider, want event.TryResult) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-p.Held:
			cancel()
		case <-time.After(patience):
		}
	}()
	code := p.fails(t, ctx, p.Message("m-1"), want)
	require.Equal(t, channel.CodeCanceled, code)
	<-done
}

// fails sends, closes the sender, and returns the code of the error.
func (p Provider) fails(t *testing.T, ctx context.Context, m channel.Message, want event.TryResult) string {
	t.Helper()
	defer p.close(t)
	return p.sendFails(t, ctx, m, want)
}

func (p Provider) sendFails(t *testing.T, ctx context.Context, m channel.Message, want event.TryResult) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	receipt, err := p.Sender.Send(ctx, m)
	require.Error(t, err)
	p.keepsSecrets(t, err)
	require.Empty(t, receipt.Code, "there was no positive answer")
	result, code, _ := channel.Classify(err)
	require.Equal(t, want, result, "%v", err)
	return code
}

func (p Provider) keepsSecrets(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	require.NotEmpty(t, p.Secrets, "the suite has to know what is secret")
	told := slices.ContainsFunc(p.Secrets, func(s string) bool { return strings.Contains(err.Error(), s) })
	require.False(t, told, "the error tells a secret: %v", err)
}

func (p Provider) close(t *testing.T) {
	if c, ok := p.Sender.(io.Closer); ok {
		require.NoError(t, c.Close())
	}
}

func receive(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		require.Fail(t, "waited in vain: "+what)
	}
}
