package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"tidings/cmd/internal/api"
)

// edit is the command that sends a dead letter again with another payload.
type edit struct {
	reason, file string
	set          map[string]string
	wait         bool
	may          consent
}

func newDeadLettersEdit(c *cli) *cobra.Command {
	var e edit
	cmd := &cobra.Command{
		Use: "edit KEY", Short: "Send a dead letter again with another payload", Args: exactly("the key of a dead letter"),
		Long: `Opens the payload of a dead letter in $VISUAL or $EDITOR, shows what was
changed and what would be sent, asks, and sends it as the next generation of the
event. It is planned anew; what was delivered is not sent again. If that fails
too, the next letter has the edited payload, and can be edited again.

Of a delivery that could not become an event the body is edited, and with --set
what it says that it is: id, type, source, tenant, subject, correlation_id,
occurred_at or content_type. Then it is handed in again.`,
		Example: "  tidings deadletters edit kfQG3b8Tn6muLHPVukv2pQ --reason 'the address was wrong'\n" +
			"  tidings deadletters edit kfQG3b8Tn6muLHPVukv2pQ --data-file mended.json --yes\n" +
			"  tidings deadletters edit gnKulwnCGS3ziUfk12VksQ --set id=order-1042-b,type=order.placed",
		ValidArgsFunction: c.completeLetters,
		RunE: c.runs(func(ctx context.Context, args []string) error {
			return c.edit(ctx, api.Key(args[0]), e)
		}),
	}
	f := cmd.Flags()
	f.StringVar(&e.reason, "reason", "", "why, for the history")
	f.StringVar(&e.file, "data-file", "", "file with the new payload instead of an editor; - is stdin")
	f.StringToStringVar(&e.set, "set", nil, "attributes of a delivery, such as id=order-1042-b,type=order.placed")
	waitFlag(cmd, &e.wait)
	e.may.flags(cmd)
	return cmd
}

func (c *cli) edit(ctx context.Context, key api.Key, e edit) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	letter, tag, err := client.TaggedLetter(ctx, key)
	if err != nil {
		return withHint(err, listLettersCommand)
	}
	change, keep, err := c.changed(ctx, letter, e)
	if err != nil {
		return err
	}
	preview, err := client.Preview(ctx, key, tag, change)
	if err != nil {
		return keep(err)
	}
	if err := c.showEdit(letter.Data, change, preview, e.may.dryRun); err != nil {
		return err
	}
	goOn, err := c.confirm(ctx, e.may, "Send it like this?")
	if err != nil || !goOn {
		return keep(err)
	}
	done, err := client.Edit(ctx, key, tag, e.reason, change)
	if err != nil {
		return keep(err)
	}
	_ = keep(nil)
	return c.opened(ctx, client, done, e.wait)
}

// showEdit says what was changed and what would be sent: on stdout if that is all
// that was asked for.
func (c *cli) showEdit(before []byte, change api.Change, preview api.Preview, alone bool) error {
	shown := *c
	shown.out = c.err
	if alone && c.json {
		return c.printJSON(preview)
	}
	if alone {
		shown.out = c.out
	}
	for _, name := range slices.Sorted(maps.Keys(change.Set)) {
		fmt.Fprintf(shown.out, "%s: %s\n", name, clean(change.Set[name]))
	}
	if change.Data != nil {
		fmt.Fprintln(shown.out, difference(before, *change.Data))
	}
	return shown.printPreview(preview)
}

func difference(before, after []byte) string {
	if !utf8.Valid(before) || !utf8.Valid(after) {
		return fmt.Sprintf("%d bytes instead of %d, which are no text", len(after), len(before))
	}
	return clean(string(diff.Diff("payload", lines(before), "edited", lines(after))), '\n', '\t')
}

// lines returns a text whose last line ends.
func lines(text []byte) []byte {
	if len(text) > 0 && !bytes.HasSuffix(text, []byte("\n")) {
		return append(bytes.Clone(text), '\n')
	}
	return text
}

