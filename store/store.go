package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// Schema is the version of what the file holds and how. A file of another
// schema is not converted: it is deleted and built again.
const Schema = 3

// The buckets. Keys are binary; values are JSON unless said otherwise.
var (
	bucketMeta       = []byte("meta")        // "schema" -> Schema
	bucketCheckpoint = []byte("checkpoints") // stream -> Checkpoint
	bucketLedger     = []byte("ledger")      // see placeOf -> see stored
	bucketKeys       = []byte("keys")        // event key -> time in its place
	bucketAudit      = []byte("audit")       // sequence -> Entry
	bucketHistory    = []byte("history")     // event key, sequence -> nothing; of entries that are no records
	bucketDuplicates = []byte("duplicates")  // event key, id of the duplicate -> seen
	bucketLetters    = []byte("letters")     // event key -> Letter
	bucketIndex      = []byte("index")       // see dimension
	bucketLookup     = []byte("lookup")      // see lookup
	bucketCounts     = []byte("counts")      // name -> 8 bytes, big-endian
	bucketHours      = []byte("hours")       // see hourKey -> 8 bytes, big-endian
)

func buckets() [][]byte {
	return [][]byte{
		bucketMeta, bucketCheckpoint, bucketLedger, bucketKeys, bucketAudit,
		bucketHistory, bucketDuplicates, bucketLetters, bucketIndex, bucketLookup, bucketCounts, bucketHours,
	}
}

// Options are how a store is opened. The zero value is right for the process
// that owns the file.
type Options struct {
	// Timeout is how long to wait for a process that is about to let go of the
	// file; 0 means one second.
	Timeout time.Duration
	// ReadOnly opens an existing file for queries alone, beside other readers
	// but not beside its owner.
	ReadOnly bool
	// NoSync leaves writing to the disk to the operating system: for files that
	// are thrown away if the machine stops.
	NoSync bool
}

// Store is an open ledger file. Its methods may be called by many goroutines;
// Update runs one transaction at a time.
type Store struct {
	path    string
	options Options
	steps   int // bounds the index keys that one page looks at
	reads   int // bounds the values that one page reads

	writing sync.Mutex // held by who writes or replaces the file
	moved   int        // see forgetAfter; belongs to who writes
	db      atomic.Pointer[bbolt.DB]
	broken  atomic.Bool // a write met damage: nothing more is written
	frozen  *bbolt.Tx   // of a snapshot, which has nothing else
}

// Open opens the ledger file at path, and makes it if there is none. It returns
// [ErrLocked], [ErrSchema] or [ErrDamaged], each with what to do about it.
func Open(path string, o Options) (*Store, error) {
	if o.Timeout == 0 {
		o.Timeout = time.Second
	}
	db, err := openFile(path, o)
	if err != nil {
		return nil, err
	}
	s := &Store{path: path, options: o, steps: maxSteps, reads: maxReads}
	s.db.Store(db)
	if err := s.prepare(o.ReadOnly); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

// room is how much of the address space is set aside for the file: bbolt lets no
// writer extend what is mapped while somebody reads, and a comparison reads for long.
// Nothing of it is memory. Beyond it, a writer that needs a larger file waits for readers.
const room = (strconv.IntSize / 64) << 33

func openFile(path string, o Options) (db *bbolt.DB, err error) {
	err = guarded(path, func() (err error) {
		db, err = bbolt.Open(path, 0o600, &bbolt.Options{
			Timeout: o.Timeout, ReadOnly: o.ReadOnly, NoSync: o.NoSync, InitialMmapSize: room,
			FreelistType: bbolt.FreelistMapType, NoStatistics: true, PreLoadFreelist: true, // for who reads only: see sound
		})
		return err
	})
	if err != nil {
		return nil, openError(path, err)
	}
	db.AllocSize = allocSize(0)
	return db, nil
}

// allocSize is by how much a file grows at a time: each time costs a sync, and what is
// not used yet is room on the disk.
func allocSize(size int64) int { return int(min(max(1<<20, size/16), 32<<20)) }

const rebuild = "stop tidings and delete the file: it is built again from the streams"

// guarded turns the panic that is bbolt's word for a damaged page, and the fault
// of reading beyond the end of the file, into [ErrDamaged]: a ledger that can be
// built again does not end the process.
func guarded(path string, use func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("ledger %s: %w (%v): %s", path, ErrDamaged, r, rebuild)
		}
	}()
	return use()
}

