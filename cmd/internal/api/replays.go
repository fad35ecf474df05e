package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"tidings/dispatcher/letters"
	"tidings/dispatcher/replay"
	"tidings/store"
	"tidings/streams"
	"tidings/streams/event"
)

// Replay is where a replay plan stands.
type Replay = replay.State

// ReplayRequest is what an operator wants of a replay plan.
type ReplayRequest struct {
	Tenant string    `json:"tenant,omitempty"`
	Cause  string    `json:"cause,omitempty"`
	Type   string    `json:"type,omitempty" doc:"event type"`
	Since  time.Time `json:"since,omitzero" doc:"letters written then or later"`
	Until  time.Time `json:"until,omitzero" doc:"letters written before"`
	Text   string    `json:"text,omitempty" maxLength:"200" doc:"in the detail, the id or the type, in any case"`
	Rate   float64   `json:"rate,omitempty" minimum:"0" doc:"letters a second; 0 is as fast as it goes"`
	Canary int       `json:"canary,omitempty" minimum:"0" doc:"so many first, and the rest only if each of them ends well"`
	Reason string    `json:"reason,omitempty" maxLength:"2000" doc:"why; it goes into the histories"`
}

func (r ReplayRequest) query() store.LetterQuery {
	return store.LetterQuery{
		Tenant: r.Tenant, Cause: event.Cause(r.Cause), Type: r.Type, Text: r.Text, Since: r.Since, Until: r.Until,
	}
}

// ReplayPreview is what a replay plan would do now.
type ReplayPreview struct {
	Letters int                 `json:"letters"` // that the filter chooses
	Causes  map[event.Cause]int `json:"causes"`
	Types   map[string]int      `json:"types"`
	// Looked is how many of them, the oldest first, were looked into for the rest.
	Looked int `json:"looked"`
	// Messages are those of the letters that were looked into, by what would become
	// of them: send, stay, suppressed …
	Messages map[string]int `json:"messages"`
	// Blocked are the channels that do not get through now, of those that something
	// would be sent by: it waits for them.
	Blocked []string `json:"blocked,omitempty"`
	// Problems is how many letters would be dead letters again at once, such as those
	// that a template still fails on.
	Problems int `json:"problems"`
	// Nothing is how many letters would send nothing for another reason.
	Nothing int `json:"nothing"`
}

// lookInto is how many letters a preview plans.
const lookInto = 200

type (
	replayInput struct {
		Operator string `header:"Tidings-Operator" doc:"who wants this: a name that goes into the histories"`
		Body     ReplayRequest
	}
	replayID struct {
		ID string `path:"id"`
	}
	stopReplayInput struct {
		ID       string `path:"id"`
		Operator string `header:"Tidings-Operator" doc:"who wants this: a name that goes into the log"`
		Body     struct {
			Reason string `json:"reason" minLength:"1" maxLength:"2000" doc:"why; it goes into the log"`
		}
	}
)

func (s *Server) registerReplays(api huma.API) {
	op := func(id, method, path, summary, description string, status int) huma.Operation {
		return huma.Operation{
			OperationID: id, Method: method, Path: path, Summary: summary, Description: description,
			DefaultStatus: status, Tags: []string{"replays"},
			Errors: []int{http.StatusBadRequest, http.StatusNotFound, http.StatusConflict, http.StatusServiceUnavailable},
		}
	}
	huma.Register(api, op("start-replay", http.MethodPost, "/v1/replays", "Requeue dead letters in bulk",
		"Which letters it is about is frozen now. Each gets one generation, also when the process dies and goes on; what others deal with "+
			"meanwhile is skipped. With a canary the first letters go alone, and unless each ends well the plan stops.", http.StatusCreated), s.startReplay)
	huma.Register(api, op("preview-replay", http.MethodPost, "/v1/replays/preview", "What a replay plan would do now",
		"Nothing is done. The oldest letters are planned as they would be, and suppressions asked.", http.StatusOK), s.previewReplay)
	huma.Register(api, op("list-replays", http.MethodGet, "/v1/replays", "Replay plans, the newest first", "", http.StatusOK), s.listReplays)
	huma.Register(api, op("get-replay", http.MethodGet, "/v1/replays/{id}", "Where a replay plan stands", "", http.StatusOK), s.getReplay)
	huma.Register(api, op("stop-replay", http.MethodPost, "/v1/replays/{id}/stop", "Stop a replay plan",
		"What is requeued stays so.", http.StatusOK), s.stopReplay)
}

