package event_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"

	"tidings/streams/event"
)

// docs/asyncapi.yaml has every kind of entry of OUTCOMES in the channel where it
// is, and every kind of fact, and no other.
func TestAsyncAPIHasEveryKind(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "docs", "asyncapi.yaml"))
	require.NoError(t, err)
	var doc struct {
		Channels map[string]struct {
			Messages map[string]struct {
				Ref string `yaml:"$ref"`
			}
			Facts []event.FactKind `yaml:"x-facts"`
		}
	}
	require.NoError(t, yaml.Unmarshal(data, &doc))

	var kinds, named []string
	for _, c := range constants(t)["Kind"] {
		kinds = append(kinds, c.value)
	}
	for _, channel := range []string{"outcomes", "audit", "plans"} {
		for name, message := range doc.Channels[channel].Messages {
			require.Equal(t, "#/components/messages/"+name, message.Ref)
			named = append(named, name)
		}
	}
	require.NotEmpty(t, kinds)
	require.ElementsMatch(t, kinds, named)

	var facts []event.FactKind
	for _, f := range event.FactKinds() {
		facts = append(facts, f.FactKind())
	}
	require.ElementsMatch(t, facts, doc.Channels["outcomes"].Facts)
}
