package plan

import (
	"bytes"
	"fmt"
	htmltemplate "html/template"
	"strings"
	"text/template/parse"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
)

// markdown is a part written in Markdown (CommonMark with the tables and links of
// GitHub's): one source for the HTML and, as it is, for the text of a mail. What the
// template prints is text in it and never markup, HTML in it is left out, and links to
// scripts are none.
type markdown struct {
	text   *part // as it is
	marked *part // the same, with what it prints escaped
	page   *part // the shared file markdown.html around it; nil: there is none
	locale string
	toHTML goldmark.Markdown
}

// pageName is the shared file that is around the HTML of Markdown.
const pageName = "markdown"

func (c *compiler) compileMarkdown(file, source, locale string) (*part, Problems) {
	m := &markdown{locale: locale, toHTML: goldmark.New(goldmark.WithExtensions(extension.GFM))}
	var problems Problems
	if m.text, problems = c.compilePart(file, source, "md", locale, nil); len(problems) > 0 {
		return m.text, problems
	}
	m.marked, problems = c.compilePart(file, source, "md", locale, escaped)
	if page, ok := c.sharedFor("html", locale)[pageName]; ok && len(problems) == 0 {
		m.page, problems = c.compilePart(page.file, page.source, "html", locale, nil)
	}
	m.text.markdown = m
	return m.text, problems
}

// html returns the HTML of a message, which may have limit bytes.
func (m *markdown) html(data map[string]any, limit int) (string, error) {
	source, err := m.marked.run(data, limit)
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	if err := m.toHTML.Convert([]byte(source), &out); err != nil || out.Len() > limit {
		return "", fmt.Errorf("%s: %w", m.text.file, errOutput)
	}
	if m.page == nil {
		return fmt.Sprintf("<!DOCTYPE html>\n<html lang=%q>\n<head><meta charset=\"utf-8\"></head>\n<body>\n%s</body>\n</html>\n", m.locale, out.String()), nil
	}
	data["content"] = htmltemplate.HTML(out.String()) // goldmark wrote it, of text that was escaped
	defer delete(data, "content")
	return m.page.run(data, limit)
}

// escapeName is the function that [escaped] adds.
const escapeName = "markdown_text"

// escaped has whatever the templates print escaped.
func escaped(trees map[string]*parse.Tree) {
	for _, tree := range trees {
		if tree != nil && tree.Root != nil {
			escapeList(tree, tree.Root)
		}
	}
}

func escapeList(tree *parse.Tree, l *parse.ListNode) {
	if l == nil {
		return
	}
	for _, node := range l.Nodes {
		switch node := node.(type) {
		case *parse.ActionNode:
			escapePipe(tree, node.Pipe)
		case *parse.IfNode:
			escapeBranch(tree, &node.BranchNode)
		case *parse.WithNode:
			escapeBranch(tree, &node.BranchNode)
		case *parse.RangeNode:
			escapeBranch(tree, &node.BranchNode)
		}
	}
}

func escapeBranch(tree *parse.Tree, b *parse.BranchNode) {
	escapeList(tree, b.List)
	escapeList(tree, b.ElseList)
}

// escapePipe passes what is printed to the function; what is only kept in a variable is not.
func escapePipe(tree *parse.Tree, p *parse.PipeNode) {
	if len(p.Decl) > 0 {
		return
	}
	name := parse.NewIdentifier(escapeName).SetTree(tree).SetPos(p.Pos)
	p.Cmds = append(p.Cmds, &parse.CommandNode{NodeType: parse.NodeCommand, Pos: p.Pos, Args: []parse.Node{name}})
}

// markdownText writes a value so that Markdown shows it as it is: CommonMark lets any
// ASCII punctuation be escaped by a backslash (spec.commonmark.org, 2.4), and lines that
// end with one stay lines of the same paragraph.
func markdownText(value any) string {
	var b strings.Builder
	for i, line := range strings.Split(strings.TrimSpace(fmt.Sprint(value)), "\n") {
		if i > 0 {
			b.WriteString("\\\n")
		}
		for _, r := range strings.TrimSpace(line) {
			if r < 0x80 && strings.ContainsRune("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", r) {
				b.WriteByte('\\')
			}
			b.WriteRune(r)
		}
	}
	return b.String()
}
