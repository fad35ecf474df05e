package app

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"

	"tidings/streams/event"
)

// directory is the data directory of one process: locked as long as it runs.
type directory struct {
	path  string // absolute
	fresh bool   // it was made by this start
	lock  *flock.Flock
	owner event.Owner // the instance stays with the directory, the boot is new
}

// ledgerFile is the ledger in a data directory.
const ledgerFile = "ledger.db"

// recipientsKey is the file with the key by which recipients are recognised.
const recipientsKey = "recipients.key"

// ErrInUse means, when an App is made, that another process has its data directory.
var ErrInUse = errors.New("the data directory is in use by another tidings")

// openDirectory makes the directory if needed and locks it. The lock is what
// proves that every earlier boot of this instance is gone.
func openDirectory(path string) (*directory, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("find the data directory: %w", err)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("make the data directory: %w", err)
	}
	lock := flock.New(filepath.Join(path, "lock"), flock.SetPermissions(0o600))
	locked, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock the data directory %s: %w", path, err)
	}
	if !locked {
		return nil, fmt.Errorf("%w: %s: stop that one, or give this one its own with --data", ErrInUse, path)
	}
	d := &directory{path: path, lock: lock}
	_, err = os.Stat(d.file("instance"))
	d.fresh = errors.Is(err, fs.ErrNotExist)
	instance, err := d.secret("instance", "delete it, and the next start makes one")
	if err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	d.owner = event.Owner{Instance: string(event.NewKey("instance", string(instance))), Boot: event.NewNonce()}
	return d, nil
}

func (d *directory) close() error { return d.lock.Unlock() }

func (d *directory) file(name string) string { return filepath.Join(d.path, name) }

// secret returns the 32 random bytes kept in the directory under name, and
// makes them at the first start. remedy says what to do if they are damaged.
func (d *directory) secret(name, remedy string) ([]byte, error) {
	path := d.file(name)
	b, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return d.makeSecret(path)
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", path, err)
	case len(b) != 32:
		return nil, fmt.Errorf("%s has %d bytes and not 32: %s", path, len(b), remedy)
	}
	return b, nil
}

// makeSecret writes new random bytes so that a crash leaves all or nothing.
func (d *directory) makeSecret(path string) ([]byte, error) {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails: it ends the process instead
	f, err := os.CreateTemp(d.path, ".new-*")
	if err != nil {
		return nil, fmt.Errorf("make %s: %w", path, err)
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make %s: %w", path, err), os.Remove(f.Name()))
	}
	return b, nil
}
