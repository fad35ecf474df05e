package channel_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/dispatcher/channel"
	"tidings/streams/event"
)

func TestClassify(t *testing.T) {
	cause := errors.New("cause")
	after := func(e *channel.Error, d time.Duration) *channel.Error { e.After = d; return e }

	for name, c := range map[string]struct {
		err    error
		result event.TryResult
		code   string
		after  time.Duration
	}{
		"no error is delivered":     {nil, event.TryDelivered, "", 0},
		"permanent":                 {channel.Permanent("a", cause), event.TryPermanent, "a", 0},
		"transient":                 {channel.Transient("b", cause), event.TryTransient, "b", 0},
		"transient may name a time": {after(channel.Transient("b", cause), time.Minute), event.TryTransient, "b", time.Minute},
		"unknown":                   {channel.Unknown("c", cause), event.TryUnknown, "c", 0},
		"rate limited":              {channel.RateLimited("d", time.Second, cause), event.TryRateLimited, "d", time.Second},
		"a rate limit without a time is transient":    {channel.RateLimited("d", 0, cause), event.TryTransient, "d", 0},
		"a rate limit in the past is transient":       {channel.RateLimited("d", -time.Second, cause), event.TryTransient, "d", 0},
		"a time is capped":                            {channel.RateLimited("d", 48*time.Hour, cause), event.TryRateLimited, "d", channel.MaxAfter},
		"wrapped":                                     {fmt.Errorf("send: %w", channel.Permanent("a", cause)), event.TryPermanent, "a", 0},
		"an error of no class is unknown":             {cause, event.TryUnknown, channel.CodeUnclassified, 0},
		"a context's end of no class is unknown":      {context.Canceled, event.TryUnknown, channel.CodeUnclassified, 0},
		"an error that claims delivery is unknown":    {&channel.Error{Result: event.TryDelivered, Code: "e"}, event.TryUnknown, "e", 0},
		"an error with no result is unknown":          {&channel.Error{Code: "f"}, event.TryUnknown, "f", 0},
		"a nil error of the type is no instruction":   {(*channel.Error)(nil), event.TryUnknown, channel.CodeUnclassified, 0},
		"the outermost of two instructions is obeyed": {channel.Unknown("g", channel.Permanent("h", cause)), event.TryUnknown, "g", 0},
	} {
		t.Run(name, func(t *testing.T) {
			result, code, after := channel.Classify(c.err)
			require.Equal(t, c.result, result)
			require.Equal(t, c.code, code)
			require.Equal(t, c.after, after)
		})
	}
}

func TestErrorTellsCodeResultAndCause(t *testing.T) {
	err := channel.RateLimited("http_429", time.Minute, io.EOF)

	require.EqualError(t, err, "http_429 (rate_limited), not before 1m0s: EOF")
	require.ErrorIs(t, err, io.EOF)
	require.EqualError(t, channel.Permanent("http_410", nil), "http_410 (permanent)")
}

func TestFaultNamesWhatBroke(t *testing.T) {
	op := func(op string, err error) error { return &net.OpError{Op: op, Net: "tcp", Err: err} }
	said := errors.New("550 <user@example.com> unknown")

	for name, c := range map[string]struct {
		err  error
		code string
	}{
		"cancelled":            {fmt.Errorf("x: %w", context.Canceled), channel.CodeCanceled},
		"context timeout":      {context.DeadlineExceeded, channel.CodeTimeout},
		"connection timeout":   {op("read", os.ErrDeadlineExceeded), channel.CodeTimeout},
		"name not found":       {op("dial", &net.DNSError{Err: "no such host", Name: "x.invalid"}), channel.CodeDNSFailed},
		"refused":              {op("dial", os.NewSyscallError("connect", syscall.ECONNREFUSED)), channel.CodeDialFailed},
		"reset":                {op("read", syscall.ECONNRESET), channel.CodeConnectionLost},
		"closed by the peer":   {io.EOF, channel.CodeConnectionLost},
		"TLS alert":            {op("remote error", errors.New("tls: bad certificate")), channel.CodeTLSFailed},
		"anything else":        {said, channel.CodeConnectionLost},
		"anything else in one": {op("read", said), channel.CodeConnectionLost},
	} {
		t.Run(name, func(t *testing.T) {
			code, cause := channel.Fault(c.err)
			require.Equal(t, c.code, code)
			require.NotContains(t, cause.Error(), "example.com", "the provider's words are kept out")
		})
	}
}

func TestLoggedMessageShowsNeitherAddressNorContents(t *testing.T) {
	var out bytes.Buffer
	m := channel.Message{
		ID: "id-1", Key: "key-1", To: "secret@example.com", Subject: "secret", Text: "secret",
		HTML: "secret", Body: []byte("secret"), Headers: map[string]string{"X": "secret"},
	}

	slog.New(slog.NewTextHandler(&out, nil)).Info("send", "message", m)

	require.Contains(t, out.String(), "message.id=id-1")
	require.NotContains(t, out.String(), "secret")
}
