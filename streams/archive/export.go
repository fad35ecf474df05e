package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"tidings/streams"
	"tidings/streams/event"
)

// Outcomes is the stream of histories. [streams.Outcomes] is one.
type Outcomes interface {
	Info(ctx context.Context) (streams.StreamInfo, error)
	Entry(ctx context.Context, sequence uint64) (streams.Entry, error)
	Follow(ctx context.Context, from uint64, handle func(streams.Entry) error) error
}

// DeadLetters is the stream of dead letters. [streams.DeadLetters] is one.
type DeadLetters interface {
	Info(ctx context.Context) (streams.StreamInfo, error)
	Entry(ctx context.Context, sequence uint64) (streams.Entry, error)
	// Next returns the first entry after a sequence, or streams.ErrNotFound.
	Next(ctx context.Context, after uint64) (streams.Entry, error)
}

// Objects holds what is too large for a dead letter. [streams.Oversize] is one.
type Objects interface {
	// Find returns the object of a name, or streams.ErrNotFound.
	Find(ctx context.Context, name string) (event.Object, error)
	// Open returns the bytes of an object; reading them may end with streams.ErrDamaged.
	Open(ctx context.Context, named event.Object) (io.Reader, error)
}

// Source is a log to export.
type Source struct {
	Outcomes    Outcomes
	DeadLetters DeadLetters
	Objects     Objects
}

// Options say how to export. The zero value works.
type Options struct {
	Version string // of Tidings, for the header
	// After is the checkpoint to go on behind; nil: a file is begun.
	After *Checkpoint
	Now   func() time.Time // nil: time.Now
	// Flush is called when a frame was written. It may be nil.
	Flush func(Checkpoint) error
}

// Errors of an export that cannot go on.
var (
	// ErrOtherLog means that what was exported before is not of this log.
	ErrOtherLog = errors.New("the export was begun from another log, or this one has other entries there now: begin a new one")
	// ErrForgotten means that entries that come next are beyond the horizon.
	ErrForgotten = errors.New("what comes next in the export is forgotten by now: begin a new one")
)

// GapError means that entries of OUTCOMES are missing, and nobody accepted that.
type GapError struct{ Gap streams.Gap }

// Error implements error.
func (e *GapError) Error() string {
	return fmt.Sprintf("%s of %s: missing, and nobody accepted that: stop tidings, run tidings recover, which has readers pass over "+
		"what cannot be mended, and export again", e.Gap, streams.OutcomesStream)
}

// Export writes what the log has at this moment, or what it had when the checkpoint's
// file was begun and is not in there yet. It returns the end of the file. It may be
// slow: what it asks of the log at a time is bounded. Errors: [ErrOtherLog],
// [ErrForgotten], a *[GapError], those of the log and of w.
func Export(ctx context.Context, w io.Writer, from Source, o Options) (Checkpoint, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	x := &exporter{Source: from, Options: o}
	var err error
	if o.After == nil {
		err = x.begin(ctx, w)
	} else {
		err = x.resume(ctx, w)
	}
	if err == nil {
		err = x.letters(ctx, x.out.of(streams.DeadLettersStream))
	}
	if err == nil {
		err = x.outcomes(ctx, x.out.of(streams.OutcomesStream))
	}
	if err == nil {
		err = x.out.end(lineEnd)
	}
	if err != nil {
		return Checkpoint{}, fmt.Errorf("export: %w", err)
	}
	return x.out.snapshot(), nil
}

type exporter struct {
	Source
	Options
	out  *writer
	line []byte // used again
}

// infos returns where the streams stand, in their order.
func (x *exporter) infos(ctx context.Context) ([]streams.StreamInfo, error) {
	letters, err := x.DeadLetters.Info(ctx)
	if err != nil {
		return nil, err
	}
	outcomes, err := x.Outcomes.Info(ctx)
	return []streams.StreamInfo{letters, outcomes}, err
}

func (x *exporter) begin(ctx context.Context, w io.Writer) error {
	infos, err := x.infos(ctx)
	if err != nil {
		return err
	}
	h := Header{Line: lineHeader, Format: Format, Tidings: x.Version, Created: utc(x.Now())}
	for i, name := range order() {
		h.Streams = append(h.Streams, Extent{Stream: name, Created: utc(infos[i].Created), First: infos[i].First, Last: infos[i].Last})
	}
	x.out = newWriter(w, newTally(Checkpoint{}), x.Flush)
	if err := x.out.begin(h); err != nil {
		return err
	}
	line, err := appendLine(nil, h)
	if err != nil {
		return err
	}
	if err := x.out.write(line); err != nil {
		return err
	}
	return x.out.end(lineCheckpoint) // so that there is something to go on behind
}

// resume makes sure that the log is the one that the file was begun from.
func (x *exporter) resume(ctx context.Context, w io.Writer) error {
	infos, err := x.infos(ctx)
	if err != nil {
		return err
	}
	for i, p := range x.After.Streams {
		if !p.Created.Equal(infos[i].Created) || p.Last > infos[i].Last {
			return ErrOtherLog
		}
	}
	for i, entry := range []func(context.Context, uint64) (streams.Entry, error){x.DeadLetters.Entry, x.Outcomes.Entry} {
		p := x.After.Streams[i]
		if p.Fingerprint == "" {
			continue
		}
		e, err := entry(ctx, p.At)
		switch {
		case errors.Is(err, streams.ErrNotFound): // dealt with, or forgotten: what comes next says whether that matters
		case err != nil:
			return err
		case fingerprint(appendEntry(nil, p.Stream, e)) != p.Fingerprint:
			return ErrOtherLog
		}
	}
	x.out = newWriter(w, newTally(*x.After), x.Flush)
	return nil
}

