package scripted

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/tools/model"
)

// Script is a file of answers.
type Script struct {
	Turns  []Turn // in order
	Asides []Turn // said to requests that are none of the conversation's
}

// Turn is one answer.
type Turn struct {
	Text   string
	Calls  []Call
	Stop   model.Stop // "": as it follows from the calls
	Repeat bool       // of the last turn: it is said again and again
}

// Call is a tool call of an answer.
type Call struct {
	ID   string // "": one is made
	Name string
	Args string // JSON; what is none is what a model would have written wrong
}

// Bounds of a file besides its size.
const (
	maxTurns    = 10_000
	maxCalls    = 1000 // of one turn
	maxDepth    = 100
	maxProblems = 20
)

// Parse reads a file of answers: a YAML list of turns, each with text, tool_calls
// (a list of name and args), or both. Every problem is reported with its place; of
// what the file says, nothing is repeated but keys that look like some.
func Parse(name string, src []byte) (*Script, error) {
	p := &parser{file: name}
	root := p.load(src)
	s := &Script{}
	if root != nil {
		p.turns(s, root)
	}
	if len(p.errs) > 0 {
		return nil, p.errs
	}
	return s, nil
}

type parser struct {
	file string
	errs fault.List
}

func (p *parser) at(line, col int, field, format string, args ...any) {
	if len(p.errs) < maxProblems {
		p.errs = append(p.errs, fault.New(fault.ModelFailed, format, args...).At(fault.Pos{File: p.file, Line: line, Column: col}).In(field))
	}
}

func (p *parser) fail(n *yaml.Node, field, format string, args ...any) {
	p.at(n.Line, n.Column, field, format, args...)
}

func (p *parser) load(src []byte) *yaml.Node {
	if len(src) > MaxSize || !utf8.Valid(src) {
		p.at(1, 1, "", "a file of answers is UTF-8 text of at most %d bytes", MaxSize)
		return nil
	}
	var doc yaml.Node
	if len(bytes.TrimSpace(src)) == 0 {
		return &yaml.Node{Line: 1, Column: 1}
	}
	if err := yaml.Load(src, &doc); err != nil {
		line, col := 1, 1
		var le *yaml.LoadError
		if errors.As(err, &le) {
			line, col = max(le.Mark.Line, 1), max(le.Mark.Column, 1)
		}
		p.at(line, col, "", "this is not YAML")
		return nil
	}
	root := &doc
	if doc.Kind == yaml.DocumentNode && len(doc.Content) == 1 {
		root = doc.Content[0]
	}
	return root
}

func (p *parser) turns(s *Script, root *yaml.Node) {
	if root.Kind != yaml.SequenceNode || len(root.Content) == 0 {
		p.fail(root, "", "a file of answers is a list of turns, each with text or tool_calls")
		return
	}
	if len(root.Content) > maxTurns {
		p.fail(root, "", "there are more than %d turns", maxTurns)
		return
	}
	var repeated string
	for i, n := range root.Content {
		field := fmt.Sprintf("turns[%d]", i)
		t, aside := p.turn(n, field)
		switch {
		case aside && t.Repeat:
			p.fail(n, field, "repeat is not for a turn that is said aside")
		case aside:
			s.Asides = append(s.Asides, t)
			continue
		case repeated != "":
			p.fail(n, field, "no turn comes after one that is repeated")
		}
		if t.Repeat {
			repeated = field
		}
		s.Turns = append(s.Turns, t)
	}
}

func (p *parser) turn(n *yaml.Node, field string) (t Turn, aside bool) {
	said := false
	p.mapping(n, field, map[string]func(*yaml.Node, string){
		"text": func(n *yaml.Node, f string) { t.Text, said = p.text(n, f), true },
		"tool_calls": func(n *yaml.Node, f string) {
			said = true
			t.Calls = p.calls(n, f)
		},
		"stop": func(n *yaml.Node, f string) {
			t.Stop = model.Stop(p.text(n, f))
			if !slices.Contains([]model.Stop{model.StopEnd, model.StopLength, model.StopRefused}, t.Stop) {
				p.fail(n, f, "must be one of end, length, refused")
			}
		},
		"repeat": func(n *yaml.Node, f string) { t.Repeat = p.boolean(n, f) },
		"aside":  func(n *yaml.Node, f string) { aside = p.boolean(n, f) },
	})
	if !said && n.Kind == yaml.MappingNode {
		p.fail(n, field, "a turn has text or tool_calls")
	}
	return t, aside
}

