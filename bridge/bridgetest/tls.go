package bridgetest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
)

// errNoTLS is returned where a port cannot be opened while the node runs.
var errNoTLS = errors.New("listen with TLS: only a private node of an installed rabbitmq-server can: install it")

// TLS is what a port of a node shows to clients, and wants to see of them.
type TLS struct {
	Certificate
	// ClientCAFile has the authorities by one of which the certificates of
	// clients must be signed; empty: clients need none.
	ClientCAFile string
}

// ListenTLS opens a further port of a private node, one that speaks TLS, and returns the address of
// its default vhost there, on localhost. The port is open until the node or its broker is stopped
// or killed.
func (n *Node) ListenTLS(ctx context.Context, t TLS) (string, error) {
	if _, ok := n.host.(*local); !ok {
		return "", errNoTLS
	}
	port, err := freePort()
	if err != nil {
		return "", err
	}
	options := []string{fmt.Sprintf("{certfile, %q}, {keyfile, %q}", t.CertFile, t.KeyFile)}
	if t.ClientCAFile != "" {
		options = append(options, fmt.Sprintf("{cacertfile, %q}, {verify, verify_peer}, {fail_if_no_peer_cert, true}", t.ClientCAFile))
	}
	_, err = n.Ctl(ctx, "eval", fmt.Sprintf(`ok = rabbit_networking:start_ssl_listener({"127.0.0.1", %d}, [%s], 1).`,
		port, strings.Join(options, ", ")))
	return fmt.Sprintf("amqps://guest:guest@localhost:%d/", port), err
}

// freePort returns one that nobody uses at the moment.
func freePort() (int, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}
