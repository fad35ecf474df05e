package email

import (
	"context"
	"errors"
	"fmt"
	"net/textproto"
	"regexp"
	"strings"

	"tidings/dispatcher/channel"
)

// Codes of this channel beside those of every channel, of replies and of [giveUp].
const (
	codeAuthFailed    = "auth_failed" // the client was not content; a refusal has the code of the reply
	codeInvalidAnswer = "invalid_answer"
)

var (
	errNoSMTP    = errors.New("the answer is not SMTP")
	errLogin     = errors.New("the login did not succeed")
	errHandshake = errors.New("the TLS handshake did not succeed")
)

// replyError is a negative reply, without the server's words: these tend to
// quote the address.
type replyError struct {
	step     step
	code     int
	enhanced string
}

func (e *replyError) Error() string {
	if e.enhanced == "" {
		return fmt.Sprintf("the server answered %d to %s", e.code, e.step)
	}
	return fmt.Sprintf("the server answered %d %s to %s", e.code, e.enhanced, e.step)
}

func (e *replyError) key() string {
	if e.enhanced == "" {
		return fmt.Sprintf("smtp_%d", e.code)
	}
	return fmt.Sprintf("smtp_%d_%s", e.code, e.enhanced)
}

// instruct turns the fault of a dialogue into an instruction.
func (d *dialogue) instruct(ctx context.Context, err error) error {
	var reply *textproto.Error
	if errors.As(err, &reply) {
		return d.obey(&replyError{d.step, reply.Code, enhanced(reply)})
	}
	code, cause := d.name(ctx, err)
	switch {
	case errors.Is(err, errNoUTF8):
		return channel.Permanent(code, cause)
	case d.step == stepEnd:
		return channel.Unknown(code, cause)
	default:
		return channel.Transient(code, cause)
	}
}

// obey says what a reply asks for.
func (d *dialogue) obey(r *replyError) error {
	switch {
	case r.code/100 == 4 && d.step == stepRcpt && r.aboutRecipient():
		e := channel.Transient(r.key(), r)
		e.OfMessage = true
		return e
	case r.code/100 == 4, !d.aboutMail(), demandsLogin(r.code):
		return channel.Transient(r.key(), r)
	case r.code/100 == 5:
		return channel.Permanent(r.key(), r)
	case d.step == stepEnd:
		return channel.Unknown(r.key(), r) // a reply that has no place here
	default:
		return channel.Transient(r.key(), r)
	}
}

// aboutRecipient reports whether a reply to RCPT says that it is the mailbox, and not
// the server, that takes nothing for now, or that the server wants to see the same
// client again (greylisting).
func (r *replyError) aboutRecipient() bool {
	switch {
	case r.enhanced == "":
		return r.code == 450
	case strings.HasPrefix(r.enhanced, "4.1."), strings.HasPrefix(r.enhanced, "4.2."):
		return true
	}
	return r.enhanced == "4.7.1" && r.code != 421
}

// aboutMail reports whether a reply judges the mail, and not the session.
func (d *dialogue) aboutMail() bool {
	switch d.step {
	case stepMail, stepRcpt, stepData, stepBody, stepEnd:
		return true
	default:
		return false
	}
}

// demandsLogin reports whether a reply says that the login is missing or wrong,
// at whatever step it comes.
func demandsLogin(code int) bool {
	return code == 530 || code == 534 || code == 535 || code == 538
}

// name returns code and cause of a fault that is no reply. Only causes known to
// quote nothing are passed on.
func (d *dialogue) name(ctx context.Context, err error) (string, error) {
	var own *giveUp
	var protocol textproto.ProtocolError
	switch {
	case errors.As(err, &own):
		return own.code, own
	case ctx.Err() != nil:
		return channel.Fault(ctx.Err()) // the connection was closed because of it
	case errors.As(err, &protocol):
		return codeInvalidAnswer, errNoSMTP
	}
	code, cause := channel.Fault(err)
	switch {
	case code != channel.CodeConnectionLost:
		return code, cause
	case d.step == stepStartTLS, d.step == stepGreeting && d.c.ImplicitTLS:
		return channel.CodeTLSFailed, errHandshake
	case d.step == stepAuth && errors.Is(cause, channel.ErrLost):
		return codeAuthFailed, errLogin
	}
	return code, cause
}

var enhancedCode = regexp.MustCompile(`^([245])\.\d{1,3}\.\d{1,3}\b`)

// enhanced returns the enhanced status code that a reply begins with; "" if it
// has none, or one of another class than the reply.
func enhanced(reply *textproto.Error) string {
	found := enhancedCode.FindStringSubmatch(reply.Msg)
	if found == nil || int(found[1][0]-'0') != reply.Code/100 {
		return ""
	}
	return found[0]
}

func isReply(err error) bool {
	var reply *textproto.Error
	return errors.As(err, &reply)
}
