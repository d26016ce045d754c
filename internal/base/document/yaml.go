package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/regex"
)

func (r *Reader) parseYAML(src []byte) *Node {
	loader, err := yaml.NewLoader(bytes.NewReader(src))
	var doc, second yaml.Node
	if err == nil {
		err = loader.Load(&doc)
	}
	if errors.Is(err, io.EOF) {
		r.fail(1, 1, "", "the %s is empty", words(r.o.Noun))
		return nil
	}
	if err != nil {
		r.yamlError(src, err)
		return nil
	}
	switch err := loader.Load(&second); {
	case err == nil:
		r.fail(second.Line, second.Column, "", "a second document begins here").Hint = "put it into a file of its own"
		return nil
	case !errors.Is(err, io.EOF):
		r.yamlError(src, err)
		return nil
	}
	top := &doc
	if top.Kind == yaml.DocumentNode && len(top.Content) == 1 {
		top = top.Content[0]
	}
	return r.fromYAML(top, "", 0, false)
}

func (r *Reader) yamlError(src []byte, err error) {
	line, column, msg := 1, 1, err.Error()
	var le *yaml.LoadError
	if errors.As(err, &le) {
		line, column, msg = max(le.Mark.Line, 1), max(le.Mark.Column, 1), le.Message
		if le.ContextMsg != "" {
			msg = le.ContextMsg + ": " + msg
		}
	}
	p := r.fail(line, column, "", "not valid YAML: %s", msg)
	if strings.HasSuffix(msg, "cannot start any token") && tabIndented(src, line) {
		p.Hint = "indent with spaces, not tabs"
	}
}

// tabIndented reports whether the indentation of a line, counted from 1, has a tab.
func tabIndented(src []byte, line int) bool {
	lines := bytes.Split(src, []byte("\n"))
	if line > len(lines) {
		return false
	}
	text := lines[line-1]
	return bytes.ContainsRune(text[:len(text)-len(bytes.TrimLeft(text, " \t"))], '\t')
}

// fromYAML turns the parser's node into ours. Repeated is set inside of an alias.
func (r *Reader) fromYAML(y *yaml.Node, field string, depth int, repeated bool) *Node {
	n := &Node{Line: max(y.Line, 1), Column: max(y.Column, 1)}
	if y.Anchor != "" { // it is read again where an alias names it
		r.anchored++
		defer func() { r.anchored-- }()
	}
	if !r.enter(n, field, depth) || !r.mayRepeat(n, y, field, repeated) {
		return n
	}
	switch y.Kind {
	case yaml.AliasNode:
		target := r.fromYAML(y.Alias, field, depth+1, true)
		target.Line, target.Column = n.Line, n.Column
		return target
	case yaml.ScalarNode:
		r.scalar(n, y, field)
	case yaml.SequenceNode:
		r.checkTag(n, y, field, "!!seq")
		n.Kind = List
		for i, c := range y.Content {
			n.Items = append(n.Items, r.fromYAML(c, Index(field, i), depth+1, repeated))
			if r.anchored == 0 {
				y.Content[i] = nil // of a long list, only one of the two trees is in memory
			}
		}
	case yaml.MappingNode:
		r.checkTag(n, y, field, "!!map")
		r.mapping(n, y, field, depth, repeated)
	default:
		r.Fail(n, field, "not a YAML value")
	}
	return n
}

// mayRepeat checks anchors and aliases against the limits of the format: a few lines
// of them can stand for gigabytes.
func (r *Reader) mayRepeat(n *Node, y *yaml.Node, field string, repeated bool) bool {
	switch {
	case r.o.Aliases == 0 && (y.Kind == yaml.AliasNode || y.Anchor != ""):
		r.Fail(n, field, "anchors and aliases are not allowed").Hint = "write the value out where it is used"
		return false
	case y.Kind == yaml.AliasNode && y.Alias == nil:
		r.Fail(n, field, "the alias %q has no anchor", y.Value)
		return false
	case repeated:
		r.repeated++
		if r.repeated == r.o.Aliases+1 {
			r.Fail(n, field, "aliases repeat more than %d values", r.o.Aliases).Hint = "write the values out"
		}
		return r.repeated <= r.o.Aliases
	}
	return true
}

func (r *Reader) mapping(n *Node, y *yaml.Node, field string, depth int, repeated bool) {
	n.Kind = Mapping
	seen := make(map[string]int, len(y.Content)/2)
	for i := 0; i+1 < len(y.Content); i += 2 {
		k := y.Content[i]
		key := &Node{Line: max(k.Line, 1), Column: max(k.Column, 1)}
		if k.Kind == yaml.AliasNode && k.Alias != nil && r.o.Aliases > 0 {
			k = k.Alias
		}
		if k.Kind == yaml.ScalarNode && k.Value == "<<" && k.Style&quoted == 0 {
			r.Fail(key, field, "merge keys (<<) are not allowed").Hint = "write the values out, or quote the key"
			continue
		}
		if !r.mayRepeat(key, k, field, false) {
			continue
		}
		if k.Kind == yaml.ScalarNode {
			r.scalar(key, k, field)
		}
		if r.o.Foreign && k.Kind == yaml.ScalarNode {
			key.Kind, key.Text = String, k.Value
		}
		if key.Kind != String {
			r.Fail(key, field, "a key must be a string").Hint = "put it in quotes"
			continue
		}
		r.addPair(n, seen, key, field, func(path string) *Node {
			return r.fromYAML(y.Content[i+1], path, depth+1, repeated)
		})
	}
}

