package archive

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/klauspost/compress/zstd"

	"tidings/streams"
)

// Bounds of what is read. A server takes messages of at most 64 MiB, and base64
// makes a third more of them.
const (
	maxLine   = 96 << 20
	maxWindow = 8 << 20
)

// DamageError says where a file is not what was written, and what to do.
type DamageError struct {
	Line   uint64 // in the file, from 1
	Offset int64  // in bytes, of the frame that the line is in
	// CutOff says that the file just ends there; else it is damaged.
	CutOff bool
	Detail string
}

// Error implements error.
func (e *DamageError) Error() string {
	if e.CutOff {
		return fmt.Sprintf("it is cut off at line %d: %s: run the same tidings ledger export again, which goes on there, or take a copy that is whole",
			e.Line, e.Detail)
	}
	return fmt.Sprintf("it is damaged at line %d (the frame at byte %d): %s: take another copy, or export again", e.Line, e.Offset, e.Detail)
}

// item is what one line of a file says. One of its members is set, but for a
// checkpoint.
type item struct {
	stream string // of an entry or a gap
	entry  *streams.Entry
	gap    *streams.Gap
	chunk  *chunkLine
	object *objectLine
}

// place is where a frame begins, and all that is needed to read on from there.
type place struct {
	offset int64
	after  Checkpoint // zero at the beginning
}

// reader reads a file from the beginning of one of its frames, and checks everything
// that can be checked on the way.
type reader struct {
	*tally
	frame   frame
	start   int64 // offset of the frame that is being read
	decoder *zstd.Decoder
	lines   *bufio.Reader
	line    []byte
	inFrame bool
	marked  bool  // the last line was a checkpoint
	behind  place // the last frame that ended with one
	ended   bool  // the end line was read
	header  *Header

	// Of the object that is being read, if any.
	object  string
	chunks  hash.Hash
	chunked int64
}

func newReader(in io.Reader, at place) (*reader, error) {
	decoder, err := zstd.NewReader(nil,
		zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return nil, err
	}
	r := &reader{tally: newTally(at.after), decoder: decoder, start: at.offset, chunks: sha256.New()}
	r.frame = frame{in: bufio.NewReaderSize(in, 256<<10), size: at.offset, part: partNone}
	r.lines = bufio.NewReaderSize(nil, 64<<10)
	r.behind = at
	return r, nil
}

func (r *reader) close() { r.decoder.Close() }

// next returns what the next line says, and io.EOF behind the end of a whole file.
// Checkpoints are returned too, as items without anything.
func (r *reader) next() (item, error) {
	line, err := r.read()
	if err != nil {
		return item{}, err
	}
	i, err := r.take(line)
	if err != nil {
		return item{}, r.damage(err)
	}
	return i, nil
}

// damage gives an error about what was read its place.
func (r *reader) damage(err error) error {
	if d, ok := errors.AsType[*DamageError](err); ok {
		return d
	}
	return &DamageError{Line: r.Lines + 1, Offset: r.start, Detail: err.Error()}
}

func (r *reader) cut(detail string) error {
	return &DamageError{Line: r.Lines + 1, Offset: r.start, CutOff: true, Detail: detail}
}

// read returns the next line with its line break, and begins the next frame where
// one ends.
func (r *reader) read() ([]byte, error) {
	for {
		if !r.inFrame {
			if err := r.nextFrame(); err != nil {
				return nil, err
			}
		}
		line, err := r.readLine()
		switch {
		case err == nil:
			return line, nil
		case !errors.Is(err, io.EOF) || len(line) > 0 || !r.frame.whole():
			return nil, r.unread(err)
		}
		if r.inFrame = false; r.marked {
			r.behind = place{offset: r.frame.size, after: r.snapshot()}
		}
	}
}

