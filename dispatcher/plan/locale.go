package plan

import (
	"slices"
	"strings"

	"golang.org/x/text/language"
)

// locales are the languages that a template is written in, the default first.
type locales struct {
	names   []string // as in the files' names
	matcher language.Matcher
}

func newLocales(fallback string, others []string) locales {
	names := append([]string{fallback}, slices.Sorted(slices.Values(others))...)
	tags := make([]language.Tag, len(names))
	for i, name := range names {
		tags[i] = language.Make(name)
	}
	return locales{names: names, matcher: language.NewMatcher(tags)}
}

// choose returns the first of the wanted languages that there is, or the
// default. A variant is good enough (de for de-AT), a related language is not.
func (l locales) choose(wanted ...string) string {
	for _, want := range wanted {
		tag, err := language.Parse(strings.TrimSpace(want))
		if err != nil {
			continue
		}
		if _, i, confidence := l.matcher.Match(tag); confidence >= language.High {
			return l.names[i]
		}
	}
	return l.names[0]
}
