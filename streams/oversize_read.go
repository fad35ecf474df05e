package streams

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"io"

	"tidings/streams/event"
)

// Open returns the bytes of an object. Reading them needs room for one chunk,
// half a MiB. If they are not those that were stored, it ends with [ErrDamaged]
// before all of them are read. It returns [ErrDamaged] at once if the object is
// gone.
func (o *Oversize) Open(ctx context.Context, named event.Object) (io.Reader, error) {
	there, err := o.find(ctx, named.Name)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil, fmt.Errorf("object %s in %s: it is gone: %w", named.Name, OversizeBucket, ErrDamaged)
	case err != nil:
		return nil, err
	}
	return &reader{ctx: ctx, store: o, named: named, chunks: chunkPrefix + there.info.NUID, hash: sha256.New()}, nil
}

// reader reads an object chunk by chunk.
type reader struct {
	ctx    context.Context
	store  *Oversize
	named  event.Object
	chunks string // their subject
	after  uint64 // sequence of the last chunk that was read
	read   int64
	hash   hash.Hash
	chunk  []byte // what is left of it
	err    error
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	for len(r.chunk) == 0 && r.err == nil {
		r.chunk, r.err = r.next()
	}
	n := copy(p, r.chunk)
	if r.chunk = r.chunk[n:]; n > 0 {
		return n, nil
	}
	return 0, r.err
}

func (r *reader) next() ([]byte, error) {
	if r.read >= r.named.Size {
		return nil, io.EOF
	}
	e, err := r.store.next(r.ctx, r.chunks, r.after)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil, r.damaged("it ends after %d of %d bytes", r.read, r.named.Size)
	case err != nil:
		return nil, fmt.Errorf("read object %s: %w", r.named.Name, err)
	}
	r.after, r.read = e.Sequence, r.read+int64(len(e.Data))
	_, _ = r.hash.Write(e.Data)
	if r.read < r.named.Size {
		return e.Data, nil
	}
	return r.checked(e.Data)
}

// checked returns the last chunk, which nobody gets if the whole is not right.
func (r *reader) checked(last []byte) ([]byte, error) {
	if r.read != r.named.Size || digestPrefix+base64.URLEncoding.EncodeToString(r.hash.Sum(nil)) != r.named.Digest {
		return nil, r.damaged("its bytes are not those that were stored")
	}
	return last, nil
}

func (r *reader) damaged(format string, args ...any) error {
	return fmt.Errorf("object %s in %s: %s: %w", r.named.Name, OversizeBucket, fmt.Sprintf(format, args...), ErrDamaged)
}
