package api

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strings"
)

// tagged gives every answer in JSON to a GET an ETag, and answers with 304 alone
// where the client has it already. One that names what it is by itself, as that of a
// letter does, keeps its own; else it is the hash of the body.
func tagged(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			next.ServeHTTP(w, r)
			return
		}
		t := &tagging{ResponseWriter: w, known: r.Header.Get("If-None-Match")}
		next.ServeHTTP(t, r)
		t.end()
	})
}

// tagging holds an answer back until all of it is there, if it is one in JSON.
type tagging struct {
	http.ResponseWriter
	known string // If-None-Match
	held  *bytes.Buffer
}

// Unwrap is for [http.ResponseController]: who streams does not write JSON.
func (t *tagging) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// WriteHeader implements [http.ResponseWriter].
func (t *tagging) WriteHeader(status int) {
	if status == http.StatusOK && inJSON(t.Header().Get("Content-Type")) {
		t.held = new(bytes.Buffer)
		return
	}
	t.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (t *tagging) Write(p []byte) (int, error) {
	if t.held != nil {
		return t.held.Write(p)
	}
	return t.ResponseWriter.Write(p)
}

func (t *tagging) end() {
	if t.held == nil {
		return
	}
	h := t.Header()
	if h.Get("ETag") == "" {
		sum := sha256.Sum256(t.held.Bytes())
		h.Set("ETag", `"`+base64.RawURLEncoding.EncodeToString(sum[:16])+`"`)
	}
	if among(h.Get("ETag"), t.known) {
		h.Del("Content-Type")
		h.Del("Content-Length")
		t.ResponseWriter.WriteHeader(http.StatusNotModified)
		return
	}
	t.ResponseWriter.WriteHeader(http.StatusOK)
	_, _ = t.ResponseWriter.Write(t.held.Bytes()) // nobody is left to tell
}

func inJSON(contentType string) bool {
	name, _, _ := strings.Cut(contentType, ";")
	return name == "application/json" || name == openapiType
}

// among reports whether a tag is in the list of If-None-Match, in which W/ does not
// matter.
func among(tag, list string) bool {
	for one := range strings.SplitSeq(list, ",") {
		if one = strings.TrimSpace(one); one == "*" || strings.TrimPrefix(one, "W/") == tag {
			return true
		}
	}
	return false
}
