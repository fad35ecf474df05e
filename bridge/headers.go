package bridge

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"
)

// The typed form of AMQP headers is JSON that keeps the AMQP type of every
// value, in ASCII and on one line, so that it fits a header of any protocol:
//
//	{"n":{"I":7},"who":"Ann","x-death":[{"F":{"count":{"l":1},"queue":"orders"}}]}
//
// Strings, booleans, arrays and "no value" are those of JSON. Every other value
// is an object of one member named by the letter of its AMQP field type:
//
//	b B s u I i l   integers of 8, 8 (unsigned), 16, 16 (unsigned), 32, 32 (unsigned) and 64 bits
//	f d             floats of 32 and 64 bits; what is no number as the hexadecimal of its bits
//	D               decimal: [scale, value]
//	T               timestamp: seconds since 1970
//	x               bytes, base64
//	F               table
//	S               a string that is not UTF-8, base64
//
// A name that is not UTF-8, or starts with NUL, is NUL and its base64.

// maxHeaderDepth is how deep headers may nest. The client library refuses
// deliveries that nest deeper than 32.
const maxHeaderDepth = 64

var errHeaderDepth = fmt.Errorf("headers nest deeper than %d", maxHeaderDepth)

// EncodeHeaders returns the typed form of headers, with sorted names; nil for
// nil headers. It returns an error for values that AMQP does not have, which no
// delivery holds, and for headers that nest deeper than 64.
func EncodeHeaders(headers amqp.Table) (json.RawMessage, error) {
	if headers == nil {
		return nil, nil
	}
	return appendTable(nil, headers, 0)
}

func appendTable(b []byte, t amqp.Table, depth int) ([]byte, error) {
	if depth > maxHeaderDepth {
		return nil, errHeaderDepth
	}
	b = append(b, '{')
	var err error
	for i, name := range slices.Sorted(maps.Keys(t)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendASCII(b, EscapeText(name)), ':')
		if b, err = appendValue(b, t[name], depth+1); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

func appendArray(b []byte, list []any, depth int) ([]byte, error) {
	if depth > maxHeaderDepth {
		return nil, errHeaderDepth
	}
	b = append(b, '[')
	var err error
	for i, v := range list {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendValue(b, v, depth+1); err != nil {
			return nil, err
		}
	}
	return append(b, ']'), nil
}

func appendValue(b []byte, v any, depth int) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(b, "null"...), nil
	case bool:
		return strconv.AppendBool(b, v), nil
	case string:
		if !utf8.ValidString(v) {
			return appendTagged(b, 'S', base64JSON([]byte(v))), nil
		}
		return appendASCII(b, v), nil
	case []any:
		return appendArray(b, v, depth)
	case amqp.Table:
		if b, err := appendTable(append(b, `{"F":`...), v, depth); err == nil {
			return append(b, '}'), nil
		} else {
			return nil, err
		}
	}
	tag, text, ok := scalar(v)
	if !ok {
		return nil, fmt.Errorf("a header cannot hold a value of Go type %T", v)
	}
	return appendTagged(b, tag, text), nil
}

func appendTagged(b []byte, tag byte, value string) []byte {
	b = append(b, '{', '"', tag, '"', ':')
	return append(append(b, value...), '}')
}

// scalar returns the AMQP type and the JSON of a value that JSON has no type for.
func scalar(v any) (tag byte, text string, ok bool) {
	switch v := v.(type) {
	case int8:
		return 'b', strconv.FormatInt(int64(v), 10), true
	case byte:
		return 'B', strconv.FormatUint(uint64(v), 10), true
	case int16:
		return 's', strconv.FormatInt(int64(v), 10), true
	case uint16:
		return 'u', strconv.FormatUint(uint64(v), 10), true
	case int32:
		return 'I', strconv.FormatInt(int64(v), 10), true
	case uint32:
		return 'i', strconv.FormatUint(uint64(v), 10), true
	case int64:
		return 'l', strconv.FormatInt(v, 10), true
	case int:
		return 'l', strconv.Itoa(v), true
	case float32:
		return 'f', floatJSON(float64(v), uint64(math.Float32bits(v)), 32), true
	case float64:
		return 'd', floatJSON(v, math.Float64bits(v), 64), true
	case amqp.Decimal:
		return 'D', fmt.Sprintf("[%d,%d]", v.Scale, v.Value), true
	case time.Time:
		return 'T', strconv.FormatInt(v.Unix(), 10), true
	case []byte:
		return 'x', base64JSON(v), true
	}
	return 0, "", false
}

func floatJSON(v float64, bits uint64, size int) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return fmt.Sprintf("%q", strconv.FormatUint(bits, 16))
	}
	return strconv.FormatFloat(v, 'g', -1, size)
}

func base64JSON(data []byte) string {
	return `"` + base64.StdEncoding.EncodeToString(data) + `"`
}

const nul = "\x00"

// EscapeText makes UTF-8 of any string, so that JSON keeps it. Almost all strings
// stay as they are; one that is not UTF-8, or starts with NUL, becomes NUL and its
// base64.
func EscapeText(s string) string {
	if utf8.ValidString(s) && !strings.HasPrefix(s, nul) {
		return s
	}
	return nul + base64.StdEncoding.EncodeToString([]byte(s))
}

