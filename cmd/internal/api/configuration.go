package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// Configuration is which configuration is in force, and how it came to be.
type Configuration struct {
	// Revision is of all that plans depend on; claims name it.
	Revision string    `json:"revision"`
	LoadedAt time.Time `json:"loaded_at"`
	Reloads  uint64    `json:"reloads"` // that put another one in force, since the start
	Failed   uint64    `json:"failed"`  // that changed nothing, since the start
	// Refused is why the last reload changed nothing; missing if it did.
	Refused *RefusedConfiguration `json:"refused,omitempty"`
}

// RefusedConfiguration is why a configuration was not taken, and an error: what was in
// force before still is.
type RefusedConfiguration struct {
	At       time.Time              `json:"at"`
	Restart  bool                   `json:"restart,omitempty"` // it is well, and takes a restart
	Problems []ConfigurationProblem `json:"problems"`
}

// ConfigurationProblem is one thing that is wrong with a configuration. It holds no
// secret.
type ConfigurationProblem struct {
	Key     string `json:"key,omitempty"`
	Place   string `json:"place,omitempty"` // file, line and column
	Message string `json:"message"`
}

// String is the problem as one line.
func (p ConfigurationProblem) String() string {
	text := p.Message
	if p.Key != "" && !strings.HasPrefix(text, p.Key) {
		text = p.Key + ": " + text
	}
	if p.Place != "" {
		text = p.Place + ": " + text
	}
	return text
}

// String says for readiness what is not in force.
func (r *RefusedConfiguration) String() string {
	return fmt.Sprintf("what is configured by now is not what runs: it was refused at %s (%s)", r.At.Format(time.RFC3339), r.Error())
}

// Error implements error.
func (r *RefusedConfiguration) Error() string {
	var lines []string
	for _, p := range r.Problems {
		lines = append(lines, p.String())
	}
	return strings.Join(lines, "; ")
}

// Reload is what a reload changed.
type Reload struct {
	Revision string    `json:"revision"` // in force from now on
	Before   string    `json:"before"`   // the revision until then
	At       time.Time `json:"at"`
	Changed  []string  `json:"changed"` // keys; of a channel, tenant or group down to its name
	Warnings []string  `json:"warnings,omitempty"`
}

type reloadInput struct {
	Operator string `header:"Tidings-Operator" doc:"who wants this: a name that goes into the log"`
}

func (s *Server) registerConfiguration(api huma.API) {
	huma.Register(api, huma.Operation{
		OperationID: "reload-configuration", Method: http.MethodPost, Path: "/v1/config/reload", Tags: []string{"status"},
		Summary: "Read the configuration anew and put it in force",
		Description: "Everything is read and checked first, templates and files of secrets included. A problem changes nothing (422 urn:tidings:config, " +
			"with all of them and their places). What takes a restart is refused with the keys (409 urn:tidings:restart), and nothing else of the file is taken. " +
			"Events in hand are finished by what was in force before.",
		Errors: []int{http.StatusBadRequest, http.StatusConflict, http.StatusUnprocessableEntity, http.StatusServiceUnavailable},
	}, s.reloadConfiguration)
}

func (s *Server) reloadConfiguration(ctx context.Context, in *reloadInput) (*answer[Reload], error) {
	by := word(in.Operator, "").Operator
	switch {
	case s.Reload == nil:
		return nil, unavailable("this process cannot read its configuration anew: restart it")
	case by == "":
		return nil, problem(http.StatusBadRequest, "operator", "who wants this is missing: name the operator (header "+OperatorHeader+")")
	}
	done, err := s.Reload(ctx, by)
	if refused, ok := errors.AsType[*RefusedConfiguration](err); ok {
		return nil, refusedConfiguration(refused)
	}
	if err != nil {
		return nil, s.failure(err)
	}
	return &answer[Reload]{done}, nil
}

func refusedConfiguration(r *RefusedConfiguration) error {
	var details []*huma.ErrorDetail
	for _, p := range r.Problems {
		at := p.Place
		p.Place = ""
		details = append(details, &huma.ErrorDetail{Location: at, Message: p.String()})
	}
	if r.Restart {
		return problem(http.StatusConflict, "restart", "the configuration was not taken, and nothing has changed: restart to put it in force, or take these changes out of it", details...)
	}
	return problem(http.StatusUnprocessableEntity, "config", "the configuration was not taken, and nothing has changed: mend it and reload again", details...)
}

// ReloadConfiguration has the configuration read anew and put in force.
func (c *Client) ReloadConfiguration(ctx context.Context) (Reload, error) {
	return post[Reload](ctx, c, "/v1/config/reload", nil, struct{}{})
}
