// Package storetest is for tests of what reads or fills a store: a ledger file
// that is checked when the test ends, and random histories as OUTCOMES could
// hold them.
package storetest

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"tidings/store"
)

// Open returns a store on a new file, which is closed and checked for
// consistency when the test ends.
func Open(t testing.TB) *store.Store {
	t.Helper()
	return OpenFile(t, filepath.Join(t.TempDir(), "ledger.db"))
}

// OpenFile is [Open] on a file of the given path, new or not.
func OpenFile(t testing.TB, path string) *store.Store {
	t.Helper()
	s, err := store.Open(path, store.Options{NoSync: true})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, s.Close()) // closing twice is allowed
		Check(t, path)
	})
	return s
}

// Check fails the test if the file at path is not a sound database.
func Check(t testing.TB, path string) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, PreLoadFreelist: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	require.NoError(t, db.View(func(tx *bbolt.Tx) error {
		for err := range tx.Check() {
			t.Errorf("ledger file %s: %v", path, err)
		}
		return nil
	}))
}
