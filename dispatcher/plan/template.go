package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/text/language"
)

// template is one folder of templates.
type template struct {
	locales  locales
	variants map[string]*variant // by locale
	version  string              // fingerprint of all its files, but not of the sample
	sample   []byte              // see [Sample]
}

// variant is a template in one language.
type variant struct {
	locale  string
	parts   map[string]*part // by name
	version string           // fingerprint of its files
}

// The parts of a message, each a file.
const (
	subject = "subject"
	text    = "text"
	html    = "html"
	body    = "body"
	marked  = "message" // in Markdown: html, and text where there is no other
)

// lacks returns what a channel of this kind needs and the template has not.
func (k Kind) lacks(t *template) string {
	has := t.variants[t.locales.names[0]].parts
	switch {
	case k == Email && has[subject] == nil:
		return "subject.txt"
	case k == Email && has[text] == nil && has[html] == nil && has[marked] == nil:
		return "text.txt, html.html or message.md"
	case k == Webhook && has[body] == nil:
		return "body.json"
	}
	return ""
}

// maxFile bounds one file of a template.
const maxFile = 1 << 20

// loadTemplates reads every folder, whether a route uses it or not. Names that
// begin with a dot or an underscore are left for other purposes.
func (c *compiler) loadTemplates(from fs.FS) map[string]*template {
	found := map[string]*template{}
	if from == nil {
		return found
	}
	folders, err := fs.ReadDir(from, ".")
	if err != nil {
		c.add(Problem{File: c.o.Folder, Text: "read the templates: " + reason(err)})
	}
	for _, f := range folders {
		if !reserved(f.Name()) && isFolder(from, f.Name()) {
			if t := c.loadTemplate(from, f.Name()); t != nil {
				found[f.Name()] = t
			}
		}
	}
	return found
}

// isFolder follows links: orchestrators mount folders as links.
func isFolder(from fs.FS, name string) bool {
	info, err := fs.Stat(from, name)
	return err == nil && info.IsDir()
}

func reserved(name string) bool { return strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") }

// reason leaves out the path, which the problem names in its own words.
func reason(err error) string {
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		return at.Err.Error()
	}
	return err.Error()
}

// loadTemplate returns nil for a folder without a template, and for one with
// problems.
func (c *compiler) loadTemplate(from fs.FS, name string) *template {
	files, err := fs.ReadDir(from, name)
	if err != nil {
		c.add(Problem{File: c.o.folder(name), Text: reason(err)})
		return nil
	}
	before := len(c.problems)
	variants := map[string]*variant{}
	for _, f := range files {
		if !reserved(f.Name()) {
			c.loadFile(from, path.Join(name, f.Name()), variants)
		}
	}
	c.compareLocales(name, variants)
	sample := c.loadSample(from, name)
	if len(variants) == 0 || len(c.problems) > before {
		return nil
	}
	t := c.assemble(variants)
	t.sample = sample
	return t
}

// sampleFile is the data of an event to try a template with. What is sent for
// events of producers does not depend on it.
const sampleFile = "_sample.json"

func (c *compiler) loadSample(from fs.FS, name string) []byte {
	file := path.Join(name, sampleFile)
	sample, err := readFile(from, file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		c.add(Problem{File: c.o.folder(file), Text: reason(err)})
	case !json.Valid([]byte(sample)):
		c.add(Problem{File: c.o.folder(file), Text: "is not JSON"})
	}
	return []byte(sample)
}

func (c *compiler) assemble(variants map[string]*variant) *template {
	t := &template{variants: variants}
	others := maps.Clone(variants)
	delete(others, c.rules.DefaultLocale)
	t.locales = newLocales(c.rules.DefaultLocale, slices.Collect(maps.Keys(others)))
	all := map[string]string{}
	for locale, v := range variants {
		v.version = v.fingerprint()
		all[locale] = v.version
	}
	t.version = fingerprint(all)
	return t
}

func (v *variant) fingerprint() string {
	files := map[string]string{}
	for _, p := range v.parts {
		p.sources(files)
	}
	return fingerprint(files)
}

// sources adds what a part is made of.
func (p *part) sources(files map[string]string) {
	files[p.file] = p.source
	for _, s := range p.shared {
		files[s.file] = s.source
	}
	if p.markdown != nil && p.markdown.page != nil {
		p.markdown.page.sources(files)
	}
}

