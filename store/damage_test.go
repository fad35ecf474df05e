package store_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"tidings/store"
	"tidings/store/storetest"
)

// compareWith compares a file with a sound ledger.
func compareWith(path string, sound *store.Store) error {
	s, err := store.Open(path, store.Options{})
	if err != nil {
		return err
	}
	err = s.Compare(sound, func(store.Difference) bool { return true })
	return errors.Join(err, s.Close())
}

func TestADamagedFileThatIsReadIsAnErrorAndEndsNoProcess(t *testing.T) {
	s, _ := ledger(t, 50)
	require.NoError(t, s.Close())
	whole, err := os.ReadFile(s.Path())
	require.NoError(t, err)
	sound, damaged := storetest.Open(t), 0
	for page := 2 * os.Getpagesize(); page < len(whole); page += os.Getpagesize() {
		broken := slices.Clone(whole)
		for at := range binary.LittleEndian.Uint16(whole[page+10:]) {
			broken[page+16+int(at)*16+7] = 0x40 // what is on the page is a GiB away now, beyond the end
		}
		path := filepath.Join(t.TempDir(), "ledger.db")
		require.NoError(t, os.WriteFile(path, broken, 0o600))
		_, checked := store.Check(t.Context(), path)
		for _, err := range []error{checked, compareWith(path, sound)} {
			if err != nil {
				require.ErrorIs(t, err, store.ErrDamaged)
				damaged++
			}
		}
	}
	require.NotZero(t, damaged)
}

func TestAValueThatCannotBeDecodedIsDamage(t *testing.T) {
	s, log := ledger(t, 3)
	require.NoError(t, s.Update(func(tx *store.Tx) error {
		return tx.Letter(store.Letter{Key: log.Lines[0].Record.Event.Key, Tenant: "acme", Sequence: 1})
	}))
	require.NoError(t, s.Close())
	whole, err := os.ReadFile(s.Path())
	require.NoError(t, err)
	broken := bytes.ReplaceAll(whole, []byte(`"tenant":`), []byte(`"tenant"!`))
	path := filepath.Join(t.TempDir(), "ledger.db")
	require.NoError(t, os.WriteFile(path, broken, 0o600))
	s, err = store.Open(path, store.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	_, err = s.DeadLetters(store.LetterQuery{})
	require.ErrorIs(t, err, store.ErrDamaged)
	require.ErrorContains(t, err, "stop tidings and delete the file")
	_, err = s.Events(store.Query{})
	require.ErrorIs(t, err, store.ErrDamaged)
	err = s.Update(func(tx *store.Tx) error { return tx.DropLetter(log.Lines[0].Record.Event.Key, 1) })
	require.ErrorIs(t, err, store.ErrDamaged)
}
