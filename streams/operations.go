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
	data, err := encodeJSON(op)
	if err != nil {
		return 0, fmt.Errorf("append operation on %s: %w", op.Letter.Key, err)
	}
	msg := &nats.Msg{Subject: AuditSubject(op.Tenant), Header: operationHeaders(op), Data: data}
	err = repeat(ctx, o.pauses(), func(bool) error {
		e := newEntry(msg, op.ID)
		err := o.commits.append(ctx, e)
		sequence = e.sequence
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("append operation on %s: %w", op.Letter.Key, err)
	}
	return sequence, nil
}
