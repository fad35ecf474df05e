package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tidings/bridge"
	"tidings/cmd/internal/api"
	"tidings/cmd/internal/config"
	"tidings/cmd/internal/publish"
	"tidings/cmd/internal/why"
	"tidings/streams"
)

// maxBody bounds what is read from a file or stdin.
const maxBody = 64 << 20

// publication is an event on its way, and where to.
type publication struct {
	http                        bool
	amqpURL                     string
	exchange, routingKey, queue string

	id, typ, source, tenant, correlationID, at string
	contentType                                string
	headers                                    []string
	file, body                                 string
}

// published is what the command prints.
type published struct {
	To         string `json:"to"` // amqp or http
	Exchange   string `json:"exchange,omitempty"`
	RoutingKey string `json:"routing_key,omitempty"`
	EventID    string `json:"event_id,omitempty"`
	Type       string `json:"type,omitempty"`
	Bytes      int    `json:"bytes"`
	// Accepted is the answer of the HTTP API.
	Accepted *api.Accepted `json:"accepted,omitempty"`
}

func newPublish(c *cli) *cobra.Command {
	var p publication
	cmd := &cobra.Command{
		Use: "publish", Short: "Publish one event, to RabbitMQ or with --http to tidings itself", Args: noURL,
		Long: "Publish one event. It goes to the queue of the configuration, which is tidings.events by default, " +
			"unless --queue, --exchange or --http say otherwise. The body comes from --body, --file or --file - (stdin).",
		Example: "  tidings publish --type order.placed --id o-1 --body '{\"customer\":{\"email\":\"ann@example.com\"}}'\n" +
			"  tidings publish --http --type order.placed --file order.json",
	}
	f := cmd.Flags()
	f.BoolVar(&p.http, "http", false, "hand it to tidings over HTTP")
	f.StringVar(&p.amqpURL, "amqp-url", "", "URL of RabbitMQ (AMQP_URL)")
	f.StringVar(&p.exchange, "exchange", "", "exchange to publish to")
	f.StringVar(&p.routingKey, "routing-key", "", "routing key; the type if empty")
	f.StringVar(&p.queue, "queue", "", "queue to publish to directly")
	f.StringVar(&p.id, "id", "", "id of the event; without one Tidings derives it")
	f.StringVar(&p.typ, "type", "", "type of the event, such as order.placed")
	f.StringVar(&p.source, "source", "", "who publishes it")
	f.StringVar(&p.tenant, "tenant", "", "tenant")
	f.StringVar(&p.correlationID, "correlation-id", "", "correlation id")
	f.StringVar(&p.at, "time", "", "when it occurred: a time (RFC 3339), how long ago (2h), or now")
	f.StringVar(&p.contentType, "content-type", "application/json", "content type of the body")
	f.StringArrayVar(&p.headers, "header", nil, "another header, name=value; may be repeated")
	f.StringVar(&p.file, "file", "", "file with the body; - is stdin")
	f.StringVar(&p.body, "body", "", "the body itself")
	cmd.MarkFlagsMutuallyExclusive("file", "body")
	cmd.MarkFlagsMutuallyExclusive("http", "exchange", "queue")
	cmd.MarkFlagsMutuallyExclusive("http", "routing-key")
	cmd.MarkFlagsMutuallyExclusive("http", "amqp-url")
	cmd.RunE = c.runs(func(ctx context.Context, _ []string) error {
		if !f.Changed("file") && !f.Changed("body") {
			return usage("there is no body: give it with --body, --file, or --file - for stdin")
		}
		if p.queue != "" && p.routingKey != "" {
			return usage("--queue and --routing-key exclude each other: to a queue, its name is the routing key; publish to an --exchange with another")
		}
		return c.publish(ctx, p)
	})
	return cmd
}

// noURL refuses arguments, and says where a URL belongs.
func noURL(cmd *cobra.Command, args []string) error {
	if len(args) > 0 && strings.Contains(args[0], "://") {
		return usage("%s: with --http the tidings is named by --url, and RabbitMQ by --amqp-url", args[0])
	}
	return exactly()(cmd, args)
}

func (c *cli) publish(ctx context.Context, p publication) error {
	e := publish.Event{
		ID: p.id, Type: p.typ, Source: p.source, Tenant: p.tenant, CorrelationID: p.correlationID, ContentType: p.contentType,
	}
	var err error
	if e.OccurredAt, err = parseOccurred(p.at); err != nil {
		return err
	}
	if e.Headers, err = parseHeaders(p.headers); err != nil {
		return err
	}
	if e.Body, err = c.body(p); err != nil {
		return err
	}
	if p.http {
		return c.publishHTTP(ctx, e)
	}
	return c.publishAMQP(ctx, p, e)
}

