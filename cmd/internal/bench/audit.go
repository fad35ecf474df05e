package bench

import (
	"errors"
	"fmt"
	"time"

	"tidings/store"
	"tidings/streams/event"
)

// life is when things happened to one event, by the clock of this process.
type life struct{ claimed, received time.Time }

// lives returns the lives of n events by their numbers. It fails unless each of
// them is in the ledger once, has been processed with one call, and was received
// exactly once, and nothing else was.
func (w *whole) lives(n int) ([]life, error) {
	lives := make([]life, n)
	q := store.Query{Limit: store.MaxLimit}
	for rows := 0; ; {
		page, err := w.store.Events(q)
		if err != nil {
			return nil, err
		}
		for _, row := range page.Items {
			if err := w.read(row, lives); err != nil {
				return nil, fmt.Errorf("event %s: %w", row.EventID, err)
			}
		}
		rows += len(page.Items)
		if q.Cursor = page.Next; q.Cursor == "" {
			return lives, w.nothingElse(rows, n)
		}
	}
}

func (w *whole) nothingElse(rows, n int) error {
	if got := w.receiver.count(); rows != n || got != n {
		return fmt.Errorf("of %d events, %d are in the ledger, and %d messages were received", n, rows, got)
	}
	return nil
}

// read puts the life of an event in its place.
func (w *whole) read(row store.Row, lives []life) error {
	var i int
	if _, err := fmt.Sscanf(row.EventID, "bench-%d", &i); err != nil || i < 0 || i >= len(lives) || idOf(i) != row.EventID {
		return errStranger
	}
	if !lives[i].received.IsZero() {
		return errTwoRows
	}
	if row.Outcome != event.Processed || row.Tries != 1 || row.Duplicates != 0 {
		return fmt.Errorf("it ended as %s after %d calls and %d duplicates, not as %s after one call",
			row.Outcome, row.Tries, row.Duplicates, event.Processed)
	}
	message := event.NewMessageID(row.Key, hookRoute, hookChannel, event.NormalizeAddress(w.receiver.url))
	at, err := w.receiver.once(message)
	lives[i] = life{claimed: row.StartedAt, received: at}
	return err
}

var (
	errStranger = errors.New("it is not one of this measurement")
	errTwoRows  = errors.New("it is in the ledger twice")
)
