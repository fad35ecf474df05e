package bridgetest_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/bridge/bridgetest"
)

func TestTempDir(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	// left is a folder as a killed process leaves it: its file is there, and nobody holds it.
	left := func(name string, age time.Duration) string {
		dir := filepath.Join(temp, name)
		require.NoError(t, os.Mkdir(dir, 0o700))
		owner := filepath.Join(dir, "owner")
		require.NoError(t, os.WriteFile(owner, nil, 0o600))
		require.NoError(t, os.Chtimes(owner, time.Time{}, time.Now().Add(-age)))
		return dir
	}
	living, remove, err := bridgetest.TempDir("tidings-demo-")
	require.NoError(t, err)
	require.NoError(t, os.Chtimes(filepath.Join(living, "owner"), time.Time{}, time.Now().Add(-time.Hour)))
	old, young := left("tidings-demo-old", time.Hour), left("tidings-demo-young", time.Minute)
	foreign := left("tidings-other", time.Hour)

	_, removeMine, err := bridgetest.TempDir("tidings-demo-")
	require.NoError(t, err)
	defer removeMine()

	require.NoDirExists(t, old)
	require.DirExists(t, young, "its owner may be about to lock it")
	require.DirExists(t, foreign)
	require.DirExists(t, living)
	remove()
	require.NoDirExists(t, living)
}
