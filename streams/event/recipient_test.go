package event_test

import (
	"net/url"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"tidings/streams/event"
)

var secret = []byte("test secret")

func TestRecipientHash(t *testing.T) {
	hash := func(address string) string { return event.NewRecipient(secret, address).Hash }

	t.Run("is the same for a mail address in any case, with blanks around it", func(t *testing.T) {
		require.Equal(t, hash("ann@example.org"), hash(" Ann@Example.ORG\t"))
		require.Regexp(t, keyForm, hash("ann@example.org"))
	})
	t.Run("differs by address", func(t *testing.T) {
		require.NotEqual(t, hash("ann@example.org"), hash("bob@example.org"))
	})
	t.Run("keeps the case of a URL, whose path may depend on it", func(t *testing.T) {
		require.NotEqual(t, hash("https://example.org/a"), hash("https://example.org/A"))
	})
	t.Run("cannot be tested without the secret", func(t *testing.T) {
		require.NotEqual(t, hash("ann@example.org"), event.NewRecipient([]byte("another"), "ann@example.org").Hash)
	})
	t.Run("never changes", func(t *testing.T) {
		require.Equal(t, "VNYwLtobSlbX3k8DmWB0pA", hash("ann@example.org"))
		require.Equal(t, "OpS4Bz_07QAJTFUF4QqMHQ", hash("https://hooks.example.org/T0/s3cret"))
	})
}

func TestRecipientMask(t *testing.T) {
	for name, c := range map[string]struct{ address, want string }{
		"shows the domain of a mailbox":         {"ann@example.org", "a…@example.org"},
		"hides a mailbox of one letter":         {"a@example.org", "…@example.org"},
		"takes the last @":                      {`"a@b"@example.org`, `"…@example.org`},
		"shows no display name":                 {"Ann <ann@example.org>", "A…@example.org"},
		"shows no parameters after a domain":    {"mailto:ann@example.org?cc=bob@secret/x", "m…@secret"},
		"shows scheme and host of a URL":        {"https://hooks.example.org/T0/s3cret?token=x#y", "https://hooks.example.org/…"},
		"shows the port of a URL":               {"http://127.0.0.1:8080/s3cret", "http://127.0.0.1:8080/…"},
		"shows no user of a URL":                {"https://ann:s3cret@example.org/", "https://example.org/…"},
		"shows no host that may be a token":     {"slack://s3cret@channel", "slack://…"},
		"shows nothing of a URL that is broken": {"https://example.org/%zz@s3cret", "h…"},
		"hides a telephone number":              {"+49 170 1234567", "+…"},
		"hides a handle":                        {"@ann", "@…"},
		"takes a character, not a byte":         {"élise@example.org", "é…@example.org"},
		"drops what disturbs a terminal":        {"\x1b[31mann@exa\u202emple.org", "…@exa"},
		"has something to show for nothing":     {"", "…"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, event.NewRecipient(secret, c.address).Mask)
		})
	}
}

// FuzzRecipient looks for an address that its mask gives away.
func FuzzRecipient(f *testing.F) {
	for _, s := range []string{
		"ann@example.org", "https://hooks.example.org/T0/s3cret", "https://a:b@h/%zz@x", "+49170", "@ann", "é@b", "//host/x", "x://y", "\xff@\xff", "tp://", "\xa6@Ϳ0",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, address string) {
		r := event.NewRecipient(secret, address)
		require.Regexp(t, keyForm, r.Hash)
		require.True(t, utf8.ValidString(r.Mask))
		require.Equal(t, -1, strings.IndexFunc(r.Mask, func(c rune) bool { return !unicode.IsPrint(c) }), "%q", r.Mask)

		normal := event.NormalizeAddress(address)
		require.Equal(t, normal, event.NormalizeAddress(normal))
		require.Equal(t, r.Hash, event.NewRecipient(secret, normal).Hash)

		address = strings.TrimSpace(address)
		if len(address) > 4 && utf8.ValidString(address) && !strings.Contains(address, "…") && !isBareHost(address) {
			require.NotContains(t, r.Mask, address)
		}
		if local, _, isMail := cutLast(address, "@"); isMail && utf8.RuneCountInString(local) > 1 && !strings.Contains(address, "://") {
			require.LessOrEqual(t, utf8.RuneCountInString(r.Mask), utf8.RuneCountInString(address)-utf8.RuneCountInString(local)+2)
		}
	})
}

// isBareHost reports whether a URL holds nothing but what its mask may show.
func isBareHost(address string) bool {
	if _, rest, _ := strings.Cut(address, "://"); rest == "" {
		return strings.Contains(address, "://")
	}
	u, err := url.Parse(address)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.User == nil &&
		strings.Trim(u.Path, "/") == "" && u.RawQuery == "" && u.Fragment == ""
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i > 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}
