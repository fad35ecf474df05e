package event

import (
	"crypto/hmac"
	"crypto/sha256"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Recipient names whom a message goes to without saying the address: a keyed
// hash to find it by, and a mask that a person recognises.
type Recipient struct {
	Hash string `json:"hash"`
	Mask string `json:"mask"`
}

// NewRecipient returns the recipient for an address. The hash is HMAC-SHA256
// under secret, so that nobody without it can test guesses; the same address
// in another case or with blanks around it has the same hash.
func NewRecipient(secret []byte, address string) Recipient {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(NormalizeAddress(address)))
	return Recipient{Hash: encode128(h.Sum(nil)), Mask: mask(address)}
}

// NormalizeAddress returns the form of an address that is compared and hashed:
// trimmed, and lower case unless it is a URL (whose path may be case-sensitive).
func NormalizeAddress(address string) string {
	address = strings.TrimSpace(address)
	if strings.Contains(address, "://") {
		return address
	}
	return strings.ToLower(address)
}

// mask keeps what a person needs to recognise an address and no more: the
// first letter and the domain of a mailbox, the scheme and host of a web
// address, the first character of anything else. Secrets hide in every other
// part: in paths, queries and user names of URLs, and in the host where the
// scheme is not of the web.
func mask(address string) string {
	address = strings.TrimSpace(address)
	if scheme, _, isURL := strings.Cut(address, "://"); isURL {
		return printable(maskURL(scheme, address))
	}
	if at := strings.LastIndexByte(address, '@'); at > 0 {
		return printable(initial(address[:at]) + "…@" + domain(address[at+1:]))
	}
	return printable(initial(address) + "…")
}

func maskURL(scheme, address string) string {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return initial(scheme) + "…"
	case u.Scheme != "http" && u.Scheme != "https":
		return u.Scheme + "://…"
	}
	return u.Scheme + "://" + u.Host + "/…"
}

// initial returns the first character of s, unless that is all of s.
func initial(s string) string {
	_, n := utf8.DecodeRuneInString(s)
	if n == len(s) {
		return ""
	}
	return s[:n]
}

// domain returns the domain that s starts with.
func domain(s string) string {
	end := strings.IndexFunc(s, func(r rune) bool {
		return r != '.' && r != '-' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
	if end < 0 {
		return s
	}
	return s[:end]
}

// printable drops what would disturb a terminal or a log line.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, s)
}
