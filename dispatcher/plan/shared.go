package plan

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"

	"golang.org/x/text/language"
)

// sharedFolder has what templates have in common: a file footer.html is the template
// "footer" for every HTML file, and footer.de.html is that of German ones.
const sharedFolder = "_shared"

// sharedFile is one of them.
type sharedFile struct {
	name   string // by which it is called
	locale string
	file   string // with the folder, as errors name it
	source string
}

var sharedName = regexp.MustCompile(`^([a-z0-9_-]+)(?:\.([A-Za-z]{2,8}(?:[-_][A-Za-z0-9]+)*))?\.(txt|html|md|json|xml)$`)

// loadShared reads the folder, if there is one.
func (c *compiler) loadShared(from fs.FS) {
	c.shared = map[string][]sharedFile{}
	if from == nil || !isFolder(from, sharedFolder) {
		return
	}
	files, err := fs.ReadDir(from, sharedFolder)
	if err != nil {
		c.add(Problem{File: c.o.folder(sharedFolder), Text: reason(err)})
	}
	for _, f := range files {
		if !reserved(f.Name()) {
			c.loadSharedFile(from, f.Name())
		}
	}
}

func (c *compiler) loadSharedFile(from fs.FS, name string) {
	file := path.Join(sharedFolder, name)
	bad := func(format string, args ...any) {
		c.add(Problem{File: c.o.folder(file), Text: fmt.Sprintf(format, args...)})
	}
	m := sharedName.FindStringSubmatch(name)
	if m == nil {
		bad("has a name in small letters, maybe a locale, and ends with .txt, .html, .md, .json or .xml")
		return
	}
	s := sharedFile{name: m[1], locale: c.localeOf(m[2]), file: c.o.folder(file)}
	if _, err := language.Parse(s.locale); err != nil {
		bad("%q is not a language that is known", s.locale)
		return
	}
	var err error
	if s.source, err = readFile(from, file); err != nil {
		bad("%s", reason(err))
		return
	}
	c.shared[m[3]] = append(c.shared[m[3]], s)
}

// sharedFor returns what a file of an ending and a locale can call: of each name that in
// the same language, or that in the default one.
func (c *compiler) sharedFor(ending, locale string) map[string]sharedFile {
	by := map[string]map[string]sharedFile{}
	for _, s := range c.shared[ending] {
		if by[s.name] == nil {
			by[s.name] = map[string]sharedFile{}
		}
		by[s.name][s.locale] = s
	}
	out := map[string]sharedFile{}
	for name, variants := range by {
		locales := slices.Sorted(maps.Keys(variants))
		first := c.rules.DefaultLocale
		if _, ok := variants[first]; !ok {
			first = locales[0]
		}
		others := slices.DeleteFunc(locales, func(l string) bool { return l == first })
		out[name] = variants[newLocales(first, others).choose(locale)]
	}
	return out
}
