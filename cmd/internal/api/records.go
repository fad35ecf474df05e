package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"tidings/streams"
	"tidings/streams/event"
)

// Records is what followers read. [streams.Records] is one.
type Records interface {
	Info(ctx context.Context) (streams.StreamInfo, error)
	Follow(ctx context.Context, after streams.Mark, f streams.Filter, handle func(streams.Entry) error) error
}

// Limits of following.
const (
	maxFollowers = 64               // at a time
	beat         = 15 * time.Second // a comment, where there is nothing else to say
	writeWithin  = 30 * time.Second // or the follower is too slow, and may come again
)

// LastEventID is the header with which a follower goes on behind what it has seen.
const LastEventID = "Last-Event-ID"

// afterEnd, as the place to follow from, is the end of the log.
const afterEnd = "end"

// registerRecords registers the stream beside the library, whose answers have an end.
func (s *Server) registerRecords(mux *http.ServeMux, spec *huma.OpenAPI) {
	mux.HandleFunc("GET /v1/records", s.follow)
	text := &huma.Schema{Type: "string"}
	query := func(name, description string, schema *huma.Schema) *huma.Param {
		return &huma.Param{Name: name, In: "query", Description: description, Schema: schema}
	}
	spec.AddOperation(&huma.Operation{
		OperationID: "follow-records", Method: http.MethodGet, Path: "/v1/records", Tags: []string{"records"},
		Summary: "Follow what is decided and done, as server-sent events",
		Description: "Every entry of OUTCOMES in order, and then what comes, until the connection ends. The event is the kind, " +
			"the data is the record as it is stored, and the id is where to go on: as " + LastEventID + ", which browsers send by themselves, or as after. " +
			"Where one cannot go on as if nothing had happened the answer says so: 410 for what the log has forgotten, 409 where the log lost its end.",
		Parameters: []*huma.Param{
			query("after", "an id, a sequence of OUTCOMES, or end; 0, the default, is the beginning", text),
			query("tenant", "of the event", text),
			query("type", "of the event", text),
			query("key", "of the event", text),
			query("kind", "of the entry: opened, claimed, waiting, settled, dead, late, duplicate, operation, replay, skip; may be repeated", text),
			query("outcome", "of the event, once it has ended: processed, failed, suppressed, no_recipient, no_template, stale; or duplicate; may be repeated", text),
			query("final", "only the records that an event ended with", &huma.Schema{Type: "boolean"}),
			{Name: LastEventID, In: "header", Description: "goes before after", Schema: text},
		},
		Responses: map[string]*huma.Response{
			"200": {Description: "The stream", Content: map[string]*huma.MediaType{"text/event-stream": {Schema: text}}},
			"400": problemResponse(spec, "A parameter cannot be meant"),
			"409": problemResponse(spec, "The log lost its end, and has other entries there: begin anew, and know records by their ids"),
			"410": problemResponse(spec, "What comes next is beyond the horizon: begin with after=0"),
			"503": problemResponse(spec, "The log is down, or there are too many followers: come again after Retry-After"),
		},
	})
}

// follow answers with a stream that ends with the request, or with the server.
func (s *Server) follow(w http.ResponseWriter, r *http.Request) {
	filter, after, err := following(r)
	if err != nil {
		writeProblem(w, problem(http.StatusBadRequest, "invalid", err.Error()))
		return
	}
	records := s.Records()
	if s.followers.Add(1) > maxFollowers || records == nil {
		s.followers.Add(-1)
		w.Header().Set("Retry-After", retryAfter)
		writeProblem(w, problem(http.StatusServiceUnavailable, "unavailable",
			fmt.Sprintf("the log is not open, or there are %d followers already: come again later", maxFollowers)))
		return
	}
	defer s.followers.Add(-1)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	stop := context.AfterFunc(s.serving, cancel)
	defer stop()
	if err := s.serveRecords(ctx, w, records, after, filter); err != nil {
		s.notFollowed(w, err)
	}
}

