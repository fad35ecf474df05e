package streams_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/streams"
	"tidings/streams/event"
	"tidings/streams/streamstest"
)

func ref(id string) event.Ref {
	e := order(id)
	return event.Ref{
		Key: event.Identity{}.Key(e), Tenant: e.Tenant, Source: e.Source, ID: e.ID, IDSource: e.IDSource,
		Type: e.Type, OccurredAt: e.OccurredAt, ReceivedAt: e.OccurredAt, Sequence: 1, Digest: event.Digest(e.Data),
	}
}

func claim(r event.Ref, before event.State) event.Record {
	return event.NewRecord(r, before, time.Now().UTC(), event.Claimed{Owner: event.Owner{Instance: "i", Boot: "b"}, LeaseMS: 60000, Limit: 64})
}

func settle(r event.Ref, before event.State) event.Record {
	return event.NewRecord(r, before, time.Now().UTC(), event.Planned{Nothing: event.NoRecipient}, event.Settled{})
}

func TestOutcomes(t *testing.T) {
	for name, opt := range durabilities() {
		t.Run(name, func(t *testing.T) {
			l := streamstest.New(t, opt)
			t.Run("a history is read back as its last record", func(t *testing.T) {
				c := claim(ref("1"), event.State{})
				first, err := l.Outcomes.Append(t.Context(), c, 0)
				require.NoError(t, err)
				s := settle(ref("1"), c.State)
				second, err := l.Outcomes.Append(t.Context(), s, first.Sequence)
				require.NoError(t, err)

				last, err := l.Outcomes.Last(t.Context(), "acme", ref("1").Key)
				require.NoError(t, err)
				require.Equal(t, second.Sequence, last.Sequence)
				require.Equal(t, s, last.Record)
				require.WithinDuration(t, time.Now(), last.Time, time.Minute)
			})
			t.Run("a history is walked from record to record, and others lie between", func(t *testing.T) {
				c := claim(ref("walked"), event.State{})
				first, err := l.Outcomes.Append(t.Context(), c, 0)
				require.NoError(t, err)
				_, err = l.Outcomes.Append(t.Context(), claim(ref("another"), event.State{}), 0)
				require.NoError(t, err)
				s := settle(ref("walked"), c.State)
				_, err = l.Outcomes.Append(t.Context(), s, first.Sequence)
				require.NoError(t, err)
				var walked []string
				next, err := l.Outcomes.Next(t.Context(), "acme", c.Event.Key, 0)
				for ; err == nil; next, err = l.Outcomes.Next(t.Context(), "acme", c.Event.Key, next.Sequence) {
					walked = append(walked, next.Record.ID)
				}
				require.ErrorIs(t, err, streams.ErrNotFound)
				require.Equal(t, []string{c.ID, s.ID}, walked)
			})
			t.Run("headers say what followers route by", func(t *testing.T) {
				s := settle(ref("headers"), event.State{})
				p, err := l.Outcomes.Append(t.Context(), s, 0)
				require.NoError(t, err)
				e, err := l.Outcomes.Entry(t.Context(), p.Sequence)
				require.NoError(t, err)
				require.Equal(t, "outcomes.acme."+string(s.Event.Key), e.Subject)
				for header, want := range map[string]string{
					streams.HeaderKey: string(s.Event.Key), streams.HeaderKind: "settled", streams.HeaderType: "order.placed",
					streams.HeaderOutcome: "no_recipient", streams.HeaderTenant: "acme", streams.HeaderSource: "shop",
					streams.HeaderGeneration: "0", streams.HeaderRecordID: s.ID, streams.HeaderFinal: "true",
				} {
					require.Equal(t, want, e.Header.Get(header), header)
				}
			})
			t.Run("an append on anything but the last record conflicts and shows that record", func(t *testing.T) {
				c := claim(ref("2"), event.State{})
				p, err := l.Outcomes.Append(t.Context(), c, 0)
				require.NoError(t, err)
				_, err = l.Outcomes.Append(t.Context(), claim(ref("2"), event.State{}), 0)
				var conflict *streams.ConflictError
				require.ErrorAs(t, err, &conflict)
				require.Equal(t, p.Sequence, conflict.Last.Sequence)
				require.Equal(t, c, conflict.Last.Record)
				require.Zero(t, conflict.Landed)
			})
			t.Run("a conflict with the very same record is success", func(t *testing.T) {
				c := claim(ref("3"), event.State{})
				p, err := l.Outcomes.Append(t.Context(), c, 0)
				require.NoError(t, err)
				again, err := l.Outcomes.Append(t.Context(), c, 0)
				require.NoError(t, err)
				require.Equal(t, p.Sequence, again.Sequence)
			})
			t.Run("an event without a record is not found", func(t *testing.T) {
				_, err := l.Outcomes.Last(t.Context(), "acme", ref("none").Key)
				require.ErrorIs(t, err, streams.ErrNotFound)
				_, err = l.Outcomes.Entry(t.Context(), 1<<40)
				require.ErrorIs(t, err, streams.ErrNotFound)
			})
			t.Run("a duplicate is an entry of the tenant's audit", func(t *testing.T) {
				d := event.NewDuplicate(ref("1"), event.StageBridge, "EVENTS", 1, "n", "amqp queue orders", time.Now())
				require.NoError(t, l.Outcomes.AppendDuplicate(t.Context(), d))
				info, err := l.Outcomes.Info(t.Context())
				require.NoError(t, err)
				e, err := l.Outcomes.Entry(t.Context(), info.Last)
				require.NoError(t, err)
				require.Equal(t, "audit.acme", e.Subject)
				require.Equal(t, "duplicate", e.Header.Get(streams.HeaderKind))
				require.Equal(t, d.ID, e.Header.Get(streams.HeaderRecordID))
			})
		})
	}
}

