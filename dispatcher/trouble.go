package dispatcher

import (
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
// when it begins and once when it is over, and shown by Status.
type trouble struct {
	logger *slog.Logger
	mu     sync.Mutex
	now    map[string]failing
}

type failing struct {
	err   error
	since time.Time
}

func (t *trouble) set(doing string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.now == nil {
		t.now = map[string]failing{}
	}
	f, known := t.now[doing]
	if !known {
		f.since = time.Now()
		t.logger.Warn("the log is in trouble: waiting it out", "doing", doing, "error", err)
	}
	f.err = err
	t.now[doing] = f
}

func (t *trouble) clear(doing string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f, known := t.now[doing]; known {
		t.logger.Info("the log is well again", "doing", doing, "after", time.Since(f.since).Round(time.Millisecond))
		delete(t.now, doing)
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
