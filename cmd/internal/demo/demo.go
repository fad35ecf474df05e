// Package demo shows the main job on real parts: a RabbitMQ node, the embedded
// NATS server, a mail catcher and an HTTP sink. It publishes the events of an
// example and holds what became of them against what is expected.
//
// What to believe: it uses a queue of its own and a temporary data directory,
// and removes both. A node that it starts is private and is stopped at the end.
package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"tidings/bridge"
	"tidings/bridge/bridgetest"
	"tidings/cmd/internal/api"
	"tidings/cmd/internal/app"
	"tidings/cmd/internal/config"
	"tidings/dispatcher/channel/channeltest/sink"
	"tidings/examples"
	"tidings/store"
	"tidings/streams/event"
)

// Options say how the demo runs.
type Options struct {
	Version  string
	Example  string       // one of examples.Names; empty: the first
	Progress io.Writer    // what is happening, a line each; nil: discard
	Logger   *slog.Logger // of the process that it shows; nil: discard
	// Stay is called with the report, and the demo goes on until it returns. It may be nil.
	Stay func(context.Context, Report, Place)
}

// Place is where to look while the demo goes on.
type Place struct {
	URL     string // of the API
	Data    string // data directory, which holds the token
	AMQPURL string
	Queue   string
}

// enough bounds how long the samples may take.
const enough = 90 * time.Second

// demo is one demonstration under way.
type demo struct {
	Options
	dir     string
	node    *bridgetest.Node
	mails   *sink.SMTP
	hooks   *sink.HTTP
	samples []sample
	config  config.Config
	closes  []func()
}

// Run runs the demo and returns what became of the samples. An error says that
// it could not be shown; a report that is not OK is no error.
func Run(ctx context.Context, o Options) (Report, error) {
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	d := &demo{Options: o}
	defer d.close()
	if err := d.prepare(ctx); err != nil {
		return Report{}, err
	}
	return d.show(ctx)
}

func (d *demo) close() {
	for i := len(d.closes) - 1; i >= 0; i-- {
		d.closes[i]()
	}
}

func (d *demo) onClose(f func()) { d.closes = append(d.closes, f) }

func (d *demo) say(format string, args ...any) { fmt.Fprintf(d.Progress, format+"\n", args...) }

// prepare starts everything that Tidings talks to.
func (d *demo) prepare(ctx context.Context) (err error) {
	files := examples.Files(cmp.Or(d.Example, examples.Names()[0]))
	if d.samples, err = readSamples(files); err != nil {
		return err
	}
	if len(d.samples) == 0 {
		return fmt.Errorf("there is no example %q", d.Example)
	}
	var remove func()
	if d.dir, remove, err = bridgetest.TempDir("tidings-demo-"); err != nil {
		return err
	}
	d.onClose(remove)
	if err := os.CopyFS(filepath.Join(d.dir, "example"), files); err != nil {
		return err
	}
	if d.node, err = bridgetest.Start(ctx, bridgetest.Options{Log: d.Progress}); err != nil {
		return err
	}
	d.onClose(d.node.Stop)
	return d.startReceivers()
}

func (d *demo) startReceivers() (err error) {
	if d.mails, err = sink.StartSMTP(sink.SMTPOptions{}); err != nil {
		return err
	}
	d.onClose(func() { _ = d.mails.Close() })
	if err := d.configure(); err != nil {
		return err
	}
	if d.hooks, err = sink.StartHTTP(sink.HTTPOptions{Secrets: d.secrets()}); err != nil {
		return err
	}
	d.onClose(func() { _ = d.hooks.Close() })
	d.config.Rules.Vars["webhook_base"] = d.hooks.URL("")
	return nil
}

// configure reads the example's own configuration and says where things are here.
func (d *demo) configure() error {
	c, err := config.Load(filepath.Join(d.dir, "example", "tidings.yaml"), nil)
	if err != nil {
		return err
	}
	c.Data = filepath.Join(d.dir, "data")
	c.API.Listen = "127.0.0.1:0"
	c.AMQP.URL, c.AMQP.Topology = config.URL(d.node.URL()), config.TopologyDeclare
	c.AMQP.Queue = "tidings.demo." + event.NewNonce()
	for _, ch := range c.Senders() {
		if ch.Email != nil && ch.Email.Port == mailCatcher {
			ch.Email.Host, ch.Email.Port = d.mails.Host(), d.mails.Port()
		}
	}
	d.config = c
	return nil
}

