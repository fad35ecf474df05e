package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// pages are what people read, relative to the top of the module.
func pages(t *testing.T) map[string]string {
	t.Helper()
	top := filepath.Join("..", "..")
	names := []string{"README.md", "ARCHITECTURE.md", "CHANGELOG.md", "examples/shop/README.md", "examples/oncall/README.md", "examples/saas/README.md"}
	docs, err := filepath.Glob(filepath.Join(top, "docs", "*.md"))
	require.NoError(t, err)
	require.NotEmpty(t, docs)
	for _, d := range docs {
		names = append(names, "docs/"+filepath.Base(d))
	}
	texts := map[string]string{}
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(top, filepath.FromSlash(name)))
		require.NoError(t, err)
		texts[name] = string(data)
	}
	return texts
}

var (
	fenced     = regexp.MustCompile("(?ms)^( *)```([a-z]*)\n(.*?)^ *```$")
	indented   = regexp.MustCompile(`(?m)^    (\S.*)$`)
	code       = regexp.MustCompile("`([^`\n]+)`")
	link       = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading    = regexp.MustCompile(`(?m)^#+ (.*)$`)
	testOf     = regexp.MustCompile(`\[\x60((?:Test|Fuzz)\w+)\x60\]\(([^)]+)\)`)
	testName   = regexp.MustCompile(`\x60((?:Test|Fuzz)[A-Z]\w+)\x60`)
	quoted     = regexp.MustCompile(`(?s)"([^"]+)"`)
	nextBullet = regexp.MustCompile(`(?m)^(- |\*\*|#|$)`)
)

func TestLinksOfPagesLeadSomewhere(t *testing.T) {
	all := pages(t)
	for name, text := range all {
		for _, m := range link.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			file, anchor, _ := strings.Cut(m[1], "#")
			target := name
			if file != "" {
				target = filepath.ToSlash(filepath.Join(filepath.Dir(name), file))
			}
			_, err := os.Stat(filepath.Join("..", "..", filepath.FromSlash(target)))
			require.NoError(t, err, "%s links %s", name, m[1])
			if anchor != "" {
				require.Contains(t, anchors(all[target]), anchor, "%s links %s", name, m[1])
			}
		}
	}
}

// anchors returns the names that GitHub gives to the headings of a page.
func anchors(text string) []string {
	var names []string
	for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		name := regexp.MustCompile(`[^\w\- ]`).ReplaceAllString(strings.ToLower(m[1]), "")
		names = append(names, strings.ReplaceAll(name, " ", "-"))
	}
	return names
}

// Every test that ARCHITECTURE.md names is linked to the file that has it, and
// what stands in quotation marks behind it is the name of one of its cases.
func TestTestsOfTheArchitectureExist(t *testing.T) {
	text := pages(t)["ARCHITECTURE.md"]
	found := testOf.FindAllStringSubmatchIndex(text, -1)
	require.Greater(t, len(found), 20)
	linked := map[string]bool{}
	for _, at := range found {
		test, file := text[at[2]:at[3]], text[at[4]:at[5]]
		linked[test] = true
		source, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(file)))
		require.NoError(t, err)
		body := afterFunc(string(source), test)
		require.NotEmpty(t, body, "%s is not in %s", test, file)
		for _, name := range casesBehind(text[at[1]:]) {
			require.True(t, strings.Contains(body, `"`+name+`"`), "%s has no case %q", test, name)
		}
	}
	for _, m := range testName.FindAllStringSubmatch(text, -1) {
		require.True(t, linked[m[1]] || m[1] == "TestContract", "%s is not linked to its file", m[1])
	}
}

// afterFunc returns the source from a function on to the next one.
func afterFunc(source, name string) string {
	_, body, _ := strings.Cut(source, "\nfunc "+name+"(")
	body, _, _ = strings.Cut(body, "\nfunc Test")
	return body
}

// casesBehind returns what is quoted in the rest of a bullet, up to the next link.
func casesBehind(rest string) []string {
	if end := nextBullet.FindStringIndex(rest[1:]); end != nil {
		rest = rest[:end[0]+1]
	}
	rest, _, _ = strings.Cut(rest, "[`")
	var names []string
	for _, m := range quoted.FindAllStringSubmatch(rest, -1) {
		names = append(names, strings.Join(strings.Fields(m[1]), " "))
	}
	return names
}

// Every command line on a page is one that tidings has, with these flags and
// this number of arguments.
func TestCommandsOfPagesExist(t *testing.T) {
	n := 0
	for name, text := range pages(t) {
		for _, line := range commandLines(text) {
			n++
			require.NoError(t, accepts(line, true), "%s: %s", name, line)
		}
		for _, m := range code.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
			if rest, ok := strings.CutPrefix(m[1], "tidings "); ok {
				n++
				require.NoError(t, accepts(rest, false), "%s: %s", name, m[1])
			}
		}
	}
	require.Greater(t, n, 20)
}

var prompt = regexp.MustCompile(`^(\$ )?(\w+=\S* )*(bin/)?tidings `)

// commandLines returns the arguments of tidings in the code blocks of a page.
func commandLines(text string) []string {
	var blocks []string
	for _, m := range fenced.FindAllStringSubmatch(text, -1) {
		blocks = append(blocks, strings.Split(m[3], "\n")...)
	}
	for _, m := range indented.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		blocks = append(blocks, m[1])
	}
	var lines []string
	for _, line := range blocks {
		if start := prompt.FindString(line); start != "" {
			line, _, _ = strings.Cut(strings.TrimPrefix(line, start), " #")
			lines = append(lines, line)
		}
	}
	return lines
}

// accepts returns why tidings would refuse a command line. Without whole only
// the command and its flags must be right.
func accepts(line string, whole bool) error {
	line = strings.ReplaceAll(line, "list|show|why", "list")
	line = strings.ReplaceAll(line, "list|show", "list")
	args, err := split(line)
	if err != nil {
		return err
	}
	root := newRoot(&cli{out: &bytes.Buffer{}, err: &bytes.Buffer{}})
	cmd, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	if cmd == root {
		return fmt.Errorf("no command")
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	if !whole {
		return nil
	}
	if err := cmd.ValidateRequiredFlags(); err != nil {
		return err
	}
	if err := cmd.ValidateFlagGroups(); err != nil {
		return err
	}
	return arguments(cmd, cmd.Flags())
}

func arguments(cmd *cobra.Command, flags *pflag.FlagSet) error {
	if cmd.Args == nil {
		return nil
	}
	return cmd.Args(cmd, flags.Args())
}

// split takes a command line apart as a shell does, as far as pages need it.
func split(line string) ([]string, error) {
	line, _, _ = strings.Cut(line, " > ")
	var args []string
	var word strings.Builder
	var quote rune
	begun := false
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, begun = r, true
		case quote == 0 && r == ' ':
			if begun {
				args = append(args, word.String())
			}
			word.Reset()
			begun = false
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("the quotation mark %c is not closed", quote)
	}
	if begun {
		args = append(args, word.String())
	}
	return args, nil
}
