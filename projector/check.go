package projector

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"

	"tidings/store"
	"tidings/streams"
)

// fingerprint is what an entry is recognised by: a hash over its subject, time
// and data.
func fingerprint(e streams.Entry) string {
	h := sha256.New()
	var n [8]byte
	part := func(b []byte) {
		binary.BigEndian.PutUint64(n[:], uint64(len(b)))
		h.Write(n[:])
		h.Write(b)
	}
	part([]byte(e.Subject))
	part(binary.BigEndian.AppendUint64(nil, uint64(e.Time.UnixNano())))
	part(e.Data)
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// compare says what is wrong between a checkpoint and its stream, as far as the
// stream's information alone tells; nil if nothing is. The schema was checked
// when the store was opened.
func compare(c store.Checkpoint, info streams.StreamInfo) *HaltError {
	switch {
	case c.Stream == "": // nothing is folded in yet
		return nil
	case !c.Created.Equal(info.Created):
		return otherStream(c.Stream, c.Created, info.Created, c.Sequence)
	case info.Last < c.Sequence:
		return &HaltError{
			Stream: c.Stream, Sequence: info.Last + 1, Reason: ReasonLostTail,
			Detail: fmt.Sprintf("the stream ends at %d, the ledger has folded %d", info.Last, c.Sequence),
		}
	}
	return nil
}

// verify compares a checkpoint with its stream and with the entry that it
// covers. It returns a *HaltError, or an error of asking.
func (f *follower) verify(ctx context.Context, c store.Checkpoint) (streams.StreamInfo, error) {
	info, err := f.info(ctx)
	if err != nil {
		return info, err
	}
	if halt := compare(c, info); halt != nil {
		return info, halt
	}
	if c.Sequence == 0 || c.Sequence < info.First {
		return info, nil // nothing to recognise the stream by, but its creation
	}
	e, err := f.entry(ctx, c.Sequence)
	switch {
	case errors.Is(err, streams.ErrNotFound) && f.holes:
		return info, nil
	case errors.Is(err, streams.ErrNotFound):
		return info, f.missing(ctx, c.Sequence)
	case err != nil:
		return info, err
	case fingerprint(e) != c.Fingerprint:
		return info, &HaltError{
			Stream: c.Stream, Sequence: c.Sequence, Reason: ReasonOtherEntry,
			Detail: "another entry is there than the one that was folded",
		}
	}
	return info, nil
}

func (f *follower) info(ctx context.Context) (streams.StreamInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, f.options.AskFor)
	defer cancel()
	return f.stream.Info(ctx)
}

func (f *follower) entry(ctx context.Context, sequence uint64) (streams.Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, f.options.AskFor)
	defer cancel()
	return f.stream.Entry(ctx, sequence)
}

// missing returns a halt unless the entry aged out in the meantime, or an operator
// accepted that it is missing.
func (f *follower) missing(ctx context.Context, sequence uint64) error {
	info, err := f.info(ctx)
	if err != nil || sequence < info.First || passed(info.Gaps, sequence, sequence+1) > sequence {
		return err
	}
	return gap(f.name, sequence, sequence+1)
}