// unescapeText undoes EscapeText.
func unescapeText(s string) (string, error) {
	rest, escaped := strings.CutPrefix(s, nul)
	if !escaped {
		return s, nil
	}
	raw, err := base64.StdEncoding.DecodeString(rest)
	if err != nil {
		return "", fmt.Errorf("text after NUL: %w", err)
	}
	return string(raw), nil
}

// appendASCII appends a JSON string without bytes outside printable ASCII. s is UTF-8.
func appendASCII(b []byte, s string) []byte {
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case ' ' <= r && r <= '~':
			b = append(b, byte(r))
		case r <= math.MaxUint16:
			b = appendUnit(b, r)
		default:
			high, low := utf16.EncodeRune(r)
			b = appendUnit(appendUnit(b, high), low)
		}
	}
	return append(b, '"')
}

func appendUnit(b []byte, unit rune) []byte {
	const digits = "0123456789abcdef"
	return append(b, '\\', 'u', digits[unit>>12&15], digits[unit>>8&15], digits[unit>>4&15], digits[unit&15])
}

// DecodeHeaders reads the typed form of headers back: every value with the Go
// type the client library yields for its AMQP type, times in UTC. It returns
// nil for empty input.
func DecodeHeaders(typed json.RawMessage) (amqp.Table, error) {
	if len(typed) == 0 {
		return nil, nil
	}
	dec := json.NewDecoder(bytes.NewReader(typed))
	dec.UseNumber()
	var members map[string]any
	if err := dec.Decode(&members); err != nil {
		return nil, fmt.Errorf("decode typed headers: %w", err)
	}
	if members == nil {
		return nil, errors.New("decode typed headers: not an object")
	}
	table, err := decodeTable(members)
	if err != nil {
		return nil, fmt.Errorf("decode typed headers: %w", err)
	}
	return table, nil
}

func decodeTable(members map[string]any) (amqp.Table, error) {
	table := make(amqp.Table, len(members))
	for escaped, v := range members {
		name, err := unescapeText(escaped)
		if err != nil {
			return nil, err
		}
		if table[name], err = decodeValue(v); err != nil {
			return nil, fmt.Errorf("%q: %w", name, err)
		}
	}
	return table, nil
}

func decodeValue(v any) (any, error) {
	switch v := v.(type) {
	case nil, bool, string:
		return v, nil
	case []any:
		list := make([]any, len(v))
		for i := range v {
			var err error
			if list[i], err = decodeValue(v[i]); err != nil {
				return nil, err
			}
		}
		return list, nil
	case map[string]any:
		if len(v) == 1 {
			for tag, inner := range v {
				return decodeTagged(tag, inner)
			}
		}
		return nil, errors.New("a value is an object with exactly one member, its AMQP type")
	}
	return nil, fmt.Errorf("the number %v has no AMQP type", v)
}

func decodeTagged(tag string, v any) (any, error) {
	switch v := v.(type) {
	case map[string]any:
		if tag == "F" {
			return decodeTable(v)
		}
	case []any:
		if tag == "D" && len(v) == 2 {
			return decodeDecimal(v[0], v[1])
		}
	case string:
		return decodeText(tag, v)
	case json.Number:
		return decodeNumber(tag, v.String())
	}
	return nil, fmt.Errorf("AMQP type %q does not hold such a value", tag)
}

func decodeText(tag, text string) (any, error) {
	switch tag {
	case "x":
		return base64.StdEncoding.DecodeString(text)
	case "S":
		raw, err := base64.StdEncoding.DecodeString(text)
		return string(raw), err
	case "f":
		bits, err := strconv.ParseUint(text, 16, 32)
		return math.Float32frombits(uint32(bits)), err
	case "d":
		bits, err := strconv.ParseUint(text, 16, 64)
		return math.Float64frombits(bits), err
	}
	return nil, fmt.Errorf("AMQP type %q does not hold a string", tag)
}

func decodeNumber(tag, text string) (any, error) {
	switch tag {
	case "b":
		return decodeInt[int8](text, 8)
	case "B":
		return decodeUint[byte](text, 8)
	case "s":
		return decodeInt[int16](text, 16)
	case "u":
		return decodeUint[uint16](text, 16)
	case "I":
		return decodeInt[int32](text, 32)
	case "i":
		return decodeUint[uint32](text, 32)
	case "l":
		return decodeInt[int64](text, 64)
	case "f":
		f, err := strconv.ParseFloat(text, 32)
		return float32(f), err
	case "d":
		return strconv.ParseFloat(text, 64)
	case "T":
		seconds, err := strconv.ParseInt(text, 10, 64)
		return time.Unix(seconds, 0).UTC(), err
	}
	return nil, fmt.Errorf("AMQP type %q does not hold a number", tag)
}

func decodeInt[T int8 | int16 | int32 | int64](text string, bits int) (any, error) {
	n, err := strconv.ParseInt(text, 10, bits)
	return T(n), err
}

func decodeUint[T byte | uint16 | uint32](text string, bits int) (any, error) {
	n, err := strconv.ParseUint(text, 10, bits)
	return T(n), err
}

func decodeDecimal(scale, value any) (any, error) {
	s, err := strconv.ParseUint(fmt.Sprint(scale), 10, 8)
	if err != nil {
		return nil, fmt.Errorf("scale of a decimal: %w", err)
	}
	n, err := strconv.ParseInt(fmt.Sprint(value), 10, 32)
	if err != nil {
		return nil, fmt.Errorf("value of a decimal: %w", err)
	}
	return amqp.Decimal{Scale: uint8(s), Value: int32(n)}, nil
}
