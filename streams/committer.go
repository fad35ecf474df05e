package streams

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"
)

// Sizes of a batch. Setting one up costs the server about as much as syncing
// sixteen entries one by one.
const (
	minBatch      = 16
	maxBatch      = 256
	maxBatchBytes = 1 << 20
	maxSifts      = 3
	// waryBatches is how many batches are sifted beforehand after a conflict.
	waryBatches = 16
)

// committer stores the entries of one stream in groups. Where the server syncs
// each append to disk, a batch shares one sync.
//
// One commit is in flight at a time and there is no timer: what arrives while
// a commit is under way is the next one, so an idle committer sends at once
// and a busy one fills its batches. One in flight also keeps the order.
//
// A batch holds at most one entry per key. The server checks expectations
// against the stream before the batch, so of two claims in one batch both
// could win. For the same reason expectations are about the literal subject of
// the entry, never about a wildcard.
type committer struct {
	*queue
	publisher *publisher
	js        jetstream.JetStream
	policy
	wary int // batches to sift beforehand
}

// policy is in what the streams differ.
type policy struct {
	// alone reports whether an entry must stay out of batches.
	alone func(*entry) bool
	// sift tells, after a refused batch, whose expectation is not met. The
	// server says only that somebody's is not.
	sift func(ctx context.Context, batch []*entry) (rest, lost []*entry)
}

func newCommitter(p *publisher, js jetstream.JetStream, differs policy) *committer {
	return &committer{queue: newQueue(), publisher: p, js: js, policy: differs}
}

// run commits until ctx is done, then what is queued, and nothing after that.
func (c *committer) run(ctx context.Context) error {
	return c.publisher.run(func() { c.serve(ctx, c.commitQueued) })
}

func (c *committer) commitQueued() {
	for batch := c.takeBatch(); len(batch) > 0; batch = c.takeBatch() {
		c.commit(batch)
	}
}

// commit stores entries and finishes them.
func (c *committer) commit(entries []*entry) {
	var batch, singles []*entry
	for _, e := range entries {
		if e.single || c.alone != nil && c.alone(e) {
			singles = append(singles, e)
		} else {
			batch = append(batch, e)
		}
	}
	if len(batch) < minBatch {
		singles, batch = entries, nil
	}
	c.send(singles)
	c.commitBatch(c.winnow(batch), 0)
	await(singles)
}

// send publishes entries one by one, without waiting for answers in between.
func (c *committer) send(entries []*entry) {
	for _, e := range entries {
		c.publisher.send(e)
	}
}

// commitSingly gives each entry a verdict of its own.
func (c *committer) commitSingly(entries []*entry) {
	c.send(entries)
	await(entries)
}

func (c *committer) commitBatch(batch []*entry, sifts int) {
	if len(batch) < minBatch || sifts > maxSifts {
		c.commitSingly(batch)
		return
	}
	last, err := c.publisher.batch(batch)
	switch {
	case err == nil:
		for i, e := range batch {
			e.finish(last-uint64(len(batch)-1-i), false, nil)
		}
	case mayBeStored(err):
		for _, e := range batch {
			e.finish(0, false, err)
		}
	case errors.Is(err, errConflict) && c.sift != nil:
		c.siftAndCommit(batch, sifts, err)
	default:
		c.commitSingly(batch)
	}
}

func (c *committer) siftAndCommit(batch []*entry, sifts int, refusal error) {
	rest := c.siftOut(batch, refusal)
	if len(rest) == len(batch) {
		sifts = maxSifts // it is not about what can be read: let the server tell one by one
	}
	c.commitBatch(rest, sifts+1)
}

// siftOut finishes those whose expectation is not met, and returns the rest.
func (c *committer) siftOut(batch []*entry, refusal error) []*entry {
	ctx, cancel := context.WithTimeout(context.Background(), ackWait)
	defer cancel()
	rest, lost := c.sift(ctx, batch)
	for _, e := range lost {
		e.finish(0, false, refusal)
	}
	if len(lost) > 0 {
		c.wary = waryBatches
	}
	return rest
}

// winnow sifts a batch beforehand, for a while after one was refused: where there
// was a conflict there may be more, and to ask costs less than a refused batch.
func (c *committer) winnow(batch []*entry) []*entry {
	if c.wary == 0 || len(batch) < minBatch {
		return batch
	}
	c.wary--
	return c.siftOut(batch, errConflict)
}

// siftConflicts finds the entries whose subject has moved on, with one request
// for all of them. A stale or partial answer convicts nobody wrongly.
func siftConflicts(js jetstream.JetStream) func(context.Context, []*entry) (rest, lost []*entry) {
	return func(ctx context.Context, batch []*entry) (rest, lost []*entry) {
		last := lastSequences(ctx, js, batch)
		for _, e := range batch {
			if e.conditional && last[e.msg.Subject] > e.after {
				lost = append(lost, e)
			} else {
				rest = append(rest, e)
			}
		}
		return rest, lost
	}
}

func lastSequences(ctx context.Context, js jetstream.JetStream, batch []*entry) map[string]uint64 {
	var subjects []string
	for _, e := range batch {
		if e.conditional {
			subjects = append(subjects, e.msg.Subject)
		}
	}
	last := make(map[string]uint64, len(subjects))
	found, err := jetstreamext.GetLastMsgsFor(ctx, js, OutcomesStream, subjects)
	if err != nil {
		return last
	}
	for m, err := range found {
		if err != nil {
			break
		}
		last[m.Subject] = m.Sequence
	}
	return last
}
