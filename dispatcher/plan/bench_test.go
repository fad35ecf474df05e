package plan_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func BenchmarkPlanWebhook(b *testing.B) { benchmarkPlan(b, "09-flaky") }
func BenchmarkPlanMail(b *testing.B)    { benchmarkPlan(b, "01-order-placed") }
func BenchmarkPlanNothing(b *testing.B) { benchmarkPlan(b, "05-no-template") }

func benchmarkPlan(b *testing.B, name string) {
	p, e := shopPlanner(b), shopSamples(b)[name].envelope()
	b.ReportAllocs()
	for b.Loop() {
		_, err := p.Plan(key, e)
		require.NoError(b, err)
	}
}
