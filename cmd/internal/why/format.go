package why

import (
	"fmt"
	"io"
	"strings"
)

// Format writes the story as text: a title, then a paragraph for each entry
// of OUTCOMES, its time once.
func (s Story) Format(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", s.Title)
	fmt.Fprintf(&b, "key %s, %s, %s, %s\n", s.Event.Key, count(s.Event.Messages.Created, "message"),
		tries(s.Event.Tries), count(s.Event.Duplicates, "duplicate"))
	for i, l := range s.Lines {
		if i == 0 || l.Sequence != s.Lines[i-1].Sequence {
			fmt.Fprintf(&b, "\n%s%s\n", clock(l.At), entry(l.Sequence))
		}
		fmt.Fprintf(&b, "  %-10s %s\n", l.What, l.Text)
		for _, d := range l.Details {
			fmt.Fprintf(&b, "  %-10s   %s\n", "", d)
		}
		for _, n := range l.Needed {
			fmt.Fprintf(&b, "  %-10s   needed: %s\n", "", n)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func tries(n int) string {
	if n == 1 {
		return "1 try"
	}
	return fmt.Sprintf("%d tries", n)
}

func entry(sequence uint64) string {
	if sequence == 0 {
		return ""
	}
	return fmt.Sprintf("  entry %d of OUTCOMES", sequence)
}
