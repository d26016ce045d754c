package policy

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/remitrun/remit/internal/authority/policy/glob"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/near"
)

// MaxSize is the most bytes that a policy document may have.
const MaxSize = 1 << 20

// maxProblems bounds how many problems of one document are reported.
const maxProblems = 100

// parser reads one document and collects everything that is wrong with it.
type parser struct {
	file    string
	errs    fault.List
	parts   int  // so far
	full    bool // there are more than MaxParts; no more is read
	program int  // instructions of regular expressions so far
}

// Parse reads a policy document (YAML, or JSON which is YAML). Every problem is
// reported at once (fault.List, code PolicyInvalid) with line, column and field.
func Parse(file string, src []byte) (*Policy, error) {
	p := &parser{file: file}
	root := p.load(src)
	if root == nil {
		return nil, p.errs
	}
	p.plain(root, 0)
	if p.charge(root, "", 0); len(p.errs) > 0 {
		return nil, p.errs
	}
	doc := &document{name: nameOf(file)}
	p.document(doc, root)
	if len(p.errs) > 0 {
		return nil, p.errs
	}
	return &Policy{file: file, src: bytes.Clone(src), doc: doc, parts: p.parts, program: p.program}, nil
}

// nameOf is a policy's name where it does not say one: its file's.
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
		return fmt.Errorf("a name has 1 to 100 bytes")
	}
	for _, r := range s {
		if r < ' ' || r == 0x7f || !printable(r) {
			return fmt.Errorf("name %q holds a character that cannot be seen", s)
		}
	}
	return nil
}

// load reads the one document's node tree.
func (p *parser) load(src []byte) *yaml.Node {
	switch {
	case len(src) > MaxSize:
		p.at(1, 1, "", "the policy has %d bytes, more than %d", len(src), MaxSize)
	case !utf8.Valid(src):
		p.at(lineOf(src, invalidAt(src)), 1, "", "the policy is not UTF-8")
	case bytes.IndexByte(src, 0) >= 0:
		p.at(lineOf(src, bytes.IndexByte(src, 0)), 1, "", "the policy holds a NUL byte")
	case marks(src) > maxMarks:
		p.at(1, 1, "", "the policy has more than %d of the characters , : [ {", maxMarks).Hint = "use wildcards, or split the policy"
	default:
		p.shown(src)
	}
	if len(p.errs) > 0 {
		return nil
	}
	var doc yaml.Node
	if err := yaml.Load(src, &doc); err != nil {
		line, col, msg := 1, 1, err.Error()
		var le *yaml.LoadError
		if errors.As(err, &le) {
			line, col, msg = max(le.Mark.Line, 1), max(le.Mark.Column, 1), le.Message
		}
		p.at(line, col, "", "not YAML: %s", msg)
		return nil
	}
	root := &doc
	if doc.Kind == yaml.DocumentNode && len(doc.Content) == 1 {
		root = doc.Content[0]
	}
	if root.Kind != yaml.MappingNode {
		p.fail(root, "", "a policy is a mapping that begins with \"version: 1\"")
		return nil
	}
	return root
}

// shown refuses characters by which a policy looks like another one where it is
// reviewed: line breaks of YAML that editors do not break lines at, and those
// that change the direction of text.
func (p *parser) shown(src []byte) {
	for i, r := range string(src) {
		switch {
		case r == 0x85, r == 0x2028, r == 0x2029, r == '\r' && (i+1 == len(src) || src[i+1] != '\n'):
			p.at(lineOf(src, i), 1, "", "the policy holds the line break %+q, which many editors do not show as one", r).Hint = "end lines with \\n or \\r\\n"
		case r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069, r == 0x200e, r == 0x200f, r == 0x61c:
			p.at(lineOf(src, i), 1, "", "the policy holds the character %+q, which changes how the text around it is shown", r)
		}
	}
}

