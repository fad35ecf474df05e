package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"tidings/projector"
	"tidings/store"
)

// Operation is a rebuild or a verification of the ledger, under way or over.
type Operation = projector.Operation

// Progress is how far one is, and OperationPhase what it is doing.
type (
	Progress       = projector.Progress
	OperationPhase = projector.Phase
)

// Differs reports whether an error says that the ledger is not what the log says.
func Differs(err error) bool { return errors.Is(err, projector.ErrDiffers) }

// ResultOf returns how a rebuild or verification ended that was not asked for here.
func ResultOf(found projector.Rebuilt, err error) projector.Result {
	return projector.ResultOf(found, err)
}

// How far one is, and how it ended, for the commands.
const (
	PhaseFolding    = projector.PhaseFolding
	KindRebuild     = projector.KindRebuild
	KindVerify      = projector.KindVerify
	ResultSame      = projector.ResultSame
	ResultAccepted  = projector.ResultAccepted
	ResultDiffers   = projector.ResultDiffers
	ResultRefused   = projector.ResultRefused
	ResultCancelled = projector.ResultCancelled
)

// LedgerFile is the file of the ledger.
type LedgerFile struct {
	Schema      int                `json:"schema"` // of what is in it
	Bytes       int64              `json:"bytes"`
	Checkpoints []store.Checkpoint `json:"checkpoints"` // how far each stream is folded in
	// Operation is what is being done with it, or was last since the start.
	Operation *Operation `json:"operation,omitempty"`
}

type startInput struct {
	Operator string `header:"Tidings-Operator" doc:"who wants this: a name that goes into the log of the process"`
}

type rebuildInput struct {
	Operator string `header:"Tidings-Operator" doc:"who wants this: a name that goes into the log of the process"`
	Body     struct {
		Accept bool `json:"accept,omitempty" doc:"put the new ledger in place although it differs"`
	}
}

func (s *Server) registerLedger(api huma.API) {
	op := func(id, method, path, summary, description string, errors ...int) huma.Operation {
		return huma.Operation{
			OperationID: id, Method: method, Path: path, Summary: summary, Description: description, Tags: []string{"ledger"}, Errors: errors,
		}
	}
	started := func(o huma.Operation) huma.Operation { o.DefaultStatus = http.StatusAccepted; return o }
	huma.Register(api, op("get-ledger", http.MethodGet, "/v1/ledger", "The file of the ledger, and what is being done with it", "",
		http.StatusServiceUnavailable), s.getLedger)
	huma.Register(api, started(op("rebuild-ledger", http.MethodPost, "/v1/ledger/rebuild", "Make the ledger anew from the log",
		"The log is folded into a second file while the ledger serves, both are compared as of one moment, and the second is put in the place of the first. "+
			"If they differ it is not, unless accept says so. Nothing is sent. GET /v1/ledger says how far it is, and how it ended. One at a time (409).",
		http.StatusBadRequest, http.StatusConflict, http.StatusServiceUnavailable)), s.rebuildLedger)
	huma.Register(api, started(op("verify-ledger", http.MethodPost, "/v1/ledger/verify", "Compare the ledger with the log",
		"As a rebuild that changes nothing. GET /v1/ledger says how far it is, and what it found. One at a time (409).",
		http.StatusBadRequest, http.StatusConflict, http.StatusServiceUnavailable)), s.verifyLedger)
	huma.Register(api, started(op("cancel-ledger-operation", http.MethodDelete, "/v1/ledger/operation", "Cancel a rebuild or a verification",
		"What a rebuild has folded is kept for the next one. Nothing is cancelled once the files change places.",
		http.StatusConflict)), s.cancelLedger)
}

