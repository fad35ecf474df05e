package dispatcher

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"tidings/streams/event"
)

// ways are all ways out: those of everybody by channel, those of tenants that have
// senders of their own, and for each of them the orders of providers that routes ask for.
type ways struct {
	now      func() time.Time
	channels map[string]*outlet
	tenants  map[string]map[string]*outlet
	policies map[string]Policy
	own      map[string]map[string]Policy // of all channels, as such a tenant has them

	mu      sync.Mutex
	orders  map[string]*outlet // by name; made when first asked for
	opened  []*outlet          // of these, those that nobody looks after yet
	changed chan struct{}      // holds a token when there are such
}

// newWays returns the ways of channels and tenants. What is the same before keeps what
// it knows of its providers. changed gets a token when an order is made.
func newWays(channels map[string]Channel, tenants map[string]Tenant, before *ways, changed chan struct{}, now func() time.Time) (*ways, error) {
	if before == nil {
		before = &ways{}
	}
	w := &ways{
		now: now, channels: map[string]*outlet{}, tenants: map[string]map[string]*outlet{},
		policies: map[string]Policy{}, own: map[string]map[string]Policy{},
		orders: map[string]*outlet{}, changed: changed,
	}
	for name, c := range channels {
		if err := c.check(); err != nil {
			return nil, fmt.Errorf("dispatcher: channel %q %w", name, err)
		}
		w.channels[name] = newOutlet(name, "", c, now).keeping(before.channels[name])
		w.policies[name] = w.channels[name].Policy
	}
	for tenant, t := range tenants {
		for name, c := range t.Channels {
			if err := c.check(); err != nil {
				return nil, fmt.Errorf("dispatcher: channel %q of tenant %q %w", name, tenant, err)
			}
			if w.tenants[tenant] == nil {
				w.tenants[tenant], w.own[tenant] = map[string]*outlet{}, maps.Clone(w.policies)
			}
			o := newOutlet(name, tenant, c, now).keeping(before.tenants[tenant][name])
			w.tenants[tenant][name], w.own[tenant][name] = o, o.Policy
		}
	}
	return w, nil
}

// of returns the way of a tenant's messages on a channel, nil if there is none.
// order are the providers to use, first to last; empty: as the channel has them. A
// tenant that has senders of its own never has another's.
func (w *ways) of(tenant, channel string, order []string) *outlet {
	o := w.channels[channel]
	if own := w.tenants[tenant][channel]; own != nil {
		o = own
	}
	if o == nil || len(order) == 0 {
		return o
	}
	return w.ordered(o, order)
}

// ordered returns the way that uses the given providers of another one. If it has
// none of them, it is that itself.
func (w *ways) ordered(o *outlet, order []string) *outlet {
	name := o.name + ":" + strings.Join(order, ",")
	w.mu.Lock()
	defer w.mu.Unlock()
	if known := w.orders[name]; known != nil {
		return known
	}
	var chosen []*provider
	for _, name := range order {
		if i := slices.IndexFunc(o.providers, func(p *provider) bool { return p.Name == name }); i >= 0 {
			chosen = append(chosen, o.providers[i])
		}
	}
	if len(chosen) == 0 || slices.Equal(chosen, o.providers) {
		w.orders[name] = o
		return o
	}
	other := &outlet{hall: o.hall, Policy: o.Policy, name: name, channel: o.channel, tenant: o.tenant, providers: chosen, now: o.now, turn: newTurn()}
	w.orders[name] = other
	w.opened = append(w.opened, other)
	select {
	case w.changed <- struct{}{}:
	default:
	}
	return other
}

// named returns the way of that name, nil if there is none by now.
func (w *ways) named(name string) *outlet {
	base, order, ordered := strings.Cut(name, ":")
	channel, tenant, _ := strings.Cut(base, "@")
	o := w.channels[channel]
	if tenant != "" {
		o = w.tenants[tenant][channel]
	}
	if o == nil || !ordered {
		return o
	}
	if o = w.ordered(o, strings.Split(order, ",")); o.name != name {
		return nil
	}
	return o
}

// all yields the ways that are configured, by channel and tenant, without the orders
// of routes.
func (w *ways) all() iter.Seq[*outlet] {
	return func(yield func(*outlet) bool) {
		for _, name := range slices.Sorted(maps.Keys(w.channels)) {
			if !yield(w.channels[name]) {
				return
			}
		}
		for _, tenant := range slices.Sorted(maps.Keys(w.tenants)) {
			for _, name := range slices.Sorted(maps.Keys(w.tenants[tenant])) {
				if !yield(w.tenants[tenant][name]) {
					return
				}
			}
		}
	}
}

// unattended returns the orders that nobody looks after yet, and has them looked
// after from now on.
func (w *ways) unattended() []*outlet {
	w.mu.Lock()
	defer w.mu.Unlock()
	opened := w.opened
	w.opened = nil
	return opened
}

// policiesOf returns the policies by channel as a tenant has them.
func (w *ways) policiesOf(tenant string) map[string]Policy {
	if own, ok := w.own[tenant]; ok {
		return own
	}
	return w.policies
}

// channelOf returns the channel of the way of that name.
func channelOf(name string) string {
	if i := strings.IndexAny(name, "@:"); i >= 0 {
		return name[:i]
	}
	return name
}

// way returns the way of a message, nil if there is none.
func (d *Dispatcher) way(tenant string, m event.Message) *outlet {
	return d.ways.of(tenant, m.Channel, d.planner.Providers(tenant, m.Route))
}
