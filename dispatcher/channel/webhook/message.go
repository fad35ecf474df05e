package webhook

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// What is wrong with a message, in words that quote nothing of it.
var (
	errURL      = errors.New("the address is not a URL with a host that begins with http:// or https://")
	errUserinfo = errors.New("the URL holds a user name or password: put it into a header")
	errEmpty    = errors.New("the body is empty")
	errIdentity = errors.New("the message id or the content type cannot be a header")
)

// parseTarget returns the URL to post to. Errors of url.Parse quote the URL, so
// they are not passed on.
func parseTarget(to string) (*url.URL, error) {
	u, err := url.Parse(to)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" {
		return nil, errURL
	}
	if u.User != nil {
		return nil, errUserinfo
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

// reserved are the headers that belong to the connection or to the signature.
var reserved = []string{
	"Connection", "Content-Length", "Content-Type", "Expect", "Host", "Keep-Alive",
	"Proxy-Authorization", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
	"Webhook-Id", "Webhook-Signature", "Webhook-Timestamp",
}

// checkHeader names the header in its error, and never the value, which may be
// a secret.
func checkHeader(name, value string) error {
	switch {
	case !validName(name):
		return errors.New("a header's name is not valid")
	case slices.Contains(reserved, http.CanonicalHeaderKey(name)):
		return fmt.Errorf("header %s cannot be set", name)
	case !validValue(value):
		return fmt.Errorf("header %s: control characters are not allowed", name)
	}
	return nil
}

// validName reports whether s is a token of RFC 9110.
func validName(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
}

func validValue(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}

// validID reports whether s can be a webhook-id.
func validID(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}