// In strict durability eight racers for each of a hundred keys are far more
// than fit into one commit, so several for one key meet in the committer.
func TestEightRacersForEachOfAHundredKeysHaveOneWinnerEach(t *testing.T) {
	for name, opt := range durabilities() {
		t.Run(name, func(t *testing.T) {
			s := streamstest.NewServer(t, opt)
			logs := []*streams.Log{s.Log(), s.Log()} // two processes, four racers in each
			const keys, racers = 100, 8
			var winners [keys]atomic.Int32
			var wg sync.WaitGroup
			for k := range keys {
				for r := range racers {
					wg.Go(func() {
						c := claim(ref(fmt.Sprint(k)), event.State{})
						_, err := logs[r%2].Outcomes.Append(t.Context(), c, 0)
						if err == nil {
							winners[k].Add(1)
							return
						}
						var conflict *streams.ConflictError
						if !errors.As(err, &conflict) || conflict.Last.Sequence == 0 {
							t.Errorf("key %d: %v", k, err)
						}
					})
				}
			}
			wg.Wait()
			for k := range keys {
				require.EqualValues(t, 1, winners[k].Load(), "key %d", k)
			}
			info, err := logs[0].Outcomes.Info(t.Context())
			require.NoError(t, err)
			require.EqualValues(t, keys, info.Messages)
		})
	}
}

func TestAppendBeforeRunWaitsForIt(t *testing.T) {
	for name, opt := range durabilities() {
		t.Run(name, func(t *testing.T) {
			l := streamstest.NewServer(t, opt).Open()
			done := make(chan error, 1)
			go func() {
				_, err := l.Outcomes.Append(t.Context(), claim(ref("1"), event.State{}), 0)
				done <- err
			}()
			t.Run("and gives up with its context, with nothing stored", func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				_, err := l.Outcomes.Append(ctx, claim(ref("2"), event.State{}), 0)
				require.ErrorIs(t, err, streams.ErrUnavailable)
				require.NotErrorIs(t, err, streams.ErrUnknown)
			})
			select {
			case err := <-done:
				t.Fatalf("ended before Run: %v", err)
			default:
			}
			stop := streamstest.Run(t, l.Run)
			require.NoError(t, <-done)
			t.Run("and after Run is refused", func(t *testing.T) {
				stop()
				_, err := l.Outcomes.Append(t.Context(), claim(ref("3"), event.State{}), 0)
				require.ErrorIs(t, err, streams.ErrClosed)
				require.NotErrorIs(t, err, streams.ErrUnknown)
				_, err = l.Events.Publish(t.Context(), streams.Incoming{Envelope: order("3")})
				require.ErrorIs(t, err, streams.ErrClosed)
			})
			info, err := l.Outcomes.Info(t.Context())
			require.NoError(t, err)
			require.EqualValues(t, 1, info.Messages)
		})
	}
}

