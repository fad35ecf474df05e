package store_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/store"
	"tidings/store/storetest"
	"tidings/streams/event"
)

func TestOpen(t *testing.T) {
	t.Run("a file in use is refused, saying whom to ask", func(t *testing.T) {
		s := storetest.Open(t)
		_, err := store.Open(s.Path(), store.Options{Timeout: time.Millisecond})
		require.ErrorIs(t, err, store.ErrLocked)
		require.ErrorContains(t, err, s.Path())
		require.ErrorContains(t, err, "ask the running tidings over its HTTP API")
	})
	t.Run("a file of another schema is refused, saying to delete it", func(t *testing.T) {
		s := storetest.Open(t)
		require.NoError(t, s.PutSchema(store.Schema+1))
		require.NoError(t, s.Close())
		_, err := store.Open(s.Path(), store.Options{})
		require.ErrorIs(t, err, store.ErrSchema)
		require.ErrorContains(t, err, "delete the file: it is built again from the streams")
	})
	t.Run("something else is refused, saying to delete it", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "ledger.db")
		require.NoError(t, os.WriteFile(path, make([]byte, 1<<16), 0o600))
		_, err := store.Open(path, store.Options{})
		require.ErrorIs(t, err, store.ErrDamaged)
		require.ErrorContains(t, err, "delete the file")
	})
	t.Run("a file that lost its end is refused, saying to delete it", func(t *testing.T) {
		s, _ := ledger(t, 50)
		require.NoError(t, s.Close())
		whole, err := os.ReadFile(s.Path())
		require.NoError(t, err)
		for size := len(whole) - os.Getpagesize(); size > 0; size -= os.Getpagesize() {
			path := filepath.Join(t.TempDir(), "ledger.db")
			require.NoError(t, os.WriteFile(path, whole[:size], 0o600))
			if err := openAndRead(path); err != nil {
				require.ErrorIs(t, err, store.ErrDamaged, "%d of %d bytes", size, len(whole))
				require.ErrorContains(t, err, "delete the file")
			}
		}
	})
	t.Run("a damaged page is an error of whoever reads it, and no panic", func(t *testing.T) {
		s, _ := ledger(t, 50)
		require.NoError(t, s.Close())
		whole, err := os.ReadFile(s.Path())
		require.NoError(t, err)
		damaged := 0
		for page := 2 * os.Getpagesize(); page < len(whole); page += os.Getpagesize() {
			broken := slices.Clone(whole)
			copy(broken[page:], bytes.Repeat([]byte{0xff}, os.Getpagesize()))
			path := filepath.Join(t.TempDir(), "ledger.db")
			require.NoError(t, os.WriteFile(path, broken, 0o600))
			if err := openAndRead(path); err != nil {
				require.ErrorIs(t, err, store.ErrDamaged)
				damaged++
			}
		}
		require.NotZero(t, damaged)
	})
	t.Run("the file is for its owner's eyes", func(t *testing.T) {
		info, err := os.Stat(storetest.Open(t).Path())
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	})
	t.Run("readers share a file that nobody writes", func(t *testing.T) {
		s, _ := ledger(t, 2)
		want := digest(t, s)
		require.NoError(t, s.Close())
		for range 2 {
			reader, err := store.Open(s.Path(), store.Options{ReadOnly: true})
			require.NoError(t, err)
			defer func() { require.NoError(t, reader.Close()) }()
			require.Equal(t, want, digest(t, reader))
			require.Error(t, reader.Update(func(*store.Tx) error { return nil }))
		}
	})
	t.Run("a reader does not make a file", func(t *testing.T) {
		_, err := store.Open(filepath.Join(t.TempDir(), "none.db"), store.Options{ReadOnly: true})
		require.ErrorIs(t, err, os.ErrNotExist)
	})
}

// openAndRead reads all of a ledger.
func openAndRead(path string) error {
	s, err := store.Open(path, store.Options{})
	if err != nil {
		return err
	}
	_, err = s.Digest()
	return errors.Join(err, s.Close())
}

func TestUpdate(t *testing.T) {
	t.Run("entries and checkpoint are written together or not at all", func(t *testing.T) {
		s, log := ledger(t, 1)
		want := digest(t, s)
		checkpoint := store.Checkpoint{Stream: "OUTCOMES", Created: storetest.Start, Sequence: 2, Fingerprint: "f"}
		require.NoError(t, s.Update(func(tx *store.Tx) error { return tx.Checkpoint(checkpoint) }))

		broken := errors.New("broken")
		log.Record(storetest.Ref("acme", 5), event.Claimed{})
		err := s.Update(func(tx *store.Tx) error {
			require.NoError(t, log.Lines[2].Apply(tx))
			require.NoError(t, tx.Checkpoint(store.Checkpoint{Stream: "OUTCOMES", Sequence: 3}))
			return broken
		})
		require.ErrorIs(t, err, broken)
		require.Equal(t, want, digest(t, s))
		got, err := s.Checkpoint("OUTCOMES")
		require.NoError(t, err)
		checkpoint.Schema = store.Schema
		require.Equal(t, checkpoint, got)
	})
	t.Run("a checkpoint that was never written is the zero one", func(t *testing.T) {
		got, err := storetest.Open(t).Checkpoint("DEADLETTERS")
		require.NoError(t, err)
		require.Zero(t, got)
	})
	t.Run("what is written is there after opening again", func(t *testing.T) {
		s, _ := ledger(t, 3)
		want := digest(t, s)
		require.NoError(t, s.Close())
		require.Equal(t, want, digest(t, storetest.OpenFile(t, s.Path())))
	})
}

