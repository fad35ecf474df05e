package event_test

import (
	"encoding/base64"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tidings/streams/event"
)

var keyForm = regexp.MustCompile(`^[A-Za-z0-9_-]{22}$`)

// These values are in streams, ledgers and the idempotency keys that providers
// remember: they must never change.
func TestKeysNeverChange(t *testing.T) {
	e := event.Envelope{Tenant: "acme", Source: "/shop", ID: "order-1042"}
	occurred := time.Date(2026, 3, 14, 9, 26, 53, 589_000_000, time.UTC)
	body := []byte(`{"total":99}`)
	for name, c := range map[string]struct{ got, want string }{
		"of parts":                    {string(event.NewKey("a", "b")), "PJ1ZEEW8iHb50Dmbv7Bcag"},
		"of no parts":                 {string(event.NewKey()), "47DEQpj8HBSa-_TImW-5JA"},
		"of an event":                 {string(event.Identity{}.Key(e)), "zhZ4crAOz0TFQNjAViXn_A"},
		"of an event, source ignored": {string(event.Identity{IgnoreSource: true}.Key(e)), "mEcBtj9VBvOBX4dqjKc6Pw"},
		"of content and sequence":     {string(event.ContentKey("47DEQpj8HBSa-_TImW-5JA", 4711)), "LSDk5w_r4A2HgXx2bTS-IA"},
		"of a delivery":               {string(event.DeliveryKey("acme", "shop", "orders.new", "text/plain", body)), "FLrlIZqduL3eVCA-6HQQTg"},
		"of an id conflict":           {string(event.ConflictKey(orderKey, event.Digest(body))), "Eozi1k2MALbbZudKFwWoHw"},
		"derived id":                  {event.DerivedID("acme", "/shop", "order.confirmed", occurred, body), "_QMVVX889IWEesEo0ItZbA"},
		"content hash":                {event.ContentHash("acme", "/shop", "order.confirmed", body), "r3qZBWaoV5Bz-u_PIHwYGg"},
		"digest":                      {event.Digest(body), "W7CBa80q3ROgZNzC2GBqsA"},
		"message id":                  {event.NewMessageID(orderKey, "order-mail", "email", "ann@example.org"), "2I51xQrziipIfyhCGQOsOw"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, c.got)
			require.Regexp(t, keyForm, c.got)
		})
	}
}

func TestKeysOfDifferentPartsDiffer(t *testing.T) {
	t.Run("whatever moves over a boundary", func(t *testing.T) {
		lists := [][]string{
			{},
			{""},
			{"", ""},
			{"ab"},
			{"a", "b"},
			{"ab", ""},
			{"", "ab"},
			{"a", "", "b"},
			{"b", "a"},
			{"a\x00b"},
			{"\x00\x00\x00\x00\x00\x00\x00\x01a"},
			{"a", "\x00\x00\x00\x00\x00\x00\x00\x01b"},
		}
		seen := map[event.Key][]string{}
		for _, parts := range lists {
			key := event.NewKey(parts...)
			require.Nil(t, seen[key], "%q and %q", seen[key], parts)
			seen[key] = parts
		}
	})
	t.Run("for any two lists", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			part := rapid.StringOfN(rapid.SampledFrom([]rune("a\x00\x01")), 0, 9, -1)
			one := rapid.SliceOfN(part, 0, 4).Draw(t, "one")
			two := rapid.SliceOfN(part, 0, 4).Draw(t, "two")
			same := len(one) == len(two) && strings.Join(one, "|") == strings.Join(two, "|")
			require.Equal(t, same, event.NewKey(one...) == event.NewKey(two...))
		})
	})
	t.Run("across purposes", func(t *testing.T) {
		keys := []string{
			string(event.Identity{}.Key(event.Envelope{Tenant: "a", Source: "b", ID: "c"})),
			event.ContentHash("a", "b", "c", nil),
			string(event.DeliveryKey("a", "b", "c", "", nil)),
			event.NewMessageID("a", "b", "c", ""),
			string(event.ConflictKey("a", "b")),
			string(event.NewKey("a", "b", "c")),
		}
		seen := map[string]bool{}
		for _, k := range keys {
			require.False(t, seen[k])
			seen[k] = true
		}
	})
}

