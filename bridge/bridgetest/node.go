// Package bridgetest gives tests, and the demo, a real RabbitMQ.
//
// [Start] returns a node to talk to. Where it comes from is decided in this order:
//
//  1. AMQP_URL, if it is set: that broker is used as given and nothing is started.
//  2. An installed rabbitmq-server: a private node of it.
//  3. On Debian and Ubuntu, as root: the distribution's package is installed, then as 2.
//  4. A container engine that answers (docker or podman): a container of rabbitmq:4.
//
// What to believe of a private node: it has its own name, cookie, directories and port mapper
// (epmd), listens on loopback on free ports only, reads nothing below /etc/rabbitmq, and so neither
// needs nor disturbs a broker that runs on the same machine. [Node.Stop] ends every process of it
// and deletes its files. On Linux it also ends when the process that started it dies, however that
// happens; elsewhere a process that is killed leaves it running.
//
// The node is stopped hard: it exists for tests, and what it stored goes with it.
package bridgetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Errors of starting a node.
var (
	// ErrNoBroker is returned when there is no way to a RabbitMQ on this machine.
	ErrNoBroker = errors.New("no RabbitMQ to be had: set AMQP_URL, install rabbitmq-server, " +
		"run as root on Debian or Ubuntu so that it can be installed, or start docker or podman")

	// errPortTaken is returned when another process took one of the ports between their choice and
	// their use; another try with other ports helps.
	errPortTaken = errors.New("a port was taken meanwhile")
)

// Errors of steering a node.
var (
	// ErrNotOurs is returned by everything that steers the broker when it was given by AMQP_URL.
	ErrNotOurs = errors.New("the broker given by AMQP_URL is not ours to steer: " +
		"set Options.Private, or unset AMQP_URL, for a private node")

	// ErrStopped is returned by everything that needs the node after [Node.Stop].
	ErrStopped = errors.New("the node was stopped")
)

// startLimit bounds a start whose context has no deadline. It covers the download of a package or
// an image.
const startLimit = 5 * time.Minute

// Options say how to start a node. The zero value works.
type Options struct {
	// Log receives one line per step: what is started, where, and how long it took. When RabbitMQ
	// has to be installed, it receives the package manager's output too. Nil discards all of it.
	Log io.Writer

	// Private leaves AMQP_URL aside: for faults that only a node of one's own can have.
	Private bool
}

// Node is a running RabbitMQ. Its methods may be called from several goroutines.
type Node struct {
	url   string
	given bool // by AMQP_URL
	host  host // nil if given

	mu      sync.Mutex // held while the host starts or ends
	stopped bool

	vhosts struct {
		sync.Mutex
		fresh []string // made for tests, and not yet given to one
	}
}

// host is where a node runs that we started.
type host interface {
	// command runs rabbitmqctl with args on the node, until ctx is done.
	command(ctx context.Context, args ...string) *exec.Cmd
	// kill ends the node at once and keeps what it stored.
	kill()
	// boot starts the node again after kill, at the same address, and waits until it answers.
	boot(ctx context.Context) error
	// remove ends the node at once and deletes what it stored.
	remove()
}

// Start returns a RabbitMQ that answers, or says in one sentence why there is none. Context ctx
// bounds the start and nothing else: the node runs until [Node.Stop].
func Start(ctx context.Context, opts Options) (*Node, error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	say := progress(opts.Log)

	if given := os.Getenv("AMQP_URL"); given != "" && !opts.Private {
		return useGiven(given, say)
	}
	if inst, ok := findInstalled(); ok {
		return startLocal(ctx, inst, say)
	}
	why := ErrNoBroker
	if canInstall() {
		err := install(ctx, opts.Log, say, "rabbitmq-server")
		if inst, ok := findInstalled(); err == nil && ok {
			return startLocal(ctx, inst, say)
		}
		why = errors.Join(why, err)
	}
	if engine, ok := findEngine(ctx); ok {
		return startContainer(ctx, engine, say)
	}
	return nil, why
}

// URL is the address of the node's default vhost, with user and password.
func (n *Node) URL() string { return n.url }

// Stop ends all processes of the node and deletes its files. It does nothing to a broker given by
// AMQP_URL, and nothing the second time.
func (n *Node) Stop() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.host != nil && !n.stopped {
		n.host.remove()
	}
	n.stopped = true
}

// errAddress says nothing of the address: what cannot be read may be a password.
var errAddress = errors.New("AMQP_URL is no address of RabbitMQ: it should be like amqp://user:password@host:5672/, " +
	"with special characters in the password percent-encoded; unset AMQP_URL for a private node")

// useGiven checks once that a broker answers at address.
func useGiven(address string, say sayFunc) (*Node, error) {
	host, ok := hostOf(address)
	if !ok {
		return nil, errAddress
	}
	if err := dial(address); err != nil {
		return nil, fmt.Errorf("the RabbitMQ at %s, given by AMQP_URL, cannot be used: %w: "+
			"see to it, or unset AMQP_URL for a private node", host, err)
	}
	say("using the RabbitMQ given by AMQP_URL")
	return &Node{url: address, given: true}, nil
}

// hostOf returns host and port of an address, and whether it is one.
func hostOf(address string) (string, bool) {
	u, err := url.Parse(address)
	if err != nil || u.User == nil && strings.Contains(address, "@") { // a password that is not encoded
		return "", false
	}
	uri, err := amqp.ParseURI(address)
	return net.JoinHostPort(uri.Host, strconv.Itoa(uri.Port)), err == nil
}

// Bounds of a dial: of its handshake, and of all of it.
const (
	handshakeLimit = 5 * time.Second
	dialLimit      = 10 * time.Second
)

// dial opens and closes one AMQP connection to an address that [hostOf] accepts,
// within dialLimit, whatever answers there.
func dial(address string) error {
	end := func() bool { return true }
	defer func() { end() }()
	connect := func(network, host string) (net.Conn, error) {
		c, err := amqp.DefaultDial(handshakeLimit)(network, host)
		if err == nil {
			end = time.AfterFunc(dialLimit-handshakeLimit, func() { _ = c.Close() }).Stop
		}
		return c, err
	}
	conn, err := amqp.DialConfig(address, amqp.Config{Dial: connect})
	if err != nil {
		return err
	}
	return conn.Close()
}

// awaitReady dials address until it answers. It gives up when ctx is done, or when exited is closed
// because the process that should answer has ended.
func awaitReady(ctx context.Context, address string, exited <-chan struct{}) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := dial(address)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-exited:
			return errors.New("it ended while starting")
		case <-ctx.Done():
			return fmt.Errorf("it does not answer: %w (last: %w)", context.Cause(ctx), err)
		}
	}
}

// sayFunc writes one line of progress.
type sayFunc func(format string, args ...any)

func progress(w io.Writer) sayFunc {
	if w == nil {
		w = io.Discard
	}
	return func(format string, args ...any) { fmt.Fprintf(w, "rabbitmq: "+format+"\n", args...) }
}
