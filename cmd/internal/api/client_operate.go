package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"tidings/store"
	"tidings/streams/event"
)

// Requeue opens a dead letter's event again; what was not delivered of it is
// tried again.
func (c *Client) Requeue(ctx context.Context, key event.Key, reason string) (Requeued, error) {
	return post[Requeued](ctx, c, "/v1/deadletters/"+segment(string(key))+"/requeue", nil, map[string]string{"reason": reason})
}

// RetryMessage tries one message of an event again. mayRepeat accepts that the
// recipient gets an uncertain one twice.
func (c *Client) RetryMessage(ctx context.Context, key event.Key, message, reason string, mayRepeat bool) (Requeued, error) {
	return post[Requeued](ctx, c, "/v1/events/"+segment(string(key))+"/messages/"+segment(message)+"/retry", nil,
		map[string]any{"reason": reason, "may_repeat": mayRepeat})
}

// Edit is Requeue with a change, of the letter that has that ETag.
func (c *Client) Edit(ctx context.Context, key event.Key, etag, reason string, change Change) (Requeued, error) {
	return post[Requeued](ctx, c, "/v1/deadletters/"+segment(string(key))+"/edit", http.Header{"If-Match": {etag}}, struct {
		Reason string `json:"reason"`
		Change
	}{reason, change})
}

// Preview says what Requeue of the letter that has that ETag would do, or Edit if
// there is a change.
func (c *Client) Preview(ctx context.Context, key event.Key, etag string, change Change) (Preview, error) {
	return post[Preview](ctx, c, "/v1/deadletters/"+segment(string(key))+"/preview", http.Header{"If-Match": {etag}}, change)
}

// Discard ends the dead letter that has that ETag for good.
func (c *Client) Discard(ctx context.Context, key event.Key, etag, reason string) (Discarded, error) {
	return post[Discarded](ctx, c, "/v1/deadletters/"+segment(string(key))+"/discard",
		http.Header{"If-Match": {etag}}, map[string]string{"reason": reason})
}

// GroupLetters counts dead letters by what they have in common: cause, type, tenant
// or stage.
func (c *Client) GroupLetters(ctx context.Context, q store.LetterQuery, by string) (LetterGroups, error) {
	v := lettersOf(q)
	v.set("by", by)
	return get[LetterGroups](ctx, c, "/v1/deadletters/groups", v)
}

// DiscardLetters ends up to [MaxBulk] dead letters for good.
func (c *Client) DiscardLetters(ctx context.Context, reason string, of []LetterAt) (BulkDiscarded, error) {
	return post[BulkDiscarded](ctx, c, "/v1/deadletters/discard", nil, map[string]any{"reason": reason, "letters": of})
}

// ExportLetters returns dead letters with their payloads as JSON Lines, and the
// cursor of the rest, empty after the last.
func (c *Client) ExportLetters(ctx context.Context, q store.LetterQuery) (lines []byte, next string, err error) {
	header, lines, err := c.ask(ctx, http.MethodGet, "/v1/deadletters/export?"+url.Values(lettersOf(q)).Encode(), nil, nil)
	return lines, header.Get(NextHeader), err
}

// post makes a request with a JSON body.
func post[T any](ctx context.Context, c *Client, path string, header http.Header, body any) (T, error) {
	var none T
	data, err := json.Marshal(body)
	if err != nil {
		return none, fmt.Errorf("encode the request: %w", err)
	}
	h := http.Header{"Content-Type": {"application/json"}}
	for name, values := range header {
		h[name] = values
	}
	answer, err := c.do(ctx, http.MethodPost, path, h, data)
	if err != nil {
		return none, err
	}
	return decode[T](c, answer)
}