func TestValidIsTheFormOfAKey(t *testing.T) {
	for name, key := range map[string]event.Key{
		"of parts":    event.NewKey("a"),
		"a nonce":     event.Key(event.NewNonce()),
		"all letters": "abcdefghijklmnopqrstuA",
		"- and _":     "-_-_-_-_-_-_-_-_-_-_-A",
	} {
		t.Run("is "+name, func(t *testing.T) { require.True(t, key.Valid()) })
	}
	for name, key := range map[string]event.Key{
		"empty":                  "",
		"short":                  "abcdefghijklmnopqrstu",
		"long":                   "abcdefghijklmnopqrstuAA",
		"of two subject tokens":  "abcdefghij.lmnopqrstuA",
		"a wildcard":             "abcdefghij*lmnopqrstuA",
		"of two paths":           "abcdefghij/lmnopqrstuA",
		"with padding":           "abcdefghijklmnopqrstA=",
		"with a line break":      "abcdefghijklmnopqrstu\n",
		"with line breaks":       "abcdefghij\r\nklmnopqrst",
		"with a blank":           "abcdefghij lmnopqrstuA",
		"of 22 bytes, not ASCII": "abcdefghijklmnopqrst\u00e9",
	} {
		t.Run("is not "+name, func(t *testing.T) { require.False(t, key.Valid(), "%q", key) })
	}
}

func FuzzKeyValid(f *testing.F) {
	for _, s := range []string{"", "abcdefghijklmnopqrstuA", "abcdefghij\r\nklmnopqrst", "abcdefghij.lmnopqrstuA"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		require.Equal(t, keyForm.MatchString(s), event.Key(s).Valid(), "%q", s)
	})
}

func TestNonceIsNewEachTime(t *testing.T) {
	one, two := event.NewNonce(), event.NewNonce()
	require.NotEqual(t, one, two)
	sum, err := base64.RawURLEncoding.DecodeString(one)
	require.NoError(t, err)
	require.Len(t, sum, 16)
}

func TestIdentity(t *testing.T) {
	base := event.Envelope{Tenant: "acme", Source: "/shop", ID: "1", Type: "t", Data: []byte("x")}
	change := func(edit func(*event.Envelope)) event.Envelope {
		e := base
		edit(&e)
		return e
	}
	for name, c := range map[string]struct {
		other        event.Envelope
		same         bool // by default
		sameNoSource bool // with IgnoreSource
	}{
		"another tenant is another event":     {change(func(e *event.Envelope) { e.Tenant = "b" }), false, false},
		"another id is another event":         {change(func(e *event.Envelope) { e.ID = "2" }), false, false},
		"another source is, unless ignored":   {change(func(e *event.Envelope) { e.Source = "/till" }), false, true},
		"no source is another source":         {change(func(e *event.Envelope) { e.Source = "" }), false, true},
		"another type is the same event":      {change(func(e *event.Envelope) { e.Type = "u" }), true, true},
		"another body is the same identity":   {change(func(e *event.Envelope) { e.Data = []byte("y") }), true, true},
		"the place of the id does not matter": {change(func(e *event.Envelope) { e.IDSource = event.IDHeader }), true, true},
	} {
		t.Run(name, func(t *testing.T) {
			key, noSource := event.Identity{}, event.Identity{IgnoreSource: true}
			require.Equal(t, c.same, key.Key(base) == key.Key(c.other))
			require.Equal(t, c.sameNoSource, noSource.Key(base) == noSource.Key(c.other))
		})
	}
	t.Run("the two rules never give one key", func(t *testing.T) {
		e := event.Envelope{Tenant: "acme", ID: "1"}
		require.NotEqual(t, event.Identity{}.Key(e), event.Identity{IgnoreSource: true}.Key(e))
	})
}

func TestContentKeyTellsCopiesApart(t *testing.T) {
	hash := event.ContentHash("acme", "/disk", "disk.full", nil)
	require.Equal(t, event.ContentKey(hash, 7), event.ContentKey(hash, 7))
	require.NotEqual(t, event.ContentKey(hash, 7), event.ContentKey(hash, 8))
}

func TestMessageIDIsOnePerRecipientRouteAndChannel(t *testing.T) {
	id := event.NewMessageID(orderKey, "r", "email", "a@b.example")
	require.Equal(t, id, event.NewMessageID(orderKey, "r", "email", "a@b.example"))
	for _, other := range []string{
		event.NewMessageID("another key", "r", "email", "a@b.example"),
		event.NewMessageID(orderKey, "s", "email", "a@b.example"),
		event.NewMessageID(orderKey, "r", "sms", "a@b.example"),
		event.NewMessageID(orderKey, "r", "email", "c@b.example"),
	} {
		require.NotEqual(t, id, other)
	}
}
