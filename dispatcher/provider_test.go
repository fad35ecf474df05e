package dispatcher_test

import (
	"context"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/dispatcher"
	"tidings/dispatcher/channel"
	"tidings/dispatcher/channel/email"
	"tidings/streams/event"
)

// silent is a mail server that takes connections and never says a word.
func silent(tb testing.TB) (host string, port int) {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = l.Close() })
	address := l.Addr().(*net.TCPAddr)
	return address.IP.String(), address.Port // the kernel takes them; nobody accepts
}

// mails replaces the sender of mail.
func (r *rig) mails(policy dispatcher.Policy, host string, port int) {
	r.Helper()
	s, err := email.New(email.Config{
		Host: host, Port: port, StartTLS: email.None, From: "shop@example.com", Timeout: policy.Timeout,
	})
	require.NoError(r, err)
	r.o.Channels["mail"] = dispatcher.Channel{Sender: s, Policy: policy}
}

func letterTo(id string) event.Envelope {
	return newEvent(id, "mail.x", map[string]any{"to": "ada@example.com", "name": "Ada"})
}

// both returns an event that is told by mail and to a path of the sink.
func (r *rig) both(id, path string) event.Envelope {
	return newEvent(id, "both.x", map[string]any{"to": "ada@example.com", "name": "Ada", "urls": []string{r.sink.URL(path)}})
}

// down is a provider that fails while it is down.
type down struct {
	atomic.Bool
	calls atomic.Int32 // while it was down
}

func (d *down) sender(code string) channel.Sender {
	return channel.SenderFunc(func(context.Context, channel.Message) (channel.Receipt, error) {
		if d.Load() {
			d.calls.Add(1)
			return channel.Receipt{}, channel.Transient(code, nil)
		}
		return channel.Receipt{Code: "smtp_250"}, nil
	})
}

// channelStatus returns the status of a channel.
func channelStatus(d *dispatcher.Dispatcher, name string) dispatcher.ChannelStatus {
	all := d.Status().Channels
	return all[slices.IndexFunc(all, func(c dispatcher.ChannelStatus) bool { return c.Channel == name })]
}

// aside returns how many events are set aside for a channel.
func (r *rig) aside(channel string) int {
	r.Helper()
	aside, err := r.log.Retries.Aside(r.within(10 * time.Second))
	require.NoError(r, err)
	return aside[channel]
}

// running starts a dispatcher that runs until the test ends.
func (r *rig) running(t *testing.T) *dispatcher.Dispatcher {
	d, stop := run(t, r.o)
	t.Cleanup(func() { require.NoError(t, stop()) })
	return d
}
