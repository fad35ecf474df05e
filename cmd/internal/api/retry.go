package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"tidings/dispatcher/letters"
)

type retryInput struct {
	ID       string `path:"id" doc:"key of the event, or the id that the producer gave"`
	Message  string `path:"message" doc:"id of the message"`
	Tenant   string `query:"tenant" doc:"where several tenants use the id"`
	Operator string `header:"Tidings-Operator" doc:"who wants this: a name that goes into the history"`
	Body     struct {
		Reason    string `json:"reason" minLength:"1" maxLength:"2000" doc:"why; it goes into the history"`
		MayRepeat bool   `json:"may_repeat,omitempty" doc:"accept that the recipient gets a message twice whose fate is not known"`
	}
}

func (s *Server) registerRetry(api huma.API) {
	huma.Register(api, huma.Operation{
		OperationID: "retry-message", Method: http.MethodPost, Path: "/v1/events/{id}/messages/{message}/retry", Tags: []string{"events"},
		Summary: "Try one message again that failed or is uncertain",
		Description: "It is the next generation of an event that has ended, for that message alone; the others stay as they ended. " +
			"An uncertain message may have been received already (409 urn:tidings:may-repeat): may_repeat says that it is sent nevertheless.",
		Errors: []int{http.StatusBadRequest, http.StatusNotFound, http.StatusConflict, http.StatusUnprocessableEntity, http.StatusServiceUnavailable},
	}, s.retry)
}

func (s *Server) retry(ctx context.Context, in *retryInput) (*answer[Requeued], error) {
	row, err := s.find(in.ID, in.Tenant)
	if err != nil {
		return nil, err
	}
	message := letters.Message{Tenant: row.Tenant, Key: row.Key, ID: in.Message}
	return operate(ctx, s, "", func(ctx context.Context, desk *letters.Desk) (Requeued, error) {
		return desk.Retry(ctx, message, word(in.Operator, in.Body.Reason), in.Body.MayRepeat)
	})
}
