package dispatcher

import (
	"context"
	"errors"
	"slices"
	"time"

	"tidings/dispatcher/channel"
	"tidings/dispatcher/plan"
	"tidings/streams/event"
)

// try calls the providers for the messages that the claim in force names, side
// by side, and returns what is still to be recorded: facts, and what happened.
// Others are left alone, even if they became ready meanwhile: a crash would leave
// them out of the account. Results do not wait long for slower calls beside them.
func (w *work) try(ctx context.Context, facts []event.Fact) ([]event.Fact, error) {
	b := w.start(ctx, w.state.Apply("", w.now(), facts...))
	var alarm <-chan time.Time
	var due time.Time
	for len(b.left) > 0 {
		select {
		case i := <-b.done:
			delete(b.left, i)
			b.ended = append(b.ended, i)
			if len(b.left) == 0 {
				break
			}
			if at := time.Now().Add(forbearance(b.named[i], b.planned)); alarm == nil || at.Before(due) {
				due, alarm = at, time.After(time.Until(at))
			}
		case <-alarm:
			alarm = nil
			facts = append(facts, b.take()...)
			if err := w.note(ctx, facts, b.underWay()); err != nil {
				b.wait()
				return nil, err
			}
			facts = nil
		}
	}
	return append(facts, b.take()...), nil
}

// forbearance is how long a result waits for the calls beside it before it is
// recorded without them. Until then a kill leaves it in doubt, which matters more
// where it would be left to an operator than where it is sent again. A record has
// the whole plan in it, so that of an event of a thousand messages is made more
// seldom.
func forbearance(m event.Message, planned int) time.Duration {
	wait := time.Second
	if m.OnUnknown == event.Hold {
		wait = 50 * time.Millisecond
	}
	return wait * time.Duration(1+planned/claimLimit)
}

// batch is the calls that are under way for one claim.
type batch struct {
	named   []event.Message
	planned int            // messages of the event, the others included
	results [][]event.Fact // of each; written before its place comes out of done
	done    chan int
	left    map[int]struct{} // places whose calls go on
	ended   []int            // places whose results were not taken yet
}

// start begins the calls. They keep to the lease that is in force now.
func (w *work) start(ctx context.Context, s event.State) *batch {
	named := namedMessages(s, w.policies())
	b := &batch{
		named: named, planned: len(s.Messages), results: make([][]event.Fact, len(named)),
		done: make(chan int, len(named)), left: map[int]struct{}{},
	}
	if len(named) == 1 { // no other result waits for it
		b.left[0] = struct{}{}
		b.results[0] = w.tryMessage(ctx, named[0], s.Round)
		b.done <- 0
		return b
	}
	calls := *w // w goes on to renew its claim meanwhile
	for i, m := range named {
		b.left[i] = struct{}{}
		go func() {
			b.results[i] = calls.tryMessage(ctx, m, s.Round)
			b.done <- i
		}()
	}
	return b
}

// take returns the results that were not taken yet, in the order of the plan.
func (b *batch) take() []event.Fact {
	var facts []event.Fact
	slices.Sort(b.ended)
	for _, i := range b.ended {
		facts = append(facts, b.results[i]...)
	}
	b.ended = nil
	return facts
}

