package store

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// mentions reports whether a text is in one of the values, in any case.
func mentions(text string, values ...string) bool {
	text = strings.ToLower(text)
	for _, v := range values {
		if strings.Contains(strings.ToLower(v), text) {
			return true
		}
	}
	return false
}

// text is a text that is looked for, in lower case, where it looks the same in
// JSON; empty elsewhere.
type text []byte

func textOf(s string) text {
	for _, c := range s {
		if c < ' ' || strings.ContainsRune("\"\\<>&\u2028\u2029", c) || c == utf8.RuneError {
			return nil
		}
	}
	return text(strings.ToLower(s))
}

// maybeIn reports whether the text may be in one of the strings of a JSON value,
// in any case. It is for not having to decode most values: what it denies is
// certain.
func (t text) maybeIn(value []byte) bool {
	if len(t) == 0 {
		return true
	}
	lower := make([]byte, 0, 1024)
	for _, c := range value {
		if c >= utf8.RuneSelf {
			return bytes.Contains(bytes.ToLower(value), t)
		}
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		lower = append(lower, c)
	}
	return bytes.Contains(lower, t)
}
