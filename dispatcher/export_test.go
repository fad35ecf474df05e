package dispatcher

import "time"

// Hasten shortens the lease of claims, for tests that live through one.
func (d *Dispatcher) Hasten(lease, margin, skew time.Duration) {
	d.lease, d.margin, d.rules.skew = lease, margin, skew
}
