package event_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"tidings/streams/event"
)

func TestListsOfNamesMissNone(t *testing.T) {
	all := constants(t)
	var causes, outcomes []string
	for _, c := range all["Cause"] {
		causes = append(causes, c.value)
	}
	for _, o := range all["Outcome"] {
		if o.value != string(event.DuplicateOutcome) { // no row has it
			outcomes = append(outcomes, o.value)
		}
	}
	require.NotEmpty(t, causes)
	require.Equal(t, causes, texts(event.Causes()))
	require.Equal(t, outcomes, texts(event.Outcomes()))
}

func texts[T ~string](values []T) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}