func invalidAt(src []byte) int {
	for i := 0; i < len(src); {
		r, n := utf8.DecodeRune(src[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return 0
}

func lineOf(src []byte, at int) int { return 1 + bytes.Count(src[:at], []byte("\n")) }

// plain refuses what a policy has no use for and readers overlook: anchors,
// aliases, merge keys and explicit tags; and nesting beyond reason.
func (p *parser) plain(n *yaml.Node, depth int) {
	p.parts++
	if depth > 2*maxNesting {
		p.fail(n, "", "nested more than %d levels deep", 2*maxNesting)
		return
	}
	switch {
	case n.Kind == yaml.AliasNode:
		p.fail(n, "", "aliases (*%s) are not allowed: write the value out", n.Value)
		return
	case n.Anchor != "":
		p.fail(n, "", "anchors (&%s) are not allowed: write the value out where it is used", n.Anchor)
	case n.Style&yaml.TaggedStyle != 0:
		p.fail(n, "", "tags (%s) are not allowed", n.Tag)
	}
	for _, c := range n.Content {
		p.plain(c, depth+1)
	}
}

func (p *parser) pos(n *yaml.Node) fault.Pos {
	return fault.Pos{File: p.file, Line: n.Line, Column: n.Column}
}

func (p *parser) at(line, col int, field, format string, args ...any) *fault.Error {
	e := fault.New(fault.PolicyInvalid, format, args...).At(fault.Pos{File: p.file, Line: line, Column: col}).In(field)
	if len(p.errs) < maxProblems {
		p.errs = append(p.errs, e)
	}
	return e
}

func (p *parser) fail(n *yaml.Node, field, format string, args ...any) *fault.Error {
	return p.at(n.Line, n.Column, field, format, args...)
}

// keys says how to read each key of a mapping.
type keys map[string]func(n *yaml.Node, field string)

// mapping reads a mapping that may have only the keys given.
func (p *parser) mapping(n *yaml.Node, field string, known keys) {
	if !p.charge(n, field, 1) {
		return
	}
	p.pairs(n, field, func(k, v *yaml.Node, f string) {
		read, ok := known[k.Value]
		if !ok {
			if e := p.fail(k, f, "unknown key %q", k.Value); len(p.errs) < maxProblems {
				e.Hint = suggest(k.Value, known)
			}
			return
		}
		read(v, f)
	})
}

// pairs reads a mapping's keys and values, each key once.
func (p *parser) pairs(n *yaml.Node, field string, read func(k, v *yaml.Node, field string)) {
	if n.Kind != yaml.MappingNode {
		p.fail(n, field, "must be a mapping, not %s", describe(n))
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if k.Kind != yaml.ScalarNode || !isText(k) {
			p.fail(k, field, "a key must be a string, not %s", describe(k))
			continue
		}
		f := join(field, k.Value)
		if line, dup := seen[k.Value]; dup {
			p.fail(k, f, "key %q is given twice, first on line %d", k.Value, line)
			continue
		}
		seen[k.Value] = k.Line
		read(k, v, f)
	}
}

func join(field, key string) string {
	if strings.ContainsAny(key, ".[]\" \t") || key == "" {
		key = fmt.Sprintf("[%q]", key)
		return field + key
	}
	if field == "" {
		return key
	}
	return field + "." + key
}

// suggest names the known key that is meant, or lists them all.
func suggest(got string, known keys) string {
	names := make([]string, 0, len(known))
	for k := range known {
		names = append(names, k)
	}
	slices.Sort(names)
	if best := near.Word(got, names); best != "" {
		return fmt.Sprintf("did you mean %q?", best)
	}
	return "known here: " + strings.Join(names, ", ")
}

func isText(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && (n.Tag == "!!str" || n.Tag == "!!timestamp")
}

func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.ScalarNode:
		switch n.Tag {
		case "!!null":
			return "nothing"
		case "!!str", "!!timestamp":
			return fmt.Sprintf("the string %q", clip(n.Value))
		}
		return fmt.Sprintf("%s (%s)", clip(n.Value), strings.TrimPrefix(n.Tag, "!!"))
	}
	return "this"
}

func clip(s string) string {
	if len(s) > 40 {
		return strings.ToValidUTF8(s[:40], "") + "…"
	}
	return s
}

// checkPath compiles a path pattern only to see that it is one, and how much its
// braces add to it.
func checkPath(pattern string, deny bool) (added int, err error) {
	compiled, err := compilePath(pattern, deny, Env{Workspace: "/workspace", Home: "/home"}, glob.Options{})
	if err != nil {
		return 0, err
	}
	return compiled.Added(), nil
}