func TestAnOlderRecordDoesNotMoveARowBack(t *testing.T) {
	s, log := storetest.Open(t), &storetest.Log{}
	ref := storetest.Ref("acme", 0)
	log.Record(ref, event.Claimed{})
	log.Record(ref, event.Settled{})
	storetest.Apply(t, s, log.Lines[1])
	storetest.Apply(t, s, log.Lines[0])
	row, err := s.Event(ref.Key)
	require.NoError(t, err)
	require.Equal(t, event.PhaseSettled, row.Phase)
	history, err := s.History(ref.Key, 0, 0)
	require.NoError(t, err)
	require.Len(t, history, 2, "but it is in the audit, in its place")
}

func TestDuplicates(t *testing.T) {
	ref := storetest.Ref("acme", 0)

	t.Run("one that comes before its event makes no row, and is counted when the event comes", func(t *testing.T) {
		s, log := storetest.Open(t), &storetest.Log{}
		log.Duplicate(ref, "a")
		log.Duplicate(ref, "b")
		storetest.Apply(t, s, log.Lines...)
		_, err := s.Event(ref.Key)
		require.ErrorIs(t, err, store.ErrNotFound)
		history, err := s.History(ref.Key, 0, 0)
		require.NoError(t, err)
		require.Len(t, history, 2, "it is in the audit all the same")

		log.Record(ref, event.Claimed{})
		storetest.Apply(t, s, log.Lines[2])
		row, err := s.Event(ref.Key)
		require.NoError(t, err)
		require.Equal(t, 2, row.Duplicates)
	})
	t.Run("one that is appended twice counts once", func(t *testing.T) {
		s, log := storetest.Open(t), &storetest.Log{}
		log.Record(ref, event.Claimed{})
		log.Duplicate(ref, "a")
		log.Duplicate(ref, "a")
		storetest.Apply(t, s, log.Lines...)
		row, err := s.Event(ref.Key)
		require.NoError(t, err)
		require.Equal(t, 1, row.Duplicates)
		history, err := s.History(ref.Key, 0, 0)
		require.NoError(t, err)
		require.Equal(t, uint64(3), history[1].Sequence)
	})
	t.Run("one that stands for many counts as many", func(t *testing.T) {
		s, log := storetest.Open(t), &storetest.Log{}
		log.Record(ref, event.Claimed{})
		log.Duplicate(ref, "a")
		log.Lines[1].Duplicate.Count = 11
		storetest.Apply(t, s, log.Lines...)
		row, err := s.Event(ref.Key)
		require.NoError(t, err)
		require.Equal(t, 11, row.Duplicates)
	})
}

func TestUnknownEntriesAreKeptAndShown(t *testing.T) {
	s, log := ledger(t, 1)
	ref := storetest.Ref("acme", 0)
	before, err := s.Event(ref.Key)
	require.NoError(t, err)
	log.Unknown(storetest.Unknown{Key: ref.Key, Kind: "annotated", Data: []byte(`{"note":1}`)})
	storetest.Apply(t, s, log.Lines[2])

	after, err := s.Event(ref.Key)
	require.NoError(t, err)
	require.Equal(t, before, after)
	history, err := s.History(ref.Key, 0, 0)
	require.NoError(t, err)
	require.Equal(t, event.Kind("annotated"), history[2].Kind)
	require.JSONEq(t, `{"note":1}`, string(history[2].Unknown.Data))
}

func TestTrimForgetsEventsButNotTheLettersOfThem(t *testing.T) {
	s, _ := ledger(t, 2)
	ref := storetest.Ref("acme", 0)
	require.NoError(t, s.Update(func(tx *store.Tx) error {
		if err := tx.Letter(store.NewLetter(1, letter(ref.Key, 0))); err != nil {
			return err
		}
		more, err := tx.Trim(3, 100)
		require.False(t, more)
		return err
	}))
	_, err := s.Event(ref.Key)
	require.ErrorIs(t, err, store.ErrNotFound)
	_, err = s.Event(storetest.Ref("globex", 1).Key)
	require.NoError(t, err)
	_, err = s.DeadLetter(ref.Key)
	require.NoError(t, err)
}
