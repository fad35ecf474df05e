package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/store"
	"tidings/store/storetest"
	"tidings/streams/event"
)

func letter(key event.Key, generation int) event.Letter {
	return event.Letter{
		Kind: event.LetterEvent, Key: key, Tenant: "acme", Cause: event.CauseCrashes, Stage: event.StageDispatcher,
		Generation: generation, At: storetest.Start.Add(time.Duration(generation) * time.Minute),
		Event: &event.Ref{Key: key, ID: "order-1", Type: "order.paid"}, Data: []byte("payload"),
	}
}

func putLetters(t *testing.T, s *store.Store, letters ...store.Letter) {
	require.NoError(t, s.Update(func(tx *store.Tx) error {
		for _, l := range letters {
			if err := tx.Letter(l); err != nil {
				return err
			}
		}
		return nil
	}))
	require.NoError(t, s.CheckIndex())
}

func TestLetters(t *testing.T) {
	key, other := storetest.Ref("acme", 1).Key, storetest.Ref("acme", 2).Key

	t.Run("the list says what a letter is about, without its payload", func(t *testing.T) {
		s := storetest.Open(t)
		putLetters(t, s, store.NewLetter(7, letter(key, 0)))
		got, err := s.DeadLetter(key)
		require.NoError(t, err)
		require.Equal(t, store.Letter{
			Key: key, Tenant: "acme", Kind: event.LetterEvent, Cause: event.CauseCrashes, Stage: event.StageDispatcher,
			Type: "order.paid", EventID: "order-1", At: storetest.Start, Size: 7, Sequence: 7,
		}, got)
	})
	t.Run("the size is that of the payload, also where an object has it", func(t *testing.T) {
		l := letter(key, 0)
		l.Data, l.PayloadObject = nil, &event.Object{Size: 16 << 20}
		require.EqualValues(t, 16<<20, store.NewLetter(7, l).Size)
	})
	t.Run("a newer letter takes the place of the older, never the other way round", func(t *testing.T) {
		s := storetest.Open(t)
		putLetters(t, s, store.NewLetter(9, letter(key, 1)), store.NewLetter(7, letter(key, 0)))
		got, err := s.DeadLetter(key)
		require.NoError(t, err)
		require.Equal(t, 1, got.Generation)
	})
	t.Run("only the letter that the stream lost is dropped", func(t *testing.T) {
		s := storetest.Open(t)
		putLetters(t, s, store.NewLetter(7, letter(key, 0)), store.NewLetter(9, letter(key, 1)))
		drop := func(sequence uint64) {
			require.NoError(t, s.Update(func(tx *store.Tx) error { return tx.DropLetter(key, sequence) }))
			require.NoError(t, s.CheckIndex())
		}
		drop(7)
		_, err := s.DeadLetter(key)
		require.NoError(t, err)
		drop(9)
		_, err = s.DeadLetter(key)
		require.ErrorIs(t, err, store.ErrNotFound)
		c, err := s.Counts()
		require.NoError(t, err)
		require.Zero(t, c.Letters)
	})
	t.Run("they are found by tenant, cause, kind and type, newest first", func(t *testing.T) {
		s := storetest.Open(t)
		raw := store.NewLetter(8, event.Letter{
			Kind: event.LetterDelivery, Key: other, Tenant: "globex", Cause: event.CauseUndecodable, At: storetest.Start.Add(time.Hour),
		})
		event0 := store.NewLetter(7, letter(key, 0))
		putLetters(t, s, event0, raw)
		for name, c := range map[string]struct {
			query store.LetterQuery
			want  []store.Letter
		}{
			"all":               {store.LetterQuery{Limit: 1}, []store.Letter{raw, event0}},
			"tenant":            {store.LetterQuery{Tenant: "acme"}, []store.Letter{event0}},
			"cause":             {store.LetterQuery{Cause: event.CauseUndecodable}, []store.Letter{raw}},
			"kind":              {store.LetterQuery{Kind: event.LetterDelivery}, []store.Letter{raw}},
			"type":              {store.LetterQuery{Type: "order.paid"}, []store.Letter{event0}},
			"text of an id":     {store.LetterQuery{Text: "ORDER-1"}, []store.Letter{event0}},
			"text of nothing":   {store.LetterQuery{Text: "nowhere"}, []store.Letter{}},
			"tenant and cause":  {store.LetterQuery{Tenant: "acme", Cause: event.CauseUndecodable}, []store.Letter{}},
			"since":             {store.LetterQuery{Since: storetest.Start.Add(time.Hour)}, []store.Letter{raw}},
			"until (exclusive)": {store.LetterQuery{Until: storetest.Start.Add(time.Hour)}, []store.Letter{event0}},
		} {
			t.Run(name, func(t *testing.T) {
				require.Equal(t, c.want, all(t, s.DeadLetters, c.query, turnLetters))
			})
		}
	})
}
