package extension

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/remitrun/remit/internal/canon"
	"github.com/remitrun/remit/internal/fault"
	"github.com/remitrun/remit/internal/near"
)

// Bounds on the documents of an extension.
const (
	maxDocument = 1 << 20 // bytes of a manifest, or of the commands
	maxDepth    = 32      // of nesting
	maxProblems = 100     // that are reported of one document
)

type kind uint8

const (
	null kind = iota
	boolean
	number
	text
	list
	object
)

var kindNames = [...]string{"nothing", "a truth value", "a number", "a string", "a list", "a mapping"}

// node is a value of a document with its place in it: what JSON and YAML have in
// common.
type node struct {
	kind      kind
	text      string // of a scalar; a number and a truth value as JSON writes them
	line, col int
	items     []*node
	pairs     []pair
}

type pair struct{ key, value *node }

// reader reads one document and collects all that is wrong with it.
type reader struct {
	file string
	errs fault.List
}

func (r *reader) at(line, col int, field, format string, args ...any) *fault.Error {
	e := fault.New(fault.ExtensionInvalid, format, args...).At(fault.Pos{File: r.file, Line: line, Column: col}).In(field)
	if len(r.errs) < maxProblems {
		r.errs = append(r.errs, e)
	}
	return e
}

func (r *reader) fail(n *node, field, format string, args ...any) *fault.Error {
	return r.at(n.line, n.col, field, format, args...)
}

// readable refuses bytes that neither format has.
func (r *reader) readable(src []byte) bool {
	switch {
	case len(src) > maxDocument:
		r.at(1, 1, "", "it has %d bytes; the most is %d", len(src), maxDocument)
	case !utf8.Valid(src):
		r.at(1, 1, "", "it is not UTF-8")
	case bytes.IndexByte(src, 0) >= 0:
		r.at(1+bytes.Count(src[:bytes.IndexByte(src, 0)], []byte("\n")), 1, "", "it holds a NUL byte")
	default:
		return true
	}
	return false
}

// json reads a JSON document; nil if it is none.
func (r *reader) json(src []byte) *node {
	if !r.readable(src) {
		return nil
	}
	if _, err := canon.Decode(src); err != nil {
		at, msg := 0, err.Error()
		var se *canon.SyntaxError
		if errors.As(err, &se) {
			at, msg = se.Offset, se.Msg
		}
		line, col := place(src, at)
		r.at(line, col, "", "not JSON: %s", msg)
		return nil
	}
	w := jsonWalk{src: src, dec: json.NewDecoder(bytes.NewReader(src))}
	w.dec.UseNumber()
	n, err := w.value(0)
	if err != nil {
		r.at(1, 1, "", "not JSON: %v", err)
		return nil
	}
	return n
}

func place(src []byte, at int) (line, col int) {
	at = min(at, len(src))
	start := bytes.LastIndexByte(src[:at], '\n') + 1
	return 1 + bytes.Count(src[:at], []byte("\n")), 1 + utf8.RuneCount(src[start:at])
}

// jsonWalk gives the values of JSON that is known to be well formed their places.
type jsonWalk struct {
	src []byte
	dec *json.Decoder
}

func (w *jsonWalk) value(depth int) (*node, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("nested more than %d levels deep", maxDepth)
	}
	at := int(w.dec.InputOffset())
	for at < len(w.src) && strings.IndexByte(" \t\r\n,:", w.src[at]) >= 0 {
		at++
	}
	n := &node{}
	n.line, n.col = place(w.src, at)
	t, err := w.dec.Token()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case nil:
	case bool:
		n.kind, n.text = boolean, fmt.Sprint(t)
	case json.Number:
		n.kind, n.text = number, t.String()
	case string:
		n.kind, n.text = text, t
	case json.Delim:
		return n, w.inside(n, t, depth)
	}
	return n, nil
}

func (w *jsonWalk) inside(n *node, open json.Delim, depth int) error {
	for n.kind = list; w.dec.More(); {
		v, err := w.value(depth + 1)
		if err != nil {
			return err
		}
		if open == '[' {
			n.items = append(n.items, v)
			continue
		}
		of, err := w.value(depth + 1)
		if err != nil {
			return err
		}
		n.pairs = append(n.pairs, pair{v, of})
	}
	if open == '{' {
		n.kind = object
	}
	_, err := w.dec.Token()
	return err
}

// yaml reads a YAML document; nil if it is none, or uses what is not allowed.
func (r *reader) yaml(src []byte) *node {
	if !r.readable(src) {
		return nil
	}
	for i, c := range string(src) {
		if c == 0x85 || c == 0x2028 || c == 0x2029 || c == '\r' && !bytes.HasPrefix(src[i+1:], []byte("\n")) {
			line, col := place(src, i)
			r.at(line, col, "", "it holds the line break %+q, which many editors do not show as one", c)
			return nil
		}
	}
	var doc yaml.Node
	if err := yaml.Load(src, &doc); err != nil {
		line, col, msg := 1, 1, err.Error()
		var le *yaml.LoadError
		if errors.As(err, &le) {
			line, col, msg = max(le.Mark.Line, 1), max(le.Mark.Column, 1), le.Message
		}
		r.at(line, col, "", "not YAML: %s", msg)
		return nil
	}
	root := &doc
	if doc.Kind == yaml.DocumentNode && len(doc.Content) == 1 {
		root = doc.Content[0]
	}
	n := r.fromYAML(root, 0)
	if len(r.errs) > 0 {
		return nil
	}
	return n
}

