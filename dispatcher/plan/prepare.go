package plan

import (
	"fmt"
	"maps"
	"slices"
	"text/template/parse"
)

// prepare checks what a file calls: that it is there, and that nothing calls itself, by
// whatever way. It makes every loop and every call write at least an empty text, which is
// what output counts. What is shared counts if it is called. called are the names that count.
func prepare(file string, trees map[string]*parse.Tree, shared map[string]sharedFile) (called map[string]bool, problems Problems) {
	called = map[string]bool{}
	calls := map[string][]string{}
	var open []string
	for _, name := range slices.Sorted(maps.Keys(trees)) {
		if _, ok := shared[name]; !ok {
			called[name], open = true, append(open, name)
		}
	}
	for len(open) > 0 {
		name := open[0]
		open = open[1:]
		tree := trees[name]
		if tree == nil || tree.Root == nil {
			continue
		}
		v := visitor{tick: tick(tree)}
		v.list(tree.Root)
		v.prepend(tree.Root)
		for _, c := range v.called {
			if trees[c.Name] == nil {
				problems = append(problems, Problem{File: file, Line: c.Line, Text: fmt.Sprintf("there is no template %q in this file or in %s", c.Name, sharedFolder), template: name})
			}
			calls[name] = append(calls[name], c.Name)
			if !called[c.Name] {
				called[c.Name] = true
				open = append(open, c.Name)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(calls)) {
		if reaches(calls, name, name, map[string]bool{}) {
			problems = append(problems, Problem{File: file, Text: fmt.Sprintf("the template %q calls itself", name), template: name})
		}
	}
	return called, problems
}

func reaches(calls map[string][]string, from, to string, seen map[string]bool) bool {
	for _, next := range calls[from] {
		if next == to {
			return true
		}
		if !seen[next] {
			seen[next] = true
			if reaches(calls, next, to, seen) {
				return true
			}
		}
	}
	return false
}

func tick(tree *parse.Tree) func() parse.Node {
	return func() parse.Node { return &parse.TextNode{NodeType: parse.NodeText, Pos: tree.Root.Pos} }
}

// visitor goes through the nodes of one template.
type visitor struct {
	tick   func() parse.Node
	called []*parse.TemplateNode
}

func (v *visitor) list(l *parse.ListNode) {
	if l == nil {
		return
	}
	for _, node := range l.Nodes {
		switch node := node.(type) {
		case *parse.TemplateNode:
			v.called = append(v.called, node)
		case *parse.IfNode:
			v.branch(&node.BranchNode)
		case *parse.WithNode:
			v.branch(&node.BranchNode)
		case *parse.RangeNode:
			v.branch(&node.BranchNode)
			v.prepend(node.List)
		}
	}
}

func (v *visitor) branch(b *parse.BranchNode) {
	v.list(b.List)
	v.list(b.ElseList)
}

func (v *visitor) prepend(l *parse.ListNode) { l.Nodes = slices.Insert(l.Nodes, 0, v.tick()) }
