package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"tidings/store"
	"tidings/store/storetest"
	"tidings/streams/event"
)

func TestOperations(t *testing.T) {
	ref := storetest.Ref("acme", 1)
	raw := store.NewLetter(7, event.Letter{
		Kind: event.LetterDelivery, Key: event.NewKey("raw"), Tenant: "acme", Cause: event.CauseUndecodable, At: storetest.Start,
	})
	about := event.OperationLetter{Key: raw.Key, Sequence: raw.Sequence, Cause: raw.Cause}
	t.Run("are found by the letter and by the event that it has become", func(t *testing.T) {
		s, log := storetest.Open(t), storetest.Log{}
		op := log.Operation("op", about, &ref)
		log.Record(ref, event.Claimed{LeaseMS: 1})
		storetest.Apply(t, s, log.Lines...)
		for _, key := range []event.Key{raw.Key, ref.Key} {
			entries, err := s.History(key, 0, 0)
			require.NoError(t, err)
			require.Equal(t, &op, entries[0].Operation)
			require.Equal(t, event.KindOperation, entries[0].Kind)
		}
	})
	t.Run("appended twice count once, in the later place", func(t *testing.T) {
		s, log := storetest.Open(t), storetest.Log{}
		log.Operation("op", about, &ref)
		log.Operation("op", about, &ref)
		storetest.Apply(t, s, log.Lines...)
		for _, key := range []event.Key{raw.Key, ref.Key} {
			entries, err := s.History(key, 0, 0)
			require.NoError(t, err)
			require.Len(t, entries, 1)
			require.EqualValues(t, 2, entries[0].Sequence)
		}
	})
	t.Run("end the letter that they are about, whichever is folded in first, and no later one", func(t *testing.T) {
		for _, letterFirst := range []bool{true, false} {
			s, log := storetest.Open(t), storetest.Log{}
			log.Operation("op", about, nil)
			if letterFirst {
				putLetters(t, s, raw)
			}
			storetest.Apply(t, s, log.Lines...)
			if !letterFirst {
				putLetters(t, s, raw)
			}
			got, err := s.DeadLetter(raw.Key)
			require.NoError(t, err)
			require.True(t, got.Over)
			again := raw
			again.Sequence = 9
			putLetters(t, s, again)
			got, err = s.DeadLetter(raw.Key)
			require.NoError(t, err)
			require.False(t, got.Over, "it came again")
		}
	})
	t.Run("are forgotten with the horizon", func(t *testing.T) {
		s, log := storetest.Open(t), storetest.Log{}
		log.Operation("op", about, &ref)
		storetest.Apply(t, s, log.Lines...)
		require.NoError(t, s.Update(func(tx *store.Tx) error {
			_, err := tx.Trim(2, 10)
			return err
		}))
		for _, key := range []event.Key{raw.Key, ref.Key} {
			_, err := s.History(key, 0, 0)
			require.ErrorIs(t, err, store.ErrNotFound)
		}
	})
}
