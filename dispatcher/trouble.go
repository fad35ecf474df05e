package dispatcher

import (
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// trouble is what the log is failing at, if anything: said once when it begins
// and once when it is over, and shown by Status.
type trouble struct {
	logger *slog.Logger
	mu     sync.Mutex
	doing  string // "" : none
	err    error
	since  time.Time
}

func (t *trouble) set(doing string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.doing == "" {
		t.since = time.Now()
		t.logger.Warn("the log is in trouble: waiting it out", "doing", doing, "error", err)
	}
	t.doing, t.err = doing, err
}

func (t *trouble) clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.doing != "" {
		t.logger.Info("the log is well again", "after", time.Since(t.since).Round(time.Millisecond))
	}
	t.doing, t.err = "", nil
}

// text returns the trouble in words, or "".
func (t *trouble) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.doing == "" {
		return ""
	}
	return fmt.Sprintf("%s: %v (since %s)", t.doing, t.err, t.since.UTC().Format(time.RFC3339))
}
