package bridge

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCrashLoop(t *testing.T) {
	type end struct {
		acked bool
		err   error
	}
	lost, other := end{err: fmt.Errorf("%w: over it", errUnreadable)}, end{err: errors.New("connection refused")}
	moved, calm := end{acked: true, err: errUnreadable}, end{acked: true, err: errCalm}
	for name, c := range map[string]struct {
		ends    []end
		looping bool
		window  int
	}{
		"a healthy queue has the normal window":              {nil, false, 256},
		"one loss isolates":                                  {[]end{lost}, false, 1},
		"two are no crash-loop yet":                          {[]end{lost, lost}, false, 1},
		"three are a crash-loop":                             {[]end{lost, lost, lost}, true, 1},
		"another error between them changes nothing":         {[]end{lost, other, lost, other, lost}, true, 1},
		"other errors are none":                              {[]end{other, other, other, other}, false, 256},
		"an acknowledgement begins the count again":          {[]end{lost, lost, moved, lost}, false, 1},
		"and counts the loss that came after it":             {[]end{lost, lost, moved, lost, lost}, true, 1},
		"what moves one at a time is no crash-loop":          {[]end{lost, lost, lost, moved}, false, 1},
		"a lost broker does not end the isolation":           {[]end{lost, lost, lost, {acked: true, err: other.err}}, false, 1},
		"the normal window again when nothing is wrong":      {[]end{lost, lost, lost, moved, calm}, false, 256},
		"and it takes three losses again to find it so":      {[]end{lost, lost, lost, calm, lost, lost}, false, 1},
		"an empty queue is calm without an acknowledgement":  {[]end{lost, lost, lost, {err: errCalm}}, false, 256},
		"a crash-loop behind another needs three losses too": {[]end{lost, lost, lost, moved, lost, lost}, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var l crashLoop
			for _, e := range c.ends {
				l = l.ended(e.acked, e.err)
			}
			require.Equal(t, c.looping, l.looping())
			require.Equal(t, c.window, l.window(256))
			pause := time.Second
			if c.looping {
				pause = 30 * time.Second
			}
			require.Equal(t, pause, l.pause(time.Second, 30*time.Second))
			require.Equal(t, time.Minute, l.pause(time.Minute, 30*time.Second))
		})
	}
}

func TestPauseOfACrashLoop(t *testing.T) {
	b, err := New(Config{URL: "amqp://127.0.0.1/", Queue: "orders"}, nil, Options{})
	require.NoError(t, err)
	require.Equal(t, 30*time.Second, b.subscriber().crashPause, "where nothing else is configured")
}