// checkTag refuses explicit tags other than the core one that fits.
func (r *Reader) checkTag(n *Node, y *yaml.Node, field, want string) {
	if isTagged(y) && (!r.o.CoreTags || y.ShortTag() != want) {
		r.Fail(n, field, "the tag %q is not allowed", y.Tag).Hint = "remove it"
	}
}

// isTagged reports an explicit tag, also the non-specific "!".
func isTagged(y *yaml.Node) bool { return y.Style&yaml.TaggedStyle != 0 || y.Tag == "!" }

const quoted = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle

var coreKinds = map[string]Kind{"!!null": Null, "!!bool": Bool, "!!int": Number, "!!float": Number, "!!str": String}

var (
	decimalForm = regex.Lazy(`^([-+]?)([0-9]*)(\.([0-9]*))?([eE][-+]?[0-9]+)?$`)
	basedForm   = regex.Lazy(`^([-+]?)0([xo])([0-9a-fA-F]+)$`)
	notFinite   = regex.Lazy(`^[-+]?\.(inf|Inf|INF)$|^\.(nan|NaN|NAN)$`)
)

// scalar reads a scalar by YAML 1.2's core schema (yaml.org/spec/1.2.2, chapter
// 10.3), but refuses infinities and NaN, which JSON cannot hold.
func (r *Reader) scalar(n *Node, y *yaml.Node, field string) {
	tagged := isTagged(y)
	kind, core := coreKinds[y.ShortTag()]
	switch {
	case tagged && !(r.o.CoreTags && core):
		r.Fail(n, field, "the tag %q is not allowed", y.Tag).Hint = "remove it"
		return
	case !tagged && y.Style&quoted != 0, tagged && kind == String:
		n.Kind, n.Text = String, y.Value
		return
	}
	r.plainScalar(n, y.Value, field)
	r.checkNumber(n, field)
	if tagged && n.Kind != kind {
		r.Fail(n, field, "%s does not fit the tag %s", r.describe(n), y.ShortTag()).Hint = "remove the tag"
	}
}

func (r *Reader) plainScalar(n *Node, s, field string) {
	n.Kind, n.Text = String, s
	switch s {
	case "", "~", "null", "Null", "NULL":
		n.Kind, n.Text = Null, ""
		return
	case "true", "True", "TRUE":
		n.Kind, n.Text = Bool, "true"
		return
	case "false", "False", "FALSE":
		n.Kind, n.Text = Bool, "false"
		return
	}
	if c := s[0]; c != '-' && c != '+' && c != '.' && (c < '0' || c > '9') {
		return
	}
	if r.o.Foreign && !isJSONNumber(s) {
		return // as other programs read it
	}
	if notFinite.MatchString(s) {
		r.Fail(n, field, "%s is not a number that JSON can hold", s).Hint = "put it in quotes if it is text"
		return
	}
	if m := basedForm.FindStringSubmatch(s); m != nil {
		u, err := strconv.ParseUint(m[3], map[string]int{"x": 16, "o": 8}[m[2]], 64)
		if err != nil {
			r.Fail(n, field, "%s is not a valid 64-bit number", clip.Text(s, 60)).Hint = "put it in quotes if it is text"
			return
		}
		n.Kind, n.Text = Number, strings.TrimPrefix(m[1], "+")+strconv.FormatUint(u, 10)
		return
	}
	if m := decimalForm.FindStringSubmatch(s); m != nil && m[2]+m[4] != "" {
		r.decimal(n, s, m, field)
	}
}

// decimal writes a number as JSON does, with the digits of the document.
func (r *Reader) decimal(n *Node, s string, m []string, field string) {
	sign, whole, fraction, exponent := m[1], m[2], m[4], m[5]
	if len(whole) > 1 && whole[0] == '0' {
		r.Fail(n, field, "%s begins with a zero, which programs read in different ways", clip.Text(s, 60)).Hint = "put it in quotes if it is text, write 0o for octal, or leave the zeros out"
		return
	}
	if whole == "" {
		whole = "0"
	}
	n.Kind, n.Text = Number, strings.TrimPrefix(sign, "+")+whole
	if m[3] != "" {
		if fraction == "" {
			fraction = "0"
		}
		n.Text += "." + fraction
	}
	n.Text += exponent
}

// isJSONNumber reports whether canonical JSON can hold a number as it is written.
func isJSONNumber(s string) bool {
	if !json.Valid([]byte(s)) {
		return false
	}
	_, err := canon.Marshal(json.Number(s))
	return err == nil
}

// checkNumber refuses a number that canonical JSON cannot hold.
func (r *Reader) checkNumber(n *Node, field string) {
	if n.Kind != Number {
		return
	}
	if _, err := canon.Marshal(json.Number(n.Text)); err != nil {
		r.Fail(n, field, "%s is not a number that JSON can hold", clip.Text(n.Text, 60)).Hint = "put it in quotes if it is text"
	}
}
