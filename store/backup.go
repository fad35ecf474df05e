package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

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

// sound checks every page.
func (s *Store) sound(ctx context.Context) error {
	return s.view(func(tx *bbolt.Tx) error {
		found := tx.Check()
		first, more := <-found
		for range found { // or it would wait for us
		}
		if more {
			return fmt.Errorf("%s: %w (%w)", s.path, ErrDamaged, first)
		}
		return ctx.Err()
	})
}

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
