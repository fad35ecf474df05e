package plan_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"

	"tidings/dispatcher/plan"
	"tidings/streams/event"
)

var update = flag.Bool("update", false, "write the golden files")

const shopFolder = "../../examples/shop"

// sample is a file of examples/shop/events, as far as a plan depends on it.
type sample struct {
	Name       string `json:"name"`
	Properties struct {
		ID            string `json:"message_id"`
		Type          string `json:"type"`
		AppID         string `json:"app_id"`
		CorrelationID string `json:"correlation_id"`
		ContentType   string `json:"content_type"`
	} `json:"properties"`
	Body   json.RawMessage `json:"body"`
	Expect struct {
		Outcome  event.Outcome `json:"outcome"`
		Messages event.Counts  `json:"messages"`
	} `json:"expect"`
}

func (s sample) envelope() event.Envelope {
	return event.Envelope{
		Tenant: event.DefaultTenant, Source: s.Properties.AppID, ID: s.Properties.ID, Type: s.Properties.Type,
		CorrelationID: s.Properties.CorrelationID, ContentType: s.Properties.ContentType,
		OccurredAt: time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC), Data: s.Body,
	}
}

func shopSamples(t testing.TB) map[string]sample {
	files, err := filepath.Glob(shopFolder + "/events/*.json")
	require.NoError(t, err)
	require.Len(t, files, 12)
	out := map[string]sample{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		var s sample
		require.NoError(t, json.Unmarshal(content, &s), file)
		if s.Body != nil { // else it is not an event
			out[strings.TrimSuffix(filepath.Base(file), ".json")] = s
		}
	}
	return out
}

func shopPlanner(t testing.TB) *plan.Planner {
	content, err := os.ReadFile(shopFolder + "/tidings.yaml")
	require.NoError(t, err)
	var rules plan.Rules
	require.NoError(t, yaml.Unmarshal(content, &rules))
	p, err := plan.Compile(rules, os.DirFS(shopFolder+"/templates"), plan.Options{
		Secret: []byte("for tests"),
		Channels: map[string]plan.Channel{
			"mail": {Kind: plan.Email}, "partners": {Kind: plan.Webhook},
		},
	})
	require.NoError(t, err)
	require.Empty(t, p.Warnings())
	return p
}

func TestTheShopTellsItsCustomersAndPartners(t *testing.T) {
	p := shopPlanner(t)
	for name, s := range shopSamples(t) {
		t.Run(name, func(t *testing.T) {
			got, err := p.Plan(key, s.envelope())
			require.NoError(t, err)
			if s.Expect.Outcome != event.Stale { // which is decided before the plan
				require.Len(t, got.Messages, s.Expect.Messages.Created)
			}
			if s.Expect.Outcome == event.NoTemplate || s.Expect.Outcome == event.NoRecipient {
				require.Equal(t, s.Expect.Outcome, got.Fact.Nothing)
			}
			golden(t, name, got)
		})
	}
}

func TestTheShopConfirmsAnOrderInEnglish(t *testing.T) {
	e := shopSamples(t)["01-order-placed"].envelope()
	e.Data = []byte(strings.Replace(string(e.Data), "de-AT", "en", 1))
	got, err := shopPlanner(t).Plan(key, e)
	require.NoError(t, err)
	golden(t, "01-order-placed-in-english", got)
}

func TestTheShopSpeaksBothLanguages(t *testing.T) {
	p := shopPlanner(t)
	s := shopSamples(t)["01-order-placed"]
	for locale, want := range map[string]string{
		"en": "Your order 1001 at Corner Shop", "en-GB": "Your order 1001 at Corner Shop",
		"de": "Ihre Bestellung 1001 bei Corner Shop", "de-AT": "Ihre Bestellung 1001 bei Corner Shop",
		"ja": "Your order 1001 at Corner Shop",
	} {
		t.Run(locale, func(t *testing.T) {
			e := s.envelope()
			e.Data = []byte(strings.Replace(string(e.Data), "de-AT", locale, 1))
			got, err := p.Plan(key, e)
			require.NoError(t, err)
			require.Equal(t, want, got.Messages[0].Content.Subject)
		})
	}
}

// golden compares the messages, as a person would read them, with a file.
func golden(t *testing.T, name string, p plan.Plan) {
	t.Helper()
	var b strings.Builder
	for _, d := range p.Fact.Routes {
		fmt.Fprintf(&b, "route %q: %s %d %s\n", d.Route, d.Verdict, d.Count, d.Detail)
	}
	for _, m := range p.Messages {
		fmt.Fprintf(&b, "\n=== %s to %s in %q\n", m.Channel, m.Address, m.Locale)
		for _, part := range [][2]string{
			{"subject", m.Content.Subject},
			{"text", m.Content.Text},
			{"html", m.Content.HTML},
			{m.Content.ContentType, string(m.Content.Body)},
		} {
			if part[1] != "" {
				fmt.Fprintf(&b, "--- %s\n%s\n", part[0], part[1])
			}
		}
	}
	file := filepath.Join("testdata", "shop", name+".golden")
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(b.String()), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err, "run the test with -update to make it")
	require.Equal(t, string(want), b.String())
}
