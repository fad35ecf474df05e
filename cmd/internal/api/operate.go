package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"tidings/dispatcher/letters"
	"tidings/streams"
	"tidings/streams/event"
)

// OperatorHeader says who wants something to be done. It goes into the history.
const OperatorHeader = "Tidings-Operator"

// What was done.
type (
	// Requeued is an event that was opened again.
	Requeued = letters.Requeued
	// Discarded is a dead letter that was ended for good.
	Discarded = letters.Discarded
	// Preview is what a requeue would do now.
	Preview = letters.Preview
)

// operateWithin bounds how long what an operator wants waits for the log.
const operateWithin = 20 * time.Second

func word(operator, reason string) letters.Word {
	return letters.Word{Operator: strings.TrimSpace(operator), Reason: strings.TrimSpace(reason)}
}

type requeueInput struct {
	Key      string `path:"key"`
	Operator string `header:"Tidings-Operator" doc:"who wants this: a name that goes into the history"`
	IfMatch  string `header:"If-Match" doc:"the ETag of the letter that was looked at: another one is not requeued"`
	Body     struct {
		Reason string `json:"reason,omitempty" maxLength:"2000" doc:"why; it goes into the history"`
	}
}

type discardInput struct {
	Key      string `path:"key"`
	Operator string `header:"Tidings-Operator" doc:"who wants this: a name that goes into the history"`
	IfMatch  string `header:"If-Match" doc:"the ETag of the letter that was looked at: another one is not discarded. Needed; * is whichever is there"`
	Body     struct {
		Reason string `json:"reason" minLength:"1" maxLength:"2000" doc:"why; it goes into the history"`
	}
}

func (s *Server) registerOperate(api huma.API) {
	s.registerEdit(api)
	s.registerRetry(api)
	s.registerBulk(api)
	huma.Register(api, huma.Operation{
		OperationID: "requeue-dead-letter", Method: http.MethodPost, Path: "/v1/deadletters/{key}/requeue", Tags: []string{"dead letters"},
		Summary: "Send again what was not delivered of a dead letter's event",
		Description: "It is the next generation of the same event: what was delivered is not sent again, and nothing is published anew. " +
			"The letter stays in the list until that generation has ended. A delivery that could not become an event is handed in again: " +
			"if it comes in now its letter is removed, and if it is refused again (409 urn:tidings:refused) it stays. Of two requests at once one wins; the other is told who did what (409).",
		Errors: []int{
			http.StatusBadRequest, http.StatusNotFound, http.StatusConflict, http.StatusPreconditionFailed, http.StatusServiceUnavailable,
		},
	}, s.requeue)
	huma.Register(api, huma.Operation{
		OperationID: "discard-dead-letter", Method: http.MethodPost, Path: "/v1/deadletters/{key}/discard", Tags: []string{"dead letters"},
		Summary: "End a dead letter for good",
		Description: "Nothing more is sent of its event: what was not delivered counts as failed. The letter is removed, and its payload with it; " +
			"the history stays, with operator and reason.",
		Errors: []int{
			http.StatusBadRequest, http.StatusNotFound, http.StatusConflict, http.StatusPreconditionFailed,
			http.StatusPreconditionRequired, http.StatusServiceUnavailable,
		},
	}, s.discard)
}

func (s *Server) discard(ctx context.Context, in *discardInput) (*answer[Discarded], error) {
	target, err := s.exactTarget(in.Key, in.IfMatch)
	if err != nil {
		return nil, err
	}
	return operate(ctx, s, target.Key, func(ctx context.Context, desk *letters.Desk) (Discarded, error) {
		return desk.Discard(ctx, target, word(in.Operator, in.Body.Reason))
	})
}

// exactTarget is target for what must not be done to a letter that nobody looked at.
func (s *Server) exactTarget(key, ifMatch string) (letters.Target, error) {
	if ifMatch == "" {
		return letters.Target{}, problem(http.StatusPreconditionRequired, "if-match",
			"the header If-Match is missing: give the ETag of the letter that you looked at, or * for whichever is there")
	}
	return s.target(key, ifMatch)
}

func (s *Server) requeue(ctx context.Context, in *requeueInput) (*answer[Requeued], error) {
	target, err := s.target(in.Key, in.IfMatch)
	if err != nil {
		return nil, err
	}
	return operate(ctx, s, target.Key, func(ctx context.Context, desk *letters.Desk) (Requeued, error) {
		return desk.Requeue(ctx, target, word(in.Operator, in.Body.Reason))
	})
}

