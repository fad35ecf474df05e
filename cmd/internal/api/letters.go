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

type lettersInput struct {
	Tenant string    `query:"tenant"`
	Cause  string    `query:"cause" enum:"crashes,max_deliver,uncertain,rounds_exhausted,permanent,template_error,too_many_recipients,event_missing,panic,id_conflict,undecodable,missing_id,future,oversize,headers_too_large"`
	Kind   string    `query:"kind" enum:"event,delivery"`
	Type   string    `query:"type" doc:"event type, where it could be read"`
	Since  time.Time `query:"since" doc:"written then or later"`
	Until  time.Time `query:"until" doc:"written before"`
	Limit  int       `query:"limit" minimum:"1" maximum:"1000" default:"50"`
	Cursor string    `query:"cursor" doc:"next of the page before, of the same query"`
}

type letterInput struct {
	Key string `path:"key"`
}

// rawOutput is never shown by a browser: what came may be a page with scripts.
type rawOutput struct {
	ContentType string `header:"Content-Type"`
	Disposition string `header:"Content-Disposition"`
	Body        []byte
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
		Responses: map[string]*huma.Response{"200": {
			Description: "The payload",
			Content:     map[string]*huma.MediaType{"application/octet-stream": {Schema: &huma.Schema{Type: "string", Format: "binary"}}},
		}},
		Errors: []int{http.StatusNotFound, http.StatusServiceUnavailable},
	}, s.getPayload)
}

func (s *Server) listLetters(_ context.Context, in *lettersInput) (*answer[store.Page[store.Letter]], error) {
	page, err := s.Ledger.DeadLetters(store.LetterQuery{
		Tenant: in.Tenant, Cause: event.Cause(in.Cause), Kind: event.LetterKind(in.Kind), Type: in.Type,
		Since: in.Since, Until: in.Until, Limit: in.Limit, Cursor: in.Cursor,
	})
	if err != nil {
		return nil, s.failure(err)
	}
	return &answer[store.Page[store.Letter]]{page}, nil
}

func (s *Server) getLetter(ctx context.Context, in *letterInput) (*answer[event.Letter], error) {
	letter, err := s.letter(ctx, in.Key)
	if err != nil {
		return nil, err
	}
	return &answer[event.Letter]{letter}, nil
}

func (s *Server) getPayload(ctx context.Context, in *letterInput) (*rawOutput, error) {
	letter, err := s.letter(ctx, in.Key)
	if err != nil {
		return nil, err
	}
	return &rawOutput{
		ContentType: "application/octet-stream", Disposition: "attachment", Body: letter.Data,
	}, nil
}

// letter reads a letter from the log; the list only says whose it is.
func (s *Server) letter(ctx context.Context, key string) (event.Letter, error) {
	if !event.Key(key).Valid() {
		return event.Letter{}, problem(http.StatusNotFound, "not-found",
			"this is no key of a dead letter: a key has 22 characters, and the list of dead letters has them")
	}
	line, err := s.Ledger.DeadLetter(event.Key(key))
	if err != nil {
		return event.Letter{}, s.noLetter(err)
	}
	letter, _, err := s.Letters.Get(ctx, line.Tenant, line.Key)
	if err != nil {
		return event.Letter{}, s.noLetter(err)
	}
	return letter, nil
}

// noLetter says why a letter cannot be read. Letters stay for good, so one that
// is not found never was, or is about to be.
func (s *Server) noLetter(err error) error {
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, streams.ErrNotFound) {
		return problem(http.StatusNotFound, "not-found", err.Error()+
			": no dead letter has this key, or it is not in the ledger yet; the list of dead letters has the keys")
	}
	return s.failure(err)
}
