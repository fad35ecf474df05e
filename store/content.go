package store

import (
	"bytes"
	"iter"
	"runtime/debug"
	"slices"
	"strings"

	"go.etcd.io/bbolt"
)

// content is one thing that a ledger says. Its bytes are those of the file: they are
// good until the next one is asked for. The bucket of messages, which stand beside
// the rows, is contentMessages, and that of rows has nothing but the rows.
type content struct {
	bucket, key, value []byte
}

var contentMessages = []byte("messages")

// contents yields what the buckets hold, in the order of buckets and keys.
func contents(tx *bbolt.Tx, buckets ...[]byte) iter.Seq[content] {
	return func(yield func(content) bool) {
		for _, name := range buckets {
			in, part := name, func(value []byte) []byte { return value }
			switch string(name) {
			case string(bucketLedger):
				part = func(value []byte) []byte { return mustSplit(value).row }
			case string(contentMessages):
				in, part = bucketLedger, func(value []byte) []byte { return mustSplit(value).messages }
			}
			c := tx.Bucket(in).Cursor()
			for k, v := c.First(); k != nil; k, v = c.Next() {
				if v = part(v); len(v) > 0 && !yield(content{name, k, v}) {
					return
				}
			}
		}
	}
}

// mustSplit is splitStored for a file that is damaged otherwise, see [guarded].
func mustSplit(value []byte) stored {
	s, err := splitStored(value)
	if err != nil {
		panic(err)
	}
	return s
}

// comparedBuckets are those whose keys and values are compared: what makes two
// ledgers the same, and the counters, since a counter that is wrong is believed. An
// index that is wrong finds too little, and follows from the rest.
func comparedBuckets() [][]byte {
	return [][]byte{bucketLedger, contentMessages, bucketAudit, bucketLetters, bucketCounts, bucketHours}
}

// compared yields what is compared. The counters of dead letters are left out, since
// letters come and go while two ledgers are compared.
func compared(tx *bbolt.Tx) iter.Seq[content] {
	return func(yield func(content) bool) {
		defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // [guarded] does not reach the goroutine of an iter.Pull
		for c := range contents(tx, comparedBuckets()...) {
			if !c.countsLetters() && !yield(c) {
				return
			}
		}
	}
}

func (c content) countsLetters() bool {
	return bytes.Equal(c.bucket, bucketCounts) && (string(c.key) == countLetters || strings.HasPrefix(string(c.key), countCause))
}

// before reports whether c is yielded before d.
func (c content) before(d content) bool {
	if !bytes.Equal(c.bucket, d.bucket) {
		return c.place() < d.place()
	}
	return bytes.Compare(c.key, d.key) < 0
}

func (c content) place() int {
	return slices.IndexFunc(comparedBuckets(), func(b []byte) bool { return bytes.Equal(b, c.bucket) })
}
