package wasm

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"

	"github.com/remitrun/remit/internal/fault"
	"github.com/remitrun/remit/internal/near"
	"github.com/remitrun/remit/internal/tool"
)

// maxProblems bounds how many problems of one manifest are reported.
const maxProblems = 50

// reader reads one manifest and collects everything that is wrong with it.
type reader struct {
	file string
	errs fault.List
}

// ParseManifest reads a manifest (YAML, or JSON which is YAML). Every problem is
// reported at once (fault.List, code Usage) with line, column and field.
func ParseManifest(file string, src []byte) (*Manifest, error) {
	r := &reader{file: file}
	root := r.load(src)
	if root == nil {
		return nil, r.errs.Err()
	}
	m := r.manifest(root)
	if err := r.errs.Err(); err != nil {
		return nil, err
	}
	m.Digest = sha256.Sum256(src)
	return m, nil
}

func (r *reader) load(src []byte) *yaml.Node {
	switch {
	case len(src) > MaxManifest:
		r.at(fault.Pos{File: r.file}, "", "", "the manifest has %d bytes, more than %d", len(src), MaxManifest)
		return nil
	case !utf8.Valid(src) || bytes.IndexByte(src, 0) >= 0:
		r.at(fault.Pos{File: r.file}, "", "", "the manifest is not UTF-8 text")
		return nil
	}
	var doc yaml.Node
	if err := yaml.Load(src, &doc); err != nil {
		pos, msg := fault.Pos{File: r.file, Line: 1, Column: 1}, err.Error()
		var le *yaml.LoadError
		if errors.As(err, &le) {
			pos.Line, pos.Column, msg = max(le.Mark.Line, 1), max(le.Mark.Column, 1), le.Message
		}
		r.at(pos, "", "", "neither YAML nor JSON: %s", msg)
		return nil
	}
	root := &doc
	if doc.Kind == yaml.DocumentNode && len(doc.Content) == 1 {
		root = doc.Content[0]
	}
	if root.Kind != yaml.MappingNode {
		r.at(fault.Pos{File: r.file, Line: 1, Column: 1}, "", "begin with version: 1", "a manifest is a mapping")
		return nil
	}
	return root
}

func (r *reader) at(pos fault.Pos, field, hint, format string, args ...any) {
	if len(r.errs) >= maxProblems {
		return
	}
	e := fault.New(fault.Usage, format, args...).At(pos).In(field)
	e.Hint = hint
	r.errs = append(r.errs, e)
}

func (r *reader) bad(n *yaml.Node, field, hint, format string, args ...any) {
	r.at(fault.Pos{File: r.file, Line: n.Line, Column: n.Column}, field, hint, format, args...)
}

// keys says how to read each key of a mapping.
type keys map[string]func(n *yaml.Node, field string)

// mapping reads a mapping that may have only the keys given, each once.
func (r *reader) mapping(n *yaml.Node, field string, known keys) {
	if n.Kind != yaml.MappingNode {
		r.bad(n, field, "", "must be a mapping")
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		name := join(field, k.Value)
		read, ok := known[k.Value]
		switch {
		case k.Kind != yaml.ScalarNode || !ok:
			r.bad(k, name, suggest(k.Value, known), "unknown key %.60q", k.Value)
		case seen[k.Value]:
			r.bad(k, name, "", "the key %q is given twice", k.Value)
		default:
			seen[k.Value] = true
			read(v, name)
		}
	}
}

func join(field, key string) string {
	if len(key) > 60 {
		key = key[:60]
	}
	if field == "" {
		return key
	}
	return field + "." + key
}

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

func (r *reader) list(n *yaml.Node, field string, most int, each func(n *yaml.Node, field string)) {
	switch {
	case n.Kind != yaml.SequenceNode:
		r.bad(n, field, "", "must be a list")
	case len(n.Content) > most:
		r.bad(n, field, "", "has %d entries, at most %d are possible", len(n.Content), most)
	default:
		for i, c := range n.Content {
			each(c, fmt.Sprintf("%s[%d]", field, i))
		}
	}
}

// text reads a string into what accepts it.
func (r *reader) text(accept func(s string) error) func(*yaml.Node, string) {
	return func(n *yaml.Node, field string) {
		if n.Kind != yaml.ScalarNode || n.Tag != "!!str" && n.Tag != "!!timestamp" {
			r.bad(n, field, "put it into quotes", "must be a string")
			return
		}
		if err := accept(n.Value); err != nil {
			r.bad(n, field, "", "%v", err)
		}
	}
}

