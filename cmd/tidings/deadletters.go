package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"tidings/cmd/internal/api"
	"tidings/cmd/internal/why"
)

// listLettersCommand is where to look for what is not found.
const listLettersCommand = "tidings deadletters list"

func newDeadLetters(c *cli) *cobra.Command {
	return group("deadletters", "What needs an operator", newDeadLettersList(c), newDeadLettersCauses(c), newDeadLettersShow(c), newDeadLettersRequeue(c),
		newDeadLettersEdit(c), newDeadLettersDiscard(c), newDeadLettersExport(c))
}

func newDeadLettersList(c *cli) *cobra.Command {
	var filter letterFilter
	var limit int
	var cursor, by string
	cmd := &cobra.Command{
		Use: "list", Short: "List dead letters, newest first", Args: exactly(),
		Example: "  tidings deadletters list --cause rounds_exhausted\n  tidings deadletters list --group-by cause",
	}
	filter.flags(cmd)
	f := cmd.Flags()
	f.IntVar(&limit, "limit", api.DefaultLimit, "at most this many, up to 1000")
	f.StringVar(&cursor, "cursor", "", "where the page before said that the next begins")
	f.StringVar(&by, "group-by", "", "count them by cause, type, tenant or stage instead")
	complete(cmd, "group-by", groupings()...)
	cmd.RunE = c.runs(func(ctx context.Context, _ []string) error {
		q, err := filter.query()
		if err != nil {
			return err
		}
		if err := checkLimit(limit); err != nil {
			return err
		}
		switch {
		case slices.Contains(groupings(), by):
			return c.groupLetters(ctx, q, by)
		case by != "":
			return usage("--group-by %q: there are %s", by, strings.Join(groupings(), ", "))
		}
		q.Limit, q.Cursor = limit, cursor
		return c.listLetters(ctx, q)
	})
	return cmd
}

// groupings are what dead letters can have in common.
func groupings() []string { return []string{"cause", "type", "tenant", "stage"} }

func (c *cli) groupLetters(ctx context.Context, q api.LetterQuery, by string) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	groups, err := client.GroupLetters(ctx, q, by)
	switch {
	case err != nil:
		return err
	case c.json:
		return c.printJSON(groups)
	}
	rows := make([][]string, len(groups.Items))
	for i, g := range groups.Items {
		rows[i] = []string{strconv.Itoa(g.Letters), strconv.Itoa(g.Requeued), g.Value, clock(g.Oldest), clock(g.Newest)}
	}
	return c.table([]string{"LETTERS", "REQUEUED", strings.ToUpper(by), "OLDEST", "NEWEST"}, rows)
}

func (c *cli) listLetters(ctx context.Context, q api.LetterQuery) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	page, err := client.DeadLetters(ctx, q)
	switch {
	case err != nil:
		return err
	case c.json:
		return c.printJSON(page)
	}
	rows := make([][]string, len(page.Items))
	for i, l := range page.Items {
		rows[i] = []string{
			clock(l.At), string(l.Key), l.Tenant, string(l.Cause), letterStatus(l), string(l.Stage), l.Type, l.EventID, strconv.FormatInt(l.Size, 10), l.Detail,
		}
	}
	if err := c.table([]string{"AT", "KEY", "TENANT", "CAUSE", "STATUS", "STAGE", "TYPE", "ID", "BYTES", "DETAIL"}, rows); err != nil {
		return err
	}
	c.more(page.Next)
	return nil
}

// letterStatus says what is happening about a letter.
func letterStatus(l api.LetterLine) string {
	if l.Phase != "" {
		return fmt.Sprintf("%s, %s", l.Status, l.Phase)
	}
	return string(l.Status)
}

func newDeadLettersShow(c *cli) *cobra.Command {
	var raw bool
	cmd := &cobra.Command{
		Use: "show KEY", Short: "Show a dead letter with its payload", Args: exactly("the key of a dead letter"),
		RunE: c.runs(func(ctx context.Context, args []string) error { return c.showLetter(ctx, api.Key(args[0]), raw) }),
	}
	cmd.Flags().BoolVar(&raw, "raw", false, "write the payload alone, byte for byte")
	return cmd
}

func (c *cli) showLetter(ctx context.Context, key api.Key, raw bool) error {
	if raw && c.json {
		return usage("--raw and --json exclude each other: with --json the payload is in data_base64")
	}
	client, err := c.client()
	if err != nil {
		return err
	}
	if raw {
		return withHint(client.Payload(ctx, key, c.out), listLettersCommand)
	}
	letter, err := client.DeadLetter(ctx, key)
	switch {
	case err != nil:
		return withHint(err, listLettersCommand)
	case c.json:
		return c.printJSON(letter)
	}
	return c.printLetter(letter)
}

// letterFields are names and values that say what a letter is.
func letterFields(l api.Letter) []string {
	pairs := []string{
		"key", string(l.Key), "tenant", l.Tenant, "kind", string(l.Kind),
		"cause", fmt.Sprintf("%s: %s", l.Cause, why.CauseInWords(l.Cause)), "stage", string(l.Stage), "detail", l.Detail,
		"at", clock(l.At), "generation", strconv.Itoa(l.Generation), "bytes", strconv.FormatInt(size(l), 10),
	}
	if e := l.Envelope; e != nil {
		pairs = append(pairs, "type", e.Type, "id", e.ID, "source", e.Source, "correlation id", e.CorrelationID,
			"occurred", clock(e.OccurredAt), "content type", e.ContentType)
	}
	if d := l.Delivery; d != nil {
		pairs = append(pairs, "broker", d.Broker, "queue", d.Queue, "exchange", d.Exchange, "routing key", d.RoutingKey)
		for _, name := range slices.Sorted(maps.Keys(d.Properties)) {
			pairs = append(pairs, "property "+clean(name), d.Properties[name])
		}
		headers := string(d.Headers)
		if len(headers) > shown {
			headers = beginning(headers) + fmt.Sprintf(" … %d bytes in all: see them with --json", len(d.Headers))
		}
		pairs = append(pairs, "headers", headers)
	}
	return pairs
}

// size is how many bytes the payload of a letter has.
func size(l api.Letter) int64 {
	if l.PayloadObject != nil {
		return l.PayloadObject.Size
	}
	return int64(len(l.Data))
}

func (c *cli) printLetter(l api.Letter) error {
	if err := c.fields(letterFields(l)...); err != nil {
		return err
	}
	text := payload(l)
	if l.Event != nil { // it has a history: its own, or that of the event whose id it uses
		text += "\n\nsee: tidings events why " + string(l.Event.Key)
	}
	_, err := fmt.Fprintf(c.out, "\n%s\n", text)
	return err
}

// shown is how much of a payload is written on the screen.
const shown = 4 << 10

// beginning is so much of a longer text, up to a whole character.
func beginning(text string) string {
	cut := shown
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut]
}

// payload returns what can be shown of a letter's payload.
func payload(l api.Letter) string {
	data := l.Data
	switch {
	case l.PayloadObject != nil && len(data) == 0:
		o := l.PayloadObject
		return fmt.Sprintf("the payload has %d bytes, and is the object %s in the object store %s: get it with --raw", o.Size, o.Name, o.Bucket)
	case len(data) == 0:
		return "the payload is empty"
	case !utf8.Valid(data):
		return fmt.Sprintf("the payload has %d bytes that are no text: see them with --raw", len(data))
	case len(data) > shown:
		return clean(beginning(string(data)), '\n', '\t') + fmt.Sprintf("\n… %d bytes in all: see them with --raw", len(data))
	}
	return clean(string(data), '\n', '\t')
}
