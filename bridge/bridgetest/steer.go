package bridgetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"
)

// Queue is what a node says of one queue.
type Queue struct {
	Name      string `json:"name"`
	Ready     int    `json:"messages_ready"`          // waiting for a consumer
	Unacked   int    `json:"messages_unacknowledged"` // delivered, not acknowledged
	Consumers int    `json:"consumers"`
}

// Ctl runs rabbitmqctl with args on the node and returns what it printed. It takes about half a
// second on an idle machine. It returns [ErrNotOurs] for a broker given by AMQP_URL.
func (n *Node) Ctl(ctx context.Context, args ...string) (string, error) {
	return n.ctl(ctx, nil, args...)
}

func (n *Node) ctl(ctx context.Context, input io.Reader, args ...string) (string, error) {
	if err := n.check(); err != nil {
		return "", fmt.Errorf("rabbitmqctl %s: %w", args[0], err)
	}
	cmd := n.host.command(ctx, append([]string{"--quiet"}, args...)...)
	cmd.WaitDelay = time.Second // helpers of Erlang's may hold the output open a little longer
	var out, stderr bytes.Buffer
	cmd.Stdin = input
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return "", fmt.Errorf("rabbitmqctl %s: %w: %s", strings.Join(args, " "), err, tail(stderr.Bytes(), 5))
	}
	return out.String(), nil
}

// StopApp stops the broker and leaves its Erlang machine running: connections are closed and new
// ones are refused until [Node.StartApp]. Every vhost of the node is hit, so tests that use it do
// not run beside others on the same node.
func (n *Node) StopApp(ctx context.Context) error {
	_, err := n.Ctl(ctx, "stop_app")
	return err
}

// StartApp ends what [Node.StopApp] began and returns when the node answers again.
func (n *Node) StartApp(ctx context.Context) error {
	if _, err := n.Ctl(ctx, "start_app"); err != nil {
		return err
	}
	return awaitReady(ctx, n.url, nil)
}

// Flush makes the node write to disk which quorum queues it has. RabbitMQ 3.10 does so seconds after
// a queue was declared, with confirmed messages in it perhaps: killed before, it comes back with the
// queue empty and, often, without a leader. A test that counts what is left after [Node.Kill] calls
// it before, so as to count its own losses only.
func (n *Node) Flush(ctx context.Context) error {
	_, err := n.Ctl(ctx, "eval", "[dets:sync(T) || T <- dets:all()].")
	return err
}

// Kill ends the node as a crash would, and keeps what it stored. Every vhost of the node is hit.
func (n *Node) Kill() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.steerable(); err != nil {
		return fmt.Errorf("kill the node: %w", err)
	}
	n.host.kill()
	return nil
}

// Restart starts the node again after [Node.Kill], at the same address, with what it stored.
func (n *Node) Restart(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	err := n.steerable()
	if err == nil {
		err = n.host.boot(ctx)
	}
	if err != nil {
		return fmt.Errorf("restart the node: %w", err)
	}
	return nil
}

// CloseConnections closes all connections to the node, with reason as the text clients see.
func (n *Node) CloseConnections(ctx context.Context, reason string) error {
	_, err := n.Ctl(ctx, "close_all_connections", "--global", reason)
	return err
}

// Queues lists the queues of a vhost.
func (n *Node) Queues(ctx context.Context, vhost string) ([]Queue, error) {
	out, err := n.Ctl(ctx, "list_queues", "--vhost", vhost, "--formatter", "json",
		"name", "messages_ready", "messages_unacknowledged", "consumers")
	if err != nil {
		return nil, err
	}
	var queues []Queue
	if err := json.Unmarshal([]byte(out), &queues); err != nil {
		return nil, fmt.Errorf("list the queues of vhost %q: %w", vhost, err)
	}
	return queues, nil
}

// check tells why the node cannot be steered, if so.
func (n *Node) check() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.steerable()
}

// steerable is check for those who hold mu.
func (n *Node) steerable() error {
	switch {
	case n.given:
		return ErrNotOurs
	case n.stopped:
		return ErrStopped
	}
	return nil
}
