package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// Backup is a copy of the ledger as of one moment, for as long as it takes to write
// it. Close it.
type Backup struct {
	// Size is how many bytes it has.
	Size int64
	tx   *bbolt.Tx
	path string
}

// Backup begins a copy of the ledger as it is now. Reading and writing go on
// meanwhile; [Store.Replace] and [Store.Close] wait for it.
func (s *Store) Backup() (*Backup, error) {
	tx, err := s.begin()
	if err != nil {
		return nil, fmt.Errorf("back up ledger: %w", err)
	}
	return &Backup{Size: tx.Size(), tx: tx, path: s.path}, nil
}

// WriteTo writes all of it to w, once. What is written can be put in the place of the
// ledger.
func (b *Backup) WriteTo(w io.Writer) (n int64, err error) {
	err = guarded(b.path, func() (err error) {
		n, err = b.tx.WriteTo(w)
		return err
	})
	if err != nil {
		return n, fmt.Errorf("back up ledger: %w", err)
	}
	return n, nil
}

// Close ends it. It may be closed twice.
func (b *Backup) Close() error {
	if err := b.tx.Rollback(); err != nil && !errors.Is(err, bolterrors.ErrTxClosed) {
		return fmt.Errorf("back up ledger: %w", err)
	}
	return nil
}

// Checked is what is in a file of a ledger.
type Checked struct {
	Schema      int          `json:"schema"`
	Bytes       int64        `json:"bytes"`
	Checkpoints []Checkpoint `json:"checkpoints"`
	Counts      Counts       `json:"counts"`
	Digest      string       `json:"digest"`
}

// Check reads all of the file of a ledger that nobody writes, and changes nothing. It
// returns [ErrDamaged] if it is not sound, and the errors of [Open].
func Check(ctx context.Context, path string) (c Checked, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return c, fmt.Errorf("check ledger: %w", err)
	}
	s, err := Open(path, Options{ReadOnly: true})
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := s.sound(ctx); err != nil {
		return c, err
	}
	c = Checked{Schema: Schema, Bytes: info.Size()}
	if c.Checkpoints, err = s.Checkpoints(); err != nil {
		return c, err
	}
	if c.Counts, err = s.Counts(); err != nil {
		return c, err
	}
	c.Digest, err = s.Digest()
	return c, err
}

// sound checks every page. All that is kept is read before: bbolt checks in a goroutine
// of its own, where what leads beyond the end of the file would end the process.
func (s *Store) sound(ctx context.Context) error {
	return s.view(func(tx *bbolt.Tx) error {
		if err := touch(tx); err != nil {
			return err
		}
		found := tx.Check(bbolt.WithKVStringer(short{}))
		first, more := <-found
		for range found { // or it would wait for us
		}
		if more {
			return fmt.Errorf("%s: %w (%w)", s.path, ErrDamaged, first)
		}
		return ctx.Err()
	})
}

// touch reads all keys and values, and finds its way to a key of every page, so that
// what leads elsewhere is met where [guarded] reaches.
func touch(tx *bbolt.Tx) error {
	sum := byte(0)
	for _, name := range buckets() {
		b := tx.Bucket(name)
		if b == nil {
			return fmt.Errorf("%w: it has no bucket %s", ErrDamaged, name)
		}
		all, way, passed := b.Cursor(), b.Cursor(), seekEvery
		for k, v := all.First(); k != nil; k, v = all.Next() {
			for _, part := range [][]byte{k, v} {
				for _, c := range part {
					sum += c
				}
			}
			if passed += len(k) + len(v); passed < seekEvery {
				continue
			}
			passed = 0
			if found, _ := way.Seek(k); !bytes.Equal(found, k) {
				return fmt.Errorf("%w: key %x of bucket %s cannot be found", ErrDamaged, k, name)
			}
		}
	}
	runtime.KeepAlive(sum)
	return nil
}

// short has a check show the beginning of a key: the length of a damaged one may lead
// beyond the end of the file.
type short struct{}

func (short) KeyToString(key []byte) string     { return fmt.Sprintf("%x", key[:min(len(key), 32)]) }
func (short) ValueToString(value []byte) string { return fmt.Sprintf("%d bytes", len(value)) }

// seekEvery is less than what is on a page at least, a quarter of it.
const seekEvery = 512

// Checkpoints returns how far each stream is folded in.
func (s *Store) Checkpoints() ([]Checkpoint, error) {
	all := []Checkpoint{}
	err := s.view(func(tx *bbolt.Tx) error {
		b := tx.Bucket(bucketCheckpoint)
		return b.ForEach(func(k, _ []byte) error {
			var c Checkpoint
			if _, err := getJSON(b, k, &c); err != nil {
				return fmt.Errorf("checkpoint of %s: %w", k, err)
			}
			all = append(all, c)
			return nil
		})
	})
	return all, err
}

// Save writes a ledger that in yields into a file, which has its name when it is whole, on
// the disk and checked. There must be none of that name: an error that is
// fs.ErrExist.
func Save(ctx context.Context, in io.WriterTo, path string) (c Checked, err error) {
	if _, err := os.Lstat(path); err == nil {
		return c, fmt.Errorf("%s: %w", path, os.ErrExist)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // for its owner alone
	if err != nil {
		return c, fmt.Errorf("back up ledger: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = in.WriteTo(f)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return c, fmt.Errorf("back up ledger: %w", err)
	}
	if c, err = Check(ctx, f.Name()); err != nil {
		return c, fmt.Errorf("the copy is not sound: %w", err)
	}
	if err := os.Link(f.Name(), path); err != nil { // unlike a rename it takes nobody's place
		return c, fmt.Errorf("back up ledger: %w", err)
	}
	return c, errors.Join(os.Remove(f.Name()), syncFile(filepath.Dir(path)))
}
