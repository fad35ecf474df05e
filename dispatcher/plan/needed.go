package plan

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/types"
	"golang.org/x/text/language"

	"tidings/streams/event"
)

// An event without messages is a question sooner or later: what would it have taken?
// The configuration that decided may be another by then, so the answer is made here,
// of the rules and of which members the event has, never of what is in them. Events
// with messages are spared this.

// Bounds of what is said about an event without messages.
const (
	maxExplained = 16  // routes
	maxMissing   = 8   // members, of one expression
	maxSaid      = 200 // bytes of an expression
	maxOffered   = 5   // routes for other types
)

// explain adds to the decisions about an event without messages what would have been
// needed.
func (d *draft) explain(decisions []event.RouteDecision) {
	for i := range decisions[:min(len(decisions), maxExplained)] {
		v := &decisions[i]
		r := d.ruleset.route(v.Route)
		switch {
		case r == nil:
			v.Needed = d.offered()
		case v.Verdict == conditionFalse:
			d.explainCondition(r, v)
		case v.Verdict == noRecipient && d.trial != nil:
			v.Needed = "the test must go to " + r.channel.Kind.inWords()
		case v.Verdict == noRecipient:
			v.Needed = "recipients must give " + r.channel.Kind.inWords()
			if r.recipients != nil {
				v.Needed += ": " + r.recipients.said
				v.Missing = r.recipients.missing(d.env)
			}
		case v.Verdict == noTemplate:
			v.Needed = d.folder(r.Template) + " must have " + r.channel.Kind.files()
			v.Locales = d.localesOf(r)
		}
	}
}

// explainCondition names the part of a condition that does not hold: of parts joined
// by and, the first.
func (d *draft) explainCondition(r *route, v *event.RouteDecision) {
	part := r.when
	for _, p := range r.when.parts {
		if value, err := p.run(d.env); err != nil || value != true {
			part = p
			break
		}
	}
	v.Needed, v.Missing = part.said+" must be true", part.missing(d.env)
}

// offered names routes that are for other types, the most similar first.
func (d *draft) offered() string {
	if len(d.routes) == 0 {
		return "there must be a route"
	}
	nearest := make([]*route, len(d.routes))
	for i := range d.routes {
		nearest[i] = &d.routes[i]
	}
	slices.SortStableFunc(nearest, func(a, b *route) int {
		return inCommon(b.Event, d.envelope.Type) - inCommon(a.Event, d.envelope.Type)
	})
	var names []string
	for _, r := range nearest[:min(len(nearest), maxOffered)] {
		names = append(names, fmt.Sprintf("%q is for %.100s", r.Name, r.Event))
	}
	if more := len(nearest) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return "a route must be for this type: " + strings.Join(names, ", ")
}

// inCommon is how long the beginning is that two texts share.
func inCommon(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// files says which files a template for the kind must have.
func (k Kind) files() string {
	switch k {
	case Email:
		return "subject.txt, and text.txt, html.html or message.md"
	case Webhook:
		return "body.json"
	}
	return "files"
}

// localesOf returns the languages that a route's template is looked for in, the
// wanted one first.
func (d *draft) localesOf(r *route) []string {
	locales := []string{d.defaultLocale}
	wanted, err := textOf(r.locale, d.env)
	if name := localeOf(wanted); err == nil && name != "" && name != d.defaultLocale {
		locales = slices.Insert(locales, 0, name)
	}
	return locales
}

// localeOf returns language and country of a tag, empty where that is not certainly
// one: it comes from the event, and Ann is a language too.
func localeOf(wanted string) string {
	tag, err := language.Parse(wanted)
	base, _ := tag.Base()
	if err != nil || len(base.String()) != 2 {
		return ""
	}
	if region, confidence := tag.Region(); confidence == language.Exact {
		return base.String() + "-" + region.String()
	}
	return base.String()
}

// account makes what is said about an expression that comes to nothing.
func (x *expression) account(env types.Map) {
	x.said = x.key
	tree, err := parser.Parse(x.source)
	if err != nil {
		return // what is compiled can be parsed
	}
	for _, part := range conjuncts(tree.Node) {
		if part == tree.Node {
			break // it is the whole
		}
		p, problem := compileExpression(x.key, part.String(), env, reflect.Bool)
		if problem != nil {
			x.parts = nil // it is no condition
			break
		}
		p.account(env)
		x.parts = append(x.parts, p)
	}
	finder := pathFinder{known: env}
	ast.Walk(&tree.Node, &finder)
	x.paths = finder.paths
	ast.Walk(&tree.Node, discreet{})
	x.said = cut(strings.Join(strings.Fields(tree.Node.String()), " "), maxSaid)
}

// conjuncts returns what is joined by and.
func conjuncts(node ast.Node) []ast.Node {
	if b, ok := node.(*ast.BinaryNode); ok && (b.Operator == "&&" || b.Operator == "and") {
		return append(conjuncts(b.Left), conjuncts(b.Right)...)
	}
	return []ast.Node{node}
}

// plainWord is a text in a rule that is no address and no name with a first and a
// last part: a status, a country, a version.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_.-]{0,24}$`)

var digits = regexp.MustCompile(`[0-9]{4}`)

// discreet leaves out the texts in an expression that may be about a person.
type discreet struct{}

// Visit implements ast.Visitor.
func (discreet) Visit(node *ast.Node) {
	if s, ok := (*node).(*ast.StringNode); ok && (!plainWord.MatchString(s.Value) || digits.MatchString(s.Value)) {
		s.Value = "…"
	}
}

// pathFinder collects the members that an expression names.
type pathFinder struct {
	known types.Map
	paths [][]string
}

// Visit implements ast.Visitor.
func (f *pathFinder) Visit(node *ast.Node) {
	if path := f.pathOf(*node); path != nil {
		f.paths = append(f.paths, path)
	}
}

func (f *pathFinder) pathOf(node ast.Node) []string {
	switch n := node.(type) {
	case *ast.ChainNode:
		return f.pathOf(n.Node)
	case *ast.IdentifierNode:
		if _, ok := f.known[n.Value]; ok {
			return []string{n.Value}
		}
	case *ast.MemberNode:
		name, ok := n.Property.(*ast.StringNode)
		if of := f.pathOf(n.Node); ok && of != nil {
			return append(slices.Clip(of), name.Value)
		}
	}
	return nil
}

// missing returns the members that the expression names and the event has not: of a
// path, up to what is not there.
func (x *expression) missing(env *environment) []string {
	found := map[string]bool{}
	for _, path := range x.paths {
		if path[0] == dataName {
			env.decode()
		}
		if absent := absentIn(env.values, path); absent != "" && len(found) < maxMissing {
			found[absent] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

func absentIn(values map[string]any, path []string) string {
	var at any = values
	for i, name := range path {
		switch of := at.(type) {
		case map[string]any:
			at = of[name]
		case map[string]string:
			at = of[name]
		default:
			return ""
		}
		if absent(at) {
			return cut(strings.Join(masked(path[:i+1]), "."), maxSaid)
		}
	}
	return ""
}

// absent reports whether there is no value: attributes that were not given are empty.
func absent(value any) bool {
	at, isTime := value.(time.Time)
	return value == nil || value == "" || isTime && at.IsZero()
}

// masked returns a path without the names that may be about a person.
func masked(path []string) []string {
	out := slices.Clone(path)
	for i, name := range out {
		if !plainWord.MatchString(name) {
			out[i] = "…"
		}
	}
	return out
}

// cut shortens a text to some bytes.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most] + "…"
}
