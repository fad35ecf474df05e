package archive

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"

	"tidings/streams"
)

// Format is the version of the format that this version writes. It reads those up
// to it.
const Format = 1

// What lines are.
const (
	lineHeader     = "header"
	lineEntry      = "entry"
	lineGap        = "gap"
	lineSkip       = "skip"
	lineChunk      = "chunk"
	lineObject     = "object"
	lineCheckpoint = "checkpoint"
	lineEnd        = "end"
)

// Header is what an export is of.
type Header struct {
	Line    string    `json:"line"`
	Format  int       `json:"format"`
	Tidings string    `json:"tidings,omitempty"` // the version that wrote it
	Created time.Time `json:"created"`           // when the export began
	Streams []Extent  `json:"streams"`           // DEADLETTERS and OUTCOMES, in the order of their entries
}

// Extent is the part of a stream that an export has.
type Extent struct {
	Stream  string    `json:"stream"`
	Created time.Time `json:"created"` // when the stream was made
	First   uint64    `json:"first"`   // sequence of its first entry when the export began
	Last    uint64    `json:"last"`    // of its last entry then, which may have been removed
}

// entryLine is an entry of a stream.
type entryLine struct {
	Line          string          `json:"line"`
	Stream        string          `json:"stream"`
	Sequence      uint64          `json:"seq"`
	Time          time.Time       `json:"time"`
	Subject       string          `json:"subject,omitempty"`
	SubjectBase64 []byte          `json:"subject_base64,omitempty"`
	Headers       nats.Header     `json:"headers,omitempty"`
	HeadersBase64 [][2][]byte     `json:"headers_base64,omitempty"` // names and values, where one is not UTF-8
	Data          json.RawMessage `json:"data,omitempty"`           // of an entry that is a JSON object
	DataBase64    []byte          `json:"data_base64,omitempty"`    // of any other
}

// gapLine is a run of sequences of OUTCOMES that an operator accepted as missing, or, as
// a skip, that are there and that an operator has readers pass over.
type gapLine struct {
	Line     string `json:"line"`
	Stream   string `json:"stream"`
	From     uint64 `json:"from"`
	To       uint64 `json:"to"`
	Accepted string `json:"accepted"`
}

// chunkLine is a part of an object, which ends with its objectLine.
type chunkLine struct {
	Line       string `json:"line"`
	Object     string `json:"object"`
	DataBase64 []byte `json:"data_base64"`
}

// objectLine ends an object, whose bytes are in the chunks before it.
type objectLine struct {
	Line   string `json:"line"`
	Bucket string `json:"bucket"`
	Name   string `json:"name"`
	Letter string `json:"letter"` // the subject of the dead letter that names it
	Size   int64  `json:"size"`
	Digest string `json:"digest"`
	// Damaged says why the object could not be read; empty: it could. The chunks
	// count for nothing then.
	Damaged string `json:"damaged,omitempty"`
}

// appendEntry appends the line of an entry. An entry is the same line whenever it
// is exported.
func appendEntry(b []byte, stream string, e streams.Entry) []byte {
	b = append(b, `{"line":"entry","stream":"`...)
	b = append(b, stream...)
	b = append(b, `","seq":`...)
	b = strconv.AppendUint(b, e.Sequence, 10)
	b = append(b, `,"time":"`...)
	b = e.Time.UTC().AppendFormat(b, time.RFC3339Nano)
	b = append(b, '"')
	if utf8.ValidString(e.Subject) {
		b = appendString(append(b, `,"subject":`...), e.Subject)
	} else {
		b = appendBase64(append(b, `,"subject_base64":`...), e.Subject)
	}
	b = appendHeaders(b, e.Header)
	switch {
	case isObject(e.Data):
		b = append(append(b, `,"data":`...), e.Data...)
	case len(e.Data) > 0:
		b = appendBase64(append(b, `,"data_base64":`...), e.Data)
	}
	return append(b, "}\n"...)
}

