package letters

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"slices"
	"strings"
	"time"

	"tidings/streams"
	"tidings/streams/event"
)

// ErrPayload means that an edited payload cannot be taken, which its text says.
var ErrPayload = errors.New("the payload cannot be taken")

// Edit is [Desk.Requeue] with another payload: the event is planned anew from it,
// and of the plan before only what was delivered stays. Providers get other
// idempotency keys, since receivers drop what they have seen. The payload is kept
// with the letter, and in the next one if that fails too.
//
// t names the letter that was edited by its sequence. The error is [ErrPayload]
// too, if the payload is too large, is the one in force already, or is no JSON where
// the content type says that it is; or if attributes of an event are to be changed.
func (d *Desk) Edit(ctx context.Context, t Target, w Word, c Change) (Requeued, error) {
	done, err := d.edit(ctx, t, w, c)
	if err != nil {
		return Requeued{}, fmt.Errorf("edit %s: %w", t.Key, err)
	}
	return done, nil
}

func (d *Desk) edit(ctx context.Context, t Target, w Word, c Change) (Requeued, error) {
	if err := w.check(); err != nil {
		return Requeued{}, err
	}
	letter, at, err := d.letter(ctx, t, "")
	if err != nil {
		return Requeued{}, err
	}
	if isDelivery(letter) {
		return d.readmit(ctx, letter, at, w, c)
	}
	if err := checkChange(letter, c); err != nil {
		return Requeued{}, err
	}
	data := c.Data
	fact := event.Requeued{
		Generation: letter.Generation + 1, Operator: w.Operator, Reason: w.Reason, Replay: w.Replay,
		Edit: &event.Edit{Digest: event.Digest(data), Size: len(data)},
	}
	// Who comes too late is told before anything is written.
	e, err := d.end(ctx, letter.Tenant, letter.Key)
	if err == nil {
		_, _, err = d.onDead(ctx, letter, e, fact)
	}
	if err != nil {
		return Requeued{}, err
	}
	drafted, err := d.withDraft(letter, w, data)
	if err != nil {
		return Requeued{}, err
	}
	if at, err = d.replace(ctx, drafted, at); err != nil {
		return Requeued{}, err
	}
	done, err := d.open(ctx, drafted, fact)
	if errors.Is(err, streams.ErrFull) { // the draft certainly does not count
		d.putBack(ctx, letter, at)
	}
	return done, err
}

// checkChange refuses what cannot be changed about an event.
func checkChange(l event.Letter, c Change) error {
	data := c.Data
	switch {
	case len(c.Set) > 0:
		return fmt.Errorf("%w: only its payload can be changed, not what an event is (%s)", ErrPayload, strings.Join(c.names(), ", "))
	case data == nil:
		return fmt.Errorf("%w: there is none: requeue it instead", ErrPayload)
	case len(data) > streams.MaxData:
		return fmt.Errorf("%w: it has %d bytes, at most are %s", ErrPayload, len(data), streams.Bytes(streams.MaxData))
	case bytes.Equal(data, l.Data):
		return fmt.Errorf("%w: it is the one that the event has already: requeue it instead", ErrPayload)
	case l.Envelope == nil || !isJSON(l.Envelope.ContentType):
		return nil
	}
	var any json.RawMessage
	if err := json.Unmarshal(data, &any); err != nil {
		return fmt.Errorf("%w: the content type is %s, and it is no JSON: %w", ErrPayload, l.Envelope.ContentType, err)
	}
	return nil
}

func isJSON(contentType string) bool {
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && (media == "application/json" || strings.HasSuffix(media, "+json"))
}

// The bounds of edits that were begun and whose fate is not known: so many are kept,
// and what is older than that has certainly ended one way or the other.
const (
	maxDrafts = 4
	draftFate = time.Hour
)

// withDraft returns the letter with an edit that does not count yet. One that
// somebody else has begun is kept beside it: the history may say that that one
// counts, and then its payload is nowhere else.
func (d *Desk) withDraft(l event.Letter, w Word, data []byte) (event.Letter, error) {
	now := d.o.Now().UTC()
	drafts := slices.Clone(l.Drafts)
	if l.Edit != nil {
		drafts = append(drafts, *l.Edit)
	}
	if len(drafts) >= maxDrafts {
		drafts = slices.DeleteFunc(drafts, func(e event.LetterEdit) bool { return now.Sub(e.At) > draftFate })
	}
	if len(drafts) >= maxDrafts {
		return l, fmt.Errorf("%w: %d edits of the letter were begun within the last hour", ErrPayload, len(drafts))
	}
	l.Drafts = drafts
	l.Edit = &event.LetterEdit{Operator: w.Operator, Reason: w.Reason, At: now, Data: data}
	return l, nil
}