func TestWhatIsQueuedWhenRunEndsIsStillCommitted(t *testing.T) {
	l := streamstest.NewServer(t, streamstest.Strict).Open()
	const n = 600 // several commits
	errs := make(chan error, n)
	for i := range n {
		go func() {
			_, err := l.Outcomes.Append(t.Context(), claim(ref(fmt.Sprint(i)), event.State{}), 0)
			errs <- err
		}()
	}
	require.Eventually(t, func() bool { return l.Queued() == n }, 10*time.Second, time.Millisecond)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, l.Run(ctx))
	for range n {
		require.NoError(t, <-errs)
	}
}

func TestAppendWhoseFateIsUnknownIsRepeated(t *testing.T) {
	for name, opt := range durabilities() {
		t.Run(name, func(t *testing.T) {
			s := streamstest.NewServer(t, opt)
			l := s.Log()
			t.Run("until the server is back", func(t *testing.T) {
				s.Stop()
				c := claim(ref("1"), event.State{})
				done := make(chan error, 1)
				go func() {
					_, err := l.Outcomes.Append(t.Context(), c, 0)
					done <- err
				}()
				select {
				case err := <-done:
					t.Fatalf("ended without a server: %v", err)
				case <-time.After(100 * time.Millisecond):
				}
				s.Start()
				require.NoError(t, <-done)
				last, err := l.Outcomes.Last(t.Context(), "acme", ref("1").Key)
				require.NoError(t, err)
				require.Equal(t, c.ID, last.Record.ID)
			})
			t.Run("or its context is done", func(t *testing.T) {
				s.Stop()
				ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
				defer cancel()
				_, err := l.Outcomes.Append(ctx, claim(ref("2"), event.State{}), 0)
				require.Error(t, err)
				require.True(t, errors.Is(err, streams.ErrUnknown) || errors.Is(err, streams.ErrUnavailable), "%v", err)
				s.Start()
			})
		})
	}
}

func TestNewWorkStopsBeforeOutcomesIsFull(t *testing.T) {
	const size = 256 << 10
	l := streamstest.New(t, func(o *streams.Options) { o.OutcomesMaxBytes = size })
	open := claim(ref("open"), event.State{})
	p, err := l.Outcomes.Append(t.Context(), open, 0)
	require.NoError(t, err)
	for i, used := 0, uint64(0); used < size/100*91; i++ {
		_, err := l.Outcomes.Append(t.Context(), settle(ref(fmt.Sprint(i)), event.State{}), 0)
		require.NoError(t, err, "results may use the rest")
		info, err := l.Outcomes.Info(t.Context())
		require.NoError(t, err)
		used = info.Bytes
	}
	n := 0
	require.Eventually(t, func() bool {
		n++
		_, err := l.Outcomes.Append(t.Context(), claim(ref(fmt.Sprint("claim", n)), event.State{}), 0)
		return errors.Is(err, streams.ErrFull)
	}, 10*time.Second, 100*time.Millisecond)
	aside := event.NewRecord(ref("aside"), event.State{}, time.Now(), event.Waiting{Reason: event.WaitBusy, Channel: "mail", Due: time.Now()})
	_, err = l.Outcomes.Append(t.Context(), aside, 0)
	require.ErrorIs(t, err, streams.ErrFull, "what is set aside has results too")
	d := event.NewDuplicate(ref("open"), event.StageBridge, "EVENTS", 1, "n", "", time.Now())
	require.ErrorIs(t, l.Outcomes.AppendDuplicate(t.Context(), d), streams.ErrFull)

	ended := settle(ref("open"), open.State)
	p, err = l.Outcomes.Append(t.Context(), ended, p.Sequence)
	require.NoError(t, err, "results may use the rest")
	requeued := event.NewRecord(ref("open"), ended.State, time.Now(), event.Requeued{Generation: 1, Operator: "ann"})
	_, err = l.Outcomes.Append(t.Context(), requeued, p.Sequence)
	require.ErrorIs(t, err, streams.ErrFull, "what an operator sends again has results too")
}