// isObject reports whether data may stand in a line as it is and be read again byte
// for byte, by any reader of JSON.
func isObject(data []byte) bool {
	if len(data) == 0 || data[0] != '{' || !utf8.Valid(data) || !json.Valid(data) {
		return false
	}
	return bytes.IndexByte(data, '\n') < 0 && bytes.IndexByte(data, '\r') < 0 && data[len(data)-1] == '}'
}

// serverHeader begins the headers that say how an entry was appended.
const serverHeader = "Nats-"

func appendHeaders(b []byte, h nats.Header) []byte {
	var names []string
	plain := true
	for _, name := range slices.Sorted(maps.Keys(h)) {
		if strings.HasPrefix(name, serverHeader) {
			continue
		}
		names = append(names, name)
		plain = plain && utf8.ValidString(name) && !slices.ContainsFunc(h[name], func(v string) bool { return !utf8.ValidString(v) })
	}
	switch {
	case len(names) == 0:
		return b
	case !plain:
		return appendPairs(b, names, h)
	}
	b = append(b, `,"headers":{`...)
	for i, name := range names {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(b, name), `:[`...)
		for j, v := range h[name] {
			if j > 0 {
				b = append(b, ',')
			}
			b = appendString(b, v)
		}
		b = append(b, ']')
	}
	return append(b, '}')
}

func appendPairs(b []byte, names []string, h nats.Header) []byte {
	b = append(b, `,"headers_base64":[`...)
	first := true
	for _, name := range names {
		for _, v := range h[name] {
			if !first {
				b = append(b, ',')
			}
			first = false
			b = appendBase64(append(appendBase64(append(b, '['), name), ','), v)
			b = append(b, ']')
		}
	}
	return append(b, ']')
}

func appendBase64[T string | []byte](b []byte, data T) []byte {
	b = append(b, '"')
	b = base64.StdEncoding.AppendEncode(b, []byte(data))
	return append(b, '"')
}

// appendString appends a string of valid UTF-8 as JSON.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(s) // a string is never refused
			return append(b, quoted...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

// appendLine appends any other line.
func appendLine(b []byte, v any) ([]byte, error) {
	var buffer bytes.Buffer
	enc := json.NewEncoder(&buffer)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return b, err
	}
	return append(b, buffer.Bytes()...), nil
}

// entry returns the entry, or what it cannot be.
func (l *entryLine) entry() (streams.Entry, error) {
	e := streams.Entry{Sequence: l.Sequence, Time: l.Time.UTC(), Subject: l.Subject, Header: l.Headers, Data: l.Data}
	if l.SubjectBase64 != nil {
		e.Subject = string(l.SubjectBase64)
	}
	if l.DataBase64 != nil {
		e.Data = l.DataBase64
	}
	for _, pair := range l.HeadersBase64 {
		if e.Header == nil {
			e.Header = nats.Header{}
		}
		e.Header[string(pair[0])] = append(e.Header[string(pair[0])], string(pair[1]))
	}
	return e, checkEntry(e)
}

// checkEntry refuses what no entry of a stream can be, and what would be another
// entry if it were appended.
func checkEntry(e streams.Entry) error {
	if e.Sequence == 0 {
		return fmt.Errorf("an entry has no sequence")
	}
	if !validSubject(e.Subject) {
		return fmt.Errorf("entry %d has the subject %q, which cannot be", e.Sequence, e.Subject)
	}
	for name, values := range e.Header {
		if name == "" || strings.HasPrefix(name, serverHeader) || strings.ContainsAny(name, ": \r\n\t") {
			return fmt.Errorf("entry %d has a header %q, which cannot be", e.Sequence, name)
		}
		if slices.ContainsFunc(values, func(v string) bool { return strings.ContainsAny(v, "\r\n") }) {
			return fmt.Errorf("entry %d has a line break in the header %q", e.Sequence, name)
		}
	}
	return nil
}

// maxSubject is more than any subject of Tidings has, and less than what makes a
// server close the connection.
const maxSubject = 1024

func validSubject(s string) bool {
	if s == "" || len(s) > maxSubject || strings.ContainsAny(s, "*>") {
		return false
	}
	for token := range strings.SplitSeq(s, ".") {
		if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
			return false
		}
	}
	return true
}
