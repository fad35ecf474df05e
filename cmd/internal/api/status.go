package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"tidings/bridge"
	"tidings/dispatcher"
	"tidings/store"
)

// Part is one part of the process: whether work moves through it, or there is
// none. Reason says in words why not, or what somebody should look at although it
// is ready; it holds no secret, since everybody may read it.
type Part struct {
	Name   string `json:"name"`
	Ready  bool   `json:"ready"`
	Reason string `json:"reason,omitempty"`
}

// Ready is the answer of /readyz.
type Ready struct {
	Ready bool   `json:"ready"` // every part is
	Parts []Part `json:"parts"`
}

// Stream is how full a stream is.
type Stream struct {
	Name     string `json:"name"`
	Messages uint64 `json:"messages"`
	Bytes    uint64 `json:"bytes"`
	MaxBytes int64  `json:"max_bytes"` // -1: no limit
	First    uint64 `json:"first"`
	Last     uint64 `json:"last"`
}

// Source is where events come from besides this API: a queue, and how the
// bridge from it is doing.
type Source bridge.Status

// Dispatching is what the dispatcher is doing, and how the channels are.
type Dispatching dispatcher.Status

// Channel is how one channel is doing.
type Channel = dispatcher.ChannelStatus

// Status is where the process stands.
type Status struct {
	Ready         bool          `json:"ready"`
	Version       string        `json:"version"`
	StartedAt     time.Time     `json:"started_at"`
	Configuration Configuration `json:"configuration"` // that is in force
	Parts         []Part        `json:"parts"`
	Sources       []Source      `json:"sources"`
	Dispatcher    Dispatching   `json:"dispatcher"`
	Ledger        store.Counts  `json:"ledger"`
	Streams       []Stream      `json:"streams"`
	// StreamsProblem is why Streams is empty, if it should not be.
	StreamsProblem string `json:"streams_problem,omitempty"`
}

type healthOutput struct {
	Body struct {
		Status string `json:"status"`
	}
}

type readyOutput struct {
	Status int
	Body   Ready
}

func (s *Server) registerStatus(api huma.API) {
	anybody := []map[string][]string{}
	huma.Register(api, huma.Operation{
		OperationID: "get-health", Method: http.MethodGet, Path: "/healthz", Tags: []string{"status"}, Security: anybody,
		Summary: "The process is there",
	}, s.getHealth)
	huma.Register(api, huma.Operation{
		OperationID: "get-readiness", Method: http.MethodGet, Path: "/readyz", Tags: []string{"status"}, Security: anybody,
		Summary: "Work moves, or there is none; 503 with the same body if a part is not ready",
	}, s.getReady)
	huma.Register(api, huma.Operation{
		OperationID: "get-status", Method: http.MethodGet, Path: "/v1/status", Tags: []string{"status"},
		Summary: "Where the process stands",
	}, s.getStatus)
}

// registerMetrics registers the endpoint for Prometheus, whose format the
// library does not know.
func (s *Server) registerMetrics(mux *http.ServeMux, spec *huma.OpenAPI) {
	if s.Metrics == nil {
		return
	}
	mux.Handle("GET /metrics", s.Metrics)
	spec.AddOperation(&huma.Operation{
		OperationID: "get-metrics", Method: http.MethodGet, Path: "/metrics", Tags: []string{"status"},
		Summary: "Numbers for Prometheus",
		Responses: map[string]*huma.Response{"200": {
			Description: "In Prometheus' text format, or as OpenMetrics where that is asked for",
			Content:     map[string]*huma.MediaType{"text/plain": {Schema: &huma.Schema{Type: "string"}}},
		}},
	})
}

func (s *Server) getHealth(context.Context, *struct{}) (*healthOutput, error) {
	out := &healthOutput{}
	out.Body.Status = "ok"
	return out, nil
}

func (s *Server) getReady(ctx context.Context, _ *struct{}) (*readyOutput, error) {
	out := &readyOutput{Status: http.StatusOK, Body: s.ready(ctx)}
	if !out.Body.Ready {
		out.Status = http.StatusServiceUnavailable
	}
	return out, nil
}

func (s *Server) ready(ctx context.Context) Ready {
	r := Ready{Ready: true, Parts: []Part{}}
	for _, p := range s.Parts(ctx) {
		r.Ready = r.Ready && p.Ready
		r.Parts = append(r.Parts, p)
	}
	return r
}

func (s *Server) getStatus(ctx context.Context, _ *struct{}) (*answer[Status], error) {
	counts, err := s.Ledger.Counts()
	if err != nil {
		return nil, s.failure(err)
	}
	ready := s.ready(ctx)
	status := Status{
		Ready: ready.Ready, Version: s.Version, StartedAt: s.started, Parts: ready.Parts,
		Sources: append([]Source{}, s.Sources()...), Ledger: counts, Streams: []Stream{},
		Dispatcher: s.Dispatcher(), Configuration: s.Configuration(),
	}
	if status.Dispatcher.Channels == nil {
		status.Dispatcher.Channels = []Channel{}
	}
	// A log that is down must not hide the rest.
	if found, err := s.Streams(ctx); err != nil {
		status.StreamsProblem = "the log does not answer"
		s.Logger.Warn("streams not asked for status", "error", err)
	} else if found != nil {
		status.Streams = found
	}
	return &answer[Status]{status}, nil
}
