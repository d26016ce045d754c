// Package cases reads files of calls with the decision that is expected of
// each, for testing policies. It is pure and decides nothing. Start at [Parse].
package cases

import (
	_ "embed" // the schema
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/remitrun/remit/internal/fault"
	"github.com/remitrun/remit/internal/near"
	"github.com/remitrun/remit/internal/policy"
	"github.com/remitrun/remit/internal/tool"
)

// MaxSize is the most bytes that a file may have.
const MaxSize = 1 << 20

//go:embed schema.json
var schema []byte

// Schema is the JSON Schema of the format, for editors.
func Schema() []byte { return slices.Clone(schema) }

// File is a file of cases.
type File struct {
	Policies  []string // files, as written; all must allow
	Workspace string   // what relative paths are beneath; it is not looked at
	Home      string   // what ~/ stands for; "" if there is none
	Cases     []Case
}

// Case is one call or action and what is expected of it.
type Case struct {
	Pos       fault.Pos
	Name      string
	Tool      tool.ID   // of a call; "" where Action is set
	Args      tool.Args // of a call
	Action    tool.Action
	Principal string // whose roles apply; "" for those of nobody in particular
	Expect    policy.Effect
	Rule      string // how the deciding rule begins; "" for any
	Real      string // where a file's path really leads, absolute; "" where it says
	Addrs     []netip.Addr
}

// The defaults of a file.
const (
	DefaultWorkspace = "/workspace"
	DefaultHome      = "/home/user"
)

// Parse reads a file of cases, YAML or JSON. Every problem is reported at once
// (fault.List, code PolicyInvalid) with line, column and field.
func Parse(file string, src []byte) (*File, error) {
	p := &parser{file: file, out: File{Workspace: DefaultWorkspace, Home: DefaultHome}}
	if len(src) > MaxSize || !utf8.Valid(src) {
		return nil, fault.New(fault.PolicyInvalid, "the file is larger than %d bytes, or not UTF-8", MaxSize).At(fault.Pos{File: file})
	}
	var doc yaml.Node
	if err := yaml.Load(src, &doc); err != nil {
		line, msg := 1, err.Error()
		var le *yaml.LoadError
		if errors.As(err, &le) {
			line, msg = max(le.Mark.Line, 1), le.Message
		}
		return nil, fault.New(fault.PolicyInvalid, "not YAML: %s", msg).At(fault.Pos{File: file, Line: line, Column: 1})
	}
	root := &doc
	if doc.Kind == yaml.DocumentNode && len(doc.Content) == 1 {
		root = doc.Content[0]
	}
	var list *yaml.Node
	p.mapping(root, "", map[string]reader{
		"version":   p.version,
		"policy":    p.policies,
		"workspace": p.folder(&p.out.Workspace),
		"home":      p.folder(&p.out.Home),
		"cases":     func(n *yaml.Node, _ string) { list = n },
	})
	switch {
	case root.Kind != yaml.MappingNode:
	case len(p.out.Policies) == 0 && len(p.errs) == 0:
		p.problem(root, "policy", "no policy is named").Hint = "write policy: FILE, or a list of files that must all allow"
	case list == nil || list.Kind != yaml.SequenceNode || len(list.Content) == 0:
		p.fail(root, "cases", "there are no cases: a list is needed")
	default:
		for i, n := range list.Content {
			p.one(n, fmt.Sprintf("cases[%d]", i))
		}
	}
	if len(p.errs) > 0 {
		return nil, p.errs
	}
	return &p.out, nil
}

type parser struct {
	file string
	errs fault.List
	out  File
}

type reader func(n *yaml.Node, field string)

func (p *parser) fail(n *yaml.Node, field, format string, args ...any) {
	_ = p.problem(n, field, format, args...) // nothing to add to it
}

// problem notes a problem and gives it for a hint.
func (p *parser) problem(n *yaml.Node, field, format string, args ...any) *fault.Error {
	e := fault.New(fault.PolicyInvalid, format, args...).At(fault.Pos{File: p.file, Line: n.Line, Column: n.Column}).In(field)
	const most = 100
	if len(p.errs) < most {
		p.errs = append(p.errs, e)
	}
	return e
}

// mapping reads a mapping that may have only the keys given, each once.
func (p *parser) mapping(n *yaml.Node, field string, known map[string]reader) {
	if n.Kind != yaml.MappingNode {
		p.fail(n, field, "must be a mapping")
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		f := strings.TrimPrefix(field+"."+k.Value, ".")
		read, ok := known[k.Value]
		switch {
		case !ok:
			names := make([]string, 0, len(known))
			for name := range known {
				names = append(names, name)
			}
			slices.Sort(names)
			e := p.problem(k, f, "unknown key %q", k.Value)
			if e.Hint = "known here: " + strings.Join(names, ", "); near.Word(k.Value, names) != "" {
				e.Hint = fmt.Sprintf("did you mean %q?", near.Word(k.Value, names))
			}
		case seen[k.Value]:
			p.fail(k, f, "key %q is given twice", k.Value)
		default:
			read(v, f)
		}
		seen[k.Value] = true
	}
}

