package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"tidings/streams/archive"
)

// TypeExport is the content type of an export.
const TypeExport = "application/zstd"

// registerArchive registers the export beside the library, which would hold all of
// it in memory.
func (s *Server) registerArchive(mux *http.ServeMux, spec *huma.OpenAPI) {
	mux.HandleFunc("GET /v1/export", s.export)
	spec.AddOperation(&huma.Operation{
		OperationID: "export-log", Method: http.MethodGet, Path: "/v1/export", Tags: []string{"export"},
		Summary: "Everything that the log remembers, as JSON Lines in zstd",
		Description: "All entries of OUTCOMES and DEADLETTERS that are there now, as docs/archive.md describes, with the payloads of dead letters. " +
			"An answer that breaks off goes on with after: what is behind the last whole frame is cut off, and what comes is appended.",
		Parameters: []*huma.Param{{
			Name: "after", In: "query", Schema: &huma.Schema{Type: "string"},
			Description: "the checkpoint that ends the last whole frame, as base64url without padding",
		}},
		Responses: map[string]*huma.Response{
			"200": {Description: "The export", Content: map[string]*huma.MediaType{TypeExport: {Schema: &huma.Schema{Type: "string", Format: "binary"}}}},
			"400": problemResponse(spec, "A parameter cannot be meant"),
			"409": problemResponse(spec, "This is not the log that the export was begun from, or entries are missing from it"),
			"410": problemResponse(spec, "What comes next is beyond the horizon: begin a new export"),
			"503": problemResponse(spec, "The log is down, or another export is under way: come again after Retry-After"),
		},
	})
}

func (s *Server) export(w http.ResponseWriter, r *http.Request) {
	after, err := exportAfter(r)
	if err != nil {
		writeProblem(w, problem(http.StatusBadRequest, "invalid", err.Error()))
		return
	}
	source, ok := s.Archive()
	if !ok || !s.exporting.CompareAndSwap(false, true) {
		w.Header().Set("Retry-After", retryAfter)
		writeProblem(w, problem(http.StatusServiceUnavailable, "unavailable", "the log is not open, or another export is under way: come again later"))
		return
	}
	defer s.exporting.Store(false)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.serving, cancel)()
	out := &exportStream{w: w, control: http.NewResponseController(w), kind: TypeExport}
	_, err = archive.Export(ctx, out, source, archive.Options{
		Version: s.Version, After: after, Now: s.Now, Flush: func(archive.Checkpoint) error { return out.control.Flush() },
	})
	switch {
	case err == nil:
	case out.begun:
		s.Logger.Warn("an export broke off", "error", err)
		panic(http.ErrAbortHandler) // so that nobody takes it for whole
	default:
		s.notExported(w, err)
	}
}

func exportAfter(r *http.Request) (*archive.Checkpoint, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, errors.New("the query cannot be read")
	}
	for name := range q {
		if name != "after" {
			return nil, fmt.Errorf("unknown query parameter %q: it is after", name)
		}
	}
	if !q.Has("after") {
		return nil, nil
	}
	c, err := archive.ParseCursor(q.Get("after"))
	return &c, err
}

// notExported says why an export did not begin.
func (s *Server) notExported(w http.ResponseWriter, err error) {
	_, gap := errors.AsType[*archive.GapError](err)
	switch {
	case errors.Is(err, archive.ErrForgotten):
		writeProblem(w, problem(http.StatusGone, "forgotten", err.Error()))
	case errors.Is(err, archive.ErrOtherLog):
		writeProblem(w, problem(http.StatusConflict, "other-log", err.Error()))
	case gap:
		writeProblem(w, problem(http.StatusConflict, "gap", err.Error()))
	default:
		s.Logger.Warn("an export did not begin", "error", err)
		w.Header().Set("Retry-After", retryAfter)
		writeProblem(w, problem(http.StatusServiceUnavailable, "unavailable", "the log cannot be read now"))
	}
}

// exportStream is an answer that is as long as it is.
type exportStream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	kind    string // its content type
	begun   bool
}

// Write implements io.Writer.
func (o *exportStream) Write(p []byte) (int, error) {
	if !o.begun {
		o.begun = true
		o.w.Header().Set("Content-Type", o.kind)
	}
	// The server's own bound is for answers that have an end.
	if err := o.control.SetWriteDeadline(time.Now().Add(writeWithin)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return 0, err
	}
	return o.w.Write(p)
}

// Export returns an export of the log, or the rest of one behind a checkpoint, which
// may be nil. Reading it ends with io.ErrUnexpectedEOF or another error where it
// breaks off. The caller closes it.
func (c *Client) Export(ctx context.Context, after *archive.Checkpoint) (io.ReadCloser, error) {
	path := "/v1/export"
	if after != nil {
		path += "?after=" + after.Cursor()
	}
	client := *c.http()
	client.Timeout = 0 // it may be large
	res, err := c.open(ctx, &client, http.MethodGet, path, nil, nil)
	if err != nil {
		return nil, err
	}
	return res.Body, nil
}
