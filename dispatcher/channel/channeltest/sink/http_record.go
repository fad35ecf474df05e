package sink

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// serve reads, verifies, answers and records one request. A request whose
// connection a handler took over or aborted is recorded with status 0.
func (h *HTTP) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return // the client left, or sent too much: nothing was received
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	got := Request{
		Path: r.URL.Path, ID: r.Header.Get(standardwebhooks.HeaderWebhookID),
		Header: r.Header.Clone(), Body: body, Received: time.Now(),
		Signature: h.verify(body, r.Header),
	}
	answered := &recorder{ResponseWriter: w}
	defer func() {
		got.Status = answered.status
		h.book.enter(got.ID, got.Status/100 == 2, got)
	}()
	if got.Signature != nil {
		answered.WriteHeader(http.StatusUnauthorized)
		return
	}
	h.mux.ServeHTTP(answered, r)
	answered.finish()
}

func (h *HTTP) verify(body []byte, header http.Header) error {
	if len(h.verifier) == 0 {
		return nil
	}
	var errs []error
	for _, v := range h.verifier {
		err := v.Verify(body, header)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// recorder remembers the status of an answer.
type recorder struct {
	http.ResponseWriter
	status int
}

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 && status >= 200 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(p []byte) (int, error) {
	r.finish()
	return r.ResponseWriter.Write(p)
}

// finish is what the server does for a handler that wrote nothing.
func (r *recorder) finish() {
	if r.status == 0 {
		r.status = http.StatusOK
	}
}

// Unwrap lets http.ResponseController reach the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