// following reads what a follower asks for.
func following(r *http.Request) (f streams.Filter, after string, err error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return f, "", errors.New("the query cannot be read")
	}
	for name, values := range q {
		switch name {
		case "after":
			after = values[0]
		case "tenant":
			f.Tenant = values[0]
		case "type":
			f.Type = values[0]
		case "key":
			f.Key = event.Key(values[0])
		case "kind":
			for _, v := range values {
				kind := event.Kind(v)
				if !slices.Contains(event.Kinds(), kind) {
					return f, "", fmt.Errorf("kind: %q is none of %v", v, event.Kinds())
				}
				f.Kinds = append(f.Kinds, kind)
			}
		case "outcome":
			for _, v := range values {
				outcome := event.Outcome(v)
				if !slices.Contains(RecordOutcomes(), outcome) {
					return f, "", fmt.Errorf("outcome: %q is none of %v", v, RecordOutcomes())
				}
				f.Outcomes = append(f.Outcomes, outcome)
			}
		case "final":
			if f.Final, err = strconv.ParseBool(values[0]); err != nil {
				return f, "", fmt.Errorf("final: %q is neither true nor false", values[0])
			}
		default:
			return f, "", fmt.Errorf("unknown query parameter %q: it is after, tenant, type, key, kind, outcome or final", name)
		}
	}
	if last := r.Header.Get(LastEventID); last != "" {
		after = last
	}
	if after != "" && after != afterEnd {
		_, err = streams.ParseMark(after)
	}
	return f, after, err
}

// serveRecords writes entries as they come. An error means that nothing was written yet.
func (s *Server) serveRecords(ctx context.Context, w http.ResponseWriter, records Records, after string, f streams.Filter) error {
	info, err := records.Info(ctx)
	if err != nil {
		return err
	}
	mark := streams.Mark{}
	switch {
	case after == afterEnd:
		mark.Sequence = info.Last
	case after != "":
		mark, _ = streams.ParseMark(after)
	}
	entries, failed := make(chan streams.Entry), make(chan error, 1)
	go func() {
		failed <- records.Follow(ctx, mark, f, func(e streams.Entry) error {
			select {
			case entries <- e:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	out := &eventStream{w: w, control: http.NewResponseController(w)}
	return out.run(ctx, entries, failed)
}

// notFollowed says why a stream did not begin.
func (s *Server) notFollowed(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, streams.ErrForgotten):
		writeProblem(w, problem(http.StatusGone, "forgotten", err.Error()+": begin with after=0"))
	case errors.Is(err, streams.ErrRewritten):
		writeProblem(w, problem(http.StatusConflict, "rewritten", err.Error()+": begin anew, and know records by their ids"))
	default:
		w.Header().Set("Retry-After", retryAfter)
		writeProblem(w, problem(http.StatusServiceUnavailable, "unavailable", "the log cannot be read now"))
	}
}

// eventStream is an answer of server-sent events.
type eventStream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	begun   bool
}

// beginWithin is how long a stream without entries waits before it says that it is
// one: until then it may still turn out that it cannot be.
const beginWithin = 200 * time.Millisecond

func (o *eventStream) run(ctx context.Context, entries <-chan streams.Entry, failed <-chan error) error {
	for wait := beginWithin; ; wait = beat {
		timer := time.NewTimer(wait)
		select {
		case e := <-entries:
			if o.write(o.event(e)) != nil {
				return nil // too slow, or gone
			}
		case <-timer.C:
			if o.write([]byte(": \n\n")) != nil {
				return nil
			}
		case err := <-failed:
			if !o.begun && ctx.Err() == nil {
				return err
			}
			return nil
		case <-ctx.Done():
			return nil
		}
		timer.Stop()
	}
}

// event returns an entry as a server-sent event.
func (*eventStream) event(e streams.Entry) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "id: %s\n", streams.MarkOf(e))
	if kind := e.Header.Get(streams.HeaderKind); kind != "" && !strings.ContainsAny(kind, "\r\n") {
		fmt.Fprintf(&b, "event: %s\n", kind)
	}
	// Records are one line; what others wrote need not be.
	for line := range bytes.FieldsFuncSeq(e.Data, func(r rune) bool { return r == '\n' || r == '\r' }) {
		fmt.Fprintf(&b, "data: %s\n", line)
	}
	b.WriteByte('\n')
	return slices.Clip(b.Bytes())
}

func (o *eventStream) write(text []byte) error {
	if !o.begun {
		o.begun = true
		o.w.Header().Set("Content-Type", "text/event-stream")
		o.w.WriteHeader(http.StatusOK)
	}
	// The server's own bound is for answers that have an end.
	if err := o.control.SetWriteDeadline(time.Now().Add(writeWithin)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := o.w.Write(text); err != nil {
		return err
	}
	return o.control.Flush()
}
