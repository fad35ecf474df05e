package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"golang.org/x/term"
)

// printJSON writes a value as it is documented for programs.
func (c *cli) printJSON(v any) error {
	enc := json.NewEncoder(c.out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// table writes rows for people on a terminal, and else for programs: as values
// separated by tabs, without a head.
func (c *cli) table(head []string, rows [][]string) error {
	if isTerminal(c.out) {
		return aligned(c.out, head, rows)
	}
	return separated(c.out, rows)
}

func aligned(out io.Writer, head []string, rows [][]string) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if err := separated(w, append([][]string{head}, rows...)); err != nil {
		return err
	}
	return w.Flush()
}

func separated(out io.Writer, rows [][]string) error {
	for _, row := range rows {
		if _, err := fmt.Fprintln(out, joined(row)); err != nil {
			return err
		}
	}
	return nil
}

// fields writes names and values, one a line; a name without value is left out.
func (c *cli) fields(pairs ...string) error {
	w := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			fmt.Fprintf(w, "%s\t%s\n", pairs[i], clean(pairs[i+1]))
		}
	}
	return w.Flush()
}

func joined(row []string) string {
	cells := make([]string, len(row))
	for i, cell := range row {
		cells[i] = clean(cell)
		if cells[i] == "" {
			cells[i] = "-"
		}
	}
	return strings.Join(cells, "\t")
}

// isTerminal reports whether w is a screen.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// clean shows what a terminal would obey: ids, types and addresses are foreign,
// and a control character in one of them could write anything on the screen.
// Those in keep are left as they are.
func clean(s string, keep ...rune) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case strings.ContainsRune(string(keep), r), unicode.IsPrint(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// cleaner is a writer of text with lines for the screen.
type cleaner struct{ w io.Writer }

func (c cleaner) Write(p []byte) (int, error) {
	if _, err := io.WriteString(c.w, clean(string(p), '\n')); err != nil {
		return 0, err
	}
	return len(p), nil
}

// clock writes a time for tables; the zero time is empty.
func clock(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
