package policy

import (
	"bytes"
	"fmt"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/remitrun/remit/internal/base/document"
	"github.com/remitrun/remit/internal/base/fault"
)

// MaxSize is the most bytes that a policy document may have.
const MaxSize = 1 << 20

// parser reads one document and bounds what it costs.
type parser struct {
	*document.Reader

	file    string
	parts   int  // so far
	full    bool // there are more than MaxParts; nothing more is read
	program int  // instructions of regular expressions so far
}

// Parse reads a policy document, YAML or JSON. Every problem is reported at once
// (fault.List, code PolicyInvalid) with line, column and field.
func Parse(file string, src []byte) (*Policy, error) {
	p := &parser{file: file, Reader: document.NewReader(file, document.Options{
		Code: fault.PolicyInvalid, Noun: "policy", MaxBytes: MaxSize, MaxDepth: 2 * maxNesting})}
	doc := &content{name: nameOf(file)}
	if root := p.load(src); root != nil {
		p.content(doc, root)
	}
	if err := p.Err(); err != nil {
		return nil, err
	}
	return &Policy{file: file, src: bytes.Clone(src), doc: doc, parts: p.parts, program: p.program}, nil
}

// load reads the tree of values, within the bounds of a policy.
func (p *parser) load(src []byte) *document.Node {
	top := &document.Node{Line: 1, Column: 1}
	if len(src) <= MaxSize && marks(src) > maxMarks {
		p.Fail(top, "", "the policy has more than %d of the characters , : [ {", maxMarks).Hint = "use wildcards, or split the policy"
		return nil
	}
	root := p.Read(src)
	switch {
	case root == nil:
		return nil
	case root.Kind != document.Mapping:
		p.Fail(root, "", "a policy must be a mapping that begins with \"version: 1\", not %s", root.Describe())
		return nil
	case root.Lookup("steps") != nil:
		p.Fail(root, "", "this looks like a plan, not a policy").Hint = "execute a plan with remit run " + p.file
		return nil
	case !p.charge(root, "", countParts(root)):
		return nil
	}
	return root
}

// content reads the top level.
func (p *parser) content(d *content, root *document.Node) {
	fields := p.fields(d.settings())
	fields["version"] = p.Version(1)
	fields["name"] = p.String(&d.name, checkName)
	fields["roles"] = func(n *document.Node, path string) { p.roles(d, n, path) }
	p.mapping(root, "", fields)
	d.place.check(p, root, "", d.inherit)
	d.data.check(p, "", d.inherit)
	d.commands.checkUntold(p)
	d.addStandard(p)
	if root.Lookup("version") == nil {
		p.Fail(root, "version", "the version is missing").Hint = "begin the policy with version: 1"
	}
}

// mapping reads a mapping that may have only the keys given.
func (p *parser) mapping(n *document.Node, path string, known document.Fields) {
	if p.charge(n, path, 1) {
		p.Mapping(n, path, known)
	}
}

// fields are the readers of settings, by key.
func (p *parser) fields(settings []setting) document.Fields {
	out := document.Fields{}
	for _, s := range settings {
		out[s.key] = s.read(p)
	}
	return out
}

func (p *parser) roles(d *content, n *document.Node, path string) {
	p.Each(n, path, func(key, value *document.Node, path string) {
		name, err := principalPattern(key.Text)
		if err != nil {
			p.Fail(key, path, "%v", err)
			return
		}
		if !p.charge(key, path, roleParts) {
			return
		}
		before := p.program
		sub := &content{name: roleName(key.Text)}
		p.mapping(value, path, p.fields(sub.settings()))
		sub.place.check(p, value, path+".", sub.inherit)
		sub.data.check(p, path+".", true)
		sub.addStandard(p)
		pol := &Policy{file: p.file, doc: sub, program: p.program - before}
		pol.src = pol.Print()
		d.roles = append(d.roles, role{pattern: key.Text, name: name, policy: pol})
	})
}

// roleName names the policy of a role apart from its document.
func roleName(pattern string) string {
	if name := "role " + pattern; checkName(name) == nil {
		return name
	}
	return "role"
}

// nameOf is the name of a policy that has none of its own: its file's.
func nameOf(file string) string {
	base := path.Base(strings.ReplaceAll(file, "\\", "/"))
	base = strings.TrimSuffix(base, path.Ext(base))
	if base == "" || base == "." || base == "/" || checkName(base) != nil {
		return "policy"
	}
	return base
}

func checkName(s string) error {
	if s == "" || len(s) > 100 || !utf8.ValidString(s) {
		return fmt.Errorf("a name must have 1 to 100 bytes")
	}
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return fmt.Errorf("the name %q contains an invisible character", s)
		}
	}
	return nil
}

// plain is an error's text without its code.
func plain(err error) string {
	if fault.CodeOf(err) == fault.Internal {
		return err.Error()
	}
	return fault.Message(err)
}
