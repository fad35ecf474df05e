package config

import (
	"fmt"
	"log/slog"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
)

// redacted stands for a secret wherever one would be printed.
const redacted = "[redacted]"

// Secret is a text that is never printed: not by fmt, not by slog, not as JSON,
// not as YAML. Reveal it only where it is used.
type Secret string

// Reveal returns the secret itself.
func (s Secret) Reveal() string { return string(s) }

// String implements fmt.Stringer.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return redacted
}

// GoString implements fmt.GoStringer, for %#v.
func (s Secret) GoString() string { return fmt.Sprintf("%q", s.String()) }

// MarshalText implements encoding.TextMarshaler, for JSON and YAML.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue implements slog.LogValuer.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// UnmarshalYAML takes a text, and nothing that YAML reads as a number or a
// boolean: the password 0123 would otherwise arrive as 83.
func (s *Secret) UnmarshalYAML(node ast.Node) error {
	text, err := textOf(node)
	*s = Secret(text)
	return err
}

// URL is an address whose password is never printed. It may be a list of
// addresses separated by commas.
type URL string

// Reveal returns the URL with its password.
func (u URL) Reveal() string { return string(u) }

// String implements fmt.Stringer: user and password are left out, and so is
// everything that is not a URL, since it may be a misplaced secret.
func (u URL) String() string {
	if u == "" {
		return ""
	}
	parts := strings.Split(string(u), ",")
	for i, part := range parts {
		parts[i] = redactURL(strings.TrimSpace(part))
	}
	return strings.Join(parts, ",")
}

func redactURL(s string) string {
	parsed, err := url.Parse(s)
	if err != nil || parsed.Host == "" {
		return redacted
	}
	clean := url.URL{Scheme: parsed.Scheme, Host: parsed.Host, Path: parsed.Path, RawPath: parsed.RawPath}
	if parsed.User != nil {
		return strings.Replace(clean.String(), "://", "://"+redacted+"@", 1)
	}
	return clean.String()
}

// GoString implements fmt.GoStringer, for %#v.
func (u URL) GoString() string { return fmt.Sprintf("%q", u.String()) }

// MarshalText implements encoding.TextMarshaler, for JSON and YAML.
func (u URL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// LogValue implements slog.LogValuer.
func (u URL) LogValue() slog.Value { return slog.StringValue(u.String()) }

// UnmarshalYAML takes a text, see [Secret.UnmarshalYAML].
func (u *URL) UnmarshalYAML(node ast.Node) error {
	text, err := textOf(node)
	*u = URL(text)
	return err
}

func textOf(node ast.Node) (string, error) {
	switch n := node.(type) {
	case *ast.StringNode:
		return n.Value, nil
	case *ast.LiteralNode:
		return n.Value.Value, nil
	case *ast.NullNode:
		return "", nil
	}
	return "", &yaml.SyntaxError{Message: "want a text: put it in quotes", Token: node.GetToken()}
}

// Duration is a time.Duration that is written like 168h, 5m or 200ms.
type Duration time.Duration

// Std returns d as the standard library's type.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// String returns the shortest form: 168h, not 168h0m0s.
func (d Duration) String() string {
	s := d.Std().String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	std, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is not a duration: write it like 200ms, 30s, 5m or 168h", text)
	}
	*d = Duration(std)
	return nil
}

// UnmarshalYAML takes a text such as 5m, or 0.
func (d *Duration) UnmarshalYAML(node ast.Node) error {
	if _, ok := node.(ast.ScalarNode); !ok {
		return &yaml.SyntaxError{Message: "want a duration such as 5m", Token: node.GetToken()}
	}
	if err := d.UnmarshalText([]byte(node.GetToken().Value)); err != nil {
		return &yaml.SyntaxError{Message: err.Error(), Token: node.GetToken()}
	}
	return nil
}

// Size is a number of bytes that is written like 8GiB or 500MB.
type Size uint64

// Bytes returns the number.
func (s Size) Bytes() int64 { return int64(s) }

// String returns the shortest form that is exact.
func (s Size) String() string {
	for unit, name := range []string{"TiB", "GiB", "MiB", "KiB"} {
		if n := uint64(1) << (10 * (4 - unit)); s > 0 && uint64(s)%n == 0 {
			return fmt.Sprintf("%d%s", uint64(s)/n, name)
		}
	}
	return strconv.FormatUint(uint64(s), 10)
}

// MarshalText implements encoding.TextMarshaler.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Size) UnmarshalText(text []byte) error {
	n, err := humanize.ParseBytes(string(text))
	if err != nil || n > math.MaxInt64 {
		return fmt.Errorf("%q is not a size: write it like 8GiB or 500MB", text)
	}
	*s = Size(n)
	return nil
}

// UnmarshalYAML takes a text such as 8GiB, or a number of bytes.
func (s *Size) UnmarshalYAML(node ast.Node) error {
	if _, ok := node.(ast.ScalarNode); !ok {
		return &yaml.SyntaxError{Message: "want a size such as 8GiB", Token: node.GetToken()}
	}
	if err := s.UnmarshalText([]byte(node.GetToken().Value)); err != nil {
		return &yaml.SyntaxError{Message: err.Error(), Token: node.GetToken()}
	}
	return nil
}
