package email

import (
	"bytes"
	"errors"
	"fmt"
	"net/mail"
	"net/textproto"
	"slices"
	"strings"
	"time"

	gomail "github.com/wneessen/go-mail"
	"golang.org/x/net/idna"

	"tidings/dispatcher/channel"
)

// What is wrong with a message, in words that quote nothing of it.
var (
	errMailbox  = errors.New("the address is not one mailbox such as user@example.com")
	errDomain   = errors.New("the domain of the mailbox is not valid")
	errID       = errors.New("the message id is empty or has characters that a Message-ID cannot have")
	errSubject  = errors.New("the subject has a line break or a NUL")
	errContents = errors.New("there is neither text nor HTML")
	errTooLong  = errors.New("a header has a word that is too long for a line")
)

const (
	maxMailbox = 320 // 64 before the @, 255 after it
	maxLine    = 998 // of RFC 5322, without the line break
)

// letter is a mail, ready to be handed over.
type letter struct {
	from, to string // in angle brackets
	utf8     bool   // the recipient's mailbox needs SMTPUTF8
	raw      []byte
}

// compose makes the mail of one try. Its errors are instructions.
func (s *Sender) compose(m channel.Message, now time.Time) (letter, error) {
	to, utf8, err := parseMailbox(m.To)
	if err != nil {
		return letter{}, channel.Permanent(channel.CodeInvalidAddress, err)
	}
	if err := checkHeaders(m); err != nil {
		return letter{}, channel.Permanent(channel.CodeInvalidHeader, err)
	}
	if m.Text == "" && m.HTML == "" {
		return letter{}, channel.Permanent(channel.CodeInvalidMessage, errContents)
	}
	var raw bytes.Buffer
	if _, err := s.mail(m, to, now).WriteTo(&raw); err != nil {
		return letter{}, channel.Permanent(channel.CodeInvalidMessage, errors.New("the mail cannot be written"))
	}
	if tooLong(raw.Bytes()) {
		return letter{}, channel.Permanent(channel.CodeInvalidHeader, errTooLong)
	}
	return letter{from: bracketed(s.from), to: bracketed(to), utf8: utf8, raw: raw.Bytes()}, nil
}

func (s *Sender) mail(m channel.Message, to *mail.Address, now time.Time) *gomail.Msg {
	msg := gomail.NewMsg(gomail.WithNoDefaultUserAgent())
	msg.FromMailAddress(s.from)
	msg.ToMailAddress(to)
	if s.replyTo != nil {
		msg.ReplyToMailAddress(s.replyTo)
	}
	msg.Subject(m.Subject)
	msg.SetDateWithValue(now)
	msg.SetMessageIDWithValue(m.ID + "@" + s.domain)
	msg.SetGenHeader("Auto-Submitted", "auto-generated") // so that no holiday notice answers
	for name, value := range m.Headers {
		msg.SetGenHeader(gomail.Header(textproto.CanonicalMIMEHeaderKey(name)), value)
	}
	switch {
	case m.HTML == "":
		msg.SetBodyString(gomail.TypeTextPlain, m.Text)
	case m.Text == "":
		msg.SetBodyString(gomail.TypeTextHTML, m.HTML)
	default:
		msg.SetBodyString(gomail.TypeTextPlain, m.Text)
		msg.AddAlternativeString(gomail.TypeTextHTML, m.HTML)
	}
	return msg
}

// parseMailbox reads one mailbox, with or without a name, and reports whether it
// needs SMTPUTF8. A domain beyond ASCII is put in its ASCII form.
func parseMailbox(s string) (address *mail.Address, utf8 bool, err error) {
	if len(s) > maxMailbox || strings.ContainsFunc(s, control) {
		return nil, false, errMailbox
	}
	address, err = mail.ParseAddress(s)
	if err != nil {
		return nil, false, errMailbox
	}
	at := strings.LastIndexByte(address.Address, '@')
	local, domain := address.Address[:at], address.Address[at+1:]
	if !ascii(domain) {
		if domain, err = idna.Lookup.ToASCII(domain); err != nil {
			return nil, false, errDomain
		}
	}
	address.Address = local + "@" + domain
	return address, !ascii(local), nil
}

// bracketed returns an address as MAIL and RCPT want it.
func bracketed(a *mail.Address) string { return (&mail.Address{Address: a.Address}).String() }

// reserved are the headers that a mail has by itself, or that others add to it.
var reserved = []string{
	"Auto-Submitted", "Bcc", "Cc", "Content-Disposition", "Content-Transfer-Encoding",
	"Content-Type", "Date", "Dkim-Signature", "From", "Message-Id", "Mime-Version",
	"Received", "Reply-To", "Return-Path", "Sender", "Subject", "To",
}

// checkHeaders names the header in its error, and never the value.
func checkHeaders(m channel.Message) error {
	if !validID(m.ID) {
		return errID
	}
	if strings.ContainsAny(m.Subject, "\r\n\x00") {
		return errSubject
	}
	for name, value := range m.Headers {
		switch {
		case !validName(name):
			return errors.New("a header's name is not valid")
		case slices.Contains(reserved, textproto.CanonicalMIMEHeaderKey(name)):
			return fmt.Errorf("header %s cannot be set", name)
		case strings.ContainsAny(value, "\r\n\x00"):
			return fmt.Errorf("header %s has a line break or a NUL", name)
		}
	}
	return nil
}

// validID reports whether s can stand before the @ of a Message-ID.
func validID(s string) bool {
	return s != "" && len(s) <= 200 && !strings.HasPrefix(s, ".") && !strings.HasSuffix(s, ".") &&
		!strings.Contains(s, "..") && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`()<>[]:;@\,"`, r)
	})
}

// validName reports whether s can be the name of a header.
func validName(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == ':' })
}

// tooLong reports whether a line of the headers is longer than mail may be.
func tooLong(raw []byte) bool {
	for line := range bytes.SplitSeq(raw, []byte("\r\n")) {
		if len(line) == 0 {
			return false
		}
		if len(line) > maxLine {
			return true
		}
	}
	return false
}

func control(r rune) bool { return r < ' ' || r == 0x7f }

func ascii(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r >= 0x80 })
}
