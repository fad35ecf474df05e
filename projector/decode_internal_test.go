package projector

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"tidings/store"
	"tidings/store/storetest"
	"tidings/streams"
	"tidings/streams/event"
)

// FuzzEntries ensures that whatever is in the streams can be applied or is refused by
// name, that a refused entry can be skipped, and that an entry of OUTCOMES is in the
// audit afterwards.
func FuzzEntries(f *testing.F) {
	log := &storetest.Log{}
	ref := storetest.Ref("acme", 1)
	log.Record(ref, event.Claimed{})
	log.Record(ref, event.Waiting{Due: storetest.Start})
	log.Duplicate(ref, "n")
	for _, l := range log.Lines {
		f.Add("claimed", "outcomes.acme."+string(ref.Key), l.Data(f))
		f.Add("duplicate", "audit.acme", l.Data(f))
	}
	f.Add("plan", "plans.1", []byte("{}"))
	f.Add("claimed", "x", []byte(`{"id":"a","event":{"key":"AAAAAAAAAAAAAAAAAAAAAA","received_at":"0000-01-01T00:00:00+12:00"},
		"state":{"revision":1,"phase":"waiting","due":"9999-12-31T23:59:59-12:00"}}`))
	s := storetest.Open(f)
	f.Fuzz(func(t *testing.T, kind, subject string, data []byte) {
		e := streams.Entry{Sequence: 1, Time: time.Unix(1, 0), Subject: subject, Data: data, Header: nats.Header{}}
		e.Header.Set(streams.HeaderKind, kind)
		require.NoError(t, s.Update(func(tx *store.Tx) error {
			if _, err := decodeLetter(e).apply(tx, streams.StreamInfo{}); err != nil {
				return err
			}
			_, err := decodeOutcome(e).apply(tx, streams.StreamInfo{})
			if _, refused := errors.AsType[*unfoldable](err); refused {
				_, err = decodeOutcome(e).skipped(streams.Gap{Accepted: "ann"}).apply(tx, streams.StreamInfo{})
			}
			return err
		}))
		entries, err := s.Audit(0, 0)
		require.NoError(t, err)
		require.Len(t, entries, 1)
		require.NoError(t, s.Update(func(tx *store.Tx) error { _, err := tx.Trim(2, 1); return err }))
	})
}
