package event

import (
	"crypto/hmac"
	"crypto/sha256"
	"net/url"
	"strings"
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
// first letter and the domain of a mailbox, the scheme and host of a URL.
func mask(address string) string {
	address = strings.TrimSpace(address)
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		return u.Scheme + "://" + u.Host + "/…"
	}
	if at := strings.LastIndexByte(address, '@'); at > 0 {
		return firstRune(address) + "…" + address[at:]
	}
	return firstRune(address) + "…"
}

func firstRune(s string) string {
	_, n := utf8.DecodeRuneInString(s)
	return s[:n]
}
