package webhook

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"tidings/dispatcher/channel"
)

// drainTime bounds the wait for the rest of an answer whose status is known.
const drainTime = time.Second

// Sender sends webhooks. [New] makes one.
type Sender struct {
	c         Config
	signers   []*standardwebhooks.Webhook
	transport *http.Transport

	life context.Context // ends with Close, and a connection being made with it
	end  context.CancelFunc
}

var (
	_ channel.Sender = (*Sender)(nil)
	_ io.Closer      = (*Sender)(nil)
)

// Send implements [channel.Sender]: it posts the body to the URL in m.To.
func (s *Sender) Send(ctx context.Context, m channel.Message) (channel.Receipt, error) {
	target, err := parseTarget(m.To)
	if err != nil {
		return channel.Receipt{}, channel.Permanent(channel.CodeInvalidAddress, err)
	}
	receipt := channel.Receipt{Provider: target.Host}
	header, err := s.header(m, time.Now())
	if err != nil {
		return receipt, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.c.Timeout)
	defer cancel()
	if err := ctx.Err(); err != nil {
		return receipt, channel.Transient(channel.Fault(err))
	}

	var watch watch
	res, err := s.transport.RoundTrip(request(watch.trace(ctx), target, header, m.Body))
	if err != nil {
		return receipt, watch.fault(err)
	}
	s.drain(res.Body, cancel)
	if err := verdict(res.StatusCode, res.Header, time.Now()); err != nil {
		return receipt, err
	}
	receipt.Code = code(res.StatusCode)
	return receipt, nil
}

// Close closes the connections that are kept. Calls under way go on, but none
// that still has to connect succeeds.
func (s *Sender) Close() error {
	s.end()
	s.transport.CloseIdleConnections()
	return nil
}

// request makes a request that the transport cannot send twice: without a way
// to read the body again it gives up instead, whatever the headers say.
func request(ctx context.Context, target *url.URL, header http.Header, body []byte) *http.Request {
	req := &http.Request{
		Method:        http.MethodPost,
		URL:           target,
		Host:          target.Host,
		Header:        header,
		Body:          io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)),
	}
	return req.WithContext(ctx)
}

// header returns the headers of one try, signed at now.
func (s *Sender) header(m channel.Message, now time.Time) (http.Header, error) {
	if len(m.Body) == 0 {
		return nil, channel.Permanent(channel.CodeInvalidMessage, errEmpty)
	}
	h := make(http.Header, len(m.Headers)+5)
	for name, value := range m.Headers {
		if err := checkHeader(name, value); err != nil {
			return nil, channel.Permanent(channel.CodeInvalidHeader, err)
		}
		h.Set(name, value)
	}
	contentType := m.ContentType
	if contentType == "" {
		contentType = "application/json"
	}
	if !validID(m.ID) || !validValue(contentType) {
		return nil, channel.Permanent(channel.CodeInvalidHeader, errIdentity)
	}
	h.Set("Content-Type", contentType)
	h.Set("User-Agent", s.c.UserAgent)
	h.Set(standardwebhooks.HeaderWebhookID, m.ID)
	h.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	signature, err := s.sign(m.ID, now, m.Body)
	if err != nil {
		return nil, channel.Permanent(channel.CodeInvalidMessage, err)
	}
	h.Set(standardwebhooks.HeaderWebhookSignature, signature)
	return h, nil
}

func (s *Sender) sign(id string, now time.Time, body []byte) (string, error) {
	signatures := make([]string, len(s.signers))
	for i, signer := range s.signers {
		signature, err := signer.Sign(id, now, body)
		if err != nil {
			return "", fmt.Errorf("sign with secret %d: %w", i+1, err)
		}
		signatures[i] = signature
	}
	return strings.Join(signatures, " "), nil
}

// drain reads what a well-behaved receiver answers, so that its connection can
// be used again, and lets go of the others.
func (s *Sender) drain(body io.ReadCloser, cancel context.CancelFunc) {
	timer := time.AfterFunc(drainTime, cancel)
	defer timer.Stop()
	_, _ = io.CopyN(io.Discard, body, s.c.MaxResponse+1)
	_ = body.Close()
}

// dial returns how a connection is made: by the dialer, until the sender is closed.
func (s *Sender) dial(dialer *net.Dialer) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if err := s.life.Err(); err != nil {
			return nil, err // what is called after its end may be late
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(s.life, cancel)()
		conn, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &wire{Conn: conn}, nil
	}
}
