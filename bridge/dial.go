package bridge

import (
	"context"
	"maps"
	"net"
	"time"

	wamqp "github.com/ThreeDotsLabs/watermill-amqp/v2/pkg/amqp"
	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	dialTimeout  = 15 * time.Second // TCP, TLS and AMQP handshake together
	closeTimeout = 3 * time.Second  // for saying goodbye to the broker
)

// dial connects within dialTimeout and not longer than ctx.
func dial(ctx context.Context, c wamqp.ConnectionConfig) (*amqp.Connection, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	c, err := secured(c)
	if err != nil {
		return nil, err
	}
	c, release := bounded(ctx, c)
	conn, err := amqp.DialConfig(c.AmqpURI, *c.AmqpConfig)
	if !release() && err == nil {
		_ = conn.Close()
		return nil, context.Cause(ctx)
	}
	return conn, explained(err, c.AmqpURI)
}

// bounded returns c with the end of ctx as an end of connecting. Once connected,
// release lets the connection outlive ctx; it reports whether it was in time.
func bounded(ctx context.Context, c wamqp.ConnectionConfig) (_ wamqp.ConnectionConfig, release func() bool) {
	config := *c.AmqpConfig
	// The library writes into the properties.
	config.Properties = maps.Clone(config.Properties)
	if c.TLSConfig != nil {
		config.TLSClientConfig, c.TLSConfig = c.TLSConfig, nil
	}
	stop := func() bool { return true }
	config.Dial = func(network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		// The library lifts the deadline when the handshake is done.
		stop = context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
		return conn, nil
	}
	c.AmqpConfig = &config
	return c, func() bool { return stop() }
}
