package app

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/cmd/internal/api"
	"tidings/dispatcher"
	"tidings/dispatcher/steward"
	"tidings/projector"
	"tidings/store"
	"tidings/streams"
	"tidings/streams/event"
	"tidings/streams/streamstest"
)

func TestTheDispatcherIsReadyUnlessAllStandsStill(t *testing.T) {
	since := time.Date(2026, 11, 30, 3, 0, 0, 0, time.UTC)
	well := dispatcher.ChannelStatus{Channel: "hook", Breaker: dispatcher.BreakerClosed}
	shut := dispatcher.ChannelStatus{Channel: "mail", Breaker: dispatcher.BreakerOpen, Since: since, Code: "smtp_421", Aside: 12}
	limited := dispatcher.ChannelStatus{Channel: "sms", Breaker: dispatcher.BreakerHalfOpen, Since: since, Code: "http_429", RateLimited: true}
	for name, c := range map[string]struct {
		status dispatcher.Status
		want   api.Part
	}{
		"all is well": {dispatcher.Status{MaxWaiting: 1, Channels: []dispatcher.ChannelStatus{well}}, api.Part{Ready: true}},
		"a channel that is shut is said, and does not make it unready": {
			dispatcher.Status{MaxWaiting: 1, Channels: []dispatcher.ChannelStatus{well, shut, limited}},
			api.Part{Ready: true, Reason: `channel "mail" does not get through since 2026-11-30T03:00:00Z (smtp_421), and 12 events wait for it; ` +
				`channel "sms" is rate limited by its provider since 2026-11-30T03:00:00Z (http_429), and 0 events wait for it`},
		},
		"too many wait, for a channel that is shut": {
			dispatcher.Status{Waiting: 12, MaxWaiting: 12, Channels: []dispatcher.ChannelStatus{shut}},
			api.Part{Reason: `12 events wait, and max_waiting is 12: no more are taken until they are fewer; ` +
				`channel "mail" does not get through since 2026-11-30T03:00:00Z (smtp_421), and 12 events wait for it`},
		},
		"too many wait for their next round": {
			dispatcher.Status{Waiting: 13, MaxWaiting: 12},
			api.Part{Reason: `13 events wait, and max_waiting is 12: no more are taken until they are fewer; tidings events list --phase waiting shows them`},
		},
		"the log is in trouble": {dispatcher.Status{Trouble: "append: full", MaxWaiting: 1}, api.Part{Reason: "append: full"}},
	} {
		t.Run(name, func(t *testing.T) {
			c.want.Name = "dispatcher"
			require.Equal(t, c.want, ofStatus(c.status))
		})
	}
}

// An event whose schedule was lost, as by a crash between the record and the
// schedule, is found in the ledger and woken; and so is one that an operator requeued,
// whose process died before it could wake it.
func TestTheStewardWakesWhatTheLedgerCallsOverdue(t *testing.T) {
	log := streamstest.New(t)
	s, err := store.Open(filepath.Join(t.TempDir(), "ledger.db"), store.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	p := projector.New(projector.Options{Outcomes: log.Outcomes, DeadLetters: log.DeadLetters, Store: s})
	streamstest.Run(t, p.Run)

	past := time.Now().Add(-time.Hour)
	waits := func(id string, due time.Time) event.Ref {
		ref := event.Ref{Key: event.NewKey(id), Tenant: "acme", ID: id, IDSource: event.IDMessageID, Type: "t", ReceivedAt: past, Sequence: 7, Digest: "d"}
		claimed := event.NewRecord(ref, event.State{}, past, event.Claimed{Owner: event.Owner{Instance: "i", Boot: "b"}, LeaseMS: 60_000, Limit: 64})
		first, err := log.Outcomes.Append(t.Context(), claimed, 0)
		require.NoError(t, err)
		waiting := event.NewRecord(ref, claimed.State, past, event.Waiting{Round: 1, Due: due, Reason: event.WaitRetry})
		last, err := log.Outcomes.Append(t.Context(), waiting, first.Sequence)
		require.NoError(t, err)
		require.NoError(t, p.CaughtUp(t.Context(), last.Sequence))
		return ref
	}
	lost := waits("lost", past)
	requeued := waits("requeued", time.Now().Add(time.Hour))
	var after uint64
	for _, facts := range [][]event.Fact{{event.Dead{Cause: event.CausePanic}}, {event.Requeued{Generation: 1, Operator: "ann"}}} {
		last, err := log.Outcomes.Last(t.Context(), "acme", requeued.Key)
		require.NoError(t, err)
		rec := event.NewRecord(requeued, last.Record.State, past, facts...)
		at, err := log.Outcomes.Append(t.Context(), rec, last.Sequence)
		require.NoError(t, err)
		after = at.Sequence
	}
	require.NoError(t, p.CaughtUp(t.Context(), after))
	waits("not due yet", time.Now().Add(time.Hour))

	streamstest.Run(t, steward.New(steward.Options{
		Ledger: stewardship{s, p, log}, Waker: log.Retries, Events: log.Events, Histories: log.Outcomes, Letters: log.DeadLetters,
		Every: 10 * time.Millisecond,
	}).Run)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	woken := map[streams.Wakeup]bool{}
	err = log.Retries.Consume(ctx, streams.ConsumeOptions{Workers: 1}, func(ctx context.Context, d *streams.Delivery) {
		if woken[d.Wakeup()] = true; len(woken) == 2 {
			cancel()
		}
		_ = d.Ack(ctx)
	})
	require.NoError(t, err)
	require.Equal(t, map[streams.Wakeup]bool{
		{Tenant: "acme", Key: lost.Key, Sequence: 7}: true, {Tenant: "acme", Key: requeued.Key, Sequence: 7}: true,
	}, woken)
}
