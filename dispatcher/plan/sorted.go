package plan

import (
	"reflect"
	"slices"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/conf"
)

// sorted is the option that gives the functions over the members of an object
// an order, so that the same event gives the same plan.
func sorted(c *conf.Config) {
	for name, pick := range map[string]func(name string, member any) any{
		"keys":    func(name string, _ any) any { return name },
		"values":  func(_ string, member any) any { return member },
		"toPairs": func(name string, member any) any { return []any{name, member} },
	} {
		expr.DisableBuiltin(name)(c)
		expr.Function(name, inOrder(pick), new(func(any) []any))(c)
	}
}

func inOrder(pick func(name string, member any) any) func(...any) (any, error) {
	return func(args ...any) (any, error) {
		if args[0] == nil {
			return []any{}, nil
		}
		object := reflect.ValueOf(args[0])
		if object.Kind() != reflect.Map || object.Type().Key().Kind() != reflect.String {
			return nil, errNotAnObject
		}
		names := make([]string, 0, object.Len())
		for _, name := range object.MapKeys() {
			names = append(names, name.String())
		}
		slices.Sort(names)
		out := make([]any, len(names))
		for i, name := range names {
			out[i] = pick(name, object.MapIndex(reflect.ValueOf(name)).Interface())
		}
		return out, nil
	}
}