// registerBackup registers the backup beside the library, which would hold all of it
// in memory.
func (s *Server) registerBackup(mux *http.ServeMux, spec *huma.OpenAPI) {
	mux.HandleFunc("GET /v1/ledger/backup", s.backup)
	spec.AddOperation(&huma.Operation{
		OperationID: "back-up-ledger", Method: http.MethodGet, Path: "/v1/ledger/backup", Tags: []string{"ledger"},
		Summary:     "The file of the ledger as of one moment",
		Description: "It can be put in the place of ledger.db. Everything goes on meanwhile. One at a time, and none beside a rebuild or verification (409).",
		Responses: map[string]*huma.Response{
			"200": {Description: "The file", Content: map[string]*huma.MediaType{TypeLedger: {Schema: &huma.Schema{Type: "string", Format: "binary"}}}},
			"400": problemResponse(spec, "A parameter cannot be meant"),
			"409": problemResponse(spec, "Something else is done with the ledger"),
			"503": problemResponse(spec, "The ledger is not there"),
		},
	})
}

// TypeLedger is the content type of a file of the ledger.
const TypeLedger = "application/octet-stream"

func (s *Server) getLedger(context.Context, *struct{}) (*answer[LedgerFile], error) {
	if s.Upkeep == nil {
		return nil, unavailable("there is no ledger to look after")
	}
	f, err := s.Upkeep.File()
	if err != nil {
		return nil, s.failure(err)
	}
	out := LedgerFile{Schema: f.Schema, Bytes: f.Bytes, Checkpoints: f.Checkpoints}
	if last, ok := s.Upkeep.Last(); ok {
		out.Operation = &last
	}
	return &answer[LedgerFile]{out}, nil
}

func (s *Server) rebuildLedger(_ context.Context, in *rebuildInput) (*answer[Operation], error) {
	return s.startOperation(projector.KindRebuild, in.Body.Accept, in.Operator)
}

func (s *Server) verifyLedger(_ context.Context, in *startInput) (*answer[Operation], error) {
	return s.startOperation(projector.KindVerify, false, in.Operator)
}

func (s *Server) startOperation(kind projector.Kind, accept bool, operator string) (*answer[Operation], error) {
	w := word(operator, "")
	switch {
	case s.Upkeep == nil:
		return nil, unavailable("there is no ledger to look after")
	case w.Operator == "":
		return nil, problem(http.StatusBadRequest, "operator", "who wants this is missing: name the operator (header "+OperatorHeader+")")
	}
	begun, err := s.Upkeep.Start(kind, accept, w.Operator)
	if err != nil {
		return nil, s.notBegun(err)
	}
	return &answer[Operation]{begun}, nil
}

func (s *Server) cancelLedger(context.Context, *struct{}) (*answer[Operation], error) {
	if s.Upkeep == nil {
		return nil, s.notBegun(projector.ErrIdle)
	}
	ended, err := s.Upkeep.Cancel()
	if err != nil {
		return nil, s.notBegun(err)
	}
	return &answer[Operation]{ended}, nil
}

func (s *Server) notBegun(err error) error {
	switch {
	case errors.Is(err, projector.ErrBusy):
		return problem(http.StatusConflict, "busy", err.Error())
	case errors.Is(err, projector.ErrIdle):
		return problem(http.StatusConflict, "idle", err.Error())
	case errors.Is(err, projector.ErrNoLog):
		return unavailable(err.Error())
	}
	return s.failure(err)
}

func (s *Server) backup(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.RawQuery != "":
		writeProblem(w, problem(http.StatusBadRequest, "invalid", fmt.Sprintf("unknown query parameter %.200q: a backup takes none", r.URL.RawQuery)))
		return
	case s.Upkeep == nil:
		writeProblem(w, problem(http.StatusServiceUnavailable, "unavailable", "there is no ledger to look after"))
		return
	}
	b, release, err := s.Upkeep.Backup()
	if errors.Is(err, projector.ErrBusy) {
		writeProblem(w, problem(http.StatusConflict, "busy", err.Error()))
		return
	}
	if err != nil {
		s.Logger.Error("a backup did not begin", "error", err)
		writeProblem(w, problem(http.StatusInternalServerError, "internal", "an error in Tidings: its log says more"))
		return
	}
	defer func() { _ = release() }()
	w.Header().Set("Content-Length", strconv.FormatInt(b.Size, 10)) // so that nobody takes a part for all of it
	out := &exportStream{w: w, control: http.NewResponseController(w), kind: TypeLedger}
	if _, err := b.WriteTo(out); err != nil {
		s.Logger.Warn("a backup broke off", "error", err)
		panic(http.ErrAbortHandler)
	}
}
