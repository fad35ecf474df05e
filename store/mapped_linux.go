package store

import (
	"syscall"

	"go.etcd.io/bbolt"
)

// unmap gives the pages of the file back that this process has looked at. They stay
// in the system's cache, and are mapped again when they are looked at again. tx keeps
// the mapping where it is meanwhile.
func unmap(tx *bbolt.Tx) {
	// It cannot fail but for a wrong address, and nothing depends on it.
	_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, tx.DB().Info().Data, uintptr(tx.Size()), syscall.MADV_DONTNEED)
}