func (p *parser) version(n *yaml.Node, field string) {
	if n.Tag != "!!int" || n.Value != "1" {
		p.fail(n, field, "this Remit reads version 1")
	}
}

func (p *parser) text(n *yaml.Node, field string) string {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" && n.Tag != "!!timestamp" || n.Value == "" {
		p.fail(n, field, "must be a string that is not empty")
		return ""
	}
	return n.Value
}

func (p *parser) into(s *string) reader {
	return func(n *yaml.Node, field string) { *s = p.text(n, field) }
}

func (p *parser) folder(s *string) reader {
	return func(n *yaml.Node, field string) {
		if *s = p.text(n, field); *s != "" && (!path.IsAbs(*s) || path.Clean(*s) != *s) {
			p.fail(n, field, "%q is no absolute, clean path", *s)
		}
	}
}

func (p *parser) policies(n *yaml.Node, field string) {
	list := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		list = n.Content
	}
	for _, c := range list {
		p.out.Policies = append(p.out.Policies, p.text(c, field))
	}
}

// one reads one case.
func (p *parser) one(n *yaml.Node, field string) {
	c := Case{Pos: fault.Pos{File: p.file, Line: n.Line, Column: n.Column}}
	var expect, action string
	before := len(p.errs)
	p.mapping(n, field, map[string]reader{
		"name":      p.into(&c.Name),
		"call":      func(n *yaml.Node, f string) { p.call(n, f, &c) },
		"action":    p.into(&action),
		"principal": p.into(&c.Principal),
		"expect":    p.into(&expect),
		"rule":      p.into(&c.Rule),
		"real":      p.folder(&c.Real),
		"addr":      func(n *yaml.Node, f string) { p.addrs(n, f, &c) },
	})
	if len(p.errs) > before {
		return
	}
	switch expect {
	case "allow":
		c.Expect = policy.Allow
	case "ask":
		c.Expect = policy.Ask
	case "deny":
		c.Expect = policy.Deny
	default:
		p.fail(n, field+".expect", "what is expected must be allow, ask or deny, not %q", expect)
	}
	switch {
	case (action == "") == (c.Tool == ""):
		p.problem(n, field, "a case has either a call or an action").Hint = `write call: {tool: ID, args: {...}}, or action: "files.read a.txt"`
	case action != "":
		var err error
		if c.Action, err = ParseAction(action, p.out.Workspace, p.out.Home); err != nil {
			p.fail(n, field+".action", "%s", fault.Message(err))
		}
	}
	if c.Name == "" {
		c.Name = action
		if c.Tool != "" {
			c.Name = string(c.Tool)
		}
	}
	p.out.Cases = append(p.out.Cases, c)
}

func (p *parser) call(n *yaml.Node, field string, c *Case) {
	c.Args = tool.Args{}
	p.mapping(n, field, map[string]reader{
		"tool": func(n *yaml.Node, f string) { c.Tool = tool.ID(p.text(n, f)) },
		"args": func(n *yaml.Node, f string) {
			if m, ok := p.value(n, f, 0).(map[string]any); ok {
				c.Args = m
			} else {
				p.fail(n, f, "must be a mapping")
			}
		},
	})
	if c.Tool == "" {
		p.fail(n, field, "the call names no tool")
	}
}

// maxDepth bounds values within one another.
const maxDepth = 24

// value reads a YAML node as the JSON value that it stands for.
func (p *parser) value(n *yaml.Node, field string, depth int) any {
	switch {
	case depth > maxDepth:
		p.fail(n, field, "nested more than %d levels deep", maxDepth)
		return nil
	case n.Kind == yaml.SequenceNode:
		out := make([]any, len(n.Content))
		for i, c := range n.Content {
			out[i] = p.value(c, fmt.Sprintf("%s[%d]", field, i), depth+1)
		}
		return out
	case n.Kind == yaml.MappingNode:
		out := map[string]any{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i].Value
			if _, twice := out[key]; twice {
				p.fail(n.Content[i], field, "key %q is given twice", key)
			}
			out[key] = p.value(n.Content[i+1], field+"."+key, depth+1)
		}
		return out
	case n.Kind != yaml.ScalarNode:
		p.fail(n, field, "aliases are not allowed: write the value out")
		return nil
	}
	switch n.Tag {
	case "!!str", "!!timestamp":
		return n.Value
	case "!!null":
		return nil
	case "!!bool":
		return strings.EqualFold(n.Value, "true")
	case "!!int", "!!float":
		if json.Valid([]byte(n.Value)) {
			return json.Number(n.Value)
		}
	}
	p.problem(n, field, "%q is no JSON value", n.Value).Hint = "put a string in quotes; write numbers in plain decimal"
	return nil
}

func (p *parser) addrs(n *yaml.Node, field string, c *Case) {
	list := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		list = n.Content
	}
	for _, v := range list {
		s := p.text(v, field)
		a, err := netip.ParseAddr(s)
		if err != nil && s != "" {
			p.fail(v, field, "%q is no address", s)
			continue
		}
		c.Addrs = append(c.Addrs, a)
	}
}
