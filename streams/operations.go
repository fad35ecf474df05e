package streams

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"

	"tidings/streams/event"
)

// AppendOperation stores the audit entry of what an operator did about a delivery,
// and returns its sequence. It expects nothing, and may store the entry twice:
// readers count by its id. Errors are those of Append.
func (o *Outcomes) AppendOperation(ctx context.Context, op event.Operation) (sequence uint64, err error) {
	if sequence, err = o.appendAudit(ctx, op.Tenant, op.ID, operationHeaders(op), op); err != nil {
		return 0, fmt.Errorf("append operation on %s: %w", op.Letter.Key, err)
	}
	return sequence, nil
}

// AppendSkip stores the audit entry of an operator's word that an entry is skipped,
// and returns its sequence. It expects nothing, and may store the entry twice.
// Errors are those of Append. What has readers skip the entry is [Outcomes.AcceptGap].
func (o *Outcomes) AppendSkip(ctx context.Context, skip event.Skip) (sequence uint64, err error) {
	if sequence, err = o.appendAudit(ctx, skip.Tenant, skip.ID, skipHeaders(skip), skip); err != nil {
		return 0, fmt.Errorf("append the skip of %d: %w", skip.Sequence, err)
	}
	return sequence, nil
}

func (o *Outcomes) appendAudit(ctx context.Context, tenant, id string, h nats.Header, v any) (sequence uint64, err error) {
	data, err := encodeJSON(v)
	if err != nil {
		return 0, err
	}
	msg := &nats.Msg{Subject: AuditSubject(tenant), Header: h, Data: data}
	err = o.repeat(ctx, func(bool) error {
		e := newEntry(msg, id)
		err := o.commits.append(ctx, e)
		sequence = e.sequence
		return err
	})
	return sequence, err
}
