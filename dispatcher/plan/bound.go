package plan

import (
	"errors"
	"reflect"
	"slices"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/builtin"
	"github.com/expr-lang/expr/conf"
)

// The virtual machine of expr-lang bounds memory but not time: loops over a
// payload that nest cost its size to the power of their depth. So whatever is
// walked over is charged for, and an evaluation has a budget.

// budget is the number of elements that one evaluation may walk over.
const budget = 250_000

// meter is what is left of the budget of one evaluation.
type meter struct{ left int }

var (
	errOverBudget  = errors.New("walks over too much data")
	errNotAList    = errors.New("want a list here")
	errNotAnObject = errors.New("want an object here")
	errNoElement   = errors.New("only a list and an object have elements")
)

func (m *meter) spend(n int) error {
	if m.left -= n + 1; m.left < 0 {
		return errOverBudget
	}
	return nil
}

// The names below are such that no expression can spell them.
const (
	meterName   = "meter()"   // the meter, in the environment
	chargeName  = "charge()"  // yields its argument and charges for walking over it
	listName    = "list()"    // the same for what is looped over; nothing is an empty list
	elementName = "element()" // yields an element; nothing where there is none
)

// bounded is the option that puts the charges into an expression.
func bounded(c *conf.Config) {
	for name, f := range map[string]func(...any) (any, error){
		chargeName: chargeFor, listName: chargeForList, elementName: element,
	} {
		c.Functions[name] = &builtin.Function{Name: name, Func: f, Validate: resultOf(name)}
	}
	c.Visitors = append(c.Visitors, lenient{}, metered{})
}

// resultOf returns what tells the checker the type of a call, so that an
// expression is checked as it was written.
func resultOf(name string) func([]reflect.Type) (reflect.Type, error) {
	return func(args []reflect.Type) (reflect.Type, error) {
		if name == elementName {
			return reflect.TypeFor[any](), nil
		}
		return args[1], nil
	}
}

func chargeFor(args ...any) (any, error) {
	return args[1], args[0].(*meter).spend(size(args[1]) / 8)
}

func chargeForList(args ...any) (any, error) {
	if args[1] == nil {
		return []any{}, nil
	}
	if k := reflect.TypeOf(args[1]).Kind(); k != reflect.Slice && k != reflect.Array {
		return nil, errNotAList
	}
	return args[1], args[0].(*meter).spend(size(args[1]))
}

// size is the number of elements, or of bytes / 8.
func size(value any) int {
	v := reflect.ValueOf(value)
	switch v.Kind() {
	case reflect.Slice, reflect.Array, reflect.Map:
		return v.Len()
	case reflect.String:
		return v.Len() / 8
	}
	return 0
}

func element(args ...any) (any, error) {
	switch of := args[0].(type) {
	case nil:
		return nil, nil
	case map[string]any:
		if name, ok := args[1].(string); ok {
			return of[name], nil
		}
	case map[string]string:
		if name, ok := args[1].(string); ok {
			return of[name], nil
		}
	default:
		return elementOfList(reflect.ValueOf(of), args[1])
	}
	return nil, errNoElement
}

func elementOfList(list reflect.Value, index any) (any, error) {
	i, ok := index.(int)
	if !ok || list.Kind() != reflect.Slice && list.Kind() != reflect.Array {
		return nil, errNoElement
	}
	if i < 0 {
		i += list.Len()
	}
	if i < 0 || i >= list.Len() {
		return nil, nil
	}
	return list.Index(i).Interface(), nil
}

// lenient makes a.b and a[b] nothing where a is nothing or has no b.
type lenient struct{}

// Visit implements ast.Visitor.
func (lenient) Visit(node *ast.Node) {
	m, ok := (*node).(*ast.MemberNode)
	if !ok || m.Method {
		return
	}
	if _, named := m.Property.(*ast.StringNode); !named {
		ast.Patch(node, call(elementName, m.Node, m.Property))
		return
	}
	if !m.Optional {
		m.Optional = true
		ast.Patch(node, &ast.ChainNode{Node: m})
	}
}

func call(function string, args ...ast.Node) ast.Node {
	return &ast.CallNode{Callee: &ast.IdentifierNode{Value: function}, Arguments: args}
}

// walkers are the functions that evaluate an expression for each element of
// their first argument.
var walkers = []string{
	"all", "none", "any", "one", "filter", "map", "find", "findIndex", "findLast", "findLastIndex",
	"count", "sum", "groupBy", "sortBy", "reduce",
}

// metered puts charges around what is walked over.
type metered struct{}

// Visit implements ast.Visitor.
func (metered) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.BuiltinNode:
		if slices.Contains(walkers, n.Name) {
			wrap(listName, &n.Arguments[0])
			return
		}
		for i := range n.Arguments {
			wrap(chargeName, &n.Arguments[i])
		}
	case *ast.BinaryNode:
		switch n.Operator {
		case "+", "in", "matches", "contains", "startsWith", "endsWith":
			wrap(chargeName, &n.Left)
			wrap(chargeName, &n.Right)
		}
	}
}

// wrap leaves alone what the optimiser makes constants of: it is part of the
// expression and thus small.
func wrap(function string, node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.ConstantNode, *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.PredicateNode:
		return
	case *ast.ArrayNode:
		if function == chargeName {
			return
		}
	case *ast.BinaryNode:
		if n.Operator == ".." && function == chargeName {
			return
		}
	}
	ast.Patch(node, call(function, &ast.IdentifierNode{Value: meterName}, *node))
}