// nextFrame begins the next frame. It returns io.EOF if there is none, and this is
// right.
func (r *reader) nextFrame() error {
	r.start = r.frame.size
	switch err := r.frame.next(); {
	case errors.Is(err, io.EOF) && r.ended:
		return io.EOF
	case errors.Is(err, io.EOF):
		return r.cut("the end is missing")
	case err != nil:
		return err
	case r.ended:
		return r.damage(errors.New("something follows behind its end"))
	}
	r.lines.Reset(r.decoder)
	r.inFrame = true
	if err := r.decoder.Reset(&r.frame); err != nil {
		return r.unread(err)
	}
	return nil
}

func (r *reader) readLine() ([]byte, error) {
	r.line = r.line[:0]
	for {
		some, err := r.lines.ReadSlice('\n')
		if len(r.line) == 0 && err == nil {
			return some, nil
		}
		r.line = append(r.line, some...)
		switch {
		case err == nil:
			return r.line, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return r.line, err
		case len(r.line) > maxLine:
			return nil, fmt.Errorf("a line has more than %d bytes", maxLine)
		}
	}
}

// unread says what the errors of the decoder mean, which does not pass on those of
// the frame as they are.
func (r *reader) unread(err error) error {
	switch {
	case errors.Is(r.frame.err, errNoFrame):
		return r.damage(errNoFrame)
	case errors.Is(r.frame.err, io.ErrUnexpectedEOF), errors.Is(err, io.ErrUnexpectedEOF):
		return r.cut("a frame is not whole")
	case r.frame.err != nil && !errors.Is(r.frame.err, io.EOF):
		return fmt.Errorf("read it: %w", r.frame.err) // the disk or the network, and not what was written
	case errors.Is(err, io.EOF):
		return r.damage(errors.New("a frame ends inside a line"))
	}
	return r.damage(fmt.Errorf("the compression cannot be read: %w", err))
}

// kindOf returns what a line is.
func kindOf(line []byte) string {
	rest, ok := bytes.CutPrefix(line, []byte(`{"line":"`))
	if end := bytes.IndexByte(rest, '"'); ok && end >= 0 {
		return string(rest[:end])
	}
	return ""
}

func (r *reader) take(line []byte) (item, error) {
	kind := kindOf(line)
	r.marked = false
	switch {
	case r.ended:
		return item{}, errors.New("something follows behind its end")
	case r.Streams == nil && kind != lineHeader:
		return item{}, errors.New("it does not begin as an export of tidings does")
	}
	switch kind {
	case lineHeader:
		return item{}, r.takeHeader(line)
	case lineEntry:
		return r.takeEntry(line)
	case lineGap:
		return r.takeGap(line)
	case lineSkip:
		return r.takeSkip(line)
	case lineChunk:
		return r.takeChunk(line)
	case lineObject:
		return r.takeObject(line)
	case lineCheckpoint, lineEnd:
		return item{}, r.takeCheckpoint(kind, line)
	}
	return item{}, fmt.Errorf("a line is %q, which this version does not know: use a newer tidings", kind)
}

func decode[T any](line []byte) (v T, err error) {
	if err = json.Unmarshal(line, &v); err != nil {
		err = fmt.Errorf("a line cannot be read: %w", err)
	}
	return v, err
}

func (r *reader) takeHeader(line []byte) error {
	if r.Streams != nil {
		return errors.New("a second header")
	}
	h, err := decode[Header](line)
	if err != nil {
		return err
	}
	r.header = &h
	if err := r.begin(h); err != nil {
		return err
	}
	r.add(line)
	return nil
}

func (r *reader) takeEntry(line []byte) (item, error) {
	stream, e, err := decodeEntry(line)
	if err != nil {
		return item{}, err
	}
	p := r.of(stream)
	if p == nil {
		return item{}, fmt.Errorf("an entry of %q, which is none of its streams", stream)
	}
	if err := r.follows(p, e.Sequence); err != nil {
		return item{}, err
	}
	r.add(line)
	r.tally.entry(p, e.Sequence, line)
	return item{stream: stream, entry: &e}, nil
}

func decodeEntry(line []byte) (stream string, e streams.Entry, err error) {
	if stream, e, ok := quickEntry(line); ok {
		return stream, e, checkEntry(e)
	}
	l, err := decode[entryLine](line)
	if err != nil {
		return "", e, err
	}
	e, err = l.entry()
	return l.Stream, e, err
}

