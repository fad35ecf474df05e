package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http/httptrace"
	"sync/atomic"

	"tidings/dispatcher/channel"
)

// codeInvalidAnswer is for an answer that began and is not HTTP.
const codeInvalidAnswer = "invalid_answer"

var (
	errHandshake     = errors.New("the TLS handshake did not succeed")
	errInvalidAnswer = errors.New("the answer is not HTTP")
	errDial          = errors.New("no connection")
)

// watch follows one request to tell how far it got. The transport calls it from
// its own goroutines, some of them after the request has ended.
type watch struct {
	handshake atomic.Bool          // a TLS handshake failed
	conn      atomic.Pointer[wire] // the connection it got
	before    atomic.Int64         // bytes that had been written on it by then
	written   atomic.Bool          // the transport has the whole request behind it
	answered  atomic.Bool          // the first byte of an answer was read
}

func (w *watch) trace(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		TLSHandshakeDone: func(_ tls.ConnectionState, err error) { w.handshake.Store(err != nil) },
		GotConn:          w.gotConn,
		WroteRequest:     func(info httptrace.WroteRequestInfo) { w.written.Store(info.Err == nil) },
		GotFirstResponseByte: func() {
			w.answered.Store(true)
		},
	})
}

func (w *watch) gotConn(info httptrace.GotConnInfo) {
	conn := info.Conn
	if encrypted, ok := conn.(*tls.Conn); ok {
		conn = encrypted.NetConn()
	}
	if wire, ok := conn.(*wire); ok {
		w.before.Store(wire.written.Load())
		w.conn.Store(wire)
	}
}

// taken reports whether the receiver may have the whole request. The transport
// reports a small request as written while it is still in its buffer; the count
// of the connection tells whether any of it left.
func (w *watch) taken() bool {
	conn := w.conn.Load()
	return conn != nil && w.written.Load() && conn.written.Load() > w.before.Load()
}

// fault turns the error of a request without an answer into an instruction.
func (w *watch) fault(err error) error {
	var blocked *blockedError
	if errors.As(err, &blocked) {
		return channel.Permanent(codePrivateAddress, blocked)
	}
	code, cause := w.name(err)
	if w.taken() {
		return channel.Unknown(code, cause)
	}
	return channel.Transient(code, cause)
}

func (w *watch) name(err error) (string, error) {
	code, cause := channel.Fault(err)
	if code != channel.CodeConnectionLost {
		return code, cause
	}
	switch {
	case w.conn.Load() == nil && w.handshake.Load():
		return channel.CodeTLSFailed, errHandshake
	case w.conn.Load() == nil:
		return channel.CodeDialFailed, errDial
	case w.answered.Load():
		return codeInvalidAnswer, errInvalidAnswer
	}
	return code, cause
}

// wire counts what is written on a connection.
type wire struct {
	net.Conn
	written atomic.Int64
}

func (w *wire) Write(p []byte) (int, error) {
	n, err := w.Conn.Write(p)
	w.written.Add(int64(n))
	return n, err
}
