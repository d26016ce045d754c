package custom

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/remitrun/remit/internal/fault"
	"github.com/remitrun/remit/internal/near"
)

// Bounds of a file.
const (
	maxFile     = 64 << 10 // bytes
	maxDepth    = 16
	maxProblems = 50 // that are reported of one file
)

// reader reads one file and collects all that is wrong with it.
type reader struct {
	file string
	errs fault.List
}

func (r *reader) fail(n *yaml.Node, field, format string, args ...any) {
	r.failHint(n, field, "", format, args...)
}

// failHint also tells the way out.
func (r *reader) failHint(n *yaml.Node, field, hint, format string, args ...any) {
	e := fault.New(fault.CapabilityInvalid, format, args...).At(fault.Pos{File: r.file, Line: max(n.Line, 1), Column: max(n.Column, 1)}).In(field)
	e.Hint = hint
	if len(r.errs) < maxProblems {
		r.errs = append(r.errs, e)
	}
}

// document reads a file as YAML without what hides things: anchors, aliases,
// tags, merged or repeated keys, further documents.
func (r *reader) document(src []byte) *yaml.Node {
	top := &yaml.Node{Line: 1, Column: 1}
	switch {
	case len(src) > maxFile:
		r.fail(top, "", "the file has %d bytes; at most %d are read", len(src), maxFile)
		return nil
	case !utf8.Valid(src) || bytes.IndexByte(src, 0) >= 0:
		r.fail(top, "", "the file is not UTF-8, or holds a NUL byte")
		return nil
	}
	loader, err := yaml.NewLoader(bytes.NewReader(src))
	if err != nil {
		r.fail(top, "", "not YAML: %v", err)
		return nil
	}
	var doc, second yaml.Node
	if err := loader.Load(&doc); err != nil {
		at, msg := top, err.Error()
		var le *yaml.LoadError
		if errors.As(err, &le) {
			at, msg = &yaml.Node{Line: le.Mark.Line, Column: le.Mark.Column}, le.Message
		}
		r.fail(at, "", "not YAML: %s", msg)
		return nil
	}
	if err := loader.Load(&second); err == nil {
		r.fail(&second, "", "a second document begins here; one file is one capability")
		return nil
	}
	root := &doc
	if doc.Kind == yaml.DocumentNode && len(doc.Content) == 1 {
		root = doc.Content[0]
	}
	r.plain(root, 0)
	if len(r.errs) > 0 {
		return nil
	}
	return root
}

// plain refuses what is not allowed anywhere.
func (r *reader) plain(n *yaml.Node, depth int) {
	switch {
	case depth > maxDepth:
		r.fail(n, "", "nested more than %d levels deep", maxDepth)
		return
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		r.fail(n, "", "anchors and aliases are not allowed: write the value out where it is used")
		return
	case n.Style&yaml.TaggedStyle != 0:
		r.fail(n, "", "tags are not allowed")
		return
	case n.Kind == yaml.MappingNode:
		r.keys(n)
	}
	for _, c := range n.Content {
		r.plain(c, depth+1)
	}
}

func (r *reader) keys(n *yaml.Node) {
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		switch {
		case k.Kind != yaml.ScalarNode || k.Tag != "!!str":
			r.fail(k, "", "a key must be a string")
		case seen[k.Value] > 0:
			r.fail(k, k.Value, "the key %q is given twice, first on line %d", clip(k.Value), seen[k.Value])
		}
		seen[k.Value] = max(k.Line, 1)
	}
}

// object reads a mapping that has the known keys only, and all that are needed.
func (r *reader) object(n *yaml.Node, field string, known map[string]func(n *yaml.Node, field string), needed ...string) {
	if n.Kind != yaml.MappingNode {
		r.fail(n, field, "must be a mapping")
		return
	}
	var seen, names []string
	for name := range known {
		names = append(names, name)
	}
	slices.Sort(names)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		seen = append(seen, k.Value)
		read, ok := known[k.Value]
		if ok {
			read(v, join(field, k.Value))
			continue
		}
		hint := "known here: " + strings.Join(names, ", ")
		if meant := near.Word(k.Value, names); meant != "" {
			hint = fmt.Sprintf("did you mean %q?", meant)
		}
		r.failHint(k, join(field, k.Value), hint, "unknown key %q", clip(k.Value))
	}
	for _, name := range needed {
		if !slices.Contains(seen, name) {
			r.fail(n, join(field, name), "is missing")
		}
	}
}

// text reads a string.
func (r *reader) text(to *string, most int) func(n *yaml.Node, field string) {
	return func(n *yaml.Node, field string) {
		switch {
		case n.Kind != yaml.ScalarNode || n.Tag != "!!str":
			r.failHint(n, field, "put it in quotes", "must be a string")
		case strings.TrimSpace(n.Value) == "":
			r.fail(n, field, "is empty")
		case len(n.Value) > most:
			r.fail(n, field, "has %d bytes; the most is %d", len(n.Value), most)
		case hides(n.Value):
			r.fail(n, field, "holds characters that do not show")
		default:
			*to = n.Value
		}
	}
}

// list reads a list.
func (r *reader) list(most int, read func(n *yaml.Node, field string)) func(n *yaml.Node, field string) {
	return func(n *yaml.Node, field string) {
		switch {
		case n.Kind != yaml.SequenceNode:
			r.fail(n, field, "must be a list")
		case len(n.Content) > most:
			r.fail(n, field, "has %d elements; the most is %d", len(n.Content), most)
		default:
			for i, c := range n.Content {
				read(c, fmt.Sprintf("%s[%d]", field, i))
			}
		}
	}
}

// value is what a node stands for, as decoded JSON has it.
func (r *reader) value(n *yaml.Node, field string) any {
	switch n.Kind {
	case yaml.MappingNode:
		out := map[string]any{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			out[n.Content[i].Value] = r.value(n.Content[i+1], join(field, n.Content[i].Value))
		}
		return out
	case yaml.SequenceNode:
		out := make([]any, len(n.Content))
		for i, c := range n.Content {
			out[i] = r.value(c, fmt.Sprintf("%s[%d]", field, i))
		}
		return out
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
	r.failHint(n, field, "put it in quotes if it is a string", "%q is no value that JSON has", clip(n.Value))
	return nil
}

func join(field, key string) string {
	if field == "" {
		return key
	}
	return field + "." + key
}

func clip(s string) string {
	if len(s) > 60 {
		return strings.ToValidUTF8(s[:60], "") + "…"
	}
	return s
}
