package dispatcher

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// trouble is what the log is failing at, if anything, by what was being done:
// one stream may be full while the others are well. Each trouble is said once
// when it begins and once when nothing is left in it, and shown by Status.
type trouble struct {
	logger *slog.Logger
	mu     sync.Mutex
	now    map[string]*failing
}

type failing struct {
	err   error
	since time.Time
	stuck map[*attempt]struct{} // what is waiting it out; never empty
}

// attempt is one step against the log under way.
type attempt struct {
	trouble *trouble
	doing   string
	slow    *time.Timer
	over    bool // guarded by the trouble's mutex
}

// slowAfter is when a step that says nothing counts as trouble: many are
// repeated by the log itself for as long as it takes.
const slowAfter = 2 * time.Second

var errSlow = errors.New("not done yet, and repeated until it is")

// begin watches over a step until end is called.
func (t *trouble) begin(doing string) *attempt {
	a := &attempt{trouble: t, doing: doing}
	a.slow = time.AfterFunc(slowAfter, func() { a.fail(errSlow) })
	return a
}

// fail says that the step is in trouble, and why.
func (a *attempt) fail(err error) {
	t := a.trouble
	t.mu.Lock()
	defer t.mu.Unlock()
	if a.over {
		return
	}
	f := t.now[a.doing]
	if f == nil {
		f = &failing{since: time.Now(), stuck: map[*attempt]struct{}{}}
		if t.now == nil {
			t.now = map[string]*failing{}
		}
		t.now[a.doing] = f
		t.logger.Warn("the log is in trouble: waiting it out", "doing", a.doing, "error", err)
	}
	f.err = err
	f.stuck[a] = struct{}{}
}

// end says that the step is over, well or not.
func (a *attempt) end() {
	a.slow.Stop()
	t := a.trouble
	t.mu.Lock()
	defer t.mu.Unlock()
	a.over = true
	f := t.now[a.doing]
	if f == nil {
		return
	}
	delete(f.stuck, a)
	if len(f.stuck) == 0 {
		t.logger.Info("the log is well again", "doing", a.doing, "after", time.Since(f.since).Round(time.Millisecond))
		delete(t.now, a.doing)
	}
}

// text returns the troubles in words, or "".
func (t *trouble) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []string
	for _, doing := range slices.Sorted(maps.Keys(t.now)) {
		f := t.now[doing]
		all = append(all, fmt.Sprintf("%s: %v (since %s)", doing, f.err, f.since.UTC().Format(time.RFC3339)))
	}
	return strings.Join(all, "; ")
}