// target names the letter that is meant; the ledger only says whose it is.
func (s *Server) target(key, ifMatch string) (letters.Target, error) {
	line, err := s.line(key)
	if err != nil {
		return letters.Target{}, err
	}
	sequence, err := sequenceOf(ifMatch)
	if err != nil {
		return letters.Target{}, err
	}
	return letters.Target{Tenant: line.Tenant, Key: line.Key, Sequence: sequence}, nil
}

// etag names a letter as it is: each change of it gets another sequence.
func etag(sequence uint64) string { return strconv.Quote(strconv.FormatUint(sequence, 10)) }

// sequenceOf reads an ETag; none, and "*", is 0.
func sequenceOf(ifMatch string) (uint64, error) {
	if ifMatch == "" || ifMatch == "*" {
		return 0, nil
	}
	n, err := strconv.ParseUint(strings.Trim(ifMatch, `"`), 10, 64)
	if err != nil {
		return 0, problem(http.StatusBadRequest, "invalid", fmt.Sprintf(
			"If-Match is %q, and no letter has such an ETag: take it from the answer of GET /v1/deadletters/{key}", ifMatch))
	}
	return n, nil
}

// operate has something done at the desk, about a letter or none.
func operate[T done](ctx context.Context, s *Server, letter event.Key, do func(context.Context, *letters.Desk) (T, error)) (*answer[T], error) {
	desk := s.Desk()
	if desk == nil {
		return nil, unavailable("the log is not open yet")
	}
	ctx, cancel := context.WithTimeout(ctx, operateWithin)
	defer cancel()
	done, err := do(ctx, desk)
	if err != nil {
		return nil, s.notDone(err, letter)
	}
	s.await(ctx, done.Recorded())
	return &answer[T]{done}, nil
}

// done is what was recorded in OUTCOMES at a sequence.
type done interface{ Recorded() uint64 }

// foldWithin bounds the wait for the ledger, which an answer does not depend on.
const foldWithin = time.Second

// await waits for a moment until the ledger has what was recorded, so that who asks
// it next sees what was done.
func (s *Server) await(ctx context.Context, sequence uint64) {
	ctx, cancel := context.WithTimeout(ctx, foldWithin)
	defer cancel()
	_ = s.Folded(ctx, sequence)
}

// notDone says why what an operator wanted is not done, about the letter of key if
// it is not empty.
func (s *Server) notDone(err error, key event.Key) error {
	conflict, lost := errors.AsType[*letters.ConflictError](err)
	_, refused := errors.AsType[*letters.RefusedError](err)
	switch {
	case refused:
		return problem(http.StatusConflict, "refused", err.Error())
	case lost && conflict.Changed:
		return problem(http.StatusPreconditionFailed, "changed", err.Error(), deed(conflict)...)
	case lost:
		return problem(http.StatusConflict, "conflict", err.Error(), deed(conflict)...)
	case errors.Is(err, letters.ErrPayload):
		return problem(http.StatusUnprocessableEntity, "payload", err.Error())
	case errors.Is(err, letters.ErrMayRepeat):
		return problem(http.StatusConflict, "may-repeat", err.Error()+": look at the provider, and say may_repeat if it is to be sent nevertheless")
	case errors.Is(err, letters.ErrNoMessage):
		return problem(http.StatusNotFound, "not-found", err.Error()+": its event has the ids of its messages")
	case errors.Is(err, letters.ErrWord):
		return problem(http.StatusBadRequest, "operator", fmt.Sprintf("%s (header %s)", err, OperatorHeader))
	case errors.Is(err, streams.ErrNotFound) && key != "":
		return s.noLetter(err, key)
	case errors.Is(err, streams.ErrNotFound):
		return problem(http.StatusNotFound, "not-found", err.Error())
	case errors.Is(err, streams.ErrUnknown):
		return unavailable("the log did not answer, so it may be done or not: the history of the event says which")
	case errors.Is(err, streams.ErrFull):
		return unavailable(full(err) + "; then try again")
	}
	return s.failure(err)
}

// deed is for programs what the words of a conflict are for people.
func deed(c *letters.ConflictError) []*huma.ErrorDetail {
	if c.Deed == nil {
		return nil
	}
	return []*huma.ErrorDetail{{Message: c.Deed.String(), Location: locationDeed, Value: c.Deed}}
}

// locationDeed marks the detail of a problem that says what an operator did.
const locationDeed = "deed"
