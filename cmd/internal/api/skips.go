package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"tidings/projector"
	"tidings/streams/event"
)

// Unreadable is an entry of OUTCOMES over which the projector halted.
type Unreadable = projector.Unreadable

// Skipped is an operator's word that an entry is passed over.
type Skipped struct {
	event.Skip
	Recorded uint64 `json:"recorded" doc:"sequence in OUTCOMES of the record of it"`
}

// Skips is where operators have the ledger pass over what cannot be folded.
type Skips interface {
	// Unreadable returns projector.ErrNotUnreadable where there is nothing to skip.
	Unreadable(ctx context.Context, sequence uint64) (Unreadable, error)
	// Skip returns what was recorded, and at which sequence of OUTCOMES.
	Skip(ctx context.Context, sequence uint64, operator, reason string) (event.Skip, uint64, error)
}

type unreadableInput struct {
	Sequence uint64 `path:"sequence" doc:"in OUTCOMES"`
}

type skipInput struct {
	Operator string `header:"Tidings-Operator" doc:"who wants this: a name that goes into the log"`
	Body     struct {
		Sequence uint64 `json:"sequence" minimum:"1" doc:"of the entry in OUTCOMES"`
		Reason   string `json:"reason" minLength:"1" maxLength:"2000" doc:"why; it goes into the log"`
	}
}

func (s *Server) registerSkips(api huma.API) {
	refusals := []int{http.StatusBadRequest, http.StatusConflict, http.StatusServiceUnavailable}
	huma.Register(api, huma.Operation{
		OperationID: "get-unreadable-entry", Method: http.MethodGet, Path: "/v1/ledger/skips/{sequence}", Tags: []string{"ledger"},
		Summary: "An entry that cannot be folded, as it is",
		Errors:  refusals,
	}, s.unreadable)
	huma.Register(api, huma.Operation{
		OperationID: "skip-entry", Method: http.MethodPost, Path: "/v1/ledger/skips", Tags: []string{"ledger"},
		Summary: "Pass over an entry that cannot be folded",
		Description: "Only the entry over which the projector has halted (409 otherwise). It is kept and shown as it is, who skipped it and why is " +
			"recorded, the projector goes on by itself, and a ledger that is made anew skips it too.",
		Errors: refusals,
	}, s.skip)
}

func (s *Server) unreadable(ctx context.Context, in *unreadableInput) (*answer[Unreadable], error) {
	skips := s.Skips()
	if skips == nil {
		return nil, unavailable("the log is not open yet")
	}
	found, err := skips.Unreadable(ctx, in.Sequence)
	if err != nil {
		return nil, s.notSkipped(err)
	}
	return &answer[Unreadable]{found}, nil
}

func (s *Server) skip(ctx context.Context, in *skipInput) (*answer[Skipped], error) {
	w, skips := word(in.Operator, in.Body.Reason), s.Skips()
	switch {
	case skips == nil:
		return nil, unavailable("the log is not open yet")
	case w.Operator == "":
		return nil, problem(http.StatusBadRequest, "operator", "who wants this is missing: name the operator (header "+OperatorHeader+")")
	case strings.TrimSpace(w.Reason) == "":
		return nil, problem(http.StatusBadRequest, "reason", "why is missing: say the reason, which goes into the log")
	}
	ctx, cancel := context.WithTimeout(ctx, operateWithin)
	defer cancel()
	skip, at, err := skips.Skip(ctx, in.Body.Sequence, w.Operator, w.Reason)
	if err != nil {
		return nil, s.notSkipped(err)
	}
	s.await(ctx, at)
	return &answer[Skipped]{Skipped{skip, at}}, nil
}

func (s *Server) notSkipped(err error) error {
	if errors.Is(err, projector.ErrNotUnreadable) {
		return problem(http.StatusConflict, "not-unreadable", err.Error())
	}
	return s.failure(err)
}

// Unreadable returns the entry of OUTCOMES that cannot be folded, as it is.
func (c *Client) Unreadable(ctx context.Context, sequence uint64) (Unreadable, error) {
	return get[Unreadable](ctx, c, "/v1/ledger/skips/"+strconv.FormatUint(sequence, 10), values{})
}

// Skip has the ledger pass over an entry that cannot be folded.
func (c *Client) Skip(ctx context.Context, sequence uint64, reason string) (Skipped, error) {
	return post[Skipped](ctx, c, "/v1/ledger/skips", nil, map[string]any{"sequence": sequence, "reason": reason})
}
