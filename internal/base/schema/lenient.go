package schema

import (
	"fmt"
	"strings"
)

// A schema of a stranger may have keywords that cannot be used here: a pattern that only ECMAScript
// knows, null in place of an absent keyword, a boolean of draft 4, a reference that leads nowhere.
// [CompileUsable] leaves such keywords out. A value that fits the whole schema always fits the rest
// of it: keywords that turn a looser part into a stricter whole, as not and oneOf, are loosened too.

// CompileUsable compiles a schema without the keywords that cannot be used. It fails only where
// [Unusable] does, or where the schema is too large or not JSON.
func CompileUsable(name string, src []byte) (*Schema, error) { return compileSource(name, src, true) }

// Unusable returns the reason why a decoded schema cannot be used at all, or nil. The reason names
// the keyword.
func Unusable(doc any) error {
	if depth(doc) > MaxDepth {
		return fmt.Errorf("it is nested more than %d levels deep", MaxDepth)
	}
	switch m := doc.(type) {
	case bool:
		return nil
	case map[string]any:
		if t, there := m["type"]; there && !admitsObject(t) {
			return fmt.Errorf("type: got %.60v, want object, as arguments are an object", t)
		}
		_, _, err := newCompiler(doc, true)
		return err
	}
	return fmt.Errorf("expected a schema, which is an object or a boolean, got %s", typeOf(doc))
}

// admitsObject reports whether a type keyword admits objects. One that is unusable admits all.
func admitsObject(t any) bool {
	list, isList := t.([]any)
	if !isList {
		list = []any{t}
	}
	known := len(list) > 0
	for _, one := range list {
		text, _ := one.(string)
		if text == "object" {
			return true
		}
		known = known && isTypeName(text)
	}
	return !known
}

// usable returns the keywords of a schema except keywords with the value null.
func usable(m map[string]any) map[string]any {
	out := make(map[string]any, len(m))
	for key, v := range m {
		if v != nil || key == "const" {
			out[key] = v
		}
	}
	return out
}

// loosen loosens the schemas that a part without all its keywords would make stricter.
func (c *compiler) loosen() {
	if len(c.partial) == 0 {
		return
	}
	above := map[*node][]*node{}
	for _, n := range c.all {
		for _, below := range n.parts() {
			above[below] = append(above[below], n)
		}
	}
	loose := map[*node]bool{}
	for next := c.partial; len(next) > 0; {
		n := next[len(next)-1]
		next = next[:len(next)-1]
		if !loose[n] {
			loose[n] = true
			next = append(next, above[n]...)
		}
	}
	for _, n := range c.all { // the dynamic scope may lead anywhere
		if n.dynamic != "" || n.recurses {
			c.loosenAll()
			return
		}
	}
	for n := range loose {
		n.loosen(func(below *node) bool { return loose[below] })
	}
}

func (c *compiler) loosenAll() {
	for _, n := range c.all {
		n.loosen(func(*node) bool { return true })
	}
}

// loosen removes the keywords of a node that fail because a loose part fits.
func (n *node) loosen(loose func(*node) bool) {
	if n.not != nil && loose(n.not) {
		n.not = nil
	}
	if n.ifNode != nil && loose(n.ifNode) {
		n.ifNode, n.thenNode, n.elseNode = nil, nil, nil
	}
	if n.contains != nil && loose(n.contains) {
		n.maxContains = -1
	}
	for _, one := range n.oneOf {
		if loose(one) {
			oneOrMore := newNode(n.resource)
			oneOrMore.anyOf, n.oneOf = n.oneOf, nil
			n.allOf = append(n.allOf, oneOrMore)
			break
		}
	}
	n.unevaluated, n.unevaluatedItems = nil, nil
}

// parts are the schemas that a node consists of.
func (n *node) parts() []*node {
	out := []*node{n.items, n.contains, n.unevaluatedItems, n.additional, n.propertyNames, n.unevaluated, n.ref, n.not, n.ifNode, n.thenNode, n.elseNode}
	for _, list := range [][]*node{n.prefix, n.allOf, n.anyOf, n.oneOf} {
		out = append(out, list...)
	}
	for _, p := range n.properties {
		out = append(out, p)
	}
	for _, p := range n.patterns {
		out = append(out, p.node)
	}
	for _, d := range n.dependents {
		out = append(out, d.node)
	}
	return out
}

// draftOf returns the draft that a $schema names; 0: an unknown one. A usable schema may name it
// with the other of http and https.
func (c *compiler) draftOf(text string) int {
	text = strings.TrimSuffix(text, "#")
	if d := drafts[text]; d != 0 || !c.lenient {
		return d
	}
	rest, secure := strings.CutPrefix(text, "https://")
	if !secure {
		rest = strings.TrimPrefix(text, "http://")
	}
	return max(drafts["http://"+rest], drafts["https://"+rest])
}
