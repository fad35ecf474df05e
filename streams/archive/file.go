package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sort"

	"tidings/streams"
)

// File is an export that was read once from its beginning to its end, and is whole.
// Its methods may be called by many goroutines.
type File struct {
	path    string
	header  Header
	end     Checkpoint
	places  []place // of its frames
	bytes   map[string]uint64
	gaps    []streams.Gap
	damaged int
}

// Open reads the file at path and checks everything about it. It returns a
// *[DamageError] where it is cut off or damaged.
func Open(path string) (*File, error) { return Check(context.Background(), path, nil) }

// Check is [Open] that ends with ctx, and tells progress how many of how many bytes
// were read. progress may be nil.
func Check(ctx context.Context, path string, progress func(read, size int64)) (*File, error) {
	in, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open export: %w", err)
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return nil, fmt.Errorf("open export: %w", err)
	}
	f := &File{path: path, bytes: map[string]uint64{}}
	if err := f.check(ctx, in, func(read int64) {
		if progress != nil {
			progress(read, info.Size())
		}
	}); err != nil {
		return nil, fmt.Errorf("export %s: %w", path, err)
	}
	return f, nil
}

func (f *File) check(ctx context.Context, in io.Reader, progress func(read int64)) error {
	r, err := newReader(in, place{})
	if err != nil {
		return err
	}
	defer r.close()
	f.places = []place{{}}
	for {
		i, err := r.next()
		if !r.ended && r.behind.offset > f.places[len(f.places)-1].offset {
			f.places = append(f.places, r.behind)
			progress(r.behind.offset)
			err = errors.Join(err, ctx.Err())
		}
		switch {
		case errors.Is(err, io.EOF):
			f.header, f.end = *r.header, r.snapshot()
			slices.SortStableFunc(f.gaps, func(a, b streams.Gap) int { return cmp.Compare(a.From, b.From) })
			return nil
		case err != nil:
			return err
		}
		f.note(i)
	}
}

func (f *File) note(i item) {
	switch {
	case i.entry != nil:
		f.bytes[i.stream] += size(*i.entry)
	case i.gap != nil:
		f.gaps = append(f.gaps, *i.gap)
	case i.object != nil && i.object.Damaged != "":
		f.damaged++
	case i.object != nil:
		f.bytes[streams.OversizeStream] += uint64(i.object.Size)
	}
}

// size is about what an entry takes in its stream.
func size(e streams.Entry) uint64 {
	n := len(e.Subject) + len(e.Data) + 30
	for name, values := range e.Header {
		for _, v := range values {
			n += len(name) + len(v) + 4
		}
	}
	return uint64(n)
}

// Path returns the path of the file.
func (f *File) Path() string { return f.path }

// Header returns what the file is of.
func (f *File) Header() Header { return f.header }

// End returns what is in the file: its counts, and a hash over all of it.
func (f *File) End() Checkpoint { return f.end }

// Outcomes returns OUTCOMES as the file has it.
func (f *File) Outcomes() *Stream { return &Stream{file: f, name: streams.OutcomesStream} }

// DeadLetters returns DEADLETTERS as the file has it.
func (f *File) DeadLetters() *Stream { return &Stream{file: f, name: streams.DeadLettersStream} }

// read calls handle for what is in the file from a frame on, until it returns an
// error or the file ends.
func (f *File) read(ctx context.Context, from place, handle func(item) error) error {
	in, err := os.Open(f.path)
	if err != nil {
		return fmt.Errorf("open export: %w", err)
	}
	defer in.Close()
	if _, err := in.Seek(from.offset, io.SeekStart); err != nil {
		return fmt.Errorf("read export: %w", err)
	}
	r, err := newReader(in, from)
	if err != nil {
		return err
	}
	defer r.close()
	for ctx.Err() == nil {
		i, err := r.next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("export %s: %w", f.path, err)
		}
		if err := handle(i); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// placeOf returns the frame that has the first entry of a stream from a sequence on,
// or begins before it.
func (f *File) placeOf(stream string, sequence uint64) place {
	i := sort.Search(len(f.places), func(i int) bool {
		p := f.places[i].after.of(stream)
		return p != nil && p.At >= sequence
	})
	return f.places[max(i-1, 0)]
}
