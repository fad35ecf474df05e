package streams

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/streams/event"
)

// refusing is an appender that refuses the first appends as a replicated
// stream does while another append to the subject is in process: the server
// embedded here has one replica and answers at once.
type refusing struct {
	appender
	times int
}

func (r *refusing) append(ctx context.Context, e *entry) error {
	if r.times > 0 {
		r.times--
		return errConflict
	}
	return r.appender.append(ctx, e)
}

// RefuseAppends makes the next appends to OUTCOMES conflict for no visible reason.
func (l *Log) RefuseAppends(times int) { l.Outcomes.commits = &refusing{l.Outcomes.commits, times} }

func TestRepeatTellsDoubtFromRefusal(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	conflict := &ConflictError{Key: event.NewKey("x")}
	for name, c := range map[string]struct {
		errs []error
		want error
		not  error
	}{
		"nothing was ever sent":                     {[]error{ErrUnavailable}, ErrUnavailable, ErrUnknown},
		"the last answer was lost":                  {[]error{ErrUnknown}, ErrUnknown, nil},
		"an answer was lost, then it was full":      {[]error{ErrUnknown, ErrFull}, ErrUnknown, nil},
		"it was full at once":                       {[]error{ErrFull}, ErrFull, ErrUnknown},
		"an answer was lost, then it was closed":    {[]error{ErrUnknown, ErrClosed}, ErrUnknown, nil},
		"an answer was lost, then it is a conflict": {[]error{ErrUnknown, conflict}, conflict, ErrUnknown},
		"the server refused":                        {[]error{errRefused}, ErrUnavailable, ErrUnknown},
		"an answer was lost, then it was stored":    {[]error{ErrUnknown, nil}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := ctx
			if len(c.errs) > 1 {
				ctx = t.Context()
			}
			n := 0
			err := repeat(ctx, newBackOff(), func(bool) error { n++; return c.errs[min(n, len(c.errs))-1] })
			require.ErrorIs(t, err, c.want)
			if c.not != nil {
				require.NotErrorIs(t, err, c.not)
			}
		})
	}
}
