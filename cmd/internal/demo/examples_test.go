package demo

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/cmd/internal/config"
	"tidings/examples"
	"tidings/streams/event"
)

// Every example is checked as tidings config check does, plans its samples as they
// expect, and ends as they expect on real parts.
func TestExamples(t *testing.T) {
	folders, err := filepath.Glob(filepath.Join("..", "..", "..", "examples", "*", "tidings.yaml"))
	require.NoError(t, err)
	require.Len(t, folders, len(examples.Names()))
	for _, name := range examples.Names() {
		c, err := config.Load(filepath.Join("..", "..", "..", "examples", name, "tidings.yaml"), nil)
		require.NoError(t, err)
		samples, err := readSamples(examples.Files(name))
		require.NoError(t, err)
		require.NotEmpty(t, samples)

		t.Run(name+" is valid, and there is nothing to warn of", func(t *testing.T) {
			report := c.Check()
			require.True(t, report.Valid, "%v", report.Problems)
			require.Empty(t, report.Warnings)
		})
		t.Run(name+" plans its samples as they expect", func(t *testing.T) {
			planner, err := c.Planner([]byte("secret"))
			require.NoError(t, err)
			for _, s := range samples {
				if s.BodyText != "" {
					continue // it is no event
				}
				e := s.envelope(t)
				p, err := planner.Plan(event.TestKey(e.Tenant, e.ID), e)
				require.NoError(t, err, s.Name)
				if s.Expect.Outcome != event.Stale { // which is not planned
					require.Len(t, p.Messages, s.Expect.Messages.Created, s.Name)
				}
			}
		})
		t.Run(name+" has a sample for every template, which fits it", func(t *testing.T) {
			planner, err := c.Planner([]byte("secret"))
			require.NoError(t, err)
			problems, warnings := planner.Lint()
			require.Empty(t, problems)
			require.Empty(t, warnings)
		})
		if name != examples.Names()[0] { // of which there is a test of its own
			t.Run(name+" ends as its samples expect", func(t *testing.T) {
				t.Setenv("TMPDIR", t.TempDir())
				r, err := Run(t.Context(), Options{Example: name})
				require.NoError(t, err)
				require.True(t, r.OK, r.Summary())
			})
		}
	}
}

// envelope is the event that the sample is published as.
func (s sample) envelope(t *testing.T) event.Envelope {
	t.Helper()
	msg, err := s.publishing(time.Now())
	require.NoError(t, err)
	e := event.Envelope{
		Tenant: event.DefaultTenant, Source: msg.AppId, ID: msg.MessageId, Type: msg.Type,
		CorrelationID: msg.CorrelationId, ContentType: msg.ContentType, Data: msg.Body, OccurredAt: msg.Timestamp,
	}
	if tenant, ok := msg.Headers["tenant-id"].(string); ok {
		e.Tenant = tenant
	}
	return e
}
