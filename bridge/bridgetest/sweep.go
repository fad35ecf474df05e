package bridgetest

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

const (
	dirPrefix = "tidings-rabbitmq-"
	ownerFile = "owner"

	// sweepAge keeps the sweep away from folders whose owner is still about to lock them.
	sweepAge = 10 * time.Minute
)

// TempDir makes a temporary folder whose name begins with prefix, and deletes those of the same
// prefix that killed processes left behind, once they are ten minutes old. Call remove when nothing uses the folder any more; it deletes it. The file "owner" in it is ours.
func TempDir(prefix string) (dir string, remove func(), err error) {
	sweep(prefix)
	dir, err = os.MkdirTemp("", prefix)
	if err != nil {
		return "", nil, err
	}
	lock := flock.New(filepath.Join(dir, ownerFile))
	remove = func() {
		removeAll(dir)
		_ = lock.Close()
	}
	held, err := lock.TryLock()
	if err == nil && !held {
		err = errors.New("another process swept the folder away")
	}
	if err != nil {
		remove()
		return "", nil, err
	}
	return dir, remove, nil
}

// sweep deletes the folders of processes that were killed before they could.
func sweep(prefix string) {
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), prefix+"*"))
	for _, dir := range dirs {
		sweepDir(dir)
	}
}

func sweepDir(dir string) {
	owner := filepath.Join(dir, ownerFile)
	info, err := os.Stat(owner)
	if err != nil || time.Since(info.ModTime()) < sweepAge {
		return
	}
	lock := flock.New(owner)
	defer lock.Close()
	if free, err := lock.TryLock(); err == nil && free {
		removeAll(dir)
	}
}

// removeAll deletes dir. The node's helpers may still write their last when it is gone, hence more
// than one try; what then remains is left to the system's own cleaning of temporary files.
func removeAll(dir string) {
	for range 5 {
		if os.RemoveAll(dir) == nil {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}
