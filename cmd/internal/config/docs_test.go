package config

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tidings/dispatcher/channel/email"
	"tidings/dispatcher/channel/webhook"
)

var page = filepath.Join("..", "..", "..", "docs", "configuration.md")

// row is what the page says of one key.
type row struct{ variable, def, meaning string }

// readPage returns the lines of tables whose first cell is a key. Those with four
// cells have a variable, those with three have none.
func readPage(t *testing.T) (rows map[string]row, text string) {
	t.Helper()
	data, err := os.ReadFile(page)
	require.NoError(t, err)
	rows = map[string]row{}
	for line := range strings.Lines(string(data)) {
		cells := strings.Split(strings.Trim(line, "|\n"), "|")
		key, quoted := strings.CutPrefix(strings.TrimSpace(cells[0]), "`")
		key = strings.TrimSuffix(key, "`")
		if !quoted || !isKey.MatchString(key) || len(cells) < 3 {
			continue
		}
		if len(cells) == 3 {
			cells = slices.Insert(cells, 1, "")
		}
		require.False(t, rows[key] != row{}, "%s is there twice", key)
		rows[key] = row{strings.TrimSpace(cells[1]), strings.Trim(cells[2], "` "), strings.TrimSpace(cells[3])}
	}
	return rows, string(data)
}

// isKey tells keys from variables and functions of templates.
var isKey = regexp.MustCompile(`^[a-z_]+(\[\])?(\.([a-z_]+(\[\])?|<[a-z]+>))*$`)

// keysOf calls visit for every key of a struct as it stands in a file: elements
// of lists are [], and members of maps <name>.
func keysOf(prefix string, t reflect.Type, visit func(string)) {
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() {
			continue
		}
		name, inline := yamlName(f)
		key := prefix + name
		switch kind := f.Type.Kind(); {
		case name == "-":
		case inline:
			keysOf(prefix, f.Type, visit)
		case f.Type == reflect.TypeFor[map[string]*Channel]():
			keysOf(key+".<name>.", reflect.TypeFor[emailForm](), visit)
			keysOf(key+".<name>.", reflect.TypeFor[webhookForm](), visit)
		case f.Type == reflect.TypeFor[map[string]*Tenant]():
			keysOf(key+".<name>.", reflect.TypeFor[Tenant](), visit)
		case kind == reflect.Struct:
			keysOf(key+".", f.Type, visit)
		case kind == reflect.Map:
			visit(key + ".<name>")
		case kind == reflect.Slice && f.Type.Elem().Kind() == reflect.Struct:
			keysOf(key+"[].", f.Type.Elem(), visit)
		default:
			visit(key)
		}
	}
}

var attribute = regexp.MustCompile(`^(amqp\.mapping)\.[a-z_]+\.`)

// rowFor returns the key under which the page has a key. What an entry of sources
// has of the section amqp is there once, and so is what a tenant has of the rules.
func rowFor(key string) string {
	if of, ok := strings.CutPrefix(key, "sources[]."); ok && of != "name" {
		key = "amqp." + of
	}
	if of, ok := strings.CutPrefix(key, "tenants.<name>."); ok && of != "routes[].disabled" && of != "channels.<name>" {
		key = of
	}
	return attribute.ReplaceAllString(key, "$1.<attribute>.")
}

func TestPageHasEveryKeyAndNoOther(t *testing.T) {
	rows, text := readPage(t)
	known := map[string]bool{}
	keysOf("", reflect.TypeFor[Config](), func(key string) {
		known[rowFor(key)] = true
		require.NotEmpty(t, rows[rowFor(key)].meaning, "%s says nothing of %s", page, rowFor(key))
		if strings.Contains(rowFor(key), "<attribute>") {
			parts := strings.Split(key, ".")
			require.Regexp(t, `(?s)<attribute>. is one of [^.]*\b`+parts[len(parts)-2]+`\b`, text)
		}
	})
	for _, key := range slices.Sorted(maps.Keys(rows)) {
		require.True(t, known[key], "there is no key %s", key)
	}
}