func TestFullStreamRefusesAndForgetsNothing(t *testing.T) {
	for name, opt := range durabilities() {
		t.Run(name, func(t *testing.T) {
			l := streamstest.New(t, opt, func(o *streams.Options) { o.EventsMaxBytes = 1 << 20 })
			require.NoError(t, l.Events.Ready(t.Context()))
			var stored, full atomic.Int32
			var wg sync.WaitGroup
			for i := range 256 {
				wg.Go(func() {
					e := order(fmt.Sprint(i))
					e.Data = make([]byte, 8<<10)
					_, err := l.Events.Publish(t.Context(), streams.Incoming{Envelope: e})
					switch {
					case err == nil:
						stored.Add(1)
					case errors.Is(err, streams.ErrFull):
						full.Add(1)
					default:
						t.Errorf("event %d: %v", i, err)
					}
				})
			}
			wg.Wait()
			require.Positive(t, full.Load())
			info, err := l.Events.Info(t.Context())
			require.NoError(t, err)
			require.EqualValues(t, stored.Load(), info.Messages)
			require.EqualValues(t, 1, info.First)
			require.ErrorIs(t, l.Events.Ready(t.Context()), streams.ErrFull)
			require.NoError(t, l.Events.Trim(t.Context(), info.Last/2))
			require.NoError(t, l.Events.Ready(t.Context()))
		})
	}
}

func TestALargeEventThatDoesNotFitIsNoSecret(t *testing.T) {
	for name, opt := range durabilities() {
		t.Run(name, func(t *testing.T) {
			l := streamstest.New(t, opt, func(o *streams.Options) { o.EventsMaxBytes = 2 << 20 })
			publish := func(id string, size int) error {
				e := order(id)
				e.Data = make([]byte, size)
				_, err := l.Events.Publish(t.Context(), streams.Incoming{Envelope: e})
				return err
			}
			require.NoError(t, publish("1", 3<<19))

			full, ok := errors.AsType[*streams.FullError](publish("2", 1<<20))
			require.True(t, ok)
			require.Regexp(t, `^EVENTS is full \(1 of 2 MiB, and an event of 10\d+ bytes does not fit\): .*events.max_bytes`, full.Error())
			require.NoError(t, l.Events.Ready(t.Context()), "smaller ones fit")
			require.Equal(t, full.Entry, fullness(t, l).Entry)

			require.NoError(t, publish("3", 1<<10), "which says nothing about large ones")
			require.NotNil(t, fullness(t, l))
			require.NoError(t, l.Events.Trim(t.Context(), 2))
			require.NoError(t, l.Events.Takes(t.Context()))
		})
	}
}

// fullness is why the log does not take every event.
func fullness(t *testing.T, l *streams.Log) *streams.FullError {
	t.Helper()
	full, ok := errors.AsType[*streams.FullError](l.Events.Takes(t.Context()))
	require.True(t, ok)
	return full
}

func TestAConflictThatNothingExplainsIsNoConflict(t *testing.T) {
	l := streamstest.New(t)
	l.RefuseAppends(2)
	c := claim(ref("1"), event.State{})
	p, err := l.Outcomes.Append(t.Context(), c, 0)
	require.NoError(t, err)
	require.NotZero(t, p.Sequence)
}

func TestAnExpectedRecordThatHasAgedOutIsAConflictWithNothing(t *testing.T) {
	l := streamstest.New(t)
	_, err := l.Outcomes.Append(t.Context(), claim(ref("1"), event.State{}), 12)
	var conflict *streams.ConflictError
	require.ErrorAs(t, err, &conflict)
	require.Zero(t, conflict.Last.Sequence)
	require.EqualValues(t, 12, conflict.After)
}

func TestWhatWasAcknowledgedIsThereAfterAKill(t *testing.T) {
	for name, opt := range durabilities() {
		t.Run(name, func(t *testing.T) {
			s := streamstest.NewServer(t, opt)
			l := s.Log()
			const n = 300 // in strict durability, most of them in batches
			var ids [n]string
			var at [n]streams.Position
			var wg sync.WaitGroup
			for i := range n {
				wg.Go(func() {
					r := claim(ref(fmt.Sprint(i)), event.State{})
					p, err := l.Outcomes.Append(t.Context(), r, 0)
					if err != nil {
						t.Errorf("append %d: %v", i, err)
					}
					ids[i], at[i] = r.ID, p
				})
			}
			wg.Wait()
			s.KillRestart()
			l = s.Log()
			for i := range n {
				e, err := l.Outcomes.Entry(t.Context(), at[i].Sequence)
				require.NoError(t, err)
				require.Equal(t, ids[i], e.Header.Get(streams.HeaderRecordID))
			}
			info, err := l.Outcomes.Info(t.Context())
			require.NoError(t, err)
			require.EqualValues(t, n, info.Messages)
		})
	}
}
