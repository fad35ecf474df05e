package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"tidings/store"
	"tidings/streams"
)

// problemPrefix begins the type of every problem.
const problemPrefix = "urn:tidings:"

// problem returns an answer that says in words what is wrong. name is stable,
// so that programs can tell problems apart.
func problem(status int, name, detail string, details ...*huma.ErrorDetail) *huma.ErrorModel {
	return &huma.ErrorModel{
		Type: problemPrefix + name, Title: http.StatusText(status), Status: status,
		Detail: detail, Errors: details,
	}
}

// named is a huma.Transformer that gives a type to the library's own problems:
// what it refuses before we see it.
func named(_ huma.Context, _ string, v any) (any, error) {
	p, ok := v.(*huma.ErrorModel)
	if !ok || p.Type != "" {
		return v, nil
	}
	name := "internal"
	if p.Status < http.StatusInternalServerError {
		name = "invalid"
	}
	return problem(p.Status, name, p.Detail, p.Errors...), nil
}

// writeProblem answers outside the library's handlers.
func writeProblem(w http.ResponseWriter, p *huma.ErrorModel) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // nobody is left to tell
}

// failure translates an error of the ledger or the log. What is nobody's fault
// but ours is logged and not shown.
func (s *Server) failure(err error) error {
	switch {
	case errors.Is(err, store.ErrNotFound), errors.Is(err, streams.ErrNotFound):
		return problem(http.StatusNotFound, "not-found", err.Error()+
			": it never came, is not in the ledger yet, is beyond the horizon, "+
			"or was no event, which makes it a dead letter without a history: the list of dead letters has those")
	case errors.Is(err, store.ErrCursor):
		return problem(http.StatusBadRequest, "cursor", err.Error())
	case errors.Is(err, streams.ErrDamaged):
		s.Logger.Error("a payload is damaged", "error", err)
		return problem(http.StatusInternalServerError, "damaged", err.Error())
	case errors.Is(err, streams.ErrFull):
		return unavailable(full(err) + "; then try again")
	case errors.Is(err, streams.ErrUnavailable), errors.Is(err, streams.ErrClosed):
		return unavailable("the log cannot be read now")
	}
	s.Logger.Error("a request failed", "error", err)
	return problem(http.StatusInternalServerError, "internal", "an error in Tidings: its log says more")
}

// full says which stream of the log has no room, and what to do.
func full(err error) string {
	if of, ok := errors.AsType[*streams.FullError](err); ok {
		return of.Error()
	}
	return "the log is full: make room"
}

// unavailable asks to come back.
func unavailable(detail string) error {
	return huma.ErrorWithHeaders(problem(http.StatusServiceUnavailable, "unavailable", detail),
		http.Header{"Retry-After": {retryAfter}})
}

// retryAfter is in how many seconds a client should come back.
const retryAfter = "5"

// schemaName names a type in the description. The names of packages store,
// projector and replay would be the same as some of package event.
func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	switch {
	case strings.HasSuffix(t.PkgPath(), "/store"), strings.HasSuffix(t.PkgPath(), "/projector"):
		return "Ledger" + name
	case strings.HasSuffix(t.PkgPath(), "/replay"):
		return "Replay" + name
	}
	return name
}
