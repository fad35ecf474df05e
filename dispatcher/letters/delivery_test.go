package letters_test

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/dispatcher/letters"
	"tidings/streams"
	"tidings/streams/event"
)

// door takes in bodies that are JSON, under the id that is set, else that of the body.
type door struct{ events *streams.Events }

func (d door) Read(l event.Letter, c letters.Change) (event.Envelope, event.Key, error) {
	body := l.Data
	if c.Data != nil {
		body = c.Data
	}
	var names struct{ ID string }
	if err := json.Unmarshal(body, &names); err != nil {
		return event.Envelope{}, "", &letters.RefusedError{Cause: event.CauseUndecodable, Detail: "it is no JSON"}
	}
	e := event.Envelope{Tenant: l.Tenant, ID: cmp.Or(c.Set["id"], names.ID), IDSource: event.IDHeader, Type: "order.placed", Data: body}
	return e, event.Identity{}.Key(e), nil
}

func (d door) Admit(ctx context.Context, l event.Letter, c letters.Change) (letters.Admitted, error) {
	e, _, err := d.Read(l, c)
	if err != nil {
		return letters.Admitted{}, err
	}
	got, err := d.events.Publish(ctx, streams.Incoming{Envelope: e, Nonce: event.NewNonce()})
	return letters.Admitted{Key: got.Key, Sequence: got.Sequence, Duplicate: got.Duplicate}, err
}

// delivery puts a dead letter of a delivery.
func (r *rig) delivery(body string) letters.Target {
	r.Helper()
	l := event.Letter{
		Schema: event.Schema, Kind: event.LetterDelivery, Key: event.NewKey("delivery", body), Tenant: "acme",
		Cause: event.CauseUndecodable, Stage: event.StageBridge, At: time.Now(), Data: []byte(body), Delivery: &event.Delivery{},
	}
	_, _, err := r.log.DeadLetters.Put(r.Context(), l)
	require.NoError(r, err)
	return r.target(l.Key)
}

// operations returns what the audit has about deliveries.
func (r *rig) operations() []event.Operation {
	r.Helper()
	info, err := r.log.Outcomes.Info(r.Context())
	require.NoError(r, err)
	var ops []event.Operation
	for seq := max(1, info.First); seq <= info.Last; seq++ {
		e, err := r.log.Outcomes.Entry(r.Context(), seq)
		require.NoError(r, err)
		if e.Header.Get(streams.HeaderKind) == string(event.KindOperation) {
			var op event.Operation
			require.NoError(r, json.Unmarshal(e.Data, &op))
			ops = append(ops, op)
		}
	}
	return ops
}

func TestADeliveryIsHandedInAgain(t *testing.T) {
	t.Run("and becomes an event, which the audit says, and the letter is removed", func(t *testing.T) {
		r := newRig(t)
		target := r.delivery(`{"id":"1"}`)
		done, err := r.desk.Requeue(t.Context(), target, ann)
		require.NoError(t, err)
		require.True(t, done.Admitted)
		require.Equal(t, "1", done.Event.ID)
		stored, err := r.log.Events.Get(t.Context(), done.Event.Sequence)
		require.NoError(t, err)
		require.Equal(t, done.Event.Key, stored.Ref.Key)
		r.noLetter(target.Key)
		ops := r.operations()
		require.Len(t, ops, 1)
		require.Equal(t, event.OperationRequeued, ops[0].Action)
		require.Equal(t, "ann@desk", ops[0].Operator)
		require.Equal(t, "the shop is back", ops[0].Reason)
		require.Equal(t, target.Key, ops[0].Letter.Key)
		require.Equal(t, done.Event.Key, ops[0].Event)
	})
	t.Run("with another body and other attributes, whose values the audit does not hold", func(t *testing.T) {
		r := newRig(t)
		target := r.delivery(`{"id":`)
		done, err := r.desk.Edit(t.Context(), target, ann, letters.Change{Data: []byte(`{"id":"1"}`), Set: map[string]string{"id": "2"}})
		require.NoError(t, err)
		require.Equal(t, "2", done.Event.ID)
		require.Equal(t, []string{"id", "body"}, r.operations()[0].Changed)
	})
	t.Run("and refused again, it stays, and nothing is noted", func(t *testing.T) {
		r := newRig(t)
		target := r.delivery(`{"id":`)
		for range 2 {
			_, err := r.desk.Requeue(t.Context(), target, ann)
			var refused *letters.RefusedError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, "it is refused again (undecodable): it is no JSON", refused.Error())
		}
		p, err := r.desk.Preview(t.Context(), target, letters.Change{})
		require.NoError(t, err)
		require.Contains(t, p.Problem, "it is refused again")
		require.Equal(t, target, r.target(target.Key))
		require.Empty(t, r.operations())
	})
	t.Run("and known already, nothing is sent anew", func(t *testing.T) {
		r := newRig(t)
		first := r.delivery(`{"id":"1"}`)
		_, err := r.desk.Requeue(t.Context(), first, ann)
		require.NoError(t, err)
		second := r.delivery(`{"id":"1"}`)
		done, err := r.desk.Requeue(t.Context(), second, ann)
		require.NoError(t, err)
		require.True(t, done.Duplicate)
		require.True(t, r.operations()[1].Duplicate)
		r.noLetter(second.Key)
	})
	t.Run("its preview says what would be sent, or that it is known", func(t *testing.T) {
		r := newRig(t)
		r.down.Store(true)
		target := r.delivery(`{"id":"1","urls":["` + r.sink.URL("/ok") + `"]}`)
		p, err := r.desk.Preview(t.Context(), target, letters.Change{})
		require.NoError(t, err)
		require.Equal(t, 1, p.Sends())
		r.dispatch()
		done, err := r.desk.Requeue(t.Context(), target, ann)
		require.NoError(t, err)
		r.reaches(done.Event.Key, 0, event.PhaseSettled)
		p, err = r.desk.Preview(t.Context(), r.delivery(`{"id":"1","urls":["`+r.sink.URL("/ok")+`"]}`), letters.Change{})
		require.NoError(t, err)
		require.NotEmpty(t, p.Known)
		require.Empty(t, p.Problem)
	})
	t.Run("under an identity that another event has, it needs one of its own", func(t *testing.T) {
		r := newRig(t)
		r.dispatch()
		first, err := r.desk.Requeue(t.Context(), r.delivery(`{"id":"1","urls":[]}`), ann)
		require.NoError(t, err)
		r.reaches(first.Event.Key, 0, event.PhaseSettled)
		target := r.delivery(`{"id":"1"}`)
		_, err = r.desk.Requeue(t.Context(), target, ann)
		require.ErrorContains(t, err, "it is refused again (id_conflict): the event "+string(first.Event.Key)+" has the same identity and another body")
		_, err = r.desk.Edit(t.Context(), target, ann, letters.Change{Set: map[string]string{"id": "1b"}})
		require.NoError(t, err)
		r.noLetter(target.Key)
	})
	t.Run("a body that is too large for an event is not handed in without it", func(t *testing.T) {
		r := newRig(t)
		target := r.delivery(`{"id":"1","blank":"` + strings.Repeat(" ", streams.MaxData*3/2) + `"}`)
		_, err := r.desk.Requeue(t.Context(), target, ann)
		require.ErrorContains(t, err, "too large for an event")
	})
}

