package main

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is stamped by release builds; "" leaves it to what the Go tool knows.
var version string

// build is what the binary knows of itself.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified"` // it was built from changed sources
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// thisBuild reads what the Go tool wrote into the binary.
func thisBuild() build {
	b := build{Version: cmp.Or(version, "dev"), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if v := info.Main.Version; version == "" && v != "" && v != "(devel)" {
		b.Version = v
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// String says it in one line.
func (b build) String() string {
	return fmt.Sprintf("tidings %s (%s, %s)", b.Version, b.Go, b.Platform)
}

func newVersion(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Show the version of this binary", Args: exactly(),
		RunE: c.runs(func(context.Context, []string) error {
			b := thisBuild()
			if c.json {
				return c.printJSON(b)
			}
			_, err := fmt.Fprintln(c.out, b)
			return err
		}),
	}
}