func (r *reader) yes(into *bool) func(*yaml.Node, string) {
	return func(n *yaml.Node, field string) {
		if n.Kind != yaml.ScalarNode || n.Tag != "!!bool" {
			r.bad(n, field, "", "must be true or false")
			return
		}
		*into = strings.EqualFold(n.Value, "true")
	}
}

// words reads a string of at most so many bytes.
func words(into *string, most int) func(string) error {
	return func(s string) error {
		if len(s) > most {
			return fmt.Errorf("has %d bytes, at most %d are possible", len(s), most)
		}
		*into = s
		return nil
	}
}

func (r *reader) manifest(root *yaml.Node) *Manifest {
	m := &Manifest{}
	whole := Function{Memory: DefaultMemory, Timeout: DefaultTimeout} // what its tools do not say themselves
	version, tools := false, (*yaml.Node)(nil)
	known := r.bounds(&whole)
	known["version"] = func(n *yaml.Node, field string) {
		if version = n.Kind == yaml.ScalarNode && n.Value == "1"; !version {
			r.bad(n, field, "write version: 1", "this version of the format is not known")
		}
		version = true
	}
	known["release"] = r.text(words(&m.Release, 100))
	known["description"] = r.text(words(&m.Description, maxDescription))
	known["tools"] = func(n *yaml.Node, _ string) { tools = n }
	r.mapping(root, "", known)
	if !version {
		r.bad(root, "version", "begin with version: 1", "the manifest does not say the version of its format")
	}
	if tools == nil || tools.Kind == yaml.SequenceNode && len(tools.Content) == 0 {
		r.bad(root, "tools", "add tools: with at least one function", "the manifest has no tools")
		return m
	}
	seen := map[string]bool{}
	r.list(tools, "tools", maxTools, func(n *yaml.Node, field string) {
		f := r.function(n, field, whole)
		if seen[f.Name] && f.Name != "" {
			r.bad(n, field+".function", "", "another tool has the function %q", f.Name)
		}
		seen[f.Name] = true
		m.Functions = append(m.Functions, f)
	})
	return m
}

// bounds reads what a manifest and each of its tools can say.
func (r *reader) bounds(f *Function) keys {
	return keys{
		"memory": r.text(func(s string) (err error) {
			f.Memory, err = parseSize(s)
			return err
		}),
		"timeout": r.text(func(s string) (err error) {
			f.Timeout, err = parseTimeout(s)
			return err
		}),
		"wants": func(n *yaml.Node, field string) { f.Wants = r.wants(n, field) },
	}
}

func (r *reader) function(n *yaml.Node, field string, whole Function) Function {
	f := whole
	known := r.bounds(&f)
	known["function"] = r.text(func(s string) error {
		if f.Name = s; !functionForm.MatchString(s) {
			return fmt.Errorf("%.80q is no name of a function: letters, digits, _ . and -, at most 64", s)
		}
		return nil
	})
	known["title"] = r.text(words(&f.Title, 200))
	known["description"] = r.text(words(&f.Description, maxDescription))
	known["input"] = func(n *yaml.Node, field string) { f.Input = r.schema(n, field) }
	known["output"] = func(n *yaml.Node, field string) { f.Output = r.schema(n, field) }
	known["risk"] = r.text(func(s string) error {
		risk, ok := tool.ParseRisk(s)
		if f.Risk = risk; !ok {
			return fmt.Errorf("%.40q is not low, medium, high or critical", s)
		}
		return nil
	})
	before := len(r.errs)
	r.mapping(n, field, known)
	switch {
	case len(r.errs) > before:
	case f.Name == "":
		r.bad(n, field+".function", "", "the tool does not say which function it is")
	case f.Description == "":
		r.bad(n, field+".description", "say what it does, for people and models", "the tool has no description")
	case f.Input == nil:
		r.bad(n, field+".input", "give a JSON Schema of the arguments; {type: object, additionalProperties: false} for none", "the tool has no input schema")
	default:
		var e *fault.Error
		if errors.As(f.checkWants(), &e) {
			r.bad(n, field+"."+e.Field, e.Hint, "%s", e.Msg)
		}
	}
	if f.Title == "" {
		f.Title = f.Name
	}
	return f
}

