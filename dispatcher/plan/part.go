package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	htmltemplate "html/template"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	texttemplate "text/template"
	"text/template/parse"

	"golang.org/x/text/language"
)

// part is one compiled file of a template.
type part struct {
	file      string // with the folder, as errors name it
	source    string
	mediaType string
	shared    map[string]sharedFile // what it calls, by name
	markdown  *markdown             // nil: it is none
	program   interface {
		Execute(to io.Writer, data any) error
	}
}

// compilePart compiles a file. HTML is escaped by its context, anything else is not: a
// JSON body uses the function json. change, if there is one, gets what was parsed.
func (c *compiler) compilePart(file, source, ending, locale string, change func(map[string]*parse.Tree)) (*part, Problems) {
	p := &part{file: file, source: source, mediaType: mediaTypes[ending]}
	if strings.TrimSpace(source) == "" {
		return p, Problems{{File: file, Text: "is empty"}}
	}
	p.shared = c.sharedFor(ending, locale)
	known := functions(language.Make(locale), &c.zones)
	var trees map[string]*parse.Tree
	var err error
	if ending == "html" {
		trees, err = p.compileHTML(known)
	} else {
		trees, err = p.compileText(known)
	}
	if err != nil {
		return p, Problems{p.problem(err)}
	}
	problems := p.prepare(trees)
	if len(problems) > 0 {
		return p, problems
	}
	if change != nil {
		change(trees)
	}
	return p, p.escape()
}

func (p *part) compileText(known texttemplate.FuncMap) (map[string]*parse.Tree, error) {
	t := texttemplate.New(p.file).Option("missingkey=error").Funcs(known)
	for _, name := range slices.Sorted(maps.Keys(p.shared)) {
		if _, err := t.New(name).Parse(p.shared[name].source); err != nil {
			return nil, err
		}
	}
	if _, err := t.Parse(p.source); err != nil {
		return nil, err
	}
	p.program = t
	trees := map[string]*parse.Tree{}
	for _, one := range t.Templates() {
		trees[one.Name()] = one.Tree
	}
	return trees, nil
}

func (p *part) compileHTML(known htmltemplate.FuncMap) (map[string]*parse.Tree, error) {
	t := htmltemplate.New(p.file).Option("missingkey=error").Funcs(known)
	for _, name := range slices.Sorted(maps.Keys(p.shared)) {
		if _, err := t.New(name).Parse(p.shared[name].source); err != nil {
			return nil, err
		}
	}
	if _, err := t.Parse(p.source); err != nil {
		return nil, err
	}
	p.program = t
	trees := map[string]*parse.Tree{}
	for _, one := range t.Templates() {
		trees[one.Name()] = one.Tree
	}
	return trees, nil
}

// prepare is [prepare], and forgets what is shared and not called.
func (p *part) prepare(trees map[string]*parse.Tree) Problems {
	called, problems := prepare(p.file, trees, p.shared)
	maps.DeleteFunc(p.shared, func(name string, _ sharedFile) bool { return !called[name] })
	for i := range problems {
		if of, ok := p.shared[problems[i].template]; ok {
			problems[i].File = of.file
		}
	}
	return problems
}

// fileOf returns the file of a template by its name.
func (p *part) fileOf(name string) string {
	if s, ok := p.shared[name]; ok {
		return s.file
	}
	return p.file
}

// escape makes html/template find its contexts now and not at the first event.
func (p *part) escape() Problems {
	err := p.program.Execute(newOutput(maxFile), map[string]any{})
	if bad, ok := errors.AsType[*htmltemplate.Error](err); ok {
		return Problems{p.problem(bad)}
	}
	return nil
}

// templateError is how the template packages begin their errors.
var templateError = regexp.MustCompile(`(?s)^(?:html/)?template: ?(.*?):(\d+)(?::(\d+))?: (.*)$`)

// problem says where an error of the template packages is.
func (p *part) problem(err error) Problem {
	m := templateError.FindStringSubmatch(err.Error())
	if m == nil {
		return Problem{File: p.file, Text: err.Error()}
	}
	line, _ := strconv.Atoi(m[2])
	column, _ := strconv.Atoi(m[3])
	return Problem{File: p.fileOf(m[1]), Line: line, Column: column, Text: m[4]}
}

// run executes the part. Its error names file and line, and no value.
func (p *part) run(data map[string]any, limit int) (string, error) {
	out := newOutput(limit)
	if err := p.program.Execute(out, data); err != nil {
		return "", p.fault(err)
	}
	if p.mediaType == mediaTypes["json"] && !json.Valid(out.text.Bytes()) {
		return "", fmt.Errorf("%s: what it wrote is not JSON: print values with the function json", p.file)
	}
	return out.text.String(), nil
}

var (
	executing = regexp.MustCompile(`(?s)^executing ".*?" at <(.*?)>: (.*)$`)
	// harmless are the messages of text/template that hold names, types and
	// numbers from the template only.
	harmless = regexp.MustCompile(`^(map has no entry for key "\w+"|nil data; no entry for key "\w+"|` +
		`can't evaluate field \w+ in type [\w.*{}\[\] ]+|nil pointer evaluating [\w.*{}\[\] ]+)$`)
)

func (p *part) fault(err error) error {
	if errors.Is(err, errOutput) || errors.Is(err, errSteps) {
		return fmt.Errorf("%s: %w", p.file, err)
	}
	m := templateError.FindStringSubmatch(err.Error())
	if m == nil {
		return fmt.Errorf("%s: could not be executed", p.file)
	}
	place := p.fileOf(m[1]) + ":" + m[2]
	if m[3] != "" {
		place += ":" + m[3]
	}
	x := executing.FindStringSubmatch(m[4])
	if x == nil {
		return fmt.Errorf("%s: could not be executed", place)
	}
	return fmt.Errorf("%s: at <%s>: %s", place, x[1], faultInWords(err, x[2]))
}

func faultInWords(err error, message string) string {
	if own, ok := errors.AsType[*functionError](err); ok {
		return own.Error()
	}
	if harmless.MatchString(message) {
		return message
	}
	return "a value there is not what is needed"
}

// output takes what a template writes, up to a limit of bytes and of steps.
type output struct {
	text  bytes.Buffer
	bytes int // that may still be written
	steps int
}

// maxSteps bounds how often a template writes. Every turn of a loop and every
// call of another template writes at least nothing, see prepare.
const maxSteps = 250_000

var (
	errOutput = errors.New("writes more than a message may have")
	errSteps  = errors.New("takes too many steps: does it loop?")
)

func newOutput(limit int) *output { return &output{bytes: limit, steps: maxSteps} }

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	if o.steps--; o.steps < 0 {
		return 0, errSteps
	}
	if o.bytes -= len(p); o.bytes < 0 {
		return 0, errOutput
	}
	return o.text.Write(p)
}
