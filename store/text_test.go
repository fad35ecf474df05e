package store

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestWhatAValueIsDeniedItDoesNotHave(t *testing.T) {
	texts := rapid.OneOf(
		rapid.StringOfN(rapid.RuneFrom([]rune("aAbkKiI1-. \u212a\u0130éÉß")), 1, 4, -1),
		rapid.StringN(1, 3, -1),
	)
	rapid.Check(t, func(t *rapid.T) {
		looked, held := texts.Draw(t, "text"), rapid.SliceOfN(texts, 0, 6).Draw(t, "values")
		var out bytes.Buffer
		encoder := json.NewEncoder(&out)
		encoder.SetEscapeHTML(false)
		require.NoError(t, encoder.Encode(held))
		if mentions(looked, held...) {
			require.True(t, textOf(looked).maybeIn(out.Bytes()), "%q is in %s", looked, out.Bytes())
		}
	})
}

func TestATextIsDeniedWhereItIsNot(t *testing.T) {
	for looked, value := range map[string]string{
		"abd":     `["abc","ABC","AbC"]`,
		"aab":     `["aaab"]`,
		"order-9": `{"event_id":"order-8"}`,
	} {
		want := looked == "aab"
		require.Equal(t, want, textOf(looked).maybeIn([]byte(value)), looked)
	}
	require.False(t, textOf("longer than the value").maybeIn([]byte(`["short"]`)))
}