// What the dispatcher finds out about an identity is a dead letter of a delivery too.
func TestAnIDConflictIsResolvedByAnIDOfItsOwn(t *testing.T) {
	r := newRig(t, func(o *streams.Options) { o.DuplicateWindow = 100 * time.Millisecond })
	r.dispatch()
	first := r.publish("1", "order.placed", map[string]any{"urls": []string{}})
	r.reaches(first, 0, event.PhaseSettled)
	var key event.Key
	require.Eventually(t, func() bool {
		e := event.Envelope{Tenant: "acme", Source: "shop", ID: "1", IDSource: event.IDMessageID, Type: "order.placed", Data: []byte(`{"id":"1"}`)}
		got, err := r.log.Events.Publish(t.Context(), streams.Incoming{Envelope: e, Nonce: event.NewNonce()})
		require.NoError(t, err)
		key = event.ConflictKey(first, event.Digest(e.Data))
		return !got.Duplicate
	}, 10*time.Second, 10*time.Millisecond)
	require.Eventually(t, func() bool {
		_, _, err := r.log.DeadLetters.Get(t.Context(), "acme", key)
		return err == nil
	}, 30*time.Second, 5*time.Millisecond)
	letter, _, err := r.log.DeadLetters.Get(t.Context(), "acme", key)
	require.NoError(t, err)
	require.Equal(t, event.LetterDelivery, letter.Kind)
	require.Equal(t, event.CauseIDConflict, letter.Cause)
	done, err := r.desk.Edit(t.Context(), r.target(key), ann, letters.Change{Set: map[string]string{"id": "1b"}})
	require.NoError(t, err)
	require.Equal(t, "1b", done.Event.ID)
	r.noLetter(key)
}

func TestADeliveryIsDiscarded(t *testing.T) {
	r := newRig(t)
	target := r.delivery(`{"id":`)
	done, err := r.desk.Discard(t.Context(), target, letters.Word{Operator: "ann", Reason: "noise"})
	require.NoError(t, err)
	ops := r.operations()
	require.Len(t, ops, 1)
	require.Equal(t, event.OperationDiscarded, ops[0].Action)
	require.Equal(t, "noise", ops[0].Reason)
	require.Equal(t, letters.Discarded{Key: target.Key, Tenant: "acme", Cause: event.CauseUndecodable, Sequence: done.Sequence}, done)
	r.noLetter(target.Key)
}

func TestOfEightOperatorsWithOneDeliveryOneWins(t *testing.T) {
	r := newRig(t)
	target := r.delivery(`{"id":"1"}`)
	var won atomic.Int32
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			_, err := r.desk.Edit(t.Context(), letters.Target{Tenant: "acme", Key: target.Key}, ann, letters.Change{Set: map[string]string{"id": string(rune('a' + i))}})
			conflict := new(letters.ConflictError)
			switch {
			case err == nil:
				won.Add(1)
			case !asConflict(err, conflict) && !isGone(err):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 1, won.Load())
	info, err := r.log.Events.Info(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, info.Messages, "it came in once")
}

