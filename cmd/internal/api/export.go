package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"tidings/store"
	"tidings/streams"
)

// NextHeader says at which cursor the rest of an export begins; it is missing after
// the last.
const NextHeader = "Tidings-Next"

// TypeLines is the content type of JSON Lines.
const TypeLines = "application/jsonl"

// maxExport bounds the payloads in one answer, but for a single large one.
const maxExport = 8 << 20

type exportInput struct {
	LetterFilter
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"at most so many; fewer where they are large"`
	Cursor string `query:"cursor" doc:"the header Tidings-Next of the answer before, of the same query"`
}

type exportOutput struct {
	ContentType string `header:"Content-Type"`
	Next        string `header:"Tidings-Next" doc:"cursor of the rest; missing after the last"`
	Body        []byte
}

func (s *Server) registerExport(api huma.API) {
	huma.Register(api, huma.Operation{
		OperationID: "export-dead-letters", Method: http.MethodGet, Path: "/v1/deadletters/export", Tags: []string{"dead letters"},
		Summary: "Dead letters with their payloads, a line each, newest first",
		Description: "Each line is a letter as in docs/letter.schema.json. A payload that is too large for an event is left out: payload_object says " +
			"how large it is, and GET /v1/deadletters/{key}/raw has it.",
		Responses: map[string]*huma.Response{"200": {
			Description: "The letters",
			Content:     map[string]*huma.MediaType{TypeLines: {Schema: &huma.Schema{Type: "string"}}},
		}},
		Errors: []int{http.StatusBadRequest, http.StatusServiceUnavailable},
	}, s.exportLetters)
}

func (s *Server) exportLetters(ctx context.Context, in *exportInput) (*exportOutput, error) {
	q := in.query()
	q.Limit, q.Cursor = in.Limit, in.Cursor
	page, err := s.Ledger.DeadLetters(q)
	if n := within(maxExport, page.Items); err == nil && n < len(page.Items) {
		q.Limit = n
		page, err = s.Ledger.DeadLetters(q)
	}
	if err != nil {
		return nil, s.failure(err)
	}
	var body bytes.Buffer
	for _, l := range page.Items {
		if err := s.exportLetter(ctx, &body, l); err != nil {
			return nil, err
		}
	}
	return &exportOutput{ContentType: TypeLines, Next: page.Next, Body: body.Bytes()}, nil
}

// within returns how many letters have payloads of that size together, at least one.
func within(size int64, all []store.Letter) int {
	for i, l := range all {
		if size -= l.Size; size < 0 {
			return max(1, i)
		}
	}
	return len(all)
}

// exportLetter writes one letter, or nothing if it is gone meanwhile.
func (s *Server) exportLetter(ctx context.Context, body *bytes.Buffer, l store.Letter) error {
	letter, _, err := s.Letters.Get(ctx, l.Tenant, l.Key)
	switch {
	case errors.Is(err, streams.ErrNotFound):
		return nil
	case err != nil:
		return s.failure(err)
	}
	enc := json.NewEncoder(body)
	enc.SetEscapeHTML(false)
	return enc.Encode(letter)
}