func (r *reader) wants(n *yaml.Node, field string) (w Wants) {
	places := func(into *[]Place) func(*yaml.Node, string) {
		return func(n *yaml.Node, field string) {
			r.list(n, field, maxWants, func(n *yaml.Node, field string) { *into = append(*into, r.place(n, field)) })
		}
	}
	r.mapping(n, field, keys{
		"files": func(n *yaml.Node, field string) {
			r.mapping(n, field, keys{"read": places(&w.Read), "write": places(&w.Write)})
		},
		"env": func(n *yaml.Node, field string) {
			r.list(n, field, maxWants, r.text(func(s string) error {
				if !envForm.MatchString(s) {
					return fmt.Errorf("%.80q is no name of a variable", s)
				}
				w.Env = append(w.Env, s)
				return nil
			}))
		},
		"clock":  r.yes(&w.Clock),
		"random": r.yes(&w.Random),
	})
	return w
}

// place reads a folder, or {argument: NAME}.
func (r *reader) place(n *yaml.Node, field string) (p Place) {
	if n.Kind == yaml.ScalarNode {
		r.text(func(s string) (err error) {
			p.Folder, err = parseFolder(s)
			return err
		})(n, field)
		return p
	}
	r.mapping(n, field, keys{"argument": r.text(func(s string) error {
		if p.Argument = s; !argumentForm.MatchString(s) {
			return fmt.Errorf("%.80q is no name of an argument", s)
		}
		return nil
	})})
	if p.Argument == "" && n.Kind == yaml.MappingNode && len(n.Content) == 0 {
		r.bad(n, field, "write a folder, or {argument: NAME}", "the place is empty")
	}
	return p
}

// schema reads a JSON Schema, and sees that it is one.
func (r *reader) schema(n *yaml.Node, field string) json.RawMessage {
	left := 100_000
	v := r.value(n, field, &left, 0)
	object, ok := v.(map[string]any)
	if !ok {
		if len(r.errs) == 0 {
			r.bad(n, field, "", "must be a JSON Schema")
		}
		return nil
	}
	raw, err := json.Marshal(object)
	if err == nil {
		_, err = compileSchema(raw)
	}
	if err != nil {
		r.bad(n, field, "", "is no usable JSON Schema: %.300v", err)
		return nil
	}
	return raw
}

// value gives a YAML node as JSON has it. Aliases are refused: a few lines of them
// can stand for more than any memory.
func (r *reader) value(n *yaml.Node, field string, left *int, depth int) any {
	if *left--; *left < 0 || depth > 100 {
		r.bad(n, field, "", "holds too much, or is nested too deep")
		return nil
	}
	switch n.Kind {
	case yaml.SequenceNode:
		out := make([]any, len(n.Content))
		for i, c := range n.Content {
			out[i] = r.value(c, field, left, depth+1)
		}
		return out
	case yaml.MappingNode:
		out := make(map[string]any, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			k := n.Content[i]
			if _, twice := out[k.Value]; twice || k.Kind != yaml.ScalarNode || k.Tag == "!!merge" {
				r.bad(k, join(field, k.Value), "", "the key is no text, or given twice")
				return nil
			}
			out[k.Value] = r.value(n.Content[i+1], join(field, k.Value), left, depth+1)
		}
		return out
	case yaml.ScalarNode:
		return r.scalar(n, field)
	}
	r.bad(n, field, "write the value out", "aliases are not read")
	return nil
}

func (r *reader) scalar(n *yaml.Node, field string) any {
	switch n.Tag {
	case "!!null":
		return nil
	case "!!bool":
		return strings.EqualFold(n.Value, "true")
	case "!!int", "!!float":
		var v any
		if err := n.Decode(&v); err != nil {
			r.bad(n, field, "", "the number cannot be read")
			return nil
		}
		if f, ok := v.(float64); ok && (math.IsNaN(f) || math.IsInf(f, 0)) {
			r.bad(n, field, "", "the number is not one of JSON")
			return nil
		}
		return v
	}
	return n.Value
}

// compileSchema reads a JSON Schema (2020-12). It fetches nothing.
func compileSchema(raw []byte) (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(jsonschema.SchemeURLLoader{})
	if err := c.AddResource("remit:wasm", doc); err != nil {
		return nil, err
	}
	return c.Compile("remit:wasm")
}
