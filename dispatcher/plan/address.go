package plan

import (
	"net/mail"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The longest addresses that are taken.
const (
	maxMailbox = 320
	maxURL     = 2048
)

// address returns the form in which an address is used and hashed, and whether
// it is one for this kind of channel.
func (k Kind) address(s string) (string, bool) {
	if !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) {
		return "", false
	}
	s = strings.TrimSpace(s)
	switch k {
	case Email:
		return mailbox(s)
	case Webhook:
		return s, isURL(s)
	}
	return s, len(s) <= maxURL
}

// mailbox leaves out a display name: a suppressed address must not get through
// because somebody put a name before it.
func mailbox(s string) (string, bool) {
	parsed, err := mail.ParseAddress(s)
	if err != nil || len(s) > maxMailbox {
		return "", false
	}
	bare := mail.Address{Address: parsed.Address}
	quoted := bare.String() // quotes the local part where it must be
	return strings.TrimSuffix(strings.TrimPrefix(quoted, "<"), ">"), true
}

func isURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && len(s) <= maxURL && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != ""
}

// inWords says what an address of the kind is.
func (k Kind) inWords() string {
	switch k {
	case Email:
		return "an e-mail address"
	case Webhook:
		return "an absolute http or https URL"
	}
	return "an address"
}