func (c *cli) printPreview(p api.Preview) error {
	switch {
	case p.Problem != "":
		_, err := fmt.Fprintf(c.out, "it would be a dead letter again at once: %s\n", clean(p.Problem))
		return err
	case p.Known != "":
		_, err := fmt.Fprintf(c.out, "nothing would be sent: event %s is known already, and the letter would be gone\n", p.Known)
		return err
	case len(p.Messages) == 0:
		fmt.Fprintf(c.out, "nothing would be sent: %s\n", p.Nothing)
		for _, r := range p.Routes {
			fmt.Fprintln(c.out, clean(strings.TrimSpace(fmt.Sprintf("  %s %s: %s", r.Route, r.Verdict, r.Detail))))
		}
		return nil
	}
	rows := make([][]string, len(p.Messages))
	for i, m := range p.Messages {
		rows[i] = []string{string(m.Would), m.Channel, m.Recipient, m.Route, m.Subject, string(m.Was), m.Why}
	}
	if err := aligned(c.out, []string{"WOULD", "CHANNEL", "RECIPIENT", "ROUTE", "SUBJECT", "WAS", "WHY"}, rows); err != nil {
		return err
	}
	fmt.Fprintf(c.out, "%d of %d would be sent\n", p.Sends(), len(p.Messages))
	for _, name := range p.Blocked {
		fmt.Fprintln(c.out, clean(blocked(name)))
	}
	return nil
}

// blocked says of a channel that does not get through what that means.
func blocked(channel string) string {
	return fmt.Sprintf("channel %q does not get through now, so what is sent by it waits: see tidings status", channel)
}

// changed returns what is wanted of a letter, and what keeps the work of whoever
// typed it. Where only attributes are set, nothing is typed.
func (c *cli) changed(ctx context.Context, l api.Letter, e edit) (api.Change, func(error) error, error) {
	if len(e.set) > 0 && e.file == "" {
		return api.Change{Set: e.set}, func(err error) error { return err }, nil
	}
	data, keep, err := c.edited(ctx, l, e.file)
	return api.Change{Data: &data, Set: e.set}, keep, err
}

// edited returns the payload that is wanted in place of the letter's, and what
// keeps the work of whoever typed it: to be called with the error that ends the
// command, or nil.
func (c *cli) edited(ctx context.Context, l api.Letter, file string) (data []byte, keep func(error) error, err error) {
	asIs := func(err error) error { return err }
	switch {
	case l.PayloadObject != nil:
		return nil, nil, &exit{code: exitRefused, err: fmt.Errorf("the payload has %d bytes, which is too large to be an event: its producer has to send something smaller", l.PayloadObject.Size)}
	case file == "-":
		data, err = io.ReadAll(c.in)
		return data, asIs, err
	case file != "":
		data, err = os.ReadFile(file)
		return data, asIs, err
	}
	path, err := c.typed(ctx, l)
	if err != nil {
		return nil, nil, err
	}
	if data, err = os.ReadFile(path); err != nil {
		return nil, nil, err
	}
	keep = func(err error) error {
		if err != nil {
			c.message("what you typed is in %s", path)
			return err
		}
		return os.RemoveAll(filepath.Dir(path))
	}
	// Editors end the last line; the payload need not have.
	if cut, ok := bytes.CutSuffix(data, []byte("\n")); ok && !bytes.HasSuffix(l.Data, []byte("\n")) {
		data = cut
	}
	if bytes.Equal(data, l.Data) {
		return nil, nil, keepNothing(keep)
	}
	return data, keep, nil
}

func keepNothing(keep func(error) error) error {
	_ = keep(nil)
	return &exit{code: exitFailed, err: fmt.Errorf("nothing was changed, and nothing was done")}
}

// typed has a person change the payload in an editor, and returns the file.
func (c *cli) typed(ctx context.Context, l api.Letter) (path string, err error) {
	editor := first(c.getenv("VISUAL"), c.getenv("EDITOR"))
	if editor == "" {
		return "", usage("neither VISUAL nor EDITOR is set: set one, or give the payload with --data-file")
	}
	dir, err := os.MkdirTemp("", "tidings-edit-") // readable for nobody else
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, string(l.Key)+extension(l))
	if err := os.WriteFile(path, l.Data, 0o600); err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", editor+` "$1"`, "sh", path) // an editor may come with arguments
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.in, c.err, c.err
	if err := cmd.Run(); err != nil {
		_ = os.RemoveAll(dir)
		return "", fmt.Errorf("editor %s: %w", editor, err)
	}
	return path, nil
}

// extension helps an editor to colour.
func extension(l api.Letter) string {
	switch {
	case l.Envelope == nil:
		return ".txt"
	case strings.Contains(l.Envelope.ContentType, "json"):
		return ".json"
	case strings.Contains(l.Envelope.ContentType, "xml"):
		return ".xml"
	}
	return ".txt"
}
