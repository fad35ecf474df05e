package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"golang.org/x/sync/errgroup"

	"tidings/dispatcher/letters"
	"tidings/store"
	"tidings/streams"
	"tidings/streams/event"
)

// LetterGroup is the dead letters that have something in common.
type LetterGroup struct {
	Value    string    `json:"value"`
	Letters  int       `json:"letters"`
	Requeued int       `json:"requeued"` // of them: worked on again
	Oldest   time.Time `json:"oldest"`
	Newest   time.Time `json:"newest"`
}

// LetterGroups are all groups, the largest first.
type LetterGroups struct {
	Items []LetterGroup `json:"items"`
}

type groupsInput struct {
	LetterFilter
	By string `query:"by" enum:"cause,type,tenant,stage" default:"cause" doc:"what they have in common"`
}

// LetterAt names a dead letter as it was looked at.
type LetterAt struct {
	Key      event.Key `json:"key"`
	Sequence uint64    `json:"sequence" minimum:"1" doc:"as the list has it: another letter of the key is not touched"`
}

// MaxBulk is how many dead letters one request may discard.
const MaxBulk = 1000

type bulkDiscardInput struct {
	Operator string `header:"Tidings-Operator" doc:"who wants this: a name that goes into the histories"`
	Body     struct {
		Reason  string     `json:"reason" minLength:"1" maxLength:"2000" doc:"why; it goes into the histories"`
		Letters []LetterAt `json:"letters" minItems:"1" maxItems:"1000"`
	}
}

// BulkDiscarded is what was discarded.
type BulkDiscarded struct {
	Discarded int             `json:"discarded"`
	Skipped   []SkippedLetter `json:"skipped"` // somebody else dealt with them
	sequence  uint64          // of the last record
}

// Recorded returns the sequence of the last record in OUTCOMES.
func (b BulkDiscarded) Recorded() uint64 { return b.sequence }

// SkippedLetter is one that nothing was done about.
type SkippedLetter struct {
	Key event.Key `json:"key"`
	Why string    `json:"why"`
}

func (s *Server) registerBulk(api huma.API) {
	huma.Register(api, huma.Operation{
		OperationID: "group-dead-letters", Method: http.MethodGet, Path: "/v1/deadletters/groups", Tags: []string{"dead letters"},
		Summary: "How many dead letters there are, by what they have in common",
	}, s.groupLetters)
	huma.Register(api, huma.Operation{
		OperationID: "discard-dead-letters", Method: http.MethodPost, Path: "/v1/deadletters/discard", Tags: []string{"dead letters"},
		Summary: "End dead letters for good, up to 1000 at a time",
		Description: "Each is named by key and sequence, as the list has them: what came in its place is not touched, and what " +
			"somebody else dealt with is skipped. After any answer but 200 some may be discarded: the same request may be made again.",
		Errors: []int{http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusServiceUnavailable},
	}, s.discardLetters)
	s.registerExport(api)
}

func (s *Server) groupLetters(_ context.Context, in *groupsInput) (*answer[LetterGroups], error) {
	groups := map[string]*LetterGroup{}
	q := in.query()
	for q.Limit = store.MaxLimit; ; {
		page, err := s.Ledger.DeadLetters(q)
		if err != nil {
			return nil, s.failure(err)
		}
		lines, err := s.withStatus(page)
		if err != nil {
			return nil, s.failure(err)
		}
		for _, l := range lines.Items {
			count(groups, valueOf(l, in.By), l)
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return &answer[LetterGroups]{sorted(groups)}, nil
		}
	}
}

func valueOf(l LetterLine, by string) string {
	switch by {
	case "type":
		return l.Type
	case "tenant":
		return l.Tenant
	case "stage":
		return string(l.Stage)
	}
	return string(l.Cause)
}

// count adds a letter to its group. They come newest first.
func count(groups map[string]*LetterGroup, value string, l LetterLine) {
	g := groups[value]
	if g == nil {
		g = &LetterGroup{Value: value, Newest: l.At}
		groups[value] = g
	}
	g.Letters++
	g.Oldest = l.At
	if l.Status == LetterRequeued {
		g.Requeued++
	}
}

func sorted(groups map[string]*LetterGroup) LetterGroups {
	out := LetterGroups{Items: []LetterGroup{}}
	for _, g := range groups {
		out.Items = append(out.Items, *g)
	}
	slices.SortFunc(out.Items, func(a, b LetterGroup) int {
		if a.Letters != b.Letters {
			return b.Letters - a.Letters
		}
		return strings.Compare(a.Value, b.Value)
	})
	return out
}

// discardWidth is how many letters are discarded at once, so that they share the
// log's commits.
const discardWidth = 32

func (s *Server) discardLetters(ctx context.Context, in *bulkDiscardInput) (*answer[BulkDiscarded], error) {
	w := word(in.Operator, in.Body.Reason)
	return operate(ctx, s, "", func(ctx context.Context, desk *letters.Desk) (BulkDiscarded, error) {
		b := bulk{server: s, desk: desk, word: w, out: BulkDiscarded{Skipped: []SkippedLetter{}}}
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(discardWidth)
		for _, l := range in.Body.Letters {
			g.Go(func() error { return b.discard(ctx, l) })
		}
		err := g.Wait()
		return b.out, err
	})
}

// bulk is a request about many letters.
type bulk struct {
	server *Server
	desk   *letters.Desk
	word   letters.Word

	mu  sync.Mutex
	out BulkDiscarded
}

func (b *bulk) discard(ctx context.Context, l LetterAt) error {
	line, err := b.server.Ledger.DeadLetter(l.Key)
	var done letters.Discarded
	if err == nil {
		done, err = b.desk.Discard(ctx, letters.Target{Tenant: line.Tenant, Key: l.Key, Sequence: l.Sequence}, b.word)
	}
	conflict, lost := errors.AsType[*letters.ConflictError](err)
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case err == nil:
		b.out.Discarded++
		b.out.sequence = max(b.out.sequence, done.Sequence)
	case lost:
		b.out.Skipped = append(b.out.Skipped, SkippedLetter{l.Key, conflict.Error()})
	case errors.Is(err, store.ErrNotFound), errors.Is(err, streams.ErrNotFound):
		b.out.Skipped = append(b.out.Skipped, SkippedLetter{l.Key, "it is gone"})
	default:
		return err
	}
	return nil
}