// follows says how a sequence does not follow the one before it.
func (r *reader) follows(p *Progress, sequence uint64) error {
	letters := p.Stream == streams.DeadLettersStream
	switch outcomes := r.of(streams.OutcomesStream); {
	case r.object != "":
		return fmt.Errorf("the object %q has no end", r.object)
	case letters && outcomes.At > 0:
		return errors.New("a dead letter behind entries of OUTCOMES")
	case sequence <= p.At, sequence < p.First, sequence > p.Last:
		return fmt.Errorf("entry %d of %s is out of order: it comes after %d and is to be between %d and %d", sequence, p.Stream, p.At, p.First, p.Last)
	case letters, p.At == 0:
		return nil
	case sequence != p.At+1:
		return fmt.Errorf("entry %d of %s is missing", p.At+1, p.Stream)
	}
	return nil
}

func (r *reader) takeGap(line []byte) (item, error) {
	l, err := decode[gapLine](line)
	if err != nil {
		return item{}, err
	}
	p := r.of(l.Stream)
	if p == nil || p.Stream != streams.OutcomesStream || l.To < l.From || l.To > p.Last {
		return item{}, errors.New("a gap that cannot be")
	}
	if err := r.follows(p, l.From); err != nil {
		return item{}, err
	}
	r.add(line)
	g := streams.Gap{From: l.From, To: l.To, Accepted: l.Accepted}
	r.gap(p, g)
	return item{stream: l.Stream, gap: &g}, nil
}

func (r *reader) takeSkip(line []byte) (item, error) {
	l, err := decode[gapLine](line)
	if err != nil {
		return item{}, err
	}
	p := r.of(l.Stream)
	if p == nil || p.Stream != streams.OutcomesStream || l.To < l.From || l.From < p.First || l.To > p.At {
		return item{}, errors.New("entries are skipped that are not there")
	}
	r.add(line)
	return item{stream: l.Stream, gap: &streams.Gap{From: l.From, To: l.To, Accepted: l.Accepted, Skipped: true}}, nil
}

func (r *reader) takeChunk(line []byte) (item, error) {
	c, err := decode[chunkLine](line)
	if err != nil {
		return item{}, err
	}
	if c.Object == "" || r.object != "" && r.object != c.Object {
		return item{}, fmt.Errorf("a part of the object %q is among those of %q", c.Object, r.object)
	}
	r.object = c.Object
	r.chunks.Write(c.DataBase64)
	r.chunked += int64(len(c.DataBase64))
	r.add(line)
	return item{chunk: &c}, nil
}

func (r *reader) takeObject(line []byte) (item, error) {
	o, err := decode[objectLine](line)
	if err != nil {
		return item{}, err
	}
	if o.Name == "" || r.object != "" && r.object != o.Name || !validSubject(o.Letter) {
		return item{}, fmt.Errorf("the object %q ends that of %q", o.Name, r.object)
	}
	sum := "SHA-256=" + base64.URLEncoding.EncodeToString(r.chunks.Sum(nil))
	if o.Damaged == "" && (o.Size != r.chunked || o.Digest != sum) {
		return item{}, fmt.Errorf("the object %q is not what it says it is", o.Name)
	}
	r.chunks.Reset()
	r.chunked, r.object = 0, ""
	r.Objects++
	r.add(line)
	return item{object: &o}, nil
}

// takeCheckpoint compares what a checkpoint says with what was read.
func (r *reader) takeCheckpoint(kind string, line []byte) error {
	if r.object != "" {
		return fmt.Errorf("the object %q has no end", r.object)
	}
	r.ended = kind == lineEnd
	if r.ended {
		if p := r.of(streams.OutcomesStream); p.At > 0 && p.At < p.Last {
			return fmt.Errorf("entry %d of %s is missing", p.At+1, p.Stream)
		}
	}
	if want := r.checkpoint(kind); !bytes.Equal(line, want) {
		r.Lines--
		return errors.New("its lines are not those that were written: the checksum is another")
	}
	r.marked = true
	return nil
}
