package api

import (
	"context"

	"tidings/store"
)

// HourQuery chooses counts of events.
type HourQuery = store.HourQuery

// Counts returns how many events there are, [ByTotal] or [ByHour]. Totals have no
// second page.
func (c *Client) Counts(ctx context.Context, q HourQuery, by string) (CountPage, error) {
	v := values{}
	v.set("by", by)
	v.set("tenant", q.Tenant)
	v.set("outcome", string(q.Outcome))
	v.page(q.Since, q.Until, q.Limit, q.Cursor)
	return get[CountPage](ctx, c, "/v1/counts", v)
}

// Causes returns how many dead letters there are of each cause. An empty tenant
// means all.
func (c *Client) Causes(ctx context.Context, tenant string) (CauseCounts, error) {
	v := values{}
	v.set("tenant", tenant)
	return get[CauseCounts](ctx, c, "/v1/deadletters/causes", v)
}
