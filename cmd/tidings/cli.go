package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"os/user"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"tidings/cmd/internal/api"
	"tidings/cmd/internal/config"
)

// cli is what all commands share: streams, environment and global flags.
type cli struct {
	in       io.Reader
	out, err io.Writer
	environ  []string
	self     string // how the binary was started

	url, token, tokenFile, configPath, data, operator string
	json                                              bool
}

// getenv returns a variable of the environment, empty if it is not set.
func (c *cli) getenv(name string) string {
	for i := len(c.environ) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(c.environ[i], name+"="); ok {
			return value
		}
	}
	return ""
}

// runs returns what cobra runs: the command with the context of the process,
// its errors marked with their exit codes.
func (c *cli) runs(command func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		return failed(interrupted(cmd.Context(), command(cmd.Context(), args)))
	}
}

// message writes lines for the user.
func (c *cli) message(format string, args ...any) {
	fmt.Fprintln(c.err, clean(fmt.Sprintf(format, args...), '\n'))
}

// config returns the configuration in force, with the global flags applied. It
// is not validated.
func (c *cli) config() (config.Config, error) {
	path := c.configPath
	if path == "" {
		path = c.getenv("TIDINGS_CONFIG")
	}
	conf, err := config.Load(path, c.environ)
	if err != nil {
		return config.Config{}, &exit{code: exitUsage, err: err}
	}
	conf.Override("data", c.data)
	return conf, nil
}

// client returns what asks the running tidings.
func (c *cli) client() (*api.Client, error) {
	conf, err := c.config()
	if err != nil {
		return nil, err
	}
	base := first(c.url, c.getenv("TIDINGS_URL"), urlOf(conf.API.Listen))
	if u, err := url.Parse(base); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, usage("--url or TIDINGS_URL: %q is no URL of a tidings: write it like http://127.0.0.1:8420", base)
	}
	token, err := c.tokenFor(base, conf)
	if err != nil {
		return nil, err
	}
	return &api.Client{BaseURL: base, Token: token, Operator: c.whoAmI(), Behind: c.behind()}, nil
}

// whoAmI is the operator that histories name: who is at the keyboard, unless
// somebody else is named. It is never empty.
func (c *cli) whoAmI() string {
	if name := first(c.operator, c.getenv("TIDINGS_OPERATOR")); name != "" {
		return name
	}
	name := first(c.getenv("USER"), c.getenv("LOGNAME"))
	if u, err := user.Current(); name == "" && err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return first(name, "somebody") + "@" + host
}

// behind warns, once a command, that what it shows may be out of date.
func (c *cli) behind() func(string) {
	var once sync.Once
	return func(why string) {
		once.Do(func() { c.message("the ledger is behind, what is shown may be out of date: %s", why) })
	}
}

// tokenFor returns the token for the tidings at base. The one in the data
// directory is that of a process on this machine, and is not sent elsewhere.
func (c *cli) tokenFor(base string, conf config.Config) (string, error) {
	switch {
	case c.token != "" && c.tokenFile != "":
		return "", usage("--token and --token-file exclude each other")
	case c.token != "":
		return c.token, nil
	case c.tokenFile != "":
		return readToken("--token-file", c.tokenFile)
	}
	if token := c.getenv("TIDINGS_TOKEN"); token != "" {
		return token, nil
	}
	if path := c.getenv("TIDINGS_TOKEN_FILE"); path != "" {
		return readToken("TIDINGS_TOKEN_FILE", path)
	}
	if token := conf.API.Token.Reveal(); token != "" || !local(base) {
		return token, nil
	}
	token, err := api.ReadToken(conf.Data)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil // the answer will say what is missing, if anything is
	}
	return token, err
}

func readToken(from, path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", notThere(fmt.Errorf("%s: %w", from, err))
	}
	token := strings.TrimSpace(string(data))
	if token == "" {
		return "", fmt.Errorf("%s: %s is empty", from, path)
	}
	return token, nil
}

// local reports whether a URL is of this machine.
func local(base string) bool {
	u, err := url.Parse(base)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// urlOf returns where a process that listens on address is found from here.
func urlOf(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "http://" + address
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}

func first(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}