func (p *parser) calls(n *yaml.Node, field string) []Call {
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 || len(n.Content) > maxCalls {
		p.fail(n, field, "must be a list of 1 to %d tool calls", maxCalls)
		return nil
	}
	out := make([]Call, 0, len(n.Content))
	for i, item := range n.Content {
		f := fmt.Sprintf("%s[%d]", field, i)
		c := Call{Args: "{}"}
		p.mapping(item, f, map[string]func(*yaml.Node, string){
			"id":   func(n *yaml.Node, f string) { c.ID = p.text(n, f) },
			"name": func(n *yaml.Node, f string) { c.Name = p.text(n, f) },
			"args": func(n *yaml.Node, f string) { c.Args = p.args(n, f) },
		})
		if c.Name == "" && item.Kind == yaml.MappingNode {
			p.fail(item, f, "a tool call has a name")
		}
		out = append(out, c)
	}
	return out
}

// args gives arguments as JSON. A text is given as it is: what a model might write.
func (p *parser) args(n *yaml.Node, field string) string {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" {
		return n.Value
	}
	if n.Kind != yaml.MappingNode {
		p.fail(n, field, "must be a mapping of names to values, or a text that is taken as it is")
		return ""
	}
	b, err := canon.Marshal(p.value(n, field, 0))
	if err != nil {
		p.fail(n, field, "cannot be written as JSON")
	}
	return string(b)
}

func (p *parser) value(n *yaml.Node, field string, depth int) any {
	if depth > maxDepth {
		p.fail(n, field, "is nested deeper than %d", maxDepth)
		return nil
	}
	switch n.Kind {
	case yaml.MappingNode:
		out := map[string]any{}
		p.pairs(n, field, func(key string, v *yaml.Node) { out[key] = p.value(v, field, depth+1) })
		return out
	case yaml.SequenceNode:
		out := make([]any, 0, len(n.Content))
		for _, item := range n.Content {
			out = append(out, p.value(item, field, depth+1))
		}
		return out
	case yaml.ScalarNode:
		return p.scalar(n, field)
	}
	p.fail(n, field, "anchors and aliases are not used here")
	return nil
}

func (p *parser) scalar(n *yaml.Node, field string) any {
	switch n.Tag {
	case "!!str", "!!timestamp":
		return n.Value
	case "!!null":
		return nil
	case "!!bool", "!!int", "!!float":
		if number.MatchString(n.Value) && n.Tag != "!!bool" {
			return json.Number(n.Value)
		}
		var v any
		if err := n.Load(&v); err == nil {
			return v
		}
	}
	p.fail(n, field, "is no text, number, true, false or null")
	return nil
}

var (
	number = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?$`)
	word   = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,31}$`)
)

// pairs visits the pairs of a mapping, whose keys are different texts.
func (p *parser) pairs(n *yaml.Node, field string, visit func(key string, v *yaml.Node)) {
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		switch {
		case k.Kind != yaml.ScalarNode || k.Tag != "!!str":
			p.fail(k, field, "a key must be a text")
		case seen[k.Value]:
			p.fail(k, field, "a key occurs twice")
		default:
			seen[k.Value] = true
			visit(k.Value, n.Content[i+1])
		}
	}
}

// mapping reads a mapping of known keys.
func (p *parser) mapping(n *yaml.Node, field string, known map[string]func(*yaml.Node, string)) {
	if n.Kind != yaml.MappingNode {
		p.fail(n, field, "must be a mapping")
		return
	}
	p.pairs(n, field, func(key string, v *yaml.Node) {
		switch read := known[key]; {
		case read != nil:
			read(v, field+"."+key)
		case word.MatchString(key):
			p.fail(v, field, "the key %q is not known here", key)
		default:
			p.fail(v, field, "a key is not known here")
		}
	})
}

func (p *parser) text(n *yaml.Node, field string) string {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" {
		p.fail(n, field, "must be a text")
		return ""
	}
	return n.Value
}

func (p *parser) boolean(n *yaml.Node, field string) bool {
	var v bool
	if n.Kind != yaml.ScalarNode || n.Tag != "!!bool" || n.Load(&v) != nil {
		p.fail(n, field, "must be true or false")
	}
	return v
}
