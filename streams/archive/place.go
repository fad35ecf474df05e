package archive

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"time"

	"tidings/streams"
)

// Checkpoint is how far a file is: the line that every frame ends with, and, as the
// end, the last line of a file. What it says of the file before it is all that is
// needed to go on behind it.
type Checkpoint struct {
	Line    string     `json:"line"`
	Lines   uint64     `json:"lines"` // before this one
	Objects uint64     `json:"objects"`
	Streams []Progress `json:"streams"`
	// SHA256 is over the one of the checkpoint before, empty at the first, and the
	// lines since then, each with its line break.
	SHA256 string `json:"sha256"`
}

// Progress is how much of a stream is in a file.
type Progress struct {
	Extent
	Entries uint64 `json:"entries"`
	At      uint64 `json:"at"` // sequence of the last entry or of the end of the last gap; 0: none yet
	// Fingerprint is the hash of the line of the last entry, so that one can tell
	// that the stream is still the same.
	Fingerprint string `json:"fingerprint,omitempty"`
}

// errOtherCursor is all that is said about a cursor that nobody was given.
var errOtherCursor = errors.New("this is not a place to go on with an export: take the one that a checkpoint of its file gives")

// Cursor returns the checkpoint as a word of ASCII, for [ParseCursor].
func (c Checkpoint) Cursor() string {
	text, _ := json.Marshal(c) // plain fields are never refused
	return base64.RawURLEncoding.EncodeToString(text)
}

// ParseCursor reads what [Checkpoint.Cursor] returned.
func ParseCursor(word string) (Checkpoint, error) {
	var c Checkpoint
	text, err := base64.RawURLEncoding.DecodeString(word)
	if err != nil || json.Unmarshal(text, &c) != nil {
		return Checkpoint{}, errOtherCursor
	}
	sum, err := hex.DecodeString(c.SHA256)
	if err != nil || len(sum) != sha256.Size || c.Line != lineCheckpoint || !ordered(extents(c.Streams)) {
		return Checkpoint{}, errOtherCursor
	}
	return c, nil
}

func extents(all []Progress) []Extent {
	var out []Extent
	for _, p := range all {
		out = append(out, p.Extent)
	}
	return out
}

// order is that of the streams in a file.
func order() []string { return []string{streams.DeadLettersStream, streams.OutcomesStream} }

func ordered(all []Extent) bool {
	names := order()
	if len(all) != len(names) {
		return false
	}
	for i, e := range all {
		if e.Stream != names[i] {
			return false
		}
	}
	return true
}

// tally counts and hashes lines on their way into a file or out of it.
type tally struct {
	Checkpoint
	hash  hash.Hash
	bytes uint64 // of the lines since the last checkpoint
	since uint64 // lines since then
	// last are the lines of the last entries since then, in the order of Streams: their
	// fingerprints are needed only at the next one.
	last [2][]byte
}

// newTally returns the tally behind a checkpoint, the zero one is the beginning.
func newTally(c Checkpoint) *tally {
	t := &tally{Checkpoint: c, hash: sha256.New()}
	t.Streams = append([]Progress(nil), c.Streams...)
	sum, _ := hex.DecodeString(c.SHA256) // empty at the beginning
	t.hash.Write(sum)
	return t
}

// snapshot returns the checkpoint as it is now.
func (t *tally) snapshot() Checkpoint {
	t.sign()
	c := t.Checkpoint
	c.Streams = append([]Progress(nil), c.Streams...)
	return c
}

// add counts a line, with its line break.
func (t *tally) add(line []byte) {
	t.Lines++
	t.hash.Write(line)
	t.bytes += uint64(len(line))
	t.since++
}

// of returns the progress of a stream, nil if it is none of a file.
func (c *Checkpoint) of(stream string) *Progress {
	for i := range c.Streams {
		if c.Streams[i].Stream == stream {
			return &c.Streams[i]
		}
	}
	return nil
}

// entry counts an entry of a stream, whose line is known. Entries of OUTCOMES that
// were forgotten before they were reached are none of the file.
func (t *tally) entry(p *Progress, sequence uint64, line []byte) {
	if p.At == 0 && p.Stream == streams.OutcomesStream {
		p.First = sequence
	}
	p.Entries++
	p.At = sequence
	for i := range t.Streams {
		if &t.Streams[i] == p {
			t.last[i] = append(t.last[i][:0], line...)
		}
	}
}

// sign takes the fingerprints of the last entries.
func (t *tally) sign() {
	for i, line := range t.last {
		if len(line) > 0 {
			t.Streams[i].Fingerprint, t.last[i] = fingerprint(line), line[:0]
		}
	}
}

// gap counts a gap.
func (t *tally) gap(p *Progress, g streams.Gap) {
	if p.At == 0 {
		p.First = g.From
	}
	p.At = g.To
}

// empty notes that OUTCOMES had forgotten all of its entries before they were reached.
func (t *tally) empty() {
	for i := range t.Streams {
		if p := &t.Streams[i]; p.Stream == streams.OutcomesStream && p.At == 0 && p.Last > 0 {
			p.First = p.Last + 1
		}
	}
}

func fingerprint(line []byte) string {
	sum := sha256.Sum256(line)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// checkpoint returns the line that says how far the file is, and begins anew behind
// it. The line is a function of those before it, so that who reads it can compare.
func (t *tally) checkpoint(kind string) []byte {
	if kind == lineEnd {
		t.empty()
	}
	t.sign()
	sum := t.hash.Sum(nil)
	t.Line, t.SHA256 = kind, hex.EncodeToString(sum)
	line, _ := appendLine(nil, t.Checkpoint) // plain fields are never refused
	t.hash.Reset()
	t.hash.Write(sum)
	t.Lines++
	t.bytes, t.since = 0, 0
	return line
}

// begin takes in a header.
func (t *tally) begin(h Header) error {
	if h.Format < 1 || h.Format > Format {
		return fmt.Errorf("its format is %d, and this version knows up to %d: use a newer tidings", h.Format, Format)
	}
	if !ordered(h.Streams) {
		return errors.New("its header does not name the streams")
	}
	for _, e := range h.Streams {
		t.Streams = append(t.Streams, Progress{Extent: e})
	}
	return nil
}

// Total returns how many entries the file will have, if no letter is missing.
func (c Checkpoint) Total() (total uint64) {
	for _, p := range c.Streams {
		total += p.Last + 1 - min(max(p.First, 1), p.Last+1)
	}
	return total
}

// Done returns how far of Total the file is.
func (c Checkpoint) Done() (done uint64) {
	for _, p := range c.Streams {
		done += max(p.At+1, max(p.First, 1)) - max(p.First, 1)
	}
	return done
}

// Entries returns how many entries the file has.
func (c Checkpoint) Entries() (n uint64) {
	for _, p := range c.Streams {
		n += p.Entries
	}
	return n
}

// utc is for times in a file, which have no monotonic part.
func utc(t time.Time) time.Time { return t.UTC().Round(0) }
