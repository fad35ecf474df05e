package dispatcher

import (
	"context"

	"tidings/streams/event"
)

// Suppressions says whom not to write to. It is asked before every call.
type Suppressions interface {
	// Suppressed returns why the recipient gets nothing on the channel. An error
	// means that it is not known: the message is tried later.
	Suppressed(ctx context.Context, tenant, channel string, to event.Recipient) (reason string, suppressed bool, err error)
}

// Suppression is one entry of a fixed list. Empty Tenant or Channel mean all.
type Suppression struct {
	Tenant    string
	Channel   string
	Recipient event.Recipient
	Reason    string
}

// SuppressionList is a fixed list of suppressions, as configured.
type SuppressionList []Suppression

// Suppressed implements Suppressions. It never fails.
func (l SuppressionList) Suppressed(_ context.Context, tenant, channel string, to event.Recipient) (string, bool, error) {
	for _, s := range l {
		if s.Recipient.Hash == to.Hash && (s.Tenant == "" || s.Tenant == tenant) && (s.Channel == "" || s.Channel == channel) {
			return s.Reason, true, nil
		}
	}
	return "", false, nil
}
