package bridgetest

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// installScript is a file so that a build can run it too, before any Go test does.
//
//go:embed install.sh
var installScript string

// canInstall tells whether this is root on a Debian or a descendant of it.
func canInstall() bool {
	_, err := exec.LookPath("apt-get")
	return err == nil && os.Geteuid() == 0 && exists("/etc/debian_version")
}

// install installs packages without starting the services they bring.
func install(ctx context.Context, log io.Writer, say sayFunc, packages ...string) error {
	what := strings.Join(packages, " ")
	say("installing %s, once", what)
	cmd := exec.CommandContext(ctx, "sh", append([]string{"-s", "--"}, packages...)...)
	cmd.Stdin = strings.NewReader(installScript)
	cmd.Stdout, cmd.Stderr = log, log
	// The script tidies up on this signal, after the package manager has come to its own end.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("install %s: %w", what, err)
	}
	return nil
}
