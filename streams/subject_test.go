package streams

import (
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tidings/streams/event"
)

func TestSubjects(t *testing.T) {
	for name, c := range map[string]struct{ tenant, typ, want string }{
		"plain":                              {"acme", "order.placed", "events.acme.order.placed"},
		"dots stay in a type, not in tenant": {"a.b", "a.b", "events.a%2Eb.a.b"},
		"wildcards and blanks":               {"a *", "x.>", "events.a%20%2A.x.%3E"},
		"empty tokens":                       {"", "a..b.", "events.~.a.~.b.~"},
		"the marks themselves":               {"~", "%", "events.%7E.%25"},
		"letters beyond ASCII, line breaks":  {"ü", "a\r\nb", "events.%C3%BC.a%0D%0Ab"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, EventSubject(c.tenant, c.typ))
		})
	}
	t.Run("long ones are cut and still told apart", func(t *testing.T) {
		a, b := EventSubject(strings.Repeat("t", 65)+"a", "x"), EventSubject(strings.Repeat("t", 65)+"b", "x")
		require.NotEqual(t, a, b)
		require.Len(t, subjectTokens(a)[1], maxTenant)
		long := EventSubject("t", strings.Repeat("a.", 1000))
		require.Len(t, strings.TrimPrefix(long, "events.t."), maxType)
		require.Equal(t, "events.t."+strings.Repeat("a", maxType), EventSubject("t", strings.Repeat("a", maxType)))
	})
	t.Run("a key is checked before it becomes part of one", func(t *testing.T) {
		key := event.NewKey("x")
		subject, err := OutcomeSubject("acme", key)
		require.NoError(t, err)
		require.Equal(t, "outcomes.acme."+string(key), subject)
		for _, bad := range []event.Key{"", "a.b", "*", ">", event.Key(strings.Repeat("a", 23))} {
			_, err := OutcomeSubject("acme", bad)
			require.Error(t, err, bad)
		}
	})
}

func subjectTokens(s string) []string { return strings.Split(s, ".") }

func checkSubject(t interface {
	require.TestingT
	Helper()
}, tenant, typ string,
) {
	t.Helper()
	s := EventSubject(tenant, typ)
	require.True(t, server.IsValidPublishSubject(s), "%q is not a subject to publish to", s)
	require.LessOrEqual(t, len(s), len("events..")+maxTenant+maxType)
	require.False(t, strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }), "%q", s)
}

// hostile strings: parts that mean something in a subject, any bytes, and long ones.
var hostile = rapid.OneOf(
	rapid.Map(rapid.SliceOf(rapid.SampledFrom([]string{".", "..", "*", ">", "~", "%", "%2E", "a", "b", " ", "\r\n", "\x00", "é", "\xff"})),
		func(parts []string) string { return strings.Join(parts, "") }),
	rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
	rapid.Map(rapid.SliceOfN(rapid.SampledFrom([]string{"a", ".", "é"}), 200, 400), func(parts []string) string { return strings.Join(parts, "") }),
)

func TestSubjectsAreAlwaysValidAndNeverShared(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tenant1, type1 := hostile.Draw(t, "tenant1"), hostile.Draw(t, "type1")
		tenant2, type2 := hostile.Draw(t, "tenant2"), hostile.Draw(t, "type2")
		checkSubject(t, tenant1, type1)
		if tenant1 != tenant2 || type1 != type2 {
			require.NotEqual(t, EventSubject(tenant1, type1), EventSubject(tenant2, type2))
		}
	})
}

func FuzzSubject(f *testing.F) {
	f.Add("acme", "order.placed", "acme", "order..placed")
	f.Add("", ".", "~", "~")
	f.Add(strings.Repeat("a", 70), strings.Repeat(".", 300), strings.Repeat("a", 71), strings.Repeat("%", 300))
	f.Fuzz(func(t *testing.T, tenant1, type1, tenant2, type2 string) {
		checkSubject(t, tenant1, type1)
		if tenant1 != tenant2 || type1 != type2 {
			require.NotEqual(t, EventSubject(tenant1, type1), EventSubject(tenant2, type2))
		}
	})
}

func TestPercentEncodingIsUndone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := hostile.Draw(t, "s")
		require.Equal(t, s, percentDecode(percentEncode(s, &plainInHeader)))
		require.Equal(t, s, percentDecode(percentEncode(s, &plainInName)))
	})
	require.Equal(t, "100%", percentDecode("100%"), "what nothing encodes to stays")
	require.Equal(t, "%zz%2", percentDecode("%zz%2"))
	require.Equal(t, "/", percentDecode("%2f"), "lower case is read as well")
}
