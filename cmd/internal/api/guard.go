package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"runtime/debug"
	"strings"
)

// guard puts around all endpoints what holds for all of them.
func (s *Server) guard(next http.Handler) http.Handler {
	origin := http.NewCrossOriginProtection()
	origin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeProblem(w, problem(http.StatusForbidden, "cross-origin", "a page of another origin may not do this"))
	}))
	return headers(s.recovered(origin.Handler(s.authenticated(s.dated(next)))))
}

// LedgerHeader says why the ledger is behind the log, where it is: what an answer
// shows may be out of date then.
const LedgerHeader = "Tidings-Ledger"

func (s *Server) dated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if why := s.Behind(); why != "" {
			w.Header().Set(LedgerHeader, strings.Join(strings.Fields(why), " "))
		}
		next.ServeHTTP(w, r)
	})
}

func headers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// recovered answers a request whose handler panics, and says where it did.
func (s *Server) recovered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			reason := recover()
			switch reason {
			case nil:
				return
			case http.ErrAbortHandler:
				panic(reason)
			}
			s.Logger.Error("a request panicked", "method", r.Method, "path", r.URL.Path, "reason", reason, "stack", string(debug.Stack()))
			writeProblem(w, problem(http.StatusInternalServerError, "internal", "an error in Tidings: its log says more"))
		}()
		next.ServeHTTP(w, r)
	})
}

// open reports whether a path may be asked without the token. What the description
// says is in the program's source, and browsers send no token when a page is opened.
func open(path string) bool {
	return path == "/healthz" || path == "/readyz" || path == "/openapi.json" || ofViewer(path)
}

// authenticated lets nobody through without the token. Hashing makes the two
// sides of the comparison equally long whatever is sent.
func (s *Server) authenticated(next http.Handler) http.Handler {
	want := sha256.Sum256([]byte(s.Token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		got := sha256.Sum256([]byte(strings.TrimSpace(token)))
		right := strings.EqualFold(scheme, "bearer") && subtle.ConstantTimeCompare(got[:], want[:]) == 1
		if right || open(r.URL.Path) {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("WWW-Authenticate", `Bearer realm="tidings"`)
		writeProblem(w, problem(http.StatusUnauthorized, "unauthorized",
			"the header Authorization: Bearer with the API's token is missing, or the token is another"))
	})
}
