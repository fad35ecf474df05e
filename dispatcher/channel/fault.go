package channel

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
)

// Codes of what goes wrong between Tidings and a provider, the same on every
// channel.
const (
	CodeCanceled       = "canceled"        // the caller's context was cancelled
	CodeTimeout        = "timeout"         // the call took longer than it may
	CodeDNSFailed      = "dns_failed"      // the host's name did not resolve
	CodeDialFailed     = "dial_failed"     // no connection
	CodeTLSFailed      = "tls_failed"      // no trusted encryption
	CodeConnectionLost = "connection_lost" // the connection ended in the middle
	CodeInvalidAddress = "invalid_address" // the address is none of this channel
	CodeInvalidHeader  = "invalid_header"  // a header is not allowed or would break out of its line
	CodeInvalidMessage = "invalid_message" // the message has nothing that this channel can carry
	CodeUnclassified   = "unclassified"    // the sender did not say
)

// Fault returns the code of an error of the network, and a cause whose text is
// safe: the innermost error that is known to quote nothing of the conversation.
// An error that it does not know is a lost connection with the cause [ErrLost].
func Fault(err error) (code string, cause error) {
	var (
		dns      *net.DNSError
		op       *net.OpError
		cert     *tls.CertificateVerificationError
		record   tls.RecordHeaderError
		hostname x509.HostnameError
		unknown  x509.UnknownAuthorityError
		invalid  x509.CertificateInvalidError
		errno    syscall.Errno
		timeout  net.Error
	)
	switch {
	case errors.Is(err, context.Canceled):
		return CodeCanceled, context.Canceled
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return CodeTimeout, context.DeadlineExceeded
	case errors.As(err, &dns):
		return CodeDNSFailed, dns
	case errors.As(err, &cert):
		return CodeTLSFailed, cert
	case errors.As(err, &record):
		return CodeTLSFailed, errors.New(record.Msg)
	case errors.As(err, &hostname):
		return CodeTLSFailed, hostname
	case errors.As(err, &unknown):
		return CodeTLSFailed, unknown
	case errors.As(err, &invalid):
		return CodeTLSFailed, invalid
	case errors.As(err, &timeout) && timeout.Timeout():
		return CodeTimeout, context.DeadlineExceeded
	case errors.As(err, &op) && op.Op == "dial":
		return CodeDialFailed, op
	case errors.As(err, &op) && (op.Op == "remote error" || op.Op == "local error"):
		return CodeTLSFailed, op // a TLS alert
	case errors.As(err, &errno):
		return CodeConnectionLost, errno
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return CodeConnectionLost, io.ErrUnexpectedEOF
	default:
		return CodeConnectionLost, ErrLost
	}
}

// ErrLost is the cause that [Fault] gives to an error that it does not know.
var ErrLost = errors.New("the connection ended")
