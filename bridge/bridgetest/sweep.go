package bridgetest

import (
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

// sweep deletes the folders of nodes whose process was killed before it could.
func sweep() {
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), dirPrefix+"*"))
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