func (c *cli) body(p publication) ([]byte, error) {
	var in io.Reader
	switch p.file {
	case "":
		return []byte(p.body), nil
	case "-":
		in = c.in
	default:
		f, err := os.Open(p.file)
		if err != nil {
			return nil, notThere(fmt.Errorf("--file: %w", err))
		}
		defer f.Close()
		in = f
	}
	body, err := io.ReadAll(io.LimitReader(in, maxBody+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the body: %w", err)
	case len(body) > maxBody:
		return nil, fmt.Errorf("the body has more than %s", streams.Bytes(maxBody))
	}
	return body, nil
}

// parseHeaders reads name=value pairs.
func parseHeaders(pairs []string) (map[string]string, error) {
	headers := map[string]string{}
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, usage("--header: %q is not name=value", pair)
		}
		headers[name] = value
	}
	return headers, nil
}

func parseOccurred(text string) (time.Time, error) {
	if text == "now" {
		return time.Now(), nil
	}
	return parseTime("time", text)
}

func (c *cli) publishAMQP(ctx context.Context, p publication, e publish.Event) error {
	conf, err := c.config()
	if err != nil {
		return err
	}
	conf.Override("amqp.url", p.amqpURL)
	if conf.AMQP.URL == "" {
		return usage("where is RabbitMQ? Set --amqp-url or AMQP_URL, or hand the event to tidings itself with --http")
	}
	exchange, key := p.route(conf.AMQP.Queue)
	if !typed(e, conf.AMQP.Mapping) {
		c.message("without --type the type of the event is what the mapping of its source finds, and else its routing key, %q", key)
	}
	if err := e.AMQP(ctx, config.Source{AMQP: conf.AMQP}.Config().Address(), exchange, key); err != nil {
		return err
	}
	return c.printPublished(published{To: "amqp", Exchange: exchange, RoutingKey: key, EventID: e.ID, Type: e.Type, Bytes: len(e.Body)})
}

// typed reports whether something says of which type the event is.
func typed(e publish.Event, m bridge.Mapping) bool {
	if e.Type != "" || strings.HasPrefix(strings.ToLower(e.ContentType), "application/cloudevents") ||
		!reflect.DeepEqual(m.Type, bridge.Mapping{}.Type) {
		return true
	}
	for name := range e.Headers { // event-type, or the type attribute of a CloudEvent
		if strings.HasSuffix(strings.ToLower(name), "type") {
			return true
		}
	}
	return false
}

// route returns where in RabbitMQ the event goes. The default exchange, which
// has no name, knows every queue by its own.
func (p publication) route(queue string) (exchange, key string) {
	if p.exchange != "" {
		return p.exchange, cmp.Or(p.routingKey, p.typ)
	}
	return "", cmp.Or(p.queue, p.routingKey, queue)
}

func (c *cli) publishHTTP(ctx context.Context, e publish.Event) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	header, err := e.Header()
	if err != nil {
		return err
	}
	accepted, err := client.Publish(ctx, header, e.Body)
	if err != nil {
		return err
	}
	if accepted.Quarantined != "" && !c.json {
		return quarantined(accepted)
	}
	out := published{To: "http", EventID: e.ID, Type: e.Type, Bytes: len(e.Body), Accepted: &accepted}
	if err := c.printPublished(out); err != nil {
		return err
	}
	if accepted.Quarantined != "" {
		return quarantined(accepted)
	}
	return nil
}

func quarantined(a api.Accepted) error {
	return &exit{code: exitRefused, err: fmt.Errorf("it became a dead letter (%s): %s\nsee: tidings deadletters show %s",
		a.Quarantined, why.CauseInWords(a.Quarantined), a.Key)}
}

func (c *cli) printPublished(p published) error {
	if c.json {
		return c.printJSON(p)
	}
	what := cmp.Or(p.Type, "an event")
	if p.EventID != "" {
		what += " " + p.EventID
	}
	text := fmt.Sprintf("published %s (%d bytes) to %s", what, p.Bytes, p.place())
	if a := p.Accepted; a != nil {
		text += fmt.Sprintf(" as %s", a.Key)
		if a.Duplicate {
			text += ", a duplicate of what was there"
		}
	}
	_, err := fmt.Fprintln(c.out, clean(text))
	return err
}

func (p published) place() string {
	switch {
	case p.To == "http":
		return "tidings"
	case p.Exchange == "":
		return fmt.Sprintf("queue %q", p.RoutingKey)
	}
	return fmt.Sprintf("exchange %q with key %q", p.Exchange, p.RoutingKey)
}
