package store

import "errors"

// Errors of opening a ledger file.
var (
	// ErrLocked means that another process has the file open.
	ErrLocked = errors.New("the ledger file is in use")
	// ErrSchema means that another version of this program wrote the file.
	ErrSchema = errors.New("the ledger file has another schema")
	// ErrDamaged means that the file is not a bbolt database, or no longer a
	// sound one.
	ErrDamaged = errors.New("the ledger file is damaged")
	// ErrReplaced means that another file is in the place of the ledger and could
	// not be opened: the process has to end, and the next start finds what it is.
	ErrReplaced = errors.New("the ledger file was replaced, and the new one cannot be opened: start tidings again")
)

// Errors of asking.
var (
	// ErrNotFound means that the ledger knows no such event or dead letter: it
	// never came, is not folded in yet, or is beyond the horizon.
	ErrNotFound = errors.New("not found")
	// ErrCursor means that a cursor was not made by the same query.
	ErrCursor = errors.New("the cursor does not belong to this query: start again without one")
)
