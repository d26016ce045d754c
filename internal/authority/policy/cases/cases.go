// Package cases reads files of calls with their expected decisions, for testing
// policies. It is pure and decides nothing. Start at [Parse].
package cases

import (
	_ "embed" // the schema
	"maps"
	"net/netip"
	"path"
	"slices"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/document"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
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
	Workspace string   // the folder of relative paths; it is never read
	Home      string   // what ~/ stands for; "" if there is none
	Cases     []Case
}

// Case is one call or action with its expected decision.
type Case struct {
	Pos       fault.Pos
	Name      string
	Tool      tool.ID   // of a call; "" where Action is set
	Args      tool.Args // of a call
	Action    tool.Action
	Principal string // the principal whose roles apply; "" for none
	Expect    policy.Effect
	Rule      string // how the deciding rule begins; "" for any
	Real      string // where a file's path really leads, absolute; "" where it says
	Addrs     []netip.Addr
	Said      string   // the person's earlier messages
	After     []Before // earlier calls: the sources of the context's labels and values
}

// Before is a call that was carried out before the one that a case decides.
type Before struct {
	Pos    fault.Pos
	Tool   tool.ID
	Args   tool.Args
	Output string
	Labels []string // of the files and hosts that it reads
}

// The defaults of a file.
const (
	DefaultWorkspace = "/workspace"
	DefaultHome      = "/home/user"
)

// Parse reads a file of cases, YAML or JSON. Every problem is reported at once
// (fault.List, code PolicyInvalid) with line, column and field.
func Parse(file string, src []byte) (*File, error) {
	p := &parser{
		Reader: document.NewReader(file, document.Options{Code: fault.PolicyInvalid, Noun: "file", MaxBytes: MaxSize}),
		out:    File{Workspace: DefaultWorkspace, Home: DefaultHome},
	}
	if root := p.Read(src); root != nil {
		p.cases(root)
	}
	if err := p.Err(); err != nil {
		return nil, err
	}
	return &p.out, nil
}

type parser struct {
	*document.Reader
	out File
}

func (p *parser) cases(root *document.Node) {
	var list *document.Node
	p.Mapping(root, "", document.Fields{
		"version":   p.Version(1),
		"policy":    p.oneOrMore(func(n *document.Node, f string) { p.out.Policies = append(p.out.Policies, p.text(n, f)) }),
		"workspace": p.folder(&p.out.Workspace),
		"home":      p.folder(&p.out.Home),
		"cases":     func(n *document.Node, _ string) { list = n },
	})
	switch {
	case root.Kind != document.Mapping:
	case len(p.out.Policies) == 0 && !p.Failed():
		p.Fail(root, "policy", "no policy is named").Hint = "write policy: FILE, or a list of files that must all allow"
	case list == nil || len(list.Items) == 0:
		p.Fail(root, "cases", "there are no cases; expected a list of them")
	default:
		p.List(0, p.one)(list, "cases")
	}
}

func (p *parser) text(n *document.Node, field string) string {
	if n.Kind != document.String || n.Text == "" {
		p.Expected(n, field, "a string that is not empty")
		return ""
	}
	return n.Text
}

func (p *parser) into(s *string) document.Field {
	return func(n *document.Node, field string) { *s = p.text(n, field) }
}

func (p *parser) folder(s *string) document.Field {
	return func(n *document.Node, field string) {
		if *s = p.text(n, field); *s != "" && (!path.IsAbs(*s) || path.Clean(*s) != *s) {
			p.Fail(n, field, "%q is not an absolute, clean path", *s)
		}
	}
}

// oneOrMore reads a field that holds one value or a list of them.
func (p *parser) oneOrMore(read document.Field) document.Field {
	return func(n *document.Node, field string) {
		if n.Kind == document.List {
			p.List(0, read)(n, field)
			return
		}
		read(n, field)
	}
}

// one reads one case.
func (p *parser) one(n *document.Node, field string) {
	c := Case{Pos: p.Pos(n)}
	var expect, action string
	before := p.Problems()
	p.Mapping(n, field, document.Fields{
		"name":      p.into(&c.Name),
		"call":      func(n *document.Node, f string) { c.Tool, c.Args = p.call(n, f, nil) },
		"said":      p.into(&c.Said),
		"after":     p.List(0, func(n *document.Node, f string) { c.After = append(c.After, p.before(n, f)) }),
		"action":    p.into(&action),
		"principal": p.into(&c.Principal),
		"expect":    p.into(&expect),
		"rule":      p.into(&c.Rule),
		"real":      p.folder(&c.Real),
		"addr":      p.oneOrMore(p.addr(&c)),
	})
	if p.Problems() > before {
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
		p.Fail(n, field+".expect", "what is expected must be allow, ask or deny, not %q", expect)
	}
	switch {
	case action != "" && (c.Said != "" || c.After != nil):
		p.Fail(n, field, "said and after need a call").Hint = "write call: {tool: ID, args: {...}} in place of action"
	case (action == "") == (c.Tool == ""):
		p.Fail(n, field, "a case has either a call or an action").Hint = `write call: {tool: ID, args: {...}}, or action: "files.read a.txt"`
	case action != "":
		var err error
		if c.Action, err = ParseAction(action, p.out.Workspace, p.out.Home); err != nil {
			p.Fail(n, field+".action", "%s", fault.Message(err))
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

// call reads a tool and its arguments, and the fields of more.
func (p *parser) call(n *document.Node, field string, more document.Fields) (id tool.ID, args tool.Args) {
	args = tool.Args{}
	fields := document.Fields{
		"tool": func(n *document.Node, f string) { id = tool.ID(p.text(n, f)) },
		"args": func(n *document.Node, f string) {
			var ok bool
			if args, ok = n.Value().(map[string]any); !ok {
				p.Expected(n, f, "a mapping")
			}
		},
	}
	maps.Copy(fields, more)
	if p.Mapping(n, field, fields); id == "" {
		p.Fail(n, field, "the call names no tool")
	}
	return id, args
}

// before reads a call of after.
func (p *parser) before(n *document.Node, field string) Before {
	b := Before{Pos: p.Pos(n)}
	b.Tool, b.Args = p.call(n, field, document.Fields{
		"output": p.into(&b.Output),
		"labels": p.List(0, func(n *document.Node, f string) { b.Labels = append(b.Labels, p.text(n, f)) }),
	})
	return b
}

func (p *parser) addr(c *Case) document.Field {
	return func(n *document.Node, field string) {
		s := p.text(n, field)
		a, err := netip.ParseAddr(s)
		if err != nil && s != "" {
			p.Fail(n, field, "%q is not a valid IP address", s)
		}
		c.Addrs = append(c.Addrs, a)
	}
}
