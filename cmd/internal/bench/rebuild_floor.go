package bench

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"
	"golang.org/x/sync/errgroup"

	"tidings/projector"
	"tidings/store"
	"tidings/streams"
)

// floorEvery is how long the product waits for a transaction to become full, see
// [projector.Options]. Like the product, the floor reads the next batch meanwhile.
const floorEvery = 50 * time.Millisecond

// Buckets of a ledger that hold a row for each event and one for each record. The
// floor has the same two.
var (
	rowBucket   = []byte("ledger")
	auditBucket = []byte("audit")
)

// sizes are those of the product's values, in bytes, on average.
type sizes struct {
	Row   int `json:"row"`
	Audit int `json:"audit"`
}

// sizesOf is how many entries the sizes are taken of.
const sizesOf = 5000

// sizes folds the first entries into a file of its own, and looks into it.
func (p *place) sizes(ctx context.Context, path string, entries int) (sizes, error) {
	defer removeFile(path)
	ledger, err := store.Open(path, store.Options{NoSync: true})
	if err != nil {
		return sizes{}, err
	}
	err = p.fold(ctx, ledger, uint64(entries), 0, new(atomic.Int64))
	if err = errors.Join(err, ledger.Close()); err != nil {
		return sizes{}, err
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		return sizes{}, err
	}
	var s sizes
	err = db.View(func(tx *bbolt.Tx) (err error) {
		if s.Row, err = average(tx, rowBucket); err != nil {
			return err
		}
		s.Audit, err = average(tx, auditBucket)
		return err
	})
	return s, errors.Join(err, db.Close())
}

// average returns how large a value in a bucket is on average.
func average(tx *bbolt.Tx, bucket []byte) (int, error) {
	b, n, bytes := tx.Bucket(bucket), 0, 0
	if b == nil {
		return 0, fmt.Errorf("the ledger has no bucket %q to take the size of a row from", bucket)
	}
	err := b.ForEach(func(_, v []byte) error {
		n, bytes = n+1, bytes+len(v)
		return nil
	})
	return bytes / max(n, 1), err
}

// floor reads the same stream in the same way and puts two rows for each entry, in
// transactions of the same size and as safe. Nothing is decoded or decided.
func (p part) floor(ctx context.Context, log *place, at *pace) (r partResult, err error) {
	db, err := bbolt.Open(p.File, 0o600, &bbolt.Options{
		Timeout: time.Second, FreelistType: bbolt.FreelistMapType, NoStatistics: true,
	})
	if err != nil {
		return partResult{}, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucket(rowBucket)
		_, err2 := tx.CreateBucket(auditBucket)
		return errors.Join(err, err2)
	}); err != nil {
		return partResult{}, err
	}
	began := time.Now()
	if err := p.putAll(ctx, log, db, &at.done); err != nil {
		return partResult{}, err
	}
	r.Rate = float64(p.Want.Records) / time.Since(began).Seconds()
	r.PeakRSS = peakRSS()
	at.checking.Store(true)
	return r, p.checkFloor(db, &at.checked)
}

var errAll = errors.New("all was read")

// putAll reads and writes at the same time, as the product does.
func (p part) putAll(ctx context.Context, log *place, db *bbolt.DB, done *atomic.Int64) error {
	g, ctx := errgroup.WithContext(ctx)
	queue := make(chan streams.Entry, projector.RebuildBatch)
	g.Go(func() error {
		defer close(queue)
		err := log.log.Outcomes.Follow(ctx, 1, func(e streams.Entry) error {
			select {
			case queue <- e:
			case <-ctx.Done():
				return ctx.Err()
			}
			if done.Store(int64(e.Sequence)); e.Sequence >= uint64(p.Want.Records) {
				return errAll
			}
			return nil
		})
		if errors.Is(err, errAll) {
			err = nil
		}
		return err
	})
	g.Go(func() error {
		row, audit := bytes.Repeat([]byte("r"), p.Sizes.Row), bytes.Repeat([]byte("a"), p.Sizes.Audit)
		for first := range queue {
			batch := batchOf(first, queue)
			if err := db.Update(func(tx *bbolt.Tx) error { return putBatch(tx, batch, row, audit) }); err != nil {
				return err
			}
		}
		return nil
	})
	return g.Wait()
}

// batchOf collects what is written in one transaction, as the product does.
func batchOf(first streams.Entry, queue <-chan streams.Entry) []streams.Entry {
	batch, timer := []streams.Entry{first}, time.NewTimer(floorEvery)
	defer timer.Stop()
	for len(batch) < projector.RebuildBatch {
		select {
		case e, open := <-queue:
			if !open {
				return batch
			}
			batch = append(batch, e)
		case <-timer.C:
			return batch
		}
	}
	return batch
}

func putBatch(tx *bbolt.Tx, batch []streams.Entry, row, audit []byte) error {
	rows, entries := tx.Bucket(rowBucket), tx.Bucket(auditBucket)
	entries.FillPercent = 0.95 // as in the product
	for _, e := range batch {
		if err := rows.Put([]byte(e.Header.Get(streams.HeaderKey)), row); err != nil {
			return err
		}
		if err := entries.Put(binary.BigEndian.AppendUint64(nil, e.Sequence), audit); err != nil {
			return err
		}
	}
	return nil
}

func (p part) checkFloor(db *bbolt.DB, checked *atomic.Int64) error {
	return db.View(func(tx *bbolt.Tx) error {
		err := tx.Bucket(auditBucket).ForEach(func(_, _ []byte) error { checked.Add(1); return nil })
		if n := checked.Load(); err == nil && n != int64(p.Want.Records) {
			err = fmt.Errorf("the floor has put %d records, and should have put %d", n, p.Want.Records)
		}
		return err
	})
}
