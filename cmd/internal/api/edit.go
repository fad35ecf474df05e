package api

import (
	"context"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"tidings/dispatcher"
	"tidings/dispatcher/letters"
	"tidings/streams"
)

// maxEdit bounds the body of a request with an edited payload: in base64, and some
// room for the rest.
const maxEdit = streams.MaxData*4/3 + 64<<10

type editInput struct {
	Key      string `path:"key"`
	Operator string `header:"Tidings-Operator" doc:"who wants this: a name that goes into the history"`
	IfMatch  string `header:"If-Match" doc:"the ETag of the letter that was edited: another one is not touched. Needed; * is whichever is there"`
	Body     struct {
		Reason string `json:"reason,omitempty" maxLength:"2000" doc:"why; it goes into the history"`
		Change
	}
}

type previewInput struct {
	Key     string `path:"key"`
	IfMatch string `header:"If-Match" doc:"the ETag of the letter that was looked at"`
	Body    Change
}

// Change is what is changed about a dead letter. None is a requeue as it is.
type Change struct {
	Data *[]byte           `json:"data_base64,omitempty" doc:"the payload, or the body of a delivery, byte for byte"`
	Set  map[string]string `json:"set,omitempty" doc:"of a delivery: id, type, source, tenant, subject, correlation_id, occurred_at, content_type"`
}

func (c Change) change() letters.Change {
	out := letters.Change{Set: c.Set}
	if c.Data != nil {
		out.Data = append([]byte{}, *c.Data...) // an empty one is one too
	}
	return out
}

func (s *Server) registerEdit(api huma.API) {
	errs := []int{
		http.StatusBadRequest, http.StatusNotFound, http.StatusConflict, http.StatusPreconditionFailed, http.StatusUnprocessableEntity,
		http.StatusServiceUnavailable,
	}
	huma.Register(api, huma.Operation{
		OperationID: "edit-dead-letter", Method: http.MethodPost, Path: "/v1/deadletters/{key}/edit", Tags: []string{"dead letters"},
		Summary: "Send again with another payload",
		Description: "A requeue whose payload replaces that of the event: it is planned anew, and of the plan before only what was delivered stays. " +
			"Messages have new idempotency keys, since receivers drop what they have seen. " +
			"Of a delivery that could not become an event, body and attributes can be changed, and it is handed in again.",
		MaxBodyBytes: maxEdit, Errors: append(errs, http.StatusPreconditionRequired),
	}, s.edit)
	huma.Register(api, huma.Operation{
		OperationID: "preview-dead-letter", Method: http.MethodPost, Path: "/v1/deadletters/{key}/preview", Tags: []string{"dead letters"},
		Summary:      "What a requeue would do now, message by message",
		Description:  "By the configuration, suppressions and history as they are now. Nothing is done.",
		MaxBodyBytes: maxEdit, Errors: errs,
	}, s.preview)
}

func (s *Server) edit(ctx context.Context, in *editInput) (*answer[Requeued], error) {
	target, err := s.exactTarget(in.Key, in.IfMatch)
	if err != nil {
		return nil, err
	}
	return operate(ctx, s, target.Key, func(ctx context.Context, desk *letters.Desk) (Requeued, error) {
		return desk.Edit(ctx, target, word(in.Operator, in.Body.Reason), in.Body.change())
	})
}

// blocked returns the channels that do not get through now, in order, of those that
// one of the messages would be sent by.
func (s *Server) blocked(messages []letters.PreviewMessage) []string {
	var out []string
	for _, c := range s.Dispatcher().Channels {
		sends := func(m letters.PreviewMessage) bool { return m.Channel == c.Channel && m.Would == letters.WouldSend }
		if c.Breaker != dispatcher.BreakerClosed && slices.ContainsFunc(messages, sends) {
			out = append(out, c.Channel)
		}
	}
	return out
}

func (s *Server) preview(ctx context.Context, in *previewInput) (*answer[Preview], error) {
	target, err := s.target(in.Key, in.IfMatch)
	if err != nil {
		return nil, err
	}
	return operate(ctx, s, target.Key, func(ctx context.Context, desk *letters.Desk) (Preview, error) {
		p, err := desk.Preview(ctx, target, in.Body.change())
		p.Blocked = s.blocked(p.Messages)
		return p, err
	})
}