func TestPageHasEveryVariable(t *testing.T) {
	rows, text := readPage(t)
	defaults := Default()
	settable := defaults.leaves()
	keysOf("", reflect.TypeFor[Config](), func(key string) {
		if strings.HasPrefix(key, "channels.") || strings.HasPrefix(key, "sources[].") || strings.HasPrefix(key, "tenants.") {
			return // their variables begin with the name of the channel or source
		}
		name := Prefix + variable(key)
		leaf, ok := settable[name]
		if !ok {
			require.Empty(t, rows[rowFor(key)].variable, "%s has no variable", key)
			return
		}
		shown := name
		if rowFor(key) != key {
			shown = Prefix + "AMQP_MAPPING_<ATTRIBUTE>_" + variable(key[strings.LastIndexByte(key, '.')+1:])
		}
		require.Contains(t, rows[rowFor(key)].variable, "`"+shown+"`", key)
		require.Equal(t, textOfLeaf(leaf.value), rows[rowFor(key)].def, "the default of %s", key)
		delete(settable, name)
	})
	require.Empty(t, settable, "variables without a key")
	for other, name := range aliases() {
		require.Contains(t, text, "`"+name+"` or `"+other+"`")
	}
}

// textOfLeaf returns a value as a variable would hold it.
func textOfLeaf(v reflect.Value) string {
	if v.Kind() != reflect.Slice {
		return fmt.Sprint(v.Interface())
	}
	parts := make([]string, v.Len())
	for i := range parts {
		parts[i] = fmt.Sprint(v.Index(i).Interface())
	}
	return strings.Join(parts, ",")
}

// Every piece of YAML on these pages is a configuration that starts.
func TestYAMLOnPagesIsValid(t *testing.T) {
	top := filepath.Join("..", "..", "..")
	block := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")
	for _, name := range []string{"README.md", "docs/configuration.md"} {
		data, err := os.ReadFile(filepath.Join(top, filepath.FromSlash(name)))
		require.NoError(t, err)
		blocks := block.FindAllStringSubmatch(string(data), -1)
		require.NotEmpty(t, blocks, name)
		for _, b := range blocks {
			dir := t.TempDir()
			require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join(top, "examples", "shop"))))
			file := filepath.Join(dir, "tidings.yaml")
			require.NoError(t, os.WriteFile(file, []byte(b[1]), 0o600))
			c, err := Load(file, nil)
			require.NoError(t, err, name)
			require.NoError(t, c.Validate(), name)
			c.Templates = filepath.Join(dir, "templates")
			p, err := c.Planner([]byte("x"))
			require.NoError(t, err, name)
			require.Empty(t, p.Warnings(), name)
		}
	}
}

func TestPageHasTheDefaultsOfSenders(t *testing.T) {
	rows, _ := readPage(t)
	require.Equal(t, fmt.Sprintf("%d`, or `%d` with `tls: implicit", email.DefaultPort, email.DefaultImplicitPort), rows["channels.<name>.port"].def)
	require.Equal(t, fmt.Sprint(webhook.DefaultMaxResponse), rows["channels.<name>.max_response"].def)
	require.Equal(t, webhook.DefaultUserAgent, rows["channels.<name>.user_agent"].def)
	require.Contains(t, rows["channels.<name>.timeout"].meaning, Duration(longestTimeout).String())
}

func TestVariablesOfCommandsOnThePageAreNoKeys(t *testing.T) {
	_, text := readPage(t)
	_, section, found := strings.Cut(text, "\n## Variables of the commands\n")
	require.True(t, found)
	names := regexp.MustCompile("`("+Prefix+"[A-Z_]+)`").FindAllStringSubmatch(section, -1)
	require.NotEmpty(t, names)
	for _, m := range names {
		require.True(t, elsewhere(m[1]), "%s would be refused as unknown", m[1])
	}
}
