package email

import (
	"context"
	"crypto/tls"
	"net"
	"net/mail"
	"sync/atomic"
	"time"

	"tidings/dispatcher/channel"
)

// Sender sends mails. [New] makes one. It keeps no connection.
type Sender struct {
	c       Config
	from    *mail.Address
	replyTo *mail.Address // nil if there is none
	domain  string        // of the sender's address
	addr    string        // of the server
	tls     *tls.Config
}

var _ channel.Sender = (*Sender)(nil)

// Send implements [channel.Sender]: it mails Subject, Text and HTML to the
// mailbox in m.To.
func (s *Sender) Send(ctx context.Context, m channel.Message) (channel.Receipt, error) {
	receipt := channel.Receipt{Provider: s.addr}
	letter, err := s.compose(m, time.Now())
	if err != nil {
		return receipt, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.c.Timeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.addr)
	if err != nil {
		return receipt, channel.Transient(channel.Fault(err))
	}
	wire := &wire{Conn: conn}
	defer wire.Close()
	defer context.AfterFunc(ctx, func() { _ = wire.Close() })()

	d := &dialogue{Sender: s, wire: wire}
	if err := d.deliver(letter); err != nil {
		return receipt, d.instruct(ctx, err)
	}
	receipt.Code = "smtp_250"
	return receipt, nil
}

// wire is a connection that ends when something could not be written on it, and
// remembers that. The library would wait for the answer to what never went out.
type wire struct {
	net.Conn
	broken atomic.Bool
}

func (w *wire) Write(p []byte) (int, error) {
	n, err := w.Conn.Write(p)
	if err != nil {
		w.broken.Store(true)
		_ = w.Close()
	}
	return n, err
}