var yamlKinds = map[string]kind{"!!null": null, "!!bool": boolean, "!!int": number, "!!float": number, "!!str": text, "!!timestamp": text}

func (r *reader) fromYAML(y *yaml.Node, depth int) *node {
	n := &node{line: max(y.Line, 1), col: max(y.Column, 1)}
	switch {
	case depth > maxDepth:
		r.fail(n, "", "nested more than %d levels deep", maxDepth)
	case y.Kind == yaml.AliasNode || y.Anchor != "":
		r.fail(n, "", "anchors and aliases are not allowed: write the value out where it is used")
	case y.Style&yaml.TaggedStyle != 0:
		r.fail(n, "", "tags (%s) are not allowed", y.Tag)
	case y.Kind == yaml.MappingNode:
		n.kind = object
		for i := 0; i+1 < len(y.Content); i += 2 {
			n.pairs = append(n.pairs, pair{r.fromYAML(y.Content[i], depth+1), r.fromYAML(y.Content[i+1], depth+1)})
		}
	case y.Kind == yaml.SequenceNode:
		n.kind = list
		for _, c := range y.Content {
			n.items = append(n.items, r.fromYAML(c, depth+1))
		}
	case y.Kind == yaml.ScalarNode:
		r.scalar(n, y)
	}
	return n
}

func (r *reader) scalar(n *node, y *yaml.Node) {
	k, known := yamlKinds[y.Tag]
	n.kind, n.text = k, y.Value
	switch {
	case !known:
		r.fail(n, "", "%s is no value that is known here", clip(y.Value))
	case k == boolean:
		n.text = strings.ToLower(y.Value)
	case k == number && !json.Valid([]byte(y.Value)):
		r.fail(n, "", "%s is no number as JSON writes them", clip(y.Value)).Hint = "put it in quotes if it is a string"
	}
}

// value is what the node stands for, as decoded JSON has it.
func (n *node) value() any {
	switch n.kind {
	case boolean:
		return n.text == "true"
	case number:
		return json.Number(n.text)
	case text:
		return n.text
	case list:
		out := make([]any, len(n.items))
		for i, item := range n.items {
			out[i] = item.value()
		}
		return out
	case object:
		out := make(map[string]any, len(n.pairs))
		for _, p := range n.pairs {
			out[p.key.text] = p.value.value()
		}
		return out
	}
	return nil
}

// keys says how to read each key of a mapping.
type keys map[string]func(n *node, field string)

// object reads a mapping that may have only the keys given, and must have those
// that are needed.
func (r *reader) object(n *node, field string, known keys, needed ...string) {
	var seen []string
	r.pairs(n, field, func(k, v *node, f string) {
		seen = append(seen, k.text)
		read, ok := known[k.text]
		if !ok {
			names := make([]string, 0, len(known))
			for name := range known {
				names = append(names, name)
			}
			slices.Sort(names)
			e := r.fail(k, f, "unknown key %q", clip(k.text))
			if e.Hint = "known here: " + strings.Join(names, ", "); near.Word(k.text, names) != "" {
				e.Hint = fmt.Sprintf("did you mean %q?", near.Word(k.text, names))
			}
			return
		}
		read(v, f)
	})
	for _, name := range needed {
		if n.kind == object && !slices.Contains(seen, name) {
			r.fail(n, join(field, name), "is missing")
		}
	}
}

// pairs reads a mapping's keys and values, each key once.
func (r *reader) pairs(n *node, field string, read func(k, v *node, field string)) {
	if n.kind != object {
		r.fail(n, field, "must be a mapping, not %s", describe(n))
		return
	}
	seen := map[string]int{}
	for _, p := range n.pairs {
		f := join(field, p.key.text)
		switch line, twice := seen[p.key.text]; {
		case p.key.kind != text:
			r.fail(p.key, field, "a key must be a string, not %s", describe(p.key))
			continue
		case twice:
			r.fail(p.key, f, "the key %q is given twice, first on line %d", clip(p.key.text), line)
			continue
		}
		seen[p.key.text] = p.key.line
		read(p.key, p.value, f)
	}
}

// items reads a list.
func (r *reader) items(n *node, field string, most int, read func(n *node, field string)) {
	switch {
	case n.kind != list:
		r.fail(n, field, "must be a list, not %s", describe(n))
	case len(n.items) > most:
		r.fail(n, field, "it has %d elements; the most is %d", len(n.items), most)
	default:
		for i, item := range n.items {
			read(item, fmt.Sprintf("%s[%d]", field, i))
		}
	}
}

func join(field, key string) string {
	switch {
	case key == "" || strings.ContainsAny(key, ".[]\" \t/"):
		return field + fmt.Sprintf("[%q]", clip(key))
	case field == "":
		return key
	}
	return field + "." + key
}

func describe(n *node) string {
	switch n.kind {
	case text:
		return fmt.Sprintf("the string %q", clip(n.text))
	case number, boolean:
		return clip(n.text)
	}
	return kindNames[n.kind]
}

func clip(s string) string {
	if len(s) > 60 {
		return strings.ToValidUTF8(s[:60], "") + "…"
	}
	return s
}
