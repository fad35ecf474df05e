package store

import (
	"bytes"
	"slices"
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
	switch {
	case len(t) == 0, t.inASCII(value):
		return true
	case t.plain() && !bytes.Contains(value, kelvin) && !bytes.Contains(value, dotted):
		return false // nothing else has an ASCII letter as its lower case
	}
	return bytes.Contains(bytes.ToLower(value), t)
}

var kelvin, dotted = []byte("\u212a"), []byte("\u0130") // in lower case k and i

// plain reports whether the text is all ASCII.
func (t text) plain() bool {
	return !slices.ContainsFunc(t, func(c byte) bool { return c >= utf8.RuneSelf })
}

// inASCII looks for the text where only the case of ASCII letters differs.
func (t text) inASCII(value []byte) bool {
	next := [2]int{-1, -1} // of its first byte, in either case
	for from := 0; from+len(t) <= len(value); {
		at := len(value)
		for i, c := range [...]byte{t[0], upper(t[0])} {
			if next[i] < from {
				next[i] = indexFrom(value, c, from)
			}
			at = min(at, next[i])
		}
		if at+len(t) > len(value) {
			return false
		}
		if t.begins(value[at:]) {
			return true
		}
		from = at + 1
	}
	return false
}

// indexFrom returns where c is, from there on, and the length where it is not.
func indexFrom(value []byte, c byte, from int) int {
	if i := bytes.IndexByte(value[from:], c); i >= 0 {
		return from + i
	}
	return len(value)
}

// begins reports whether a value as long as the text at least begins with it.
func (t text) begins(value []byte) bool {
	for i, c := range t {
		if value[i] != c && value[i] != upper(c) {
			return false
		}
	}
	return true
}

func upper(c byte) byte {
	if 'a' <= c && c <= 'z' {
		c -= 'a' - 'A'
	}
	return c
}
