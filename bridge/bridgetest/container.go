package bridgetest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

const image = "rabbitmq:4"

// findEngine looks for a container engine that answers. An installed client whose daemon does not
// run is none.
func findEngine(ctx context.Context) (string, bool) {
	for _, name := range []string{"docker", "podman"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		err = exec.CommandContext(ctx, path, "info").Run()
		cancel()
		if err == nil {
			return path, true
		}
	}
	return "", false
}

// container is a node in a container, run in the foreground of a client process of ours.
type container struct {
	engine string
	dir    string
	name   string
	port   int
	client *process
}

func startContainer(ctx context.Context, engine string, say sayFunc) (*Node, error) {
	ports, err := freePorts()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", dirPrefix)
	if err != nil {
		return nil, err
	}
	c := &container{engine: engine, dir: dir, name: filepath.Base(dir), port: ports.amqp}
	say("starting a container of %s with %s on port %d", image, engine, c.port)
	begin := time.Now()
	if err := c.create(ctx); err != nil {
		c.remove()
		return nil, fmt.Errorf("start a container of %s: %w", image, err)
	}
	say("ready after %.1fs", time.Since(begin).Seconds())
	return &Node{url: c.url(), host: c}, nil
}

func (c *container) url() string { return fmt.Sprintf("amqp://guest:guest@127.0.0.1:%d/", c.port) }

func (c *container) create(ctx context.Context) error {
	return c.attach(ctx, "run", "--name", c.name, "--hostname", "tidings",
		"--publish", fmt.Sprintf("127.0.0.1:%d:5672", c.port), image)
}

// boot starts the container again after kill.
func (c *container) boot(ctx context.Context) error {
	return c.attach(ctx, "start", "--attach", c.name)
}

// attach runs the engine's client in the foreground until the node answers. The client passes
// SIGTERM on to the container, so that it ends when we do.
func (c *container) attach(ctx context.Context, args ...string) error {
	logFile := filepath.Join(c.dir, "console.log")
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	if c.client, err = spawn(exec.Command(c.engine, args...), log, syscall.SIGTERM); err != nil {
		return err
	}
	if err := awaitReady(ctx, c.url(), c.client.exited); err != nil {
		text, _ := os.ReadFile(logFile)
		return fmt.Errorf("%w; its log ends:\n%s", err, tail(text, 20))
	}
	return nil
}

func (c *container) command(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, c.engine, append([]string{"exec", "--interactive", c.name, "rabbitmqctl"}, args...)...)
}

func (c *container) kill() {
	c.run("kill", c.name)
	c.client.kill()
}

func (c *container) remove() {
	c.run("rm", "--force", "--volumes", c.name)
	c.client.kill()
	removeAll(c.dir)
}

func (c *container) run(args ...string) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	_ = exec.CommandContext(ctx, c.engine, args...).Run()
}
