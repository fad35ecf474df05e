package archive

import (
	"context"
	"fmt"
	"iter"

	"tidings/streams"
	"tidings/streams/event"
)

// ImportOptions returns what is told to a log that the file is to be imported into.
func (f *File) ImportOptions(o streams.Options) streams.ImportOptions {
	extent := func(stream string, gaps []streams.Gap) streams.Extent {
		p := f.end.of(stream)
		return streams.Extent{First: p.First, Last: p.Last, Gaps: gaps, Bytes: f.bytes[stream]}
	}
	return streams.ImportOptions{
		Options: o, ID: f.end.SHA256,
		Outcomes: extent(streams.OutcomesStream, f.gaps), DeadLetters: extent(streams.DeadLettersStream, nil),
	}
}

// Import brings what is in the file into a log, as far as it is not there yet. It may
// be called again after it was cut off at any point: what is there is compared. It
// returns an error that is streams.ErrOtherEntry if that is something else, and those
// of the log. All is stored when it returns nil; [streams.Importer.Finish] is left to
// the caller. progress, which may be nil, is told how many of how many entries it is
// through with.
func (f *File) Import(ctx context.Context, to *streams.Importer, progress func(done, total uint64)) error {
	i := importer{to: to, existing: map[string]*existing{}, progress: progress, total: f.end.Entries()}
	defer i.stop()
	for _, name := range order() {
		next, stop := iter.Pull2(to.Existing(ctx, name))
		i.existing[name] = &existing{next: next, stop: stop, last: to.Last(name)}
	}
	if err := f.read(ctx, place{}, func(it item) error { return i.take(ctx, it) }); err != nil {
		return err
	}
	for _, p := range f.end.Streams { // what was removed from the end has sequences too
		if p.At > 0 || p.Last > 0 && p.First <= p.Last {
			if err := to.Fill(ctx, p.Stream, p.Last); err != nil {
				return err
			}
		}
	}
	return to.Settle(ctx)
}

type importer struct {
	to          *streams.Importer
	existing    map[string]*existing
	progress    func(done, total uint64)
	done, total uint64
}

// existing is what is in a stream already.
type existing struct {
	next func() (streams.Entry, error, bool)
	stop func()
	last uint64 // sequence of the last entry that there ever was
}

func (i *importer) stop() {
	for _, e := range i.existing {
		e.stop()
	}
}

func (i *importer) take(ctx context.Context, it item) error {
	switch {
	case it.entry != nil:
		if err := i.entry(ctx, it.stream, *it.entry); err != nil {
			return err
		}
		if i.done++; i.progress != nil {
			i.progress(i.done, i.total)
		}
	case it.chunk != nil:
		return i.to.Chunk(ctx, it.chunk.Object, it.chunk.DataBase64)
	case it.object != nil && it.object.Damaged != "":
		return i.to.Forget(ctx)
	case it.object != nil:
		o := it.object
		return i.to.Object(ctx, event.Object{Bucket: o.Bucket, Name: o.Name, Size: o.Size, Digest: o.Digest}, o.Letter)
	}
	return nil
}

func (i *importer) entry(ctx context.Context, stream string, e streams.Entry) error {
	there := i.existing[stream]
	if e.Sequence > there.last {
		return i.to.Append(ctx, stream, e)
	}
	have, err, ok := there.next()
	if err != nil {
		return err
	}
	if !ok || have.Sequence != e.Sequence || string(appendEntry(nil, stream, have)) != string(appendEntry(nil, stream, e)) {
		return fmt.Errorf("import entry %d of %s: %w: remove the log and import again", e.Sequence, stream, streams.ErrOtherEntry)
	}
	return nil
}
