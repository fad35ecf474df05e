package streams

import (
	"fmt"
	"strings"

	"tidings/streams/event"
)

// Subjects of the streams. Every one of them is built here and nowhere else.
//
//	events.<tenant>.<type…>    outcomes.<tenant>.<key>   audit.<tenant>   plans.<id>
//	dead.<tenant>.<key>        retries.<tenant>.<key>    schedules.<key>
//	aside.<channel>.<key>
//
// Tenants and types come from strangers. An over-long subject makes the server
// close the connection for good, and an empty token looks like JetStream being
// down, so they go through one encoder:
//
//   - bytes outside A-Z a-z 0-9 _ - become %XX; in a type, dots stay and
//     separate tokens;
//   - an empty token becomes "~", which nothing else encodes to;
//   - what is longer than its limit is cut and gets "~" and a hash of the whole.
//
// It is injective: two tenants, or two types, never share a subject.
const (
	maxTenant = 64  // encoded bytes
	maxType   = 255 // encoded bytes
	emptyMark = "~" // never comes out of encoding a byte
	cutMark   = "~" // followed by a hash, so never an empty token
)

// EventSubject returns the subject of an event in EVENTS.
func EventSubject(tenant, typ string) string {
	return "events." + encodeTenant(tenant) + "." + encodeType(typ)
}

// OutcomeSubject returns the subject that holds an event's history in
// OUTCOMES. It returns an error if key is not a valid key.
func OutcomeSubject(tenant string, key event.Key) (string, error) {
	return keySubject("outcomes."+encodeTenant(tenant)+".", key)
}

// AuditSubject returns the subject of a tenant's duplicates in OUTCOMES.
func AuditSubject(tenant string) string { return "audit." + encodeTenant(tenant) }

// LetterSubject returns the subject of a dead letter in DEADLETTERS.
func LetterSubject(tenant string, key event.Key) (string, error) {
	return keySubject("dead."+encodeTenant(tenant)+".", key)
}

// WakeupSubject returns the subject of an event's wake-up in RETRIES.
func WakeupSubject(tenant string, key event.Key) (string, error) {
	return keySubject("retries."+encodeTenant(tenant)+".", key)
}

// ScheduleSubject returns the subject of an event's schedule in RETRIES.
func ScheduleSubject(key event.Key) (string, error) { return keySubject("schedules.", key) }

// AsideSubject returns the subject in RETRIES of an event that is set aside until
// a channel has room for it.
func AsideSubject(channel string, key event.Key) (string, error) {
	return keySubject("aside."+encodeToken(channel)+".", key)
}

func asideSubjects(channel string) string { return "aside." + encodeToken(channel) + ".*" }

func keySubject(prefix string, key event.Key) (string, error) {
	if !key.Valid() {
		return "", fmt.Errorf("%q is not the key of an event", string(key))
	}
	return prefix + string(key), nil
}

func encodeTenant(tenant string) string { return cut(encodeToken(tenant), tenant, maxTenant) }

func encodeType(typ string) string {
	if len(typ) <= maxType && isPlainType(typ) {
		return typ
	}
	tokens := strings.Split(typ, ".")
	for i, t := range tokens {
		tokens[i] = encodeToken(t)
	}
	return cut(strings.Join(tokens, "."), typ, maxType)
}

// isPlainType reports whether a type is its own encoding, as almost all are.
func isPlainType(typ string) bool {
	empty := true
	for i := range len(typ) {
		dot := typ[i] == '.'
		if dot && empty || !dot && !plainInToken[typ[i]] {
			return false
		}
		empty = dot
	}
	return !empty
}

// cut bounds an encoded string. The hash covers the original, so that the cut
// part still tells two strings apart.
func cut(encoded, original string, limit int) string {
	if len(encoded) <= limit {
		return encoded
	}
	hash := cutMark + string(event.NewKey("cut", original))
	return encoded[:limit-len(hash)] + hash
}

func encodeToken(s string) string {
	if s == "" {
		return emptyMark
	}
	return percentEncode(s, &plainInToken)
}

// byteSet is a set of bytes.
type byteSet [256]bool

func setOf(has func(c byte) bool) (s byteSet) {
	for c := range s {
		s[c] = has(byte(c))
	}
	return s
}

// What stays as it is in a token of a subject.
var plainInToken = setOf(func(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
})

const hexDigits = "0123456789ABCDEF"

// percentEncode returns s with the bytes that are not plain as %XX. '%' must not
// be plain.
func percentEncode(s string, plain *byteSet) string {
	n := 0
	for i := range len(s) {
		if !plain[s[i]] {
			n++
		}
	}
	if n == 0 {
		return s
	}
	b := make([]byte, 0, len(s)+2*n)
	for i := range len(s) {
		if c := s[i]; plain[c] {
			b = append(b, c)
		} else {
			b = append(b, '%', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return string(b)
}

// percentDecode is the inverse of percentEncode. A % that no two hexadecimal
// digits follow stays as it is.
func percentDecode(s string) string {
	if strings.IndexByte(s, '%') < 0 {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) && unhex(s[i+1]) >= 0 && unhex(s[i+2]) >= 0 {
			b = append(b, byte(unhex(s[i+1])<<4|unhex(s[i+2])))
			i += 2
			continue
		}
		b = append(b, s[i])
	}
	return string(b)
}

func unhex(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	}
	return -1
}