func (s *Server) startReplay(ctx context.Context, in *replayInput) (*answer[Replay], error) {
	chosen, err := s.chosen(in.Body.query(), replay.MaxLetters)
	if err != nil {
		return nil, err
	}
	r := in.Body
	order := event.ReplayOrder{
		Operator: strings.TrimSpace(in.Operator), Reason: strings.TrimSpace(r.Reason), Rate: r.Rate, Canary: r.Canary,
		Filter: event.ReplayFilter{
			Tenant: r.Tenant, Cause: event.Cause(r.Cause), Type: r.Type, Since: r.Since, Until: r.Until, Text: r.Text,
		},
	}
	of := make([]event.ReplayLetter, len(chosen))
	for i, l := range chosen {
		of[i] = event.ReplayLetter{Tenant: l.Tenant, Key: l.Key, Generation: l.Generation, Sequence: l.Sequence}
	}
	return replays(s, func(p *replay.Replayer) (Replay, error) { return p.Create(ctx, order, of) })
}

func (s *Server) previewReplay(ctx context.Context, in *replayInput) (*answer[ReplayPreview], error) {
	desk := s.Desk()
	if desk == nil {
		return nil, unavailable("the log is not open yet")
	}
	chosen, err := s.chosen(in.Body.query(), replay.MaxLetters)
	if err != nil {
		return nil, err
	}
	p := ReplayPreview{Letters: len(chosen), Causes: map[event.Cause]int{}, Types: map[string]int{}, Messages: map[string]int{}}
	var messages []letters.PreviewMessage
	for i, l := range chosen {
		p.Causes[l.Cause]++
		p.Types[cmp.Or(l.Type, "unknown")]++
		if i >= lookInto {
			continue
		}
		p.Looked++
		would, err := desk.Preview(ctx, letters.Target{Tenant: l.Tenant, Key: l.Key, Sequence: l.Sequence}, letters.Change{})
		switch {
		case err == nil && would.Problem != "":
			p.Problems++
		case err != nil || len(would.Messages) == 0:
			p.Nothing++
		}
		for _, m := range would.Messages {
			p.Messages[string(m.Would)]++
		}
		messages = append(messages, would.Messages...)
	}
	p.Blocked = s.blocked(messages)
	return &answer[ReplayPreview]{p}, nil
}

func (s *Server) listReplays(ctx context.Context, _ *struct{}) (*answer[[]Replay], error) {
	return replays(s, func(p *replay.Replayer) ([]Replay, error) { return p.List(ctx) })
}

func (s *Server) getReplay(ctx context.Context, in *replayID) (*answer[Replay], error) {
	return replays(s, func(p *replay.Replayer) (Replay, error) { return p.Get(ctx, in.ID) })
}

func (s *Server) stopReplay(ctx context.Context, in *stopReplayInput) (*answer[Replay], error) {
	return replays(s, func(p *replay.Replayer) (Replay, error) {
		return p.Stop(ctx, in.ID, cmp.Or(strings.TrimSpace(in.Operator), "somebody"), in.Body.Reason)
	})
}

// replays has something done about replay plans.
func replays[T any](s *Server, do func(*replay.Replayer) (T, error)) (*answer[T], error) {
	p := s.Replays()
	if p == nil {
		return nil, unavailable("the log is not open yet")
	}
	done, err := do(p)
	switch {
	case err == nil:
		return &answer[T]{done}, nil
	case errors.Is(err, replay.ErrOrder):
		return nil, problem(http.StatusBadRequest, "replay", err.Error())
	case errors.Is(err, replay.ErrOver):
		return nil, problem(http.StatusConflict, "conflict", err.Error())
	case errors.Is(err, streams.ErrNotFound):
		return nil, problem(http.StatusNotFound, "not-found", err.Error()+": the list of replays has those that the log remembers")
	case errors.Is(err, streams.ErrFull):
		return nil, unavailable(full(err) + "; then try again")
	}
	return nil, s.failure(err)
}
