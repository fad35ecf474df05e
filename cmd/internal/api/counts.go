package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"tidings/store"
	"tidings/streams/event"
)

// Count is how many events a tenant has with an outcome, of all that are asked for or
// of an hour of them. Tests of operators are not counted.
type Count struct {
	Hour    time.Time     `json:"hour,omitzero"` // its beginning; by when EVENTS stored them
	Tenant  string        `json:"tenant"`
	Outcome event.Outcome `json:"outcome"` // empty: of events that have not ended
	Events  int           `json:"events"`
}

// CountPage is a page of counts.
type CountPage = store.Page[Count]

// CauseCounts are the dead letters of each cause, the most first.
type CauseCounts struct {
	Items []store.CauseCount `json:"items"`
}

// ByHour and ByTotal are what counts are of.
const (
	ByHour  = "hour"
	ByTotal = "total"
)

type countsInput struct {
	By      string        `query:"by" enum:"total,hour" default:"total" doc:"total: one count for each tenant and outcome, all on one page; hour: one for each hour, too, newest first"`
	Tenant  string        `query:"tenant"`
	Outcome event.Outcome `query:"outcome" enum:"processed,failed,suppressed,no_recipient,no_template,stale"`
	Since   time.Time     `query:"since" doc:"the hour that it is in, or later"`
	Until   time.Time     `query:"until" doc:"hours that began before"`
	Limit   int           `query:"limit" minimum:"1" maximum:"1000" default:"50" doc:"of counts by hour"`
	Cursor  string        `query:"cursor" doc:"next of the page before, of the same query; of counts by hour"`
}

type causesInput struct {
	Tenant string `query:"tenant"`
}

func (s *Server) registerCounts(api huma.API) {
	huma.Register(api, huma.Operation{
		OperationID: "count-events", Method: http.MethodGet, Path: "/v1/counts", Tags: []string{"events"},
		Summary: "How many events there are, by tenant, outcome and hour",
		Description: "Whole hours of UTC are counted, by when EVENTS stored the events. They are read from counters, so it does not " +
			"matter how many events there are. Totals of more hours and tenants than can be added up at once are refused (422 urn:tidings:too-many).",
		Errors: []int{http.StatusBadRequest},
	}, s.countEvents)
	huma.Register(api, huma.Operation{
		OperationID: "count-dead-letters", Method: http.MethodGet, Path: "/v1/deadletters/causes", Tags: []string{"dead letters"},
		Summary: "How many dead letters there are of each cause, the most first",
		Description: "They are read from counters, so it does not matter how many there are. Letters that an operator has requeued, and whose " +
			"events have not ended yet, are counted too: /v1/deadletters/groups tells them apart.",
	}, s.countCauses)
}

func (s *Server) countCauses(_ context.Context, in *causesInput) (*answer[CauseCounts], error) {
	causes, err := s.Ledger.Causes(in.Tenant)
	if err != nil {
		return nil, s.failure(err)
	}
	return &answer[CauseCounts]{CauseCounts{Items: causes}}, nil
}

func (s *Server) countEvents(_ context.Context, in *countsInput) (*answer[CountPage], error) {
	q := store.HourQuery{
		Tenant: in.Tenant, Outcome: in.Outcome, Since: in.Since, Until: in.Until, Limit: in.Limit, Cursor: in.Cursor,
	}
	if in.By == ByTotal {
		if in.Cursor != "" {
			return nil, problem(http.StatusBadRequest, "cursor", "totals are one page: a cursor is for counts by hour")
		}
		return s.totals(q)
	}
	hours, err := s.Ledger.Hours(q)
	if err != nil {
		return nil, s.failure(err)
	}
	page := CountPage{Items: make([]Count, 0, len(hours.Items)), Next: hours.Next}
	for _, h := range hours.Items {
		page.Items = append(page.Items, Count(h))
	}
	return &answer[CountPage]{page}, nil
}

// Bounds of what is added up for one answer: some ten tenants that have events of
// every outcome in each hour of the horizon.
const (
	maxSummed = 100 * store.MaxLimit // counters
	maxTotals = 10 * store.MaxLimit
)

// totals adds up the counts of all hours that are asked for.
func (s *Server) totals(q store.HourQuery) (*answer[CountPage], error) {
	sums := map[Count]int{} // by tenant and outcome
	for read := 0; ; {
		q.Limit = store.MaxLimit
		page, err := s.Ledger.Hours(q)
		if err != nil {
			return nil, s.failure(err)
		}
		for _, h := range page.Items {
			sums[Count{Tenant: h.Tenant, Outcome: h.Outcome}] += h.Events
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return &answer[CountPage]{CountPage{Items: counted(sums)}}, nil
		}
		if read += len(page.Items); read >= maxSummed || len(sums) > maxTotals {
			return nil, problem(http.StatusUnprocessableEntity, "too-many", fmt.Sprintf(
				"more than %d counts are to be added up, or more than %d to be shown: ask for a tenant or a shorter time, or by=hour", maxSummed, maxTotals))
		}
	}
}

// counted returns the sums by tenant, and by outcome in the order in which they are
// looked at; what has not ended comes last.
func counted(sums map[Count]int) []Count {
	place := func(o event.Outcome) int {
		if i := slices.Index(event.Outcomes(), o); i >= 0 {
			return i
		}
		return len(event.Outcomes())
	}
	items := make([]Count, 0, len(sums))
	for c, n := range sums {
		c.Events = n
		items = append(items, c)
	}
	slices.SortFunc(items, func(a, b Count) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(place(a.Outcome), place(b.Outcome)))
	})
	return items
}