func openError(path string, err error) error {
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return fmt.Errorf("open ledger %s: %w by another process: ask the running tidings over its HTTP API, or stop it first", path, ErrLocked)
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrChecksum), errors.Is(err, bolterrors.ErrVersionMismatch),
		strings.HasPrefix(err.Error(), "file size too small"): // there is no name for it
		return fmt.Errorf("open ledger %s: %w (%w): %s", path, ErrDamaged, err, rebuild)
	}
	return fmt.Errorf("open ledger: %w", err)
}

// prepare makes the buckets of a new file, and refuses a file of another schema.
func (s *Store) prepare(readOnly bool) error {
	found, err := s.schema()
	switch {
	case err != nil:
		return err
	case found == Schema:
		return nil
	case found > Schema:
		return fmt.Errorf("open ledger %s: %w (%d, this version has %d), that of a later version: run that one, or %s",
			s.path, ErrSchema, found, Schema, rebuild)
	case found != 0:
		return fmt.Errorf("open ledger %s: %w (%d, this version has %d), that of an earlier version: %s",
			s.path, ErrSchema, found, Schema, rebuild)
	case readOnly:
		return fmt.Errorf("open ledger %s: %w: nothing was ever written to it", s.path, ErrSchema)
	}
	return s.db.Load().Update(func(tx *bbolt.Tx) error {
		for _, name := range buckets() {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return fmt.Errorf("create bucket %s: %w", name, err)
			}
		}
		return putJSON(tx.Bucket(bucketMeta), []byte("schema"), Schema)
	})
}

// schema returns the schema of the file, 0 if it is new.
func (s *Store) schema() (int, error) {
	version := 0
	err := s.view(func(tx *bbolt.Tx) error {
		meta := tx.Bucket(bucketMeta)
		if meta == nil {
			return nil
		}
		_, err := getJSON(meta, []byte("schema"), &version)
		return err
	})
	return version, err
}

// Close waits for transactions to end and closes the file.
func (s *Store) Close() error {
	if err := s.closeFile(s.db.Load()); err != nil {
		return fmt.Errorf("close ledger: %w", err)
	}
	return nil
}

// closeFile closes a file, unless a write met damage: bbolt then may have left its
// lock behind, on which closing would wait for ever. Such a file stays open until the
// process ends.
func (s *Store) closeFile(db *bbolt.DB) error {
	if s.broken.Load() {
		return nil
	}
	return db.Close()
}

// Path returns the path of the file.
func (s *Store) Path() string { return s.path }

func (s *Store) view(fn func(*bbolt.Tx) error) error {
	err := guarded(s.path, func() (err error) {
		if s.frozen != nil {
			return fn(s.frozen)
		}
		tx, err := s.begin()
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, tx.Rollback()) }()
		return fn(tx)
	})
	if err != nil {
		return fmt.Errorf("read ledger: %w", err)
	}
	return nil
}

// getJSON decodes the value of key into v, and reports whether there is one.
func getJSON(b *bbolt.Bucket, key []byte, v any) (bool, error) {
	data := b.Get(key)
	if data == nil {
		return false, nil
	}
	if err := decode(data, v); err != nil {
		return true, fmt.Errorf("decode %x: %w", key, err)
	}
	return true, nil
}

// decode decodes a value. One that is no JSON is not what was written: [ErrDamaged].
func decode(data []byte, v any) error {
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("%w (%w): %s", ErrDamaged, err, rebuild)
	}
	return nil
}

func putJSON(b *bbolt.Bucket, key []byte, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %x: %w", key, err)
	}
	if err := b.Put(key, data); err != nil {
		return fmt.Errorf("put %x: %w", key, err)
	}
	return nil
}
