// Package examples holds the examples, for tidings demo: a folder each, with a
// configuration, templates and sample events. The README in each says what it shows.
package examples

import (
	"embed"
	"io/fs"
)

//go:embed all:shop all:oncall all:saas
var all embed.FS

// Names returns the names of the examples; the first is the one for a first look.
func Names() []string { return []string{"shop", "oncall", "saas"} }

// Files returns the folder of an example: tidings.yaml, webhook.secret, templates and
// events. An example that does not exist has an empty one.
func Files(name string) fs.FS {
	files, err := fs.Sub(all, name)
	if err != nil {
		return embed.FS{}
	}
	return files
}
