package event_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// fataler is what *testing.T, *testing.F and *rapid.T have in common.
type fataler interface {
	require.TestingT
	Helper()
}

var _ fataler = (*testing.T)(nil)

// encode returns the JSON of v as text, so that a failure shows what differs.
func encode(t fataler, v any) string {
	t.Helper()
	data, err := json.MarshalIndent(v, "", "  ")
	require.NoError(t, err)
	return string(data)
}
