package api

import (
	"fmt"
	"time"

	"tidings/store"
	"tidings/streams/event"
)

// dealtWith says who dealt with a letter that is gone, as far as the ledger knows, or "".
func (s *Server) dealtWith(key event.Key) string {
	entries, err := s.Ledger.History(key, 0, store.MaxLimit)
	if err != nil {
		return ""
	}
	said := ""
	for _, e := range entries {
		if op := e.Operation; op != nil && op.Letter.Key == key {
			said = deedText(op.Operator, string(op.Action), op.At, op.Reason)
			if op.Event != "" {
				said += "; it has become event " + string(op.Event)
			}
		}
		for _, f := range e.Facts {
			switch f := f.(type) {
			case event.Requeued:
				said = deedText(f.Operator, "requeued", e.At, f.Reason)
			case event.Discarded:
				said = deedText(f.Operator, "discarded", e.At, f.Reason)
			}
		}
	}
	return said
}

func deedText(operator, did string, at time.Time, reason string) string {
	text := fmt.Sprintf("%s %s it at %s", operator, did, at.UTC().Format(time.RFC3339))
	if reason != "" {
		text += ": " + reason
	}
	return text
}
