package publish_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/cmd/internal/publish"
)

func TestHeader(t *testing.T) {
	t.Run("every attribute has its header, and what is empty has none", func(t *testing.T) {
		header, err := publish.Event{
			ID: "o-1", Type: "order.placed", OccurredAt: time.Date(2026, 5, 1, 14, 0, 0, 5, time.FixedZone("", 7200)),
			Headers: map[string]string{"x-shop": "7"},
		}.Header()
		require.NoError(t, err)
		require.Equal(t, http.Header{
			"Event-Id": {"o-1"}, "Event-Type": {"order.placed"}, "Occurred-At": {"2026-05-01T12:00:00.000000005Z"}, "X-Shop": {"7"},
		}, header)
	})
	for name, e := range map[string]publish.Event{
		"a line break in an attribute": {ID: "o-1\r\nAuthorization: x"},
		"a line break in a header":     {Headers: map[string]string{"x": "a\nb"}},
		"a name with a blank":          {Headers: map[string]string{"x y": "a"}},
		"a name with a colon":          {Headers: map[string]string{"x:y": "a"}},
		"an empty name":                {Headers: map[string]string{"": "a"}},
	} {
		t.Run(name+" is refused", func(t *testing.T) {
			_, err := e.Header()
			require.ErrorIs(t, err, publish.ErrHeader)
		})
	}
}

func TestAMQP(t *testing.T) {
	t.Run("what is no address is refused without showing it", func(t *testing.T) {
		err := publish.Event{}.AMQP(t.Context(), "http://user:hunter2@host", "", "q")
		require.ErrorIs(t, err, publish.ErrAddress)
		require.NotContains(t, err.Error(), "hunter2")
	})
}
