package archive

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"tidings/streams"
)

// Stream is one stream as a file has it. It may be folded instead of the one that it
// was exported from: its entries are the same, and it says that it was made when that
// was.
type Stream struct {
	file   *File
	name   string
	recent recent
}

// Info returns where the stream stands.
func (s *Stream) Info(context.Context) (streams.StreamInfo, error) {
	p := s.progress()
	info := streams.StreamInfo{
		Created: p.Created, First: p.First, Last: p.Last, Messages: p.Entries, Bytes: s.file.bytes[s.name], MaxBytes: -1,
	}
	if s.name == streams.OutcomesStream {
		info.Gaps = s.file.gaps
	}
	return info, nil
}

// Follow calls handle for every entry from a sequence on, in order. After the last one
// it waits for ctx, as one does who follows a log to which nothing is appended. It
// returns the error of ctx, of handle, or of reading the file.
func (s *Stream) Follow(ctx context.Context, from uint64, handle func(streams.Entry) error) error {
	last := s.progress().At
	if from <= last {
		err := s.file.read(ctx, s.file.placeOf(s.name, from), func(i item) error {
			if i.entry == nil || i.stream != s.name || i.entry.Sequence < from {
				return nil
			}
			s.recent.put(*i.entry)
			if err := handle(*i.entry); err != nil {
				return err
			}
			if i.entry.Sequence == last {
				return errFound // what else is in the file is of another stream
			}
			return nil
		})
		if err != nil && !errors.Is(err, errFound) {
			return err
		}
	}
	<-ctx.Done()
	return ctx.Err()
}

// progress returns what the file has of the stream.
func (s *Stream) progress() Progress { return *s.file.end.of(s.name) }

var errFound = errors.New("found")

// Entry returns the entry at a sequence, or streams.ErrNotFound. Those that were
// followed a moment ago are at hand; for others a part of the file is read.
func (s *Stream) Entry(ctx context.Context, sequence uint64) (streams.Entry, error) {
	if e, ok := s.recent.get(sequence); ok {
		return e, nil
	}
	var found streams.Entry
	if p := s.progress(); p.First <= sequence && sequence <= p.At {
		err := s.file.read(ctx, s.file.placeOf(s.name, sequence), func(i item) error {
			if i.stream != s.name || i.entry == nil || i.entry.Sequence < sequence {
				return nil
			}
			found = *i.entry
			return errFound
		})
		if err != nil && !errors.Is(err, errFound) {
			return streams.Entry{}, err
		}
	}
	if sequence == 0 || found.Sequence != sequence {
		return streams.Entry{}, fmt.Errorf("entry %d of %s in export %s: %w", sequence, s.name, s.file.path, streams.ErrNotFound)
	}
	return found, nil
}

// recent remembers the last entries that were followed: a projector asks for the last
// one of each of its transactions again.
type recent struct {
	mu      sync.Mutex
	entries []streams.Entry
	bytes   int
}

// Bounds of what is remembered.
const (
	recentEntries = 4096
	recentBytes   = 16 << 20
)

func (r *recent) put(e streams.Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entries, r.bytes = append(r.entries, e), r.bytes+len(e.Data)
	for len(r.entries) > recentEntries || r.bytes > recentBytes && len(r.entries) > 1 {
		r.bytes -= len(r.entries[0].Data)
		r.entries[0] = streams.Entry{}
		r.entries = r.entries[1:]
	}
}

func (r *recent) get(sequence uint64) (streams.Entry, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := len(r.entries) - 1; i >= 0; i-- {
		if e := r.entries[i]; e.Sequence == sequence {
			return e, true
		}
	}
	return streams.Entry{}, false
}
