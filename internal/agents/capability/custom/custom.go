// Package custom reads capabilities that are files: a prompt, tools of the catalog under
// other names, defaults for their arguments, and required capabilities. Start at [Parse].
package custom

import (
	_ "embed" // the schema
	"encoding/json"
	"path"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/document"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

//go:embed schema.json
var schema []byte

// Schema is the JSON Schema of the files, for editors.
func Schema() []byte { return slices.Clone(schema) }

// Bounds of a file.
const (
	maxPrompt   = 16 << 10
	maxTools    = 100
	maxRequires = 32
	maxDefaults = 16 << 10 // bytes of a tool's defaults, as JSON
)

// Capability is a capability from a file.
type Capability struct {
	file  string
	info  capability.Info
	text  string
	tools []offered
	src   string
}

// offered is one tool of a file.
type offered struct {
	id       string
	name     string
	defaults tool.Args
	pos      fault.Pos
}

var format = document.Options{Code: fault.CapabilityInvalid, Noun: "capability", MaxBytes: 64 << 10, MaxDepth: 16}

type reader struct{ *document.Reader }

// Parse reads a file. The error is a fault.List with all problems, each a
// fault.CapabilityInvalid with its line, column and field.
func Parse(file string, src []byte) (*Capability, error) {
	r := &reader{document.NewReader(file, format)}
	c := &Capability{file: file, src: string(src), info: capability.Info{Status: capability.Available, Icon: "puzzle", Category: "Custom"}}
	if root := r.Read(src); root != nil {
		r.capability(c, root)
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	return c, nil
}

// IDOf guesses the ID of the capability in a broken file: from its content, or else from
// its name.
func IDOf(file string, src []byte) string {
	name := strings.TrimSuffix(path.Base(file), path.Ext(file))
	if root := document.NewReader(file, format).Read(src); root != nil {
		if id := root.Lookup("id"); id != nil && capability.ValidID(id.Text) {
			return id.Text
		}
	}
	if capability.ValidID(name) {
		return name
	}
	return ""
}

func (r *reader) capability(c *Capability, root *document.Node) {
	id := func(to *string) document.Field {
		return func(n *document.Node, field string) {
			r.Prose(to, 50)(n, field)
			if *to != "" && !capability.ValidID(*to) {
				r.Fail(n, field, "%q is not a valid ID; expected a lower-case letter, then lower-case letters, digits and _, at most 50 in all", clip.Text(*to, 60))
			}
		}
	}
	status := ""
	r.Mapping(root, "", document.Fields{
		"id":          id(&c.info.ID),
		"name":        r.Prose(&c.info.Name, 100),
		"description": r.Prose(&c.info.Description, 1000),
		"version":     r.version(&c.info.Version),
		"icon":        r.Prose(&c.info.Icon, 50),
		"category":    r.Prose(&c.info.Category, 50),
		"status": func(n *document.Node, field string) {
			r.Prose(&status, 20)(n, field)
			c.info.Status = capability.Status(status)
			if s := c.info.Status; s != capability.Available && s != capability.ComingSoon && s != capability.Deprecated {
				r.Fail(n, field, "must be available, coming_soon or deprecated")
			}
		},
		"requires": r.List(maxRequires, func(n *document.Node, field string) {
			need := ""
			id(&need)(n, field)
			if need != "" && slices.Contains(c.info.Requires, need) {
				r.Fail(n, field, "%q is listed twice", need)
			}
			c.info.Requires = append(c.info.Requires, need)
		}),
		"is_readonly": r.Bool(&c.info.ReadOnly),
		"wants": r.List(maxTools, func(n *document.Node, field string) {
			want := ""
			r.Prose(&want, 200)(n, field)
			c.info.Wants = append(c.info.Wants, want)
		}),
		"prompt": r.Prose(&c.text, maxPrompt),
		"tools":  r.List(maxTools, func(n *document.Node, field string) { r.tool(c, n, field) }),
	}, "id", "name", "description", "version")
	if !r.Failed() && c.text == "" && len(c.tools) == 0 && len(c.info.Requires) == 0 {
		r.Fail(root, "", "the capability is empty: add a prompt, tools or requires")
	}
}

// version reads a string, or a number without quotes.
func (r *reader) version(to *string) document.Field {
	return func(n *document.Node, field string) {
		if n.Kind == document.Number {
			n = &document.Node{Kind: document.String, Text: n.Text, Line: n.Line, Column: n.Column}
		}
		r.Prose(to, 50)(n, field)
	}
}

func (r *reader) tool(c *Capability, n *document.Node, field string) {
	o := offered{pos: r.Pos(n)}
	r.Mapping(n, field, document.Fields{
		"tool": func(n *document.Node, field string) {
			r.Prose(&o.id, 200)(n, field)
			if _, err := tool.ParseID(o.id); o.id != "" && err != nil {
				r.Fail(n, field, "%s", fault.Message(err))
			}
		},
		"name": func(n *document.Node, field string) {
			r.Prose(&o.name, 64)(n, field)
			if o.name != "" && !capability.ValidName(o.name) {
				r.Fail(n, field, "%q is not a valid tool name; expected a letter, then letters, digits, _ and -, at most 64 in all", clip.Text(o.name, 60))
			}
		},
		"defaults": func(n *document.Node, field string) { o.defaults = r.defaults(n, field) },
	}, "tool", "name")
	if slices.ContainsFunc(c.tools, func(x offered) bool { return x.name == o.name && o.name != "" }) {
		r.Fail(n, document.Join(field, "name"), "two tools have the name %q", o.name)
	}
	c.tools = append(c.tools, o)
}

func (r *reader) defaults(n *document.Node, field string) tool.Args {
	m, ok := n.Value().(map[string]any)
	if !ok {
		r.Expected(n, field, "a mapping of arguments to values")
		return nil
	}
	if raw, err := canon.Marshal(m); err != nil || len(raw) > maxDefaults {
		r.Fail(n, field, "the arguments have more than %d bytes as JSON", maxDefaults)
		return nil
	}
	return m
}

// File returns the file that the capability was read from.
func (c *Capability) File() string { return c.file }

// Info describes it.
func (c *Capability) Info() capability.Info {
	out := c.info
	out.Requires, out.Wants = slices.Clone(out.Requires), slices.Clone(out.Wants)
	if len(out.Wants) == 0 {
		for _, o := range c.tools {
			out.Wants = append(out.Wants, "tools "+o.id)
		}
	}
	return out
}

// Part returns the prompt and the tools. A tool that the catalog does not have is
// fault.CapabilityInvalid, with its place in the file.
func (c *Capability) Part(s capability.Session, _ json.RawMessage) (capability.Part, error) {
	part := capability.Part{Prompt: c.text, Source: c.src}
	for _, o := range c.tools {
		if s.Match != nil && !slices.Contains(s.Match(o.id), tool.ID(o.id)) {
			return part, fault.New(fault.CapabilityInvalid, "%s: the tool %q is unknown or cannot be called", o.pos, o.id).ForOperator("list the tools with `remit tools`")
		}
		part.Tools = append(part.Tools, capability.Offer{Name: o.name, ID: tool.ID(o.id), Defaults: o.defaults})
	}
	return part, nil
}
