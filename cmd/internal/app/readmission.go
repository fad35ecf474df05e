package app

import (
	"context"
	"errors"
	"maps"
	"slices"

	"tidings/bridge"
	"tidings/cmd/internal/config"
	"tidings/dispatcher/letters"
	"tidings/streams/event"
)

// readmission has the deliveries in dead letters stand at the door again, each read
// as its source says now.
type readmission struct {
	door    *bridge.Door
	sources []config.Source
}

// Read implements letters.Door.
func (r readmission) Read(l event.Letter, c letters.Change) (event.Envelope, event.Key, error) {
	e, key, err := r.door.Read(r.arrival(l, c))
	return e, key, refusalOf(err)
}

// Admit implements letters.Door.
func (r readmission) Admit(ctx context.Context, l event.Letter, c letters.Change) (letters.Admitted, error) {
	got, err := r.door.Offer(ctx, r.arrival(l, c))
	if err != nil {
		return letters.Admitted{}, refusalOf(err)
	}
	return letters.Admitted{Key: got.Key, Sequence: got.Sequence, Duplicate: got.Duplicate}, nil
}

// arrival has a nonce that is the same for the same letter with the same change, so
// that it comes in once however often that is tried.
func (r readmission) arrival(l event.Letter, c letters.Change) bridge.Arrival {
	a := bridge.Again(l, r.mapping(l.Delivery), bridge.Changes{Set: c.Set, Body: c.Data})
	parts := []string{"readmission", string(l.Key), event.Digest(a.Body)}
	for _, name := range slices.Sorted(maps.Keys(c.Set)) {
		parts = append(parts, name, c.Set[name])
	}
	a.Nonce = string(event.NewKey(parts...))
	return a
}

// mapping is that of the queue which a delivery came from. One that is not
// consumed any more has none of its own.
func (r readmission) mapping(d *event.Delivery) bridge.Mapping {
	if d == nil {
		return bridge.Mapping{}
	}
	for _, s := range r.sources {
		if s.Config().From(*d) {
			return s.Mapping
		}
	}
	return bridge.Mapping{}
}

func refusalOf(err error) error {
	if refused, ok := errors.AsType[*bridge.RefusedError](err); ok {
		return &letters.RefusedError{Cause: refused.Cause, Detail: refused.Detail}
	}
	return err
}
