package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"

	"tidings/cmd/internal/api"
	"tidings/cmd/internal/app"
	"tidings/cmd/internal/config"
	"tidings/cmd/internal/publish"
	"tidings/streams"
	"tidings/streams/archive"
)

// The exit codes.
const (
	exitDone     = 0
	exitFailed   = 1
	exitUsage    = 2
	exitNotFound = 3
	exitRefused  = 4 // or in conflict with something
)

// exit is an error with the exit code that it asks for. Without an inner error
// nothing is printed, since the command has said it all.
type exit struct {
	code int
	err  error
}

func (e *exit) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exit) Unwrap() error { return e.err }

// failed marks an error of a command that was used rightly. What cobra itself
// returns is not marked: it is about usage.
func failed(err error) error {
	if _, marked := errors.AsType[*exit](err); marked || err == nil {
		return err
	}
	return &exit{code: codeOf(err), err: err}
}

func usage(format string, args ...any) error {
	return &exit{code: exitUsage, err: fmt.Errorf(format, args...)}
}

// notThere marks the error of a file that an argument names: one that is not there is
// wrong usage. What is not found, with exit code 3, is what tidings was asked for.
func notThere(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return &exit{code: exitUsage, err: err}
	}
	return err
}

func exitCode(err error) int {
	if err == nil {
		return exitDone
	}
	if e, ok := errors.AsType[*exit](err); ok {
		return e.code
	}
	return exitUsage
}

func codeOf(err error) int {
	if p, ok := errors.AsType[*api.ProblemError](err); ok {
		return codeOfStatus(p.Status)
	}
	if _, ok := errors.AsType[config.Problems](err); ok {
		return exitUsage
	}
	switch {
	case errors.Is(err, publish.ErrAddress), errors.Is(err, publish.ErrHeader), errors.Is(err, api.ErrBatch):
		return exitUsage
	case errors.Is(err, publish.ErrNoQueue), errors.Is(err, app.ErrNoLedger), errors.Is(err, app.ErrNoLog):
		return exitNotFound
	case errors.Is(err, publish.ErrRefused), errors.Is(err, app.ErrInUse), errors.Is(err, app.ErrOldExport), ofArchive(err), app.Misfit(err):
		return exitRefused
	}
	return exitFailed
}

// ofArchive reports whether an export or import was refused: the log or the file is
// not what it has to be.
func ofArchive(err error) bool {
	_, gap := errors.AsType[*archive.GapError](err)
	_, damaged := errors.AsType[*archive.DamageError](err)
	return gap || damaged || errors.Is(err, archive.ErrOtherLog) || errors.Is(err, archive.ErrForgotten) ||
		errors.Is(err, streams.ErrNotEmpty) || errors.Is(err, streams.ErrImporting) || errors.Is(err, streams.ErrOtherEntry)
}

func codeOfStatus(status int) int {
	switch status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return exitUsage
	case http.StatusNotFound:
		return exitNotFound
	case http.StatusConflict, http.StatusPreconditionFailed, http.StatusForbidden, http.StatusUnauthorized, http.StatusRequestEntityTooLarge:
		return exitRefused
	}
	return exitFailed
}

// withHint adds to an error of what was not found the command that lists what there is.
func withHint(err error, command string) error {
	if p, ok := errors.AsType[*api.ProblemError](err); ok && p.Status == http.StatusNotFound {
		return fmt.Errorf("%w\nsee: %s", err, command)
	}
	return err
}

// interrupted says that the user ended the command.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return errors.New("interrupted")
	}
	return err
}
