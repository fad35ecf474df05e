package streams_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tidings/streams"
	"tidings/streams/event"
	"tidings/streams/streamstest"
)

func TestFollowersChooseAndGoOnBehindAMark(t *testing.T) {
	l := streamstest.New(t)
	first := claim(ref("1"), event.State{})
	at, err := l.Outcomes.Append(t.Context(), first, 0)
	require.NoError(t, err)
	last := settle(ref("1"), first.State)
	_, err = l.Outcomes.Append(t.Context(), last, at.Sequence)
	require.NoError(t, err)
	_, err = l.Outcomes.Append(t.Context(), claim(ref("2"), event.State{}), 0)
	require.NoError(t, err)
	other := ref("3")
	other.Tenant, other.Type = "globex", "invoice.sent"
	_, err = l.Outcomes.Append(t.Context(), claim(other, event.State{}), 0)
	require.NoError(t, err)
	require.NoError(t, l.Outcomes.AppendDuplicate(t.Context(), event.NewDuplicate(ref("1"), event.StageHTTP, "EVENTS", 1, "", "http", at.Time)))

	follow := func(t *testing.T, after streams.Mark, f streams.Filter, n int) []uint64 {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var got []uint64
		err := l.Outcomes.FollowFrom(ctx, after, f, func(e streams.Entry) error {
			if got = append(got, e.Sequence); len(got) == n {
				cancel()
			}
			return nil
		})
		require.ErrorIs(t, err, context.Canceled)
		return got
	}
	for name, c := range map[string]struct {
		filter streams.Filter
		want   []uint64
	}{
		"all":            {streams.Filter{}, []uint64{1, 2, 3, 4, 5}},
		"by tenant":      {streams.Filter{Tenant: "globex"}, []uint64{4}},
		"by type":        {streams.Filter{Type: "invoice.sent"}, []uint64{4}},
		"by event":       {streams.Filter{Key: first.Event.Key}, []uint64{1, 2, 5}},
		"by kind":        {streams.Filter{Kinds: []event.Kind{event.KindSettled, event.KindDuplicate}}, []uint64{2, 5}},
		"the last words": {streams.Filter{Final: true}, []uint64{2}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, follow(t, streams.Mark{}, c.filter, len(c.want)))
		})
	}
	t.Run("behind a mark, with its id or without", func(t *testing.T) {
		require.Equal(t, []uint64{3, 4, 5}, follow(t, streams.Mark{Sequence: 2}, streams.Filter{}, 3))
		require.Equal(t, []uint64{3, 4, 5}, follow(t, streams.Mark{Sequence: 2, ID: last.ID}, streams.Filter{}, 3))
	})
	t.Run("a mark that has another entry now is refused", func(t *testing.T) {
		for _, m := range []streams.Mark{{Sequence: 2, ID: first.ID}, {Sequence: 6}} {
			err := l.Outcomes.FollowFrom(t.Context(), m, streams.Filter{}, func(streams.Entry) error { return nil })
			require.ErrorIs(t, err, streams.ErrRewritten)
		}
	})
}

func TestMarksReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := streams.Mark{Sequence: rapid.Uint64().Draw(t, "sequence")}
		if rapid.Bool().Draw(t, "with id") {
			m.ID = event.NewNonce()
		}
		back, err := streams.ParseMark(m.String())
		require.NoError(t, err)
		require.Equal(t, m, back)
	})
	for _, text := range []string{"", "x", ".id", "-1", "1e3"} {
		_, err := streams.ParseMark(text)
		require.ErrorContains(t, err, "is no mark")
	}
}