// mailCatcher is the port at which the examples have theirs; other servers stay as they are.
const mailCatcher = 1025

// secrets returns what signs the webhooks of the example.
func (d *demo) secrets() []string {
	var secrets []string
	for _, ch := range d.config.Senders() {
		if ch.Webhook != nil {
			secrets = append(secrets, strings.Fields(ch.Webhook.Secret.Reveal())...)
		}
	}
	return slices.Compact(secrets)
}

// show runs Tidings, publishes, waits, and judges.
func (d *demo) show(ctx context.Context) (report Report, err error) {
	listening := make(chan string, 1)
	a, err := app.New(app.Options{
		Config: d.config, Version: d.Version, Logger: d.Logger, Listening: func(url string) { listening <- url },
	})
	if err != nil {
		return Report{}, err
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- a.Run(running) }()
	defer func() {
		stop()
		err = errors.Join(err, <-ended, a.Close(), d.deleteQueue())
	}()
	var place Place
	select {
	case err := <-ended:
		ended <- nil
		return Report{}, err
	case url := <-listening:
		place = Place{URL: url, Data: d.config.Data, AMQPURL: d.node.URL(), Queue: d.config.AMQP.Queue}
	}
	token, err := api.ReadToken(d.config.Data)
	if err != nil {
		return Report{}, err
	}
	report, err = d.play(ctx, &api.Client{BaseURL: place.URL, Token: token})
	if err == nil && d.Stay != nil {
		d.Stay(ctx, report, place)
	}
	return report, err
}

func (d *demo) play(ctx context.Context, client *api.Client) (Report, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, enough, errors.New("the samples did not end in time"))
	defer cancel()
	if err := d.ready(ctx, client); err != nil {
		return Report{}, err
	}
	if err := d.publish(ctx); err != nil {
		return Report{}, err
	}
	return d.await(ctx, client)
}

// ready waits until Tidings consumes from the queue.
func (d *demo) ready(ctx context.Context, client *api.Client) error {
	return poll(ctx, func() (bool, error) {
		s, err := client.Status(ctx)
		return err == nil && s.Ready && len(s.Sources) == 1, nil
	})
}

func (d *demo) publish(ctx context.Context) error {
	p, err := bridge.NewPublisher(d.node.URL())
	if err != nil {
		return err
	}
	defer p.Close()
	n := 0
	for _, s := range d.samples {
		msg, err := s.publishing(time.Now())
		if err != nil {
			return err
		}
		for range s.times() {
			if err := p.Publish(ctx, "", d.config.AMQP.Queue, msg); err != nil {
				return err
			}
			n++
		}
	}
	d.say("published %d messages of %d samples to RabbitMQ, each confirmed", n, len(d.samples))
	return nil
}

// await waits until everything that was published has ended, and judges it. If
// the time is over, it judges what there is.
func (d *demo) await(ctx context.Context, client *api.Client) (Report, error) {
	var report Report
	err := poll(ctx, func() (bool, error) {
		rows, err := client.Events(ctx, api.EventQuery{Query: store.Query{Limit: store.MaxLimit}})
		if err != nil {
			return false, err
		}
		letters, err := client.DeadLetters(ctx, store.LetterQuery{Limit: store.MaxLimit})
		if err != nil {
			return false, err
		}
		report = judge(d.samples, rows.Items, letters.Items, d.mails.Count(), d.hooks.Count())
		return report.OK, nil
	})
	if err != nil && context.Cause(ctx) != nil && len(report.Events) > 0 {
		return report, nil // the report says what is not as expected
	}
	return report, err
}

// poll asks every 50 ms until done.
func poll(ctx context.Context, done func() (bool, error)) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// deleteQueue removes what the demo made on a broker that is not its own.
func (d *demo) deleteQueue() error {
	conn, err := amqp.Dial(d.node.URL())
	if err != nil {
		return fmt.Errorf("remove the demo's queue: %w", err)
	}
	defer func() { _ = conn.Close() }()
	ch, err := conn.Channel()
	if err != nil {
		return fmt.Errorf("remove the demo's queue: %w", err)
	}
	queue := d.config.AMQP.Queue
	_, err1 := ch.QueueDelete(queue, false, false, false)
	_, err2 := ch.QueueDelete(queue+".dead", false, false, false)
	return errors.Join(err1, err2, ch.ExchangeDelete(queue+".dlx", false, false))
}
