package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// Snapshot returns the ledger as it is now, for queries, whatever is written or
// replaced meanwhile. It is for one goroutine. The file grows while there is one, and
// [Store.Close] waits for release, which is called once.
func (s *Store) Snapshot() (snapshot *Store, release func() error, err error) {
	tx, err := s.begin()
	if err != nil {
		return nil, nil, fmt.Errorf("read ledger: %w", err)
	}
	return &Store{path: s.path, steps: s.steps, reads: s.reads, frozen: tx}, tx.Rollback, nil
}

// begin begins to read. A file that was replaced between two words here is closed,
// and the other one is there already.
func (s *Store) begin() (*bbolt.Tx, error) {
	for {
		db := s.db.Load()
		tx, err := db.Begin(false)
		if errors.Is(err, bolterrors.ErrDatabaseNotOpen) && s.db.Load() != db {
			continue
		}
		return tx, err
	}
}

// Replace puts the file at path, which nobody has open and which is on the same disk,
// in the place of this store's own. Who reads meanwhile gets the old one or the new
// one and no error; who writes waits. A crash leaves one of both under the name of the
// ledger. Replace returns when nobody reads the old one any more. [ErrReplaced] means
// that the new one is in place and cannot be opened: end the process.
func (s *Store) Replace(path string) error {
	if err := syncFile(path); err != nil {
		return fmt.Errorf("replace ledger: %w", err)
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := os.Rename(path, s.path); err != nil {
		return fmt.Errorf("replace ledger: %w", err)
	}
	if err := syncFile(filepath.Dir(s.path)); err != nil {
		return fmt.Errorf("%w: %w", ErrReplaced, err)
	}
	db, err := openFile(s.path, s.options)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrReplaced, err)
	}
	old := s.db.Swap(db)
	err = s.closeFile(old)
	s.broken.Store(false)
	if err != nil {
		return fmt.Errorf("close the ledger that was replaced: %w", err)
	}
	return nil
}

// syncFile makes sure that a file, or the names in a directory, are on the disk.
func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
