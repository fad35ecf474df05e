package projector_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"tidings/projector"
	"tidings/store"
	"tidings/streams/streamstest"
)

// upkeep runs one of w's ledger.
func (w *world) upkeep(t *testing.T, s *store.Store, live *projector.Projector) *projector.Upkeep {
	u := projector.NewUpkeep(projector.UpkeepOptions{Store: s, Source: func() (projector.Source, bool) {
		return projector.Source{Outcomes: w.outcomes, DeadLetters: w.letters, Live: live}, live != nil
	}})
	t.Cleanup(streamstest.Run(t, u.Run))
	return u
}

// over waits for the end of what is under way.
func over(t *testing.T, u *projector.Upkeep) (last projector.Operation) {
	eventually(t, func() bool { last, _ = u.Last(); return last.Over() })
	return last
}

func TestUpkeep(t *testing.T) {
	w := newWorld(t)
	w.events(t, 50)
	p, s, stop := w.run(t)
	t.Cleanup(stop)
	caughtUp(t, p, 100)
	u := w.upkeep(t, s, p)

	t.Run("at first nothing was done", func(t *testing.T) {
		_, ok := u.Last()
		require.False(t, ok)
		_, err := u.Cancel()
		require.ErrorIs(t, err, projector.ErrIdle)
	})
	t.Run("a rebuild is carried out, and says how it ended", func(t *testing.T) {
		begun, err := u.Start(projector.KindRebuild, false, "ann")
		require.NoError(t, err)
		require.False(t, begun.Over())
		last := over(t, u)
		require.Equal(t, projector.ResultSame, last.Result)
		require.Equal(t, "ann", last.Operator)
		require.True(t, last.Found.Replaced)
		require.NoError(t, last.Err())
	})
	t.Run("what differs is said, and mended when that is accepted", func(t *testing.T) {
		plant(t, s)
		for _, c := range []struct {
			kind   projector.Kind
			accept bool
			want   projector.Result
		}{
			{projector.KindVerify, false, projector.ResultDiffers},
			{projector.KindRebuild, false, projector.ResultDiffers},
			{projector.KindRebuild, true, projector.ResultAccepted},
			{projector.KindVerify, false, projector.ResultSame},
		} {
			_, err := u.Start(c.kind, c.accept, "ann")
			require.NoError(t, err)
			require.Equal(t, c.want, over(t, u).Result)
		}
	})
	t.Run("one thing at a time", func(t *testing.T) {
		b, release, err := u.Backup()
		require.NoError(t, err)
		_, err = u.Start(projector.KindVerify, false, "ann")
		require.ErrorIs(t, err, projector.ErrBusy)
		_, _, err = u.Backup()
		require.ErrorIs(t, err, projector.ErrBusy)
		var copied bytes.Buffer
		_, err = b.WriteTo(&copied)
		require.NoError(t, err)
		require.EqualValues(t, b.Size, copied.Len())
		require.NoError(t, release())
		_, err = u.Start(projector.KindVerify, false, "ann")
		require.NoError(t, err)
		over(t, u)
	})
	t.Run("a log that lost what the ledger knows is refused", func(t *testing.T) {
		w.outcomes.cut(50)
		_, err := u.Start(projector.KindRebuild, true, "ann")
		require.NoError(t, err)
		last := over(t, u)
		require.Equal(t, projector.ResultRefused, last.Result)
		require.ErrorContains(t, last.Err(), "tidings recover")
	})
}

func TestUpkeepIsCancelled(t *testing.T) {
	w := newWorld(t)
	w.events(t, 50)
	p, s, stop := w.run(t)
	t.Cleanup(stop)
	caughtUp(t, p, 100)
	slow := &paced{Stream: w.outcomes, upTo: 60}
	u := projector.NewUpkeep(projector.UpkeepOptions{Store: s, Source: func() (projector.Source, bool) {
		return projector.Source{Outcomes: slow, DeadLetters: w.letters, Live: p}, true
	}})
	t.Cleanup(streamstest.Run(t, u.Run))
	_, err := u.Start(projector.KindRebuild, false, "ann")
	require.NoError(t, err)
	eventually(t, func() bool { last, _ := u.Last(); return last.Done == 60 && last.Total == 100 })
	_, err = u.Cancel()
	require.NoError(t, err)
	last := over(t, u)
	require.Equal(t, projector.ResultCancelled, last.Result)

	t.Run("and the next one goes on where it was", func(t *testing.T) {
		slow.upTo = 100
		_, err := u.Start(projector.KindRebuild, false, "ann")
		require.NoError(t, err)
		last := over(t, u)
		require.Equal(t, projector.ResultSame, last.Result, last.Error)
		require.EqualValues(t, 40, last.Found.Entries)
	})
}

func TestUpkeepWithoutALog(t *testing.T) {
	w := newWorld(t)
	_, s, stop := w.run(t)
	t.Cleanup(stop)
	u := w.upkeep(t, s, nil)
	_, err := u.Start(projector.KindRebuild, false, "ann")
	require.ErrorIs(t, err, projector.ErrNoLog)
	_, release, err := u.Backup()
	require.NoError(t, err, "there may be a copy all the same")
	require.NoError(t, release())
	require.NoError(t, u.Run(cancelled()))
}

func cancelled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