// letters writes the dead letters that were there at the beginning and still are.
func (x *exporter) letters(ctx context.Context, p *Progress) error {
	for p.At < p.Last {
		e, err := x.DeadLetters.Next(ctx, p.At)
		switch {
		case errors.Is(err, streams.ErrNotFound) || err == nil && e.Sequence > p.Last:
			return nil
		case err != nil:
			return err
		}
		if err := x.letter(ctx, p, e); err != nil {
			return err
		}
	}
	return nil
}

// letter writes the objects of a letter and the letter. What cannot be read of an
// object is said instead; the rest is worth keeping.
func (x *exporter) letter(ctx context.Context, p *Progress, e streams.Entry) error {
	for _, name := range e.Header.Values(streams.HeaderObject) {
		if err := x.object(ctx, e.Subject, name); err != nil {
			return err
		}
	}
	return x.entry(p, e)
}

// chunkSize is how many bytes of an object are in a line.
const chunkSize = 512 << 10

func (x *exporter) object(ctx context.Context, letter, name string) error {
	last := objectLine{Line: lineObject, Bucket: streams.OversizeBucket, Name: name, Letter: letter}
	object, err := x.Objects.Find(ctx, name)
	if err == nil {
		last.Size, last.Digest = object.Size, object.Digest
		err = x.chunks(ctx, object)
	}
	switch {
	case err == nil:
	case errors.Is(err, streams.ErrNotFound), errors.Is(err, streams.ErrForeign), errors.Is(err, streams.ErrDamaged):
		last.Damaged = err.Error()
	default:
		return err
	}
	line, err := appendLine(nil, last)
	if err != nil {
		return err
	}
	x.out.Objects++
	return x.out.write(line)
}

func (x *exporter) chunks(ctx context.Context, object event.Object) error {
	in, err := x.Objects.Open(ctx, object)
	if err != nil {
		return err
	}
	chunk := make([]byte, chunkSize)
	for {
		n, err := io.ReadFull(in, chunk)
		if n > 0 {
			line, err := appendLine(nil, chunkLine{Line: lineChunk, Object: object.Name, DataBase64: chunk[:n]})
			if err != nil {
				return err
			}
			if err := x.out.write(line); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// errEnough ends a follow at the end of what is to be exported.
var errEnough = errors.New("that was the last one")

func (x *exporter) outcomes(ctx context.Context, p *Progress) error {
	last, err := x.lastPresent(ctx, p)
	if err != nil {
		return err
	}
	if last > p.At {
		err := x.Outcomes.Follow(ctx, max(p.At+1, p.First), func(e streams.Entry) error {
			if err := x.missing(ctx, p, min(e.Sequence, p.Last+1)); err != nil {
				return err
			}
			if e.Sequence <= p.Last {
				if err := x.entry(p, e); err != nil {
					return err
				}
			}
			if e.Sequence >= last {
				return errEnough
			}
			return nil
		})
		if !errors.Is(err, errEnough) {
			return err
		}
	}
	if err := x.missing(ctx, p, p.Last+1); err != nil {
		return err
	}
	return x.skips(ctx, p)
}

// skips writes which of the entries readers are to pass over. They come last, since an
// operator may have said so only just now.
func (x *exporter) skips(ctx context.Context, p *Progress) error {
	info, err := x.Outcomes.Info(ctx)
	if err != nil {
		return err
	}
	for _, g := range info.Gaps {
		if !g.Skipped || g.From < p.First || g.To > p.At {
			continue
		}
		line, err := appendLine(nil, gapLine{Line: lineSkip, Stream: p.Stream, From: g.From, To: g.To, Accepted: g.Accepted})
		if err != nil {
			return err
		}
		if err := x.out.write(line); err != nil {
			return err
		}
	}
	return nil
}

// lastPresent returns the sequence of the last entry of those to export that is
// there, or where the file is if there are no more.
func (x *exporter) lastPresent(ctx context.Context, p *Progress) (uint64, error) {
	for last := p.Last; last > p.At && last >= p.First; last-- {
		_, err := x.Outcomes.Entry(ctx, last)
		if !errors.Is(err, streams.ErrNotFound) {
			return last, err
		}
	}
	return p.At, nil
}

// missing writes the accepted gaps between the file's last entry and the next one.
// It returns an error if entries are missing that may not be.
func (x *exporter) missing(ctx context.Context, p *Progress, next uint64) error {
	expected := max(p.At+1, p.First, 1)
	if next <= expected {
		return nil
	}
	info, err := x.Outcomes.Info(ctx)
	if err != nil {
		return err
	}
	if info.First > expected {
		if p.At > 0 {
			return ErrForgotten
		}
		expected = min(info.First, next) // aged out since the beginning
		p.First = expected
	}
	for _, g := range info.Gaps {
		if g.From <= expected && expected <= g.To && expected < next {
			g.From, g.To = expected, min(g.To, next-1)
			if err := x.gap(p, g); err != nil {
				return err
			}
			expected = g.To + 1
		}
	}
	if expected < next {
		return &GapError{streams.Gap{From: expected, To: next - 1}}
	}
	return nil
}

func (x *exporter) gap(p *Progress, g streams.Gap) error {
	line, err := appendLine(nil, gapLine{Line: lineGap, Stream: p.Stream, From: g.From, To: g.To, Accepted: g.Accepted})
	if err != nil {
		return err
	}
	x.out.gap(p, g)
	return x.out.write(line)
}

func (x *exporter) entry(p *Progress, e streams.Entry) error {
	x.line = appendEntry(x.line[:0], p.Stream, e)
	x.out.entry(p, e.Sequence, x.line)
	if err := x.out.write(x.line); err != nil {
		return err
	}
	return x.out.endIfFull()
}
