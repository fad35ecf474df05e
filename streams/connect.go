package streams

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// Connect returns a connection to an external server, named name there. urls
// may be several, with commas between. It waits for a server that is down with
// growing, jittered pauses until ctx is done, and so does the connection later,
// for ever. It returns an error at once if the URL cannot be read or the server
// refuses the credentials. Credentials appear in no error and no log.
func Connect(ctx context.Context, urls, name string, logger *slog.Logger, more ...nats.Option) (*nats.Conn, error) {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	shown, err := redact(urls)
	if err != nil {
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	options := append(ConnectOptions(name, logger), more...)
	pause := newBackOff()
	for {
		nc, err := nats.Connect(urls, options...)
		if err == nil {
			return nc, nil
		}
		if errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) {
			return nil, fmt.Errorf("connect to NATS at %s: %w: check user, password or credentials file", shown, err)
		}
		wait := pause.NextBackOff()
		logger.Warn("NATS does not answer", "url", shown, "error", err, "again_in", wait)
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("connect to NATS at %s: %w (%w)", shown, err, context.Cause(ctx))
		case <-time.After(wait):
		}
	}
}

// ConnectOptions are the settings that the log relies on: reconnect for ever,
// and keep nothing back while disconnected, because what is appended then is
// better refused than sent later, when nobody waits for it.
func ConnectOptions(name string, logger *slog.Logger) []nats.Option {
	return []nats.Option{
		nats.Name(name),
		nats.MaxReconnects(-1),
		nats.ReconnectBufSize(-1),
		nats.CustomReconnectDelay(reconnectDelay),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err == nil { // it was closed on purpose
				logger.Debug("NATS connection closed")
				return
			}
			logger.Warn("NATS connection lost", "error", err)
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			logger.Info("NATS connection is back", "server", nc.ConnectedServerName())
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			logger.Error("NATS", "error", err)
		}),
	}
}

// reconnectDelay is the pause after all servers were tried attempts times.
func reconnectDelay(attempts int) time.Duration {
	b := newBackOff()
	var d time.Duration
	for range min(attempts, 8) {
		d = b.NextBackOff()
	}
	return d
}

// redact returns the URLs without user information. Parse errors quote what
// they could not read, which may be the password, so they are not passed on.
func redact(urls string) (string, error) {
	var shown []string
	for u := range strings.SplitSeq(urls, ",") {
		u = strings.TrimSpace(u)
		if !strings.Contains(u, "://") {
			u = "nats://" + u
		}
		parsed, err := url.Parse(u)
		if err != nil || parsed.Host == "" {
			return "", errors.New("the URL cannot be read: it should be like nats://host:4222, with special characters in a password percent-encoded")
		}
		shown = append(shown, parsed.Scheme+"://"+parsed.Host)
	}
	return strings.Join(shown, ","), nil
}
