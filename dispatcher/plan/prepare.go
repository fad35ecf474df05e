package plan

import (
	"fmt"
	"maps"
	"slices"
	"text/template/parse"
)

// prepare checks that no template of a file calls itself, by whatever way, and
// makes every loop and every call write at least an empty text, which is what
// output counts.
func prepare(file string, trees map[string]*parse.Tree) Problems {
	var problems Problems
	calls := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(trees)) {
		tree := trees[name]
		if tree == nil || tree.Root == nil {
			continue
		}
		v := visitor{tick: tick(tree)}
		v.list(tree.Root)
		v.prepend(tree.Root)
		for _, called := range v.called {
			if trees[called.Name] == nil {
				problems = append(problems, Problem{File: file, Line: called.Line, Text: fmt.Sprintf("there is no template %q in this file", called.Name)})
			}
			calls[name] = append(calls[name], called.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(calls)) {
		if reaches(calls, name, name, map[string]bool{}) {
			problems = append(problems, Problem{File: file, Text: fmt.Sprintf("the template %q calls itself", name)})
		}
	}
	return problems
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
