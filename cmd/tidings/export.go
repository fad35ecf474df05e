package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"tidings/cmd/internal/api"
)

func newDeadLettersExport(c *cli) *cobra.Command {
	var filter letterFilter
	var file, cursor string
	cmd := &cobra.Command{
		Use: "export", Short: "Write dead letters with their payloads, a line each", Args: exactly(),
		Long: `Writes the dead letters that fit every flag as JSON Lines: each line is a letter as
in docs/letter.schema.json, with its payload in base64, newest first. It changes
nothing. If it is cut off, it says at which cursor to go on.`,
		Example: "  tidings deadletters export --cause undecodable --file letters.jsonl",
	}
	filter.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&file, "file", "", "file to append to; stdout if not set")
	f.StringVar(&cursor, "cursor", "", "where an export that was cut off said to go on")
	cmd.RunE = c.runs(func(ctx context.Context, _ []string) error {
		q, err := filter.query()
		if err != nil {
			return err
		}
		q.Cursor = cursor
		return c.export(ctx, q, file)
	})
	return cmd
}

func (c *cli) export(ctx context.Context, q api.LetterQuery, file string) (err error) {
	client, err := c.client()
	if err != nil {
		return err
	}
	out := c.out
	if file != "" {
		f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600) // payloads are nobody else's business
		if err != nil {
			return err
		}
		defer func() {
			if closed := f.Close(); err == nil {
				err = closed
			}
		}()
		out = f
	}
	return c.exportTo(ctx, client, q, out)
}

func (c *cli) exportTo(ctx context.Context, client *api.Client, q api.LetterQuery, out io.Writer) error {
	q.Limit = api.MaxLimit
	for n := 0; ; {
		lines, next, err := client.ExportLetters(ctx, q)
		if err == nil {
			_, err = out.Write(lines)
		}
		if err != nil {
			if q.Cursor != "" {
				c.message("%d letters are written: go on with --cursor %s", n, q.Cursor)
			}
			return err
		}
		n += bytes.Count(lines, []byte("\n"))
		if q.Cursor = next; next == "" {
			c.message("exported %s", letters(n))
			return nil
		}
		c.message("%s so far", letters(n))
	}
}

func letters(n int) string {
	if n == 1 {
		return "1 dead letter"
	}
	return fmt.Sprintf("%d dead letters", n)
}