// A process that dies when the delivery has come in and before that is noted leaves
// the letter, with the name on it for a minute. Then it is done again, and the event
// is a duplicate of itself.
func TestADeliveryThatACrashLeftBehindIsDoneAgain(t *testing.T) {
	r := newRig(t)
	now := time.Now()
	o := r.options(r.log.DeadLetters)
	o.Outcomes = brokenOutcomes{r.log.Outcomes}
	target := r.delivery(`{"id":"1"}`)
	_, err := letters.New(o).Requeue(t.Context(), target, ann)
	require.ErrorIs(t, err, errBroken)

	o = r.options(r.log.DeadLetters)
	o.Now = func() time.Time { return now }
	desk := letters.New(o)
	_, err = desk.Requeue(t.Context(), r.target(target.Key), letters.Word{Operator: "bob"})
	require.ErrorContains(t, err, "ann@desk has begun to do something about it at ")
	now = now.Add(2 * time.Minute)
	done, err := desk.Requeue(t.Context(), r.target(target.Key), letters.Word{Operator: "bob"})
	require.NoError(t, err)
	require.True(t, done.Duplicate)
	r.noLetter(target.Key)
}

// Where the event has a history by then, it is not done again, whatever somebody else
// wants: what the dead process did is noted in the name of its operator.
func TestADeliveryThatCameInBeforeACrashIsNotDealtWithTwice(t *testing.T) {
	for name, next := range map[string]func(*letters.Desk, letters.Target) error{
		"discarded": func(d *letters.Desk, to letters.Target) error {
			_, err := d.Discard(t.Context(), to, letters.Word{Operator: "bob", Reason: "noise"})
			return err
		},
		"taken in as another event": func(d *letters.Desk, to letters.Target) error {
			_, err := d.Edit(t.Context(), to, letters.Word{Operator: "bob"}, letters.Change{Set: map[string]string{"id": "other"}})
			return err
		},
		"requeued": func(d *letters.Desk, to letters.Target) error {
			_, err := d.Requeue(t.Context(), to, letters.Word{Operator: "bob"})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			o := r.options(r.log.DeadLetters)
			o.Outcomes = brokenOutcomes{r.log.Outcomes}
			target := r.delivery(`{"id":"1"}`)
			_, err := letters.New(o).Edit(t.Context(), target, ann, letters.Change{Set: map[string]string{"id": "mended"}})
			require.ErrorIs(t, err, errBroken, "as if the process had died here")
			letter, _, err := r.log.DeadLetters.Get(t.Context(), "acme", target.Key)
			require.NoError(t, err)
			key := letter.Edit.Event
			r.dispatch()
			r.reaches(key, 0, event.PhaseSettled)

			o = r.options(r.log.DeadLetters)
			later := time.Now().Add(2 * time.Minute)
			o.Now = func() time.Time { return later }
			err = next(letters.New(o), r.target(target.Key))
			conflict := new(letters.ConflictError)
			require.True(t, asConflict(err, conflict), "%v", err)
			require.ErrorContains(t, err, "ann@desk had it taken in as event "+string(key))
			ops := r.operations()
			require.Len(t, ops, 1)
			require.Equal(t, event.OperationRequeued, ops[0].Action)
			require.Equal(t, "ann@desk", ops[0].Operator)
			require.Equal(t, key, ops[0].Event)
			r.noLetter(target.Key)
			info, err := r.log.Events.Info(t.Context())
			require.NoError(t, err)
			require.EqualValues(t, 1, info.Messages, "it came in once")
		})
	}
}

func TestAReplayPlanGoesOnWithADeliveryWhereItWasCutOff(t *testing.T) {
	mass := letters.Word{Operator: "ann", Replay: "plan1"}
	for name, dispatched := range map[string]bool{"before anybody worked on the event": false, "after the event had ended": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			o := r.options(r.log.DeadLetters)
			o.Outcomes = brokenOutcomes{r.log.Outcomes}
			target := r.delivery(`{"id":"1"}`)
			_, err := letters.New(o).Requeue(t.Context(), target, mass)
			require.ErrorIs(t, err, errBroken, "as if the process had died here")
			letter, _, err := r.log.DeadLetters.Get(t.Context(), "acme", target.Key)
			require.NoError(t, err)
			if dispatched {
				r.dispatch()
				r.reaches(letter.Edit.Event, 0, event.PhaseSettled)
			}

			done, err := letters.New(r.options(r.log.DeadLetters)).Requeue(t.Context(), target, mass)
			require.NoError(t, err)
			require.True(t, done.Admitted)
			require.Equal(t, letter.Edit.Event, done.Event.Key)
			r.noLetter(target.Key)
			ops := r.operations()
			require.Len(t, ops, 1)
			require.Equal(t, "plan1", ops[0].Replay)
			info, err := r.log.Events.Info(t.Context())
			require.NoError(t, err)
			require.EqualValues(t, 1, info.Messages, "it came in once")
		})
	}
}
