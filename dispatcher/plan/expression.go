package plan

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/types"
	"github.com/expr-lang/expr/vm"
)

// expression is a compiled value of a key of a route.
type expression struct {
	key     string // when, recipients or locale
	source  string
	program *vm.Program
	data    bool // it asks for the payload

	// For when it comes to nothing, see account.
	said  string        // itself, without texts that may be about a person
	parts []*expression // what is joined by and
	paths [][]string    // the members that it names
}

// maxNodes bounds the size of an expression, and with it its depth.
const maxNodes = 1000

// compileExpression returns nil for an empty source. The problem is without its
// key and route.
func compileExpression(key, source string, env types.Map, results ...reflect.Kind) (*expression, *Problem) {
	if strings.TrimSpace(source) == "" {
		return nil, nil
	}
	program, err := expr.Compile(source, expr.Env(env), bounded, sorted,
		expr.DisableBuiltin("now"), expr.DisableBuiltin("timezone"), expr.DisableBuiltin("date"),
		expr.DisableBuiltin("repeat"), expr.DisableBuiltin("uniq"), expr.MaxNodes(maxNodes))
	if err != nil {
		return nil, compileProblem(err)
	}
	if mentions(program, "$env") {
		return nil, &Problem{Text: "$env is not available: name the member that is needed"}
	}
	if t := program.Node().Type(); t.Kind() != reflect.Interface && !slices.Contains(results, t.Kind()) {
		return nil, &Problem{Text: fmt.Sprintf("yields %s, want %s", inWords(t.Kind()), wanted[key])}
	}
	return &expression{key: key, source: source, program: program, data: mentions(program, dataName)}, nil
}

func mentions(program *vm.Program, name string) bool {
	return nil != ast.Find(program.Node(), func(node ast.Node) bool {
		identifier, ok := node.(*ast.IdentifierNode)
		return ok && identifier.Value == name
	})
}

// wanted says what the keys' expressions must yield.
var wanted = map[string]string{
	"when":       "true or false",
	"recipients": "an address, an object {address, locale, timezone} or a list of these",
	"locale":     "a language tag such as de or pt-BR",
	"timezone":   "a name of the IANA database such as Europe/Berlin",
}

func compileProblem(err error) *Problem {
	if at, ok := errors.AsType[*file.Error](err); ok {
		return &Problem{Line: at.Line, Column: at.Column + 1, Text: at.Message}
	}
	return &Problem{Text: err.Error()}
}

// run evaluates the expression. Its error says where and what, without a value
// of the payload.
func (x *expression) run(env *environment) (any, error) {
	if x.data {
		env.decode()
	}
	env.meter.left = budget
	out, err := expr.Run(x.program, env.values)
	if err == nil {
		return out, nil
	}
	at, ok := errors.AsType[*file.Error](err)
	if !ok {
		return nil, fmt.Errorf("%s: could not be evaluated", x.key)
	}
	return nil, fmt.Errorf("%s: line %d, column %d: %s", x.key, at.Line, at.Column+1, withoutValues(at))
}

// mismatch is the error of an expression that yields the wrong type.
func (x *expression) mismatch(value any) error {
	return fmt.Errorf("%s: yields %s, want %s", x.key, inWords(reflect.ValueOf(value).Kind()), wanted[x.key])
}

// quoted returns the expression for a decision's detail, unless it holds a
// text, which may be an address.
func (x *expression) quoted() string {
	if len(x.source) > 120 || strings.ContainsAny(x.source, "\"'`\n@") {
		return x.key
	}
	return x.key + " (" + x.source + ")"
}

// typesOnly are the messages of expr-lang that hold types and no values.
var typesOnly = regexp.MustCompile(`^(invalid operation: [^()]+|invalid argument for \w+ \(type [^()]+\)|memory budget exceeded)$`)

// withoutValues says what went wrong in words that cannot quote the payload.
func withoutValues(err *file.Error) string {
	for _, own := range []error{errOverBudget, errNotAList, errNotAnObject, errNoElement} {
		if errors.Is(err, own) {
			return own.Error()
		}
	}
	if typesOnly.MatchString(err.Message) {
		return err.Message
	}
	if wrong, ok := errors.AsType[*runtime.TypeAssertionError](err.Prev); ok {
		return wrong.Error()
	}
	return "a value there is not of the type that is needed"
}

func inWords(k reflect.Kind) string {
	switch k {
	case reflect.Invalid:
		return "nothing"
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a text"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Map:
		return "an object"
	case reflect.Int, reflect.Float64:
		return "a number"
	}
	return "something else"
}
