package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"tidings/store"
	"tidings/streams"
	"tidings/streams/event"
)

// LetterFilter chooses dead letters: those that fit every condition.
type LetterFilter struct {
	Tenant string           `query:"tenant"`
	Cause  event.Cause      `query:"cause" enum:"crashes,max_deliver,uncertain,rounds_exhausted,permanent,template_error,contract_violated,too_many_recipients,event_missing,panic,id_conflict,undecodable,missing_id,future,oversize,headers_too_large,reserved_source"`
	Kind   event.LetterKind `query:"kind" enum:"event,delivery"`
	Type   string           `query:"type" doc:"event type, where it could be read"`
	Text   string           `query:"text" maxLength:"200" doc:"in the detail, the id or the type, in any case"`
	Since  time.Time        `query:"since" doc:"written then or later"`
	Until  time.Time        `query:"until" doc:"written before"`
}

func (f LetterFilter) query() store.LetterQuery {
	return store.LetterQuery{Tenant: f.Tenant, Cause: f.Cause, Kind: f.Kind, Type: f.Type, Text: f.Text, Since: f.Since, Until: f.Until}
}

type lettersInput struct {
	LetterFilter
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"50"`
	Cursor string `query:"cursor" doc:"next of the page before, of the same query"`
}

type letterInput struct {
	Key string `path:"key"`
}

type letterOutput struct {
	ETag string `header:"ETag" doc:"names the letter as it is, for If-Match"`
	Body event.Letter
}

func (s *Server) registerLetters(api huma.API) {
	huma.Register(api, huma.Operation{
		OperationID: "list-dead-letters", Method: http.MethodGet, Path: "/v1/deadletters", Tags: []string{"dead letters"},
		Summary: "Dead letters, newest first, without their payloads",
	}, s.listLetters)
	huma.Register(api, huma.Operation{
		OperationID: "get-dead-letter", Method: http.MethodGet, Path: "/v1/deadletters/{key}", Tags: []string{"dead letters"},
		Summary: "One dead letter with payload, headers, cause and state",
		Errors:  []int{http.StatusNotFound, http.StatusServiceUnavailable},
	}, s.getLetter)
	huma.Register(api, huma.Operation{
		OperationID: "get-dead-letter-payload", Method: http.MethodGet, Path: "/v1/deadletters/{key}/raw", Tags: []string{"dead letters"},
		Summary: "The payload of a dead letter, byte for byte",
		Description: "Of any size, also where the letter itself only names the object that holds it. " +
			"The header Repr-Digest has its SHA-256. If it is damaged, the answer breaks off before its end.",
		Responses: map[string]*huma.Response{"200": {
			Description: "The payload",
			Content:     map[string]*huma.MediaType{"application/octet-stream": {Schema: &huma.Schema{Type: "string", Format: "binary"}}},
		}},
		Errors: []int{http.StatusNotFound, http.StatusServiceUnavailable},
	}, s.getPayload)
}

func (s *Server) listLetters(_ context.Context, in *lettersInput) (*answer[LetterLines], error) {
	q := in.query()
	q.Limit, q.Cursor = in.Limit, in.Cursor
	page, err := s.Ledger.DeadLetters(q)
	if err != nil {
		return nil, s.failure(err)
	}
	lines, err := s.withStatus(page)
	if err != nil {
		return nil, s.failure(err)
	}
	return &answer[LetterLines]{lines}, nil
}

func (s *Server) getLetter(ctx context.Context, in *letterInput) (*letterOutput, error) {
	letter, sequence, err := s.letter(ctx, in.Key)
	if err != nil {
		return nil, err
	}
	return &letterOutput{ETag: etag(sequence), Body: letter}, nil
}

// letter reads a letter from the log, and its sequence.
func (s *Server) letter(ctx context.Context, key string) (event.Letter, uint64, error) {
	line, err := s.line(key)
	if err != nil {
		return event.Letter{}, 0, err
	}
	letter, sequence, err := s.Letters.Get(ctx, line.Tenant, line.Key)
	if err != nil {
		return event.Letter{}, 0, s.noLetter(err, line.Key)
	}
	return letter, sequence, nil
}

// line returns a letter of the list, which says whose it is.
func (s *Server) line(key string) (store.Letter, error) {
	if !event.Key(key).Valid() {
		return store.Letter{}, problem(http.StatusNotFound, "not-found",
			"this is no key of a dead letter: a key has 22 characters, and the list of dead letters has them")
	}
	line, err := s.Ledger.DeadLetter(event.Key(key))
	if err != nil {
		return store.Letter{}, s.noLetter(err, event.Key(key))
	}
	return line, nil
}

// noLetter says why a letter cannot be read. One that is not found never was, is
// about to be, or was dealt with.
func (s *Server) noLetter(err error, key event.Key) error {
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, streams.ErrNotFound) {
		if said := s.dealtWith(key); said != "" {
			return problem(http.StatusNotFound, "not-found", "the dead letter "+string(key)+" is gone: "+said)
		}
		return problem(http.StatusNotFound, "not-found", err.Error()+
			": no dead letter has this key, it is not in the ledger yet, or it was dealt with; the list of dead letters has the keys")
	}
	return s.failure(err)
}
