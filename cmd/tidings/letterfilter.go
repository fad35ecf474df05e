package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"tidings/cmd/internal/api"
)

// letterFilter is the flags that choose dead letters: those that fit all of them.
type letterFilter struct {
	q                         api.LetterQuery
	since, until, cause, kind string
}

func (l *letterFilter) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&l.q.Tenant, "tenant", "", "tenant")
	f.StringVar(&l.cause, "cause", "", "cause, such as undecodable or rounds_exhausted")
	f.StringVar(&l.kind, "kind", "", "event or delivery")
	f.StringVar(&l.q.Type, "type", "", "event type")
	f.StringVar(&l.q.Text, "text", "", "in the detail, the id or the type, in any case")
	f.StringVar(&l.since, "since", "", "from then on: a time (RFC 3339), or how long ago (2h)")
	f.StringVar(&l.until, "until", "", "before then: a time (RFC 3339), or how long ago (2h)")
	complete(cmd, "cause", names(api.Causes())...)
	complete(cmd, "kind", names(api.LetterKinds())...)
}

// query returns what the flags say.
func (l *letterFilter) query() (api.LetterQuery, error) {
	l.q.Cause, l.q.Kind = api.Cause(l.cause), api.LetterKind(l.kind)
	return l.q, parseTimes(l.since, &l.q.Since, l.until, &l.q.Until)
}

// empty reports whether no flag is set, so that all letters are chosen.
func (l *letterFilter) empty() bool {
	return l.q.Tenant == "" && l.cause == "" && l.kind == "" && l.q.Type == "" && l.q.Text == "" && l.since == "" && l.until == ""
}

// chosen returns the dead letters that nobody has requeued, the oldest last, of those
// that are there now.
func (c *cli) chosen(ctx context.Context, client *api.Client, q api.LetterQuery) ([]api.LetterLine, error) {
	if q.Until.IsZero() {
		q.Until = time.Now() // what comes later was not looked at
	}
	var all []api.LetterLine
	for q.Limit = api.MaxLimit; ; {
		page, err := client.DeadLetters(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, l := range page.Items {
			if l.Status == api.LetterDead {
				all = append(all, l)
			}
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			break
		}
	}
	if len(all) == 0 {
		return nil, &exit{code: exitNotFound, err: errors.New("no dead letter is chosen\nsee: " + listLettersCommand)}
	}
	return all, nil
}
