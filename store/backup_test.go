package store_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"tidings/store"
	"tidings/store/storetest"
	"tidings/streams/event"
)

// filled is a ledger with some events.
func filled(t *testing.T) (*store.Store, *storetest.Log) {
	s, log := storetest.Open(t), &storetest.Log{}
	for i := range 200 {
		log.Record(storetest.Ref("acme", i), event.Claimed{})
	}
	storetest.Apply(t, s, log.Lines...)
	advance(t, s, 200)
	return s, log
}

func TestBackup(t *testing.T) {
	s, log := filled(t)
	want, err := s.Digest()
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "copy.db")
	b, err := s.Backup()
	require.NoError(t, err)
	defer b.Close()

	t.Run("is the ledger as of the moment when it began", func(t *testing.T) {
		before := len(log.Lines)
		for i := range 200 {
			log.Record(storetest.Ref("globex", i), event.Claimed{})
		}
		storetest.Apply(t, s, log.Lines[before:]...)
		c, err := store.Save(t.Context(), b, path)
		require.NoError(t, err)
		require.NoError(t, b.Close())
		require.Equal(t, want, c.Digest)
		require.Equal(t, b.Size, c.Bytes)
		require.EqualValues(t, 200, c.Checkpoints[0].Sequence)
	})
	t.Run("is for its owner alone, and nothing else is left", func(t *testing.T) {
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.EqualValues(t, 0o600, info.Mode().Perm())
		entries, err := os.ReadDir(filepath.Dir(path))
		require.NoError(t, err)
		require.Len(t, entries, 1)
	})
	t.Run("can be opened in the place of the ledger", func(t *testing.T) {
		again := storetest.OpenFile(t, path)
		got, err := again.Digest()
		require.NoError(t, err)
		require.Equal(t, want, got)
		advance(t, again, 201)
		require.NoError(t, again.Close())
	})
	t.Run("takes the place of no file", func(t *testing.T) {
		_, err := store.Save(t.Context(), b, path)
		require.ErrorIs(t, err, os.ErrExist)
	})
}

// broken is a copy that breaks off, or is not what it was.
type broken func(io.Writer) error

func (b broken) WriteTo(w io.Writer) (int64, error) { return 0, b(w) }

func TestABackupThatIsNotWholeLeavesNothing(t *testing.T) {
	s, _ := filled(t)
	require.NoError(t, s.Close())
	data, err := os.ReadFile(s.Path())
	require.NoError(t, err)
	off := errors.New("off")
	for name, c := range map[string]struct {
		write broken
		want  error
	}{
		"it breaks off": {func(w io.Writer) error {
			_, err := w.Write(data[:8192])
			return errors.Join(err, off)
		}, off},
		"it is cut off and nobody says so": {func(w io.Writer) error {
			_, err := w.Write(data[:16384])
			return err
		}, store.ErrDamaged},
		"it is something else": {func(w io.Writer) error {
			_, err := w.Write([]byte("hello"))
			return err
		}, store.ErrDamaged},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			_, err := store.Save(t.Context(), c.write, filepath.Join(dir, "copy.db"))
			require.ErrorIs(t, err, c.want)
			entries, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Empty(t, entries)
		})
	}
}
