package api

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// methodsAt returns the methods that there are at the path of a request.
func methodsAt(mux *http.ServeMux, r *http.Request) []string {
	var found []string
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		if _, pattern := mux.Handler(&http.Request{Method: method, URL: r.URL, Host: r.Host}); pattern != "/" {
			found = append(found, method)
		}
	}
	return found
}

// noEndpoint answers what nobody is there for: 405 where another method is meant.
func noEndpoint(w http.ResponseWriter, r *http.Request, methods []string) {
	if len(methods) > 0 {
		w.Header().Set("Allow", strings.Join(methods, ", "))
		writeProblem(w, problem(http.StatusMethodNotAllowed, "method",
			fmt.Sprintf("%s cannot be asked with %.20s: ask it with %s", r.URL.Path, r.Method, strings.Join(methods, " or "))))
		return
	}
	writeProblem(w, problem(http.StatusNotFound, "no-endpoint",
		fmt.Sprintf("there is no endpoint %.20s %s: GET /openapi.json lists them", r.Method, r.URL.Path)))
}

// canonical answers a path with empty segments or dots itself: the mux would
// redirect, with a page.
func canonical(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := r.URL.EscapedPath()
		if strings.Contains(p, "//") || slices.ContainsFunc(strings.Split(p, "/"), func(s string) bool { return s == "." || s == ".." }) {
			noEndpoint(w, r, nil)
			return
		}
		next.ServeHTTP(w, r)
	})
}