// underWay returns the ids of the messages whose calls go on.
func (b *batch) underWay() []string {
	var ids []string
	for i, m := range b.named {
		if _, left := b.left[i]; left {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// wait waits for the calls that go on.
func (b *batch) wait() {
	for len(b.left) > 0 {
		delete(b.left, <-b.done)
	}
}

// namedMessages returns the messages that the claim in force may try and that
// still want it.
func namedMessages(s event.State, policies map[string]Policy) []event.Message {
	var named []event.Message
	for _, id := range s.Claim.Messages {
		if m := s.Message(id); m != nil && m.Open() && m.RoundTries < policies[m.Channel].Tries {
			named = append(named, *m)
		}
	}
	return named
}

// tryMessage makes the tries of one message that this round still allows. A provider
// that did not take it is followed by the next one at once; after the last of them
// comes a pause. It stops at the first result that says more than "not now", and where
// nobody gets through. Nobody is asked about a message that another may have. No call
// is started that could last past the lease.
func (w *work) tryMessage(ctx context.Context, m event.Message, round int) []event.Fact {
	var facts []event.Fact
	o := w.way(w.ref.Tenant, m)
	if o == nil || w.pass.seats[o.name] == nil {
		return facts
	}
	c := w.pass.seats[o.name].course(m, w.jitter)
	for tries := m.RoundTries; tries < o.Policy.Tries; {
		p, wait := c.next(w.now())
		if p == nil {
			return c.putOff(facts, w.now())
		}
		if !w.pause(ctx, wait) || !p.slot(ctx, w.until.Add(-p.Policy.Timeout)) {
			return facts
		}
		end := w.call(ctx, c.seat, p, m, round, tries+1)
		switch {
		case end.shut:
			c.ended(p, false, true)
			continue
		case end.withheld != nil:
			return append(facts, *end.withheld)
		case end.tried == nil:
			return facts
		}
		facts = append(facts, *end.tried)
		switch end.tried.Result {
		case event.TryPermanent:
			return append(facts, event.GaveUp{Message: m.ID, Reason: gaveUpPermanent})
		case event.TryTransient:
			tries++
			c.ended(p, true, end.elsewhere)
		case event.TryRateLimited:
			c.ended(p, false, end.elsewhere)
		default:
			return facts
		}
	}
	return facts
}

// callEnd is what came of what was to be a call.
type callEnd struct {
	tried     *event.Tried    // nil: there was none
	elsewhere bool            // another provider may be asked
	withheld  *event.Withheld // the recipient is suppressed
	shut      bool            // the provider does not get through any more
}

// call makes one call with the slot that was acquired for it, unless the provider is
// shut, the recipient is suppressed, the message was delivered after all, or the
// lease is too short.
func (w *work) call(ctx context.Context, s *seat, p *provider, m event.Message, round, try int) callEnd {
	reason, suppressed, err := w.suppressed(ctx, m)
	delivered := false
	if err == nil && !suppressed {
		delivered, err = w.delivered(ctx, m)
	}
	end := time.Now().Add(p.Policy.Timeout)
	if suppressed || delivered || err != nil || end.After(w.until) || ctx.Err() != nil {
		p.release()
		if suppressed {
			return callEnd{withheld: &event.Withheld{Message: m.ID, Reason: reason}}
		}
		return callEnd{}
	}
	may, trial := s.take(p)
	if !may {
		p.release()
		return callEnd{shut: true}
	}
	// From before the lease was looked at: the process may have been stopped since.
	callCtx, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	started := w.now()
	receipt, err := p.send(callCtx, outgoing(w.ref, w.plan[m.ID], w.state.IdempotencyKey(m.ID)))
	if e, panicked := errors.AsType[*panicError](err); panicked {
		w.logger.Error("a sender panicked: its message may be sent", "channel", m.Channel, "provider", p.Name, "key", w.ref.Key, "message", m.ID,
			"reason", e.reason, "stack", e.stack)
	}
	result, code, after := channel.Classify(err)
	if err == nil {
		code = receipt.Code
	}
	fact := event.Tried{
		Message: m.ID, Round: round, Try: try, Started: started, Ended: w.now(),
		Result: result, Code: code, Provider: receipt.Provider,
	}
	if p.Name != m.Channel {
		fact.Via = p.Name
	}
	p.said(&fact, after, trial)
	w.tried(m.Channel, p.Name, result, fact.Ended.Sub(started))
	if after > 0 {
		fact.RetryAfter = fact.Ended.Add(after)
	}
	return callEnd{tried: &fact, elsewhere: channel.Elsewhere(err)}
}

// delivered looks up whether a message in doubt was delivered after all: an owner
// that was taken over may tell of its call at any time.
func (w *work) delivered(ctx context.Context, m event.Message) (bool, error) {
	if m.State != event.MessageUncertain {
		return false, nil
	}
	last, _, err := w.last(ctx, w.ref.Tenant, w.ref.Key)
	if err != nil {
		return false, err
	}
	told := last.state.Message(m.ID)
	return told != nil && told.State == event.MessageDelivered, nil
}

// suppressed asks whether the recipient may be written to, waiting out trouble.
func (w *work) suppressed(ctx context.Context, m event.Message) (reason string, yes bool, err error) {
	err = w.persist(ctx, "check suppressions", func(ctx context.Context) (err error) {
		reason, yes, err = w.suppressions.Suppressed(ctx, w.ref.Tenant, m.Channel, m.Recipient)
		return err
	})
	return reason, yes, err
}

func outgoing(ref event.Ref, m plan.Message, id string) channel.Message {
	return channel.Message{
		ID: id, Key: ref.Key, Tenant: ref.Tenant, EventID: ref.ID, EventType: ref.Type, To: m.Address,
		Subject: m.Content.Subject, Text: m.Content.Text, HTML: m.Content.HTML,
		Body: m.Content.Body, ContentType: m.Content.ContentType,
	}
}

// pause waits between two tries and reports whether to go on.
func (w *work) pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