// fingerprint returns a hash over names and what they stand for.
func fingerprint(parts map[string]string) string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		fmt.Fprintf(h, "%d:%s%d:%s", len(name), name, len(parts[name]), parts[name])
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// fileName is a part, maybe a locale, and what it is written in.
var fileName = regexp.MustCompile(`^(subject|text|html|body|message)(?:\.([A-Za-z]{2,8}(?:[-_][A-Za-z0-9]+)*))?\.([a-z]+)$`)

// mediaTypes are the types of content by the ending of a file.
var mediaTypes = map[string]string{
	"json": "application/json",
	"xml":  "application/xml",
	"txt":  "text/plain; charset=utf-8",
	"html": "text/html; charset=utf-8",
	"md":   "text/markdown; charset=utf-8",
}

// endings are the endings that a part may have.
var endings = map[string][]string{subject: {"txt"}, text: {"txt"}, html: {"html"}, body: {"json", "xml", "txt", "html"}, marked: {"md"}}

func (c *compiler) loadFile(from fs.FS, file string, into map[string]*variant) {
	bad := func(format string, args ...any) {
		c.add(Problem{File: c.o.folder(file), Text: fmt.Sprintf(format, args...)})
	}
	m := fileName.FindStringSubmatch(path.Base(file))
	if m == nil || !slices.Contains(endings[m[1]], m[3]) {
		bad("is none of subject.txt, text.txt, html.html, message.md, body.json, body.xml, body.txt, body.html, nor one of these with a locale such as text.de.txt")
		return
	}
	locale := c.localeOf(m[2])
	if _, err := language.Parse(locale); err != nil {
		bad("%q is not a language that is known", locale)
		return
	}
	v := into[locale]
	if v == nil {
		v = &variant{locale: locale, parts: map[string]*part{}}
		into[locale] = v
	}
	if other := v.parts[m[1]]; other != nil {
		bad("is the %s for locale %s, as is %s: keep one", m[1], locale, other.file)
		return
	}
	source, err := readFile(from, file)
	if err != nil {
		bad("%s", reason(err))
		return
	}
	p, problems := c.compileFile(c.o.folder(file), source, m[3], locale)
	c.problems = append(c.problems, problems...)
	v.parts[m[1]] = p
	if v.parts[html] != nil && v.parts[marked] != nil {
		bad("is the HTML for locale %s, as is the other of html.html and message.md: keep one", locale)
	}
}

func (c *compiler) compileFile(file, source, ending, locale string) (*part, Problems) {
	if ending == "md" {
		return c.compileMarkdown(file, source, locale)
	}
	return c.compilePart(file, source, ending, locale, nil)
}

// localeOf returns the locale that a file's name gives, which is the default if
// it gives none or the same in other letters.
func (c *compiler) localeOf(named string) string {
	if named == "" || language.Make(named) == language.Make(c.rules.DefaultLocale) {
		return c.rules.DefaultLocale
	}
	return named
}

func readFile(from fs.FS, file string) (string, error) {
	info, err := fs.Stat(from, file)
	if err != nil {
		return "", err
	}
	if info.IsDir() {
		return "", errors.New("is a folder: a template is a folder of files")
	}
	if info.Size() > maxFile {
		return "", fmt.Errorf("has %d bytes: at most %d are read", info.Size(), maxFile)
	}
	source, err := fs.ReadFile(from, file)
	return string(source), err
}

// compareLocales refuses a template that would mix languages.
func (c *compiler) compareLocales(name string, variants map[string]*variant) {
	if len(variants) == 0 {
		return
	}
	standard := variants[c.rules.DefaultLocale]
	if standard == nil {
		c.add(Problem{File: c.o.folder(name), Text: fmt.Sprintf("has nothing for the default locale %s", c.rules.DefaultLocale)})
		return
	}
	for _, locale := range slices.Sorted(maps.Keys(variants)) {
		parts := variants[locale].parts
		for _, p := range slices.Sorted(maps.Keys(endings)) {
			if (parts[p] == nil) != (standard.parts[p] == nil) {
				c.add(Problem{File: c.o.folder(name), Text: fmt.Sprintf("%s is there for one of the locales %s and %s only: give both the same parts",
					p, c.rules.DefaultLocale, locale)})
			}
		}
	}
}
