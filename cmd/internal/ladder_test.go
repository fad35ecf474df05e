package internal_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The import ladder, bottom-up. A package belongs to the rung with the longest matching path and
// may import its own rung and those it stands on; nothing else of this module.
//
//	streams/event <- streams, store <- bridge, dispatcher, projector <- cmd/internal <- cmd/tidings
var ladder = []rung{
	{path: "streams/event"},
	{path: "streams", on: []string{"streams/event"}},
	{path: "store", on: []string{"streams/event", "streams"}},
	{path: "bridge", on: []string{"streams/event", "streams", "store"}},
	{path: "dispatcher", on: []string{"streams/event", "streams", "store"}},
	{path: "projector", on: []string{"streams/event", "streams", "store"}},
	{path: "examples"}, // data, embedded for the demo
	{path: "docs"},     // the same, for tidings config schema
	{path: "cmd/internal", on: []string{"streams/event", "streams", "store", "bridge", "dispatcher", "projector", "examples"}},
	{path: "cmd/tidings", on: []string{"streams/event", "streams", "store", "bridge", "cmd/internal", "docs", "examples"}},
}

type rung struct {
	path string
	on   []string
}

// testOnly are the packages made for tests. Tests of any rung may use them; beside tests only the
// commands may, for the demo.
var testOnly = []string{"bridge/bridgetest", "streams/streamstest", "store/storetest", "dispatcher/channel/channeltest"}

// watermill starts the import paths that bridge alone may use.
const watermill = "github.com/ThreeDotsLabs/"

const module = "tidings/"

func TestLadder(t *testing.T) {
	pkgs := listPackages(t)
	require.NotEmpty(t, pkgs)
	for _, v := range violations(pkgs) {
		t.Error(v)
	}
}

func TestLadderSeesEveryKindOfViolation(t *testing.T) {
	for _, c := range []struct {
		name string
		pkg  goPackage
		want string // "" if allowed
	}{
		{"the vocabulary imports the log", imports("streams/event", "tidings/streams"), "streams/event may import"},
		{"the log imports the vocabulary", imports("streams/embedded", "tidings/streams/event"), ""},
		{"the log imports the store", imports("streams", "tidings/store"), "streams may import"},
		{"the store imports the log", imports("store", "tidings/streams"), ""},
		{"the store imports a part", imports("store", "tidings/projector"), "store may import"},
		{"a part imports its own folder", imports("dispatcher", "tidings/dispatcher/plan"), ""},
		{"a part imports another part", imports("projector", "tidings/dispatcher/channel"), "projector may import"},
		{"a part's test imports another part", tests("projector", "tidings/dispatcher"), "projector may import"},
		{"a part imports a command", imports("bridge", "tidings/cmd/internal/config"), "bridge may import"},
		{"the wiring imports the parts", imports("cmd/internal/app", "tidings/bridge", "tidings/dispatcher"), ""},
		{"a command shows what the ledger holds", imports("cmd/tidings", "tidings/store"), ""},
		{"a command goes around the wiring", imports("cmd/tidings", "tidings/dispatcher"), "cmd/tidings may import"},
		{"an example imports the product", imports("examples/shop", "tidings/store"), "examples may import"},
		{"main's tests look anywhere", tests("cmd/tidings", "tidings/store"), ""},
		{"the demo starts a broker", imports("cmd/tidings", "tidings/bridge/bridgetest"), ""},
		{"a test uses a package made for tests", tests("dispatcher", "tidings/bridge/bridgetest"), ""},
		{"product code uses a package made for tests", imports("bridge", "tidings/bridge/bridgetest"), "made for tests"},
		{"a package made for tests uses another", imports("bridge/bridgetest", "tidings/streams/streamstest"), ""},
		{"watermill in the bridge", imports("bridge", watermill+"watermill/message"), ""},
		{"watermill elsewhere", imports("streams", watermill+"watermill/message"), "only in bridge"},
		{"watermill in a test elsewhere", tests("cmd/tidings", watermill+"watermill"), "only in bridge"},
		{"a folder that is not of the house", imports("internal/util"), "belongs to no folder"},
		{"a library", imports("streams/event", "github.com/google/uuid"), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := violations([]goPackage{c.pkg})
			if c.want == "" {
				require.Empty(t, got)
				return
			}
			require.Len(t, got, 1)
			require.Contains(t, got[0], c.want)
		})
	}
}

func imports(path string, of ...string) goPackage {
	return goPackage{ImportPath: module + path, Imports: of}
}

func tests(path string, of ...string) goPackage {
	return goPackage{ImportPath: module + path, XTestImports: of}
}

// goPackage is what go list tells of a package.
type goPackage struct {
	ImportPath                         string
	Imports, TestImports, XTestImports []string
}

func listPackages(t *testing.T) []goPackage {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports,TestImports,XTestImports", "tidings/...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	var pkgs []goPackage
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			require.NoError(t, err)
		}
		pkgs = append(pkgs, p)
	}
}

// violations says of each import that breaks the ladder what to do about it.
func violations(pkgs []goPackage) []string {
	var found []string
	for _, p := range pkgs {
		path := strings.TrimPrefix(p.ImportPath, module)
		own, ok := rungOf(path)
		if !ok {
			found = append(found, fmt.Sprintf("%s belongs to no folder of the house: move it below one of %s",
				path, strings.Join(paths(), ", ")))
			continue
		}
		for _, i := range p.Imports {
			found = append(found, judge(path, own, i, false)...)
		}
		for _, i := range slices.Concat(p.TestImports, p.XTestImports) {
			found = append(found, judge(path, own, i, true)...)
		}
	}
	return found
}

// judge returns the violation of one import, or nothing.
func judge(path string, own rung, imported string, inTest bool) []string {
	if strings.HasPrefix(imported, watermill) && own.path != "bridge" {
		return []string{fmt.Sprintf("%s imports %s: Watermill lives only in bridge; let bridge do it, or ask for an interface", path, imported)}
	}
	target, ok := strings.CutPrefix(imported, module)
	if !ok {
		return nil
	}
	inCmd := strings.HasPrefix(path, "cmd/")
	if within(target, testOnly) {
		if inTest || inCmd || within(path, testOnly) {
			return nil
		}
		return []string{fmt.Sprintf("%s imports %s, which is made for tests: use it in _test.go files, or in cmd for the demo", path, target)}
	}
	rung, _ := rungOf(target)
	if rung.path == own.path || slices.Contains(own.on, rung.path) || inTest && inCmd {
		return nil
	}
	return []string{fmt.Sprintf("%s imports %s, but %s may import only its own folder and [%s]: "+
		"move what is needed down the ladder, or declare an interface in %s and wire it in cmd/internal/app",
		path, target, own.path, strings.Join(own.on, ", "), path)}
}

// rungOf finds the rung a package belongs to. The first match is the longest: streams/event comes
// before streams, and no other rungs share a beginning.
func rungOf(path string) (rung, bool) {
	i := slices.IndexFunc(ladder, func(r rung) bool { return within(path, []string{r.path}) })
	if i < 0 {
		return rung{}, false
	}
	return ladder[i], true
}

// within tells whether path is one of folders or lies below one.
func within(path string, folders []string) bool {
	return slices.ContainsFunc(folders, func(f string) bool { return path == f || strings.HasPrefix(path, f+"/") })
}

func paths() []string {
	var all []string
	for _, r := range ladder {
		all = append(all, r.path)
	}
	return all
}
