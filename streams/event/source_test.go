package event_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// constant is a string constant of the package with a type of its own.
type constant struct {
	value string
	doc   string
}

// constants returns them by type, in the order of the source, so that neither
// golden files nor schemas can miss one.
func constants(t *testing.T) map[string][]constant {
	t.Helper()
	all, err := readConstants()
	require.NoError(t, err)
	return all
}

var readConstants = sync.OnceValues(func() (map[string][]constant, error) {
	files, err := os.ReadDir(".")
	if err != nil {
		return nil, err
	}
	out := map[string][]constant{}
	for _, file := range files {
		if !strings.HasSuffix(file.Name(), ".go") || strings.HasSuffix(file.Name(), "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file.Name(), nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		collectConstants(parsed, out)
	}
	return out, nil
})

func collectConstants(file *ast.File, out map[string][]constant) {
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		typ, named := spec.Type.(*ast.Ident)
		lit, literal := spec.Values[0].(*ast.BasicLit)
		if !named || !literal || lit.Kind != token.STRING {
			return true
		}
		value, err := strconv.Unquote(lit.Value)
		if err != nil {
			return true
		}
		doc := spec.Comment.Text()
		if doc == "" {
			doc = spec.Doc.Text()
		}
		out[typ.Name] = append(out[typ.Name], constant{value, oneLine(doc)})
		return true
	})
}

// oneLine makes a Go comment a description: without line breaks and without the
// brackets of links to Go names.
func oneLine(comment string) string {
	return strings.NewReplacer("[", "", "]", "").Replace(strings.Join(strings.Fields(comment), " "))
}
