package store_test

import (
	"encoding/base64"
	"testing"

	"github.com/stretchr/testify/require"

	"tidings/store"
)

// FuzzCursor asks with cursors that begin like one of the query's, so that the
// rest is used.
func FuzzCursor(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0xff})
	f.Add(make([]byte, 34))
	s, _ := ledger(f, 3)
	first, err := s.Events(store.Query{Limit: 1})
	require.NoError(f, err)
	good, err := base64.RawURLEncoding.DecodeString(first.Next)
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, rest []byte) {
		page, err := s.Events(store.Query{Cursor: base64.RawURLEncoding.EncodeToString(append(good[:6:6], rest...))})
		require.NoError(t, err)
		require.LessOrEqual(t, len(page.Items), 3)
		_, err = s.Events(store.Query{Cursor: string(rest)})
		if len(rest) > 0 {
			require.ErrorIs(t, err, store.ErrCursor)
		}
	})
}
