package email

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/textproto"
	"slices"
	"strings"
	"time"

	"github.com/wneessen/go-mail/smtp"
)

// step is how far a dialogue has come.
type step string

const (
	stepGreeting step = "connecting"
	stepHello    step = "EHLO"
	stepStartTLS step = "STARTTLS"
	stepAuth     step = "AUTH"
	stepMail     step = "MAIL"
	stepRcpt     step = "RCPT"
	stepData     step = "DATA"
	stepBody     step = "the body"
	stepEnd      step = "the end of the body"
)

// quitTime bounds the farewell, which changes nothing any more.
const quitTime = time.Second

// giveUp is why the client ends a dialogue by itself, before the mail is
// mentioned.
type giveUp struct{ code, text string }

func (e *giveUp) Error() string { return e.text }

var (
	errNoStartTLS  = &giveUp{"starttls_unsupported", "the server offers no STARTTLS, which is mandatory"}
	errNoAuth      = &giveUp{"auth_unsupported", "the server offers no login of the kind that is configured"}
	errUnencrypted = &giveUp{"auth_unencrypted", "the login would go over the wire in the clear"}
	errNoUTF8      = &giveUp{"smtputf8_unsupported", "the mailbox needs SMTPUTF8, which the server does not offer"}
)

// dialogue is one mail to one server. It goes through the steps one by one, so
// that a fault can be told by the step in which it came.
type dialogue struct {
	*Sender
	wire   *wire
	client *smtp.Client
	step   step
}

// deliver returns nil once the server has taken the letter.
func (d *dialogue) deliver(l letter) error {
	if err := d.open(); err != nil {
		return err
	}
	if utf8, _ := d.client.Extension("SMTPUTF8"); l.utf8 && !utf8 {
		return errNoUTF8
	}
	err := d.transact(l)
	if err == nil || isReply(err) {
		d.quit()
	}
	return err
}

// open begins a session: greeting, encryption, login.
func (d *dialogue) open() (err error) {
	d.step = stepGreeting
	if d.c.ImplicitTLS {
		d.client, err = smtp.NewClient(tls.Client(d.wire, d.tls), d.c.Host)
	} else {
		d.client, err = smtp.NewClient(d.wire, d.c.Host)
	}
	if err != nil {
		return err
	}
	d.step = stepHello
	if err := d.client.Hello(d.c.HELO); err != nil {
		return err
	}
	d.step = stepStartTLS
	if err := d.encrypt(); err != nil {
		return err
	}
	d.step = stepAuth
	return d.login()
}

func (d *dialogue) encrypt() error {
	if d.c.ImplicitTLS || d.c.StartTLS == None {
		return nil
	}
	offered, _ := d.client.Extension("STARTTLS")
	switch {
	case offered:
		return d.client.StartTLS(d.tls)
	case d.c.StartTLS == Opportunistic:
		return nil
	default:
		return errNoStartTLS
	}
}

// mechanism is a way to log in.
type mechanism struct {
	name  string // as servers offer it
	clear bool   // it shows the password to the connection
	auth  func(c Config) smtp.Auth
}

// mechanisms is read-only after initialisation. Whether a password may go over
// the connection is decided by login, so the clients are told that it may.
var mechanisms = map[Auth]mechanism{
	ScramSHA256: {"SCRAM-SHA-256", false, func(c Config) smtp.Auth { return smtp.ScramSHA256Auth(c.Username, c.Password) }},
	ScramSHA1:   {"SCRAM-SHA-1", false, func(c Config) smtp.Auth { return smtp.ScramSHA1Auth(c.Username, c.Password) }},
	CramMD5:     {"CRAM-MD5", false, func(c Config) smtp.Auth { return smtp.CRAMMD5Auth(c.Username, c.Password) }},
	Plain:       {"PLAIN", true, func(c Config) smtp.Auth { return smtp.PlainAuth("", c.Username, c.Password, c.Host, true) }},
	Login:       {"LOGIN", true, func(c Config) smtp.Auth { return smtp.LoginAuth(c.Username, c.Password, c.Host, true) }},
	XOAuth2:     {"XOAUTH2", true, func(c Config) smtp.Auth { return smtp.XOAuth2Auth(c.Username, c.Password) }},
}

func (d *dialogue) login() error {
	if d.c.Username == "" {
		return nil
	}
	_, offer := d.client.Extension("AUTH")
	offered := strings.Fields(strings.ToUpper(offer))
	wanted := []Auth{d.c.Auth}
	if d.c.Auth == "" {
		wanted = []Auth{ScramSHA256, ScramSHA1, Plain, Login}
	}
	for _, auth := range wanted {
		m := mechanisms[auth]
		if !slices.Contains(offered, m.name) {
			continue
		}
		if _, encrypted := d.client.TLSConnectionState(); m.clear && !encrypted && !loopback(d.c.Host) {
			return errUnencrypted
		}
		return d.client.Auth(m.auth(d.c))
	}
	return errNoAuth
}

// transact hands over one letter. A fault up to stepBody means that the server
// cannot have it in full.
func (d *dialogue) transact(l letter) error {
	d.client.SkipSMTPUTF8(!l.utf8)
	d.step = stepMail
	if err := d.client.Mail(l.from); err != nil {
		return err
	}
	d.step = stepRcpt
	if err := d.client.Rcpt(l.to); err != nil {
		return err
	}
	d.step = stepData
	w, err := d.client.Data()
	if err != nil {
		return err
	}
	d.step = stepBody
	if _, err := w.Write(l.raw); err != nil {
		return err
	}
	d.step = stepEnd
	return d.finish(w)
}

// finish writes the end of the body and reads the answer. The library takes only
// 250 for a yes; every 2xx is one.
func (d *dialogue) finish(w io.Closer) error {
	err := w.Close()
	var reply *textproto.Error
	if errors.As(err, &reply) && reply.Code/100 == 2 {
		return nil
	}
	if err != nil && d.wire.broken.Load() {
		d.step = stepBody // its end did not go out
		return fmt.Errorf("write the end of the body: %w", err)
	}
	return err
}

func (d *dialogue) quit() {
	_ = d.wire.SetDeadline(time.Now().Add(quitTime))
	_ = d.client.Quit()
}
