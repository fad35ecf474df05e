package projector

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// progress is where a follower is, for those who watch or wait for it.
type progress struct {
	mu      sync.Mutex
	now     StreamStatus
	target  uint64 // ready when so far
	started bool
	// What is wrong at the moment with asking the stream and with writing the
	// ledger; empty: nothing.
	askTrouble, writeTrouble string
	changed                  chan struct{} // closed at every change, and replaced
}

func newProgress(stream string) *progress {
	return &progress{now: StreamStatus{Stream: stream}, changed: make(chan struct{})}
}

// update changes the progress and wakes who waits.
func (p *progress) update(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	close(p.changed)
	p.changed = make(chan struct{})
}

// compared says that the ledger fits the stream, so that what is wrong from here on is
// not the log.
func (p *progress) compared() { p.update(func() { p.now.Compared = true }) }

// begin says that everything up to position is in the store, and that it is
// ready once it has target, the last entry there was.
func (p *progress) begin(position, target uint64) {
	p.update(func() {
		p.started, p.askTrouble = true, ""
		p.now.Applied = position
		p.target, p.now.Last = target, max(position, target)
	})
}

func (p *progress) applied(sequence uint64, problems int) {
	p.update(func() {
		p.askTrouble, p.writeTrouble = "", ""
		p.now.Applied = sequence
		p.now.Last = max(p.now.Last, sequence)
		p.now.Problems += uint64(problems)
	})
}

// aim returns what must be in the store to be ready.
func (p *progress) aim() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.target
}

// stored says that the stream has an entry at sequence.
func (p *progress) stored(sequence uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now.Last = max(p.now.Last, sequence)
}

// asking says why the stream does not answer; empty: it does.
func (p *progress) asking(trouble string) { p.update(func() { p.askTrouble = trouble }) }

// writing says why the ledger cannot be written; the next write takes it back.
func (p *progress) writing(trouble string) { p.update(func() { p.writeTrouble = trouble }) }

// resume takes back that it halted: what it met may be mended.
func (p *progress) resume() { p.update(func() { p.now.Halt = nil }) }

func (p *progress) halt(e *HaltError) { p.update(func() { p.now.Halt = e }) }

func (p *progress) status() StreamStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.now
	s.Lag = s.Last - min(s.Last, s.Applied)
	switch {
	case s.Halt != nil:
		s.Reason = "halted: " + s.Halt.Error()
	case p.writeTrouble != "":
		s.Reason = p.writeTrouble
	case p.askTrouble != "":
		s.Reason = p.askTrouble
	case !p.started:
		s.Reason = "not started"
	case s.Applied < p.target:
		s.Reason = fmt.Sprintf("catching up: at %d of %d", s.Applied, p.target)
	default:
		s.Ready = true
	}
	return s
}

var errUnwritable = errors.New("the second file cannot be written")

// ready blocks until everything is in the store that was there when it began. What
// cannot be written is an error at once, also if it is tried again.
func (p *progress) ready(ctx context.Context) error {
	for {
		p.mu.Lock()
		changed, trouble := p.changed, p.writeTrouble
		p.mu.Unlock()
		switch s := p.status(); {
		case s.Ready:
			return nil
		case s.Halt != nil:
			return s.Halt
		case trouble != "":
			return fmt.Errorf("%w: %s", errUnwritable, trouble)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("fold %s: %w", p.now.Stream, ctx.Err())
		case <-changed:
		}
	}
}

// wait blocks until sequence is in the store.
func (p *progress) wait(ctx context.Context, sequence uint64) error {
	for {
		p.mu.Lock()
		applied, halt, changed := p.now.Applied, p.now.Halt, p.changed
		p.mu.Unlock()
		switch {
		case applied >= sequence:
			return nil
		case halt != nil:
			return halt
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for sequence %d of %s, at %d: %w", sequence, p.now.Stream, applied, ctx.Err())
		case <-changed:
		}
	}
}
