package api

import (
	"embed"
	"net/http"
	"path"
	"strings"
)

// viewer is a page that shows the description and asks the API for what can be read.
// It loads nothing from elsewhere, and works without a network.
//
//go:embed viewer
var viewer embed.FS

// viewerPath is where the page is. What it is made of is below.
const viewerPath = "/docs"

// viewerPolicy lets the page run its own script, and ask this server and no other.
// What it shows is text: even a mistake in its script could not make it markup.
const viewerPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; " +
	"require-trusted-types-for 'script'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// registerViewer serves the page and its two files, to anybody: it says nothing that
// the program's source does not, and asks for the token itself.
func registerViewer(mux *http.ServeMux) {
	for at, file := range map[string]string{
		viewerPath:                 "index.html",
		viewerPath + "/viewer.js":  "viewer.js",
		viewerPath + "/viewer.css": "viewer.css",
	} {
		mux.HandleFunc("GET "+at, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Security-Policy", viewerPolicy)
			http.ServeFileFS(w, r, viewer, path.Join("viewer", file))
		})
	}
}

// ofViewer reports whether a path is a part of the page.
func ofViewer(p string) bool { return p == viewerPath || strings.HasPrefix(p, viewerPath+"/viewer.") }
