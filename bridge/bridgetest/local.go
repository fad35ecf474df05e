package bridgetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// installation is an installed RabbitMQ: the folder of its own scripts, and Erlang's port mapper.
type installation struct {
	bin  string
	epmd string
}

// findInstalled looks for RabbitMQ's own scripts. What lies in PATH may be a packager's wrapper,
// which switches to another user and to the system node's directories; the genuine scripts are
// known by the rabbitmq-env beside them.
func findInstalled() (installation, bool) {
	var bins []string
	if path, err := exec.LookPath("rabbitmq-server"); err == nil {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			bins = append(bins, filepath.Dir(real))
		}
	}
	bins = append(bins, "/usr/lib/rabbitmq/bin")
	epmd, ok := findEpmd()
	if !ok {
		return installation{}, false
	}
	for _, bin := range bins {
		if exists(filepath.Join(bin, "rabbitmq-env")) && exists(filepath.Join(bin, "rabbitmq-server")) {
			return installation{bin: bin, epmd: epmd}, true
		}
	}
	return installation{}, false
}

// findEpmd looks in PATH and beside erl.
func findEpmd() (string, bool) {
	if path, err := exec.LookPath("epmd"); err == nil {
		return path, true
	}
	erl, err := exec.LookPath("erl")
	if err != nil {
		return "", false
	}
	if erl, err = filepath.EvalSymlinks(erl); err != nil {
		return "", false
	}
	path := filepath.Join(filepath.Dir(erl), "epmd")
	return path, exists(path)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// local is a node of an installed RabbitMQ.
type local struct {
	installation
	dir       string
	removeDir func()
	ports     ports
	beam      *process
	names     *process // the node's own epmd
}

// ports are where a local node listens, all on loopback.
type ports struct{ amqp, dist, epmd int }

func (p ports) url() string { return fmt.Sprintf("amqp://guest:guest@127.0.0.1:%d/", p.amqp) }

const startTries = 3

func startLocal(ctx context.Context, inst installation, say sayFunc) (*Node, error) {
	var err error
	for range startTries {
		var l *local
		if l, err = newLocal(inst); err != nil {
			break
		}
		say("starting a private node of %s on port %d", inst.bin, l.ports.amqp)
		begin := time.Now()
		if err = l.boot(ctx); err == nil {
			say("ready after %.1fs", time.Since(begin).Seconds())
			return &Node{url: l.ports.url(), host: l}, nil
		}
		l.remove()
		if !errors.Is(err, errPortTaken) {
			break
		}
	}
	return nil, fmt.Errorf("start a private RabbitMQ node: %w", err)
}

// newLocal makes the folder of a node and chooses its ports.
func newLocal(inst installation) (*local, error) {
	dir, removeDir, err := TempDir(dirPrefix)
	if err != nil {
		return nil, err
	}
	l := &local{installation: inst, dir: dir, removeDir: removeDir}
	if err := l.prepare(); err != nil {
		l.remove()
		return nil, err
	}
	return l, nil
}

// prepare writes the node's configuration into its folder.
func (l *local) prepare() (err error) {
	if l.ports, err = freePorts(); err != nil {
		return err
	}
	config := fmt.Sprintf("listeners.tcp.1 = 127.0.0.1:%d\ndisk_free_limit.absolute = 10MB\n", l.ports.amqp)
	for name, text := range map[string]string{"rabbitmq.conf": config, "plugins": "[].\n"} {
		if err := os.WriteFile(filepath.Join(l.dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// freePorts asks the system for ports nobody uses. They are held together, so that they differ,
// and given back, so that another process can take one meanwhile.
func freePorts() (ports, error) {
	var nums [3]int
	for i := range nums {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			return ports{}, err
		}
		defer l.Close()
		nums[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports{amqp: nums[0], dist: nums[1], epmd: nums[2]}, nil
}

// boot starts the port mapper and the node, and waits until the node answers.
//
// The server's script normally stays as a parent that turns signals into an orderly stop.
// RABBITMQ_ALLOW_INPUT makes it become the Erlang machine instead, so that the process we start is
// the one we end; -noinput then takes the input away again.
func (l *local) boot(ctx context.Context) error {
	log, err := os.OpenFile(l.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()

	epmd := exec.Command(l.epmd, "-port", strconv.Itoa(l.ports.epmd), "-address", "127.0.0.1")
	epmd.Env = l.env()
	if l.names, err = spawn(epmd, log, syscall.SIGKILL); err != nil {
		return err
	}
	server := exec.Command(filepath.Join(l.bin, "rabbitmq-server"))
	server.Env = append(l.env(),
		"RABBITMQ_ALLOW_INPUT=1",
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-noinput +Bi "+distArgs)
	if l.beam, err = spawn(server, log, syscall.SIGKILL); err != nil {
		l.kill()
		return err
	}
	if err := awaitReady(ctx, l.ports.url(), l.beam.exited); err != nil {
		l.kill()
		return l.explain(err)
	}
	return nil
}

// distArgs keep Erlang's own protocol on loopback, and from starting a port mapper that stays.
const distArgs = "-start_epmd false -kernel inet_dist_use_interface {127,0,0,1}"

// env is the whole environment of the node and its tools: nothing of ours leaks in, no
// RABBITMQ_ variable of the system node's either.
func (l *local) env() []string {
	in := func(name string) string { return filepath.Join(l.dir, name) }
	return []string{
		"PATH=" + os.Getenv("PATH"),
		"LANG=C.UTF-8",
		"HOME=" + l.dir, // the Erlang cookie is made there
		"TMPDIR=" + l.dir,
		"ERL_EPMD_ADDRESS=127.0.0.1",
		"ERL_EPMD_PORT=" + strconv.Itoa(l.ports.epmd),
		"ERL_CRASH_DUMP_BYTES=0",
		"RABBITMQ_NODENAME=tidings@localhost",
		"RABBITMQ_NODE_IP_ADDRESS=127.0.0.1",
		"RABBITMQ_NODE_PORT=" + strconv.Itoa(l.ports.amqp),
		"RABBITMQ_DIST_PORT=" + strconv.Itoa(l.ports.dist),
		"RABBITMQ_CONF_ENV_FILE=" + in("no-rabbitmq-env.conf"),
		"RABBITMQ_CONFIG_FILE=" + in("rabbitmq.conf"),
		"RABBITMQ_CONFIG_FILES=" + in("conf.d"),
		"RABBITMQ_ADVANCED_CONFIG_FILE=" + in("no-advanced.config"),
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + in("plugins"),
		"RABBITMQ_MNESIA_BASE=" + in("data"),
		"RABBITMQ_SCHEMA_DIR=" + in("schema"),
		"RABBITMQ_LOG_BASE=" + in("log"),
		"RABBITMQ_LOGS=-",
		"RABBITMQ_PID_FILE=" + in("pid"),
		// rabbitmqctl is an Erlang node too: any free port, instead of one of eleven that all such
		// tools on the machine share.
		"RABBITMQ_CTL_DIST_PORT_MIN=0",
		"RABBITMQ_CTL_DIST_PORT_MAX=0",
		"RABBITMQ_CTL_ERL_ARGS=" + distArgs,
	}
}

func (l *local) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(l.bin, "rabbitmqctl"), args...)
	cmd.Env = l.env()
	return cmd
}

func (l *local) kill() {
	l.beam.kill()
	l.names.kill()
}

func (l *local) remove() {
	l.kill()
	l.removeDir()
}

func (l *local) logFile() string { return filepath.Join(l.dir, "console.log") }

// explain adds the end of the node's log to err.
func (l *local) explain(err error) error {
	log, readErr := os.ReadFile(l.logFile())
	if readErr != nil {
		return errors.Join(err, readErr)
	}
	if bytes.Contains(log, []byte("eaddrinuse")) {
		err = errors.Join(errPortTaken, err)
	}
	return fmt.Errorf("%w; its log ends:\n%s", err, tail(log, 20))
}

// tail is the last n lines of text.
func tail(text []byte, n int) string {
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
