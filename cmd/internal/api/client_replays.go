package api

import (
	"context"
)

// StartReplay requeues dead letters in bulk.
func (c *Client) StartReplay(ctx context.Context, r ReplayRequest) (Replay, error) {
	return post[Replay](ctx, c, "/v1/replays", nil, r)
}

// PreviewReplay says what StartReplay would do.
func (c *Client) PreviewReplay(ctx context.Context, r ReplayRequest) (ReplayPreview, error) {
	return post[ReplayPreview](ctx, c, "/v1/replays/preview", nil, r)
}

// Replays returns the replay plans that the log remembers, the newest first.
func (c *Client) Replays(ctx context.Context) ([]Replay, error) {
	return get[[]Replay](ctx, c, "/v1/replays", values{})
}

// Replay returns where a replay plan stands.
func (c *Client) Replay(ctx context.Context, id string) (Replay, error) {
	return get[Replay](ctx, c, "/v1/replays/"+segment(id), values{})
}

// StopReplay stops a replay plan.
func (c *Client) StopReplay(ctx context.Context, id, reason string) (Replay, error) {
	return post[Replay](ctx, c, "/v1/replays/"+segment(id)+"/stop", nil, map[string]string{"reason": reason})
}
