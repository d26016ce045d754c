package wasm

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/remitrun/remit/internal/base/document"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/schema"
	"github.com/remitrun/remit/internal/base/tool"
)

// reader reads one manifest and collects everything that is wrong with it.
type reader struct{ *document.Reader }

// ParseManifest reads a manifest, YAML or JSON. Every problem is reported at once
// (fault.List, code Usage) with line, column and field.
func ParseManifest(file string, src []byte) (*Manifest, error) {
	r := &reader{document.NewReader(file, document.Options{Code: fault.Usage, Noun: "manifest", MaxBytes: MaxManifest, MaxDepth: 100, MaxNodes: 100_000})}
	m := &Manifest{}
	if root := r.Read(src); root != nil {
		r.manifest(root, m)
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	m.Digest = sha256.Sum256(src)
	return m, nil
}

// words makes a field of a string of at most most bytes.
func (r *reader) words(into *string, most int) document.Field {
	return r.String(into, func(s string) error {
		if len(s) > most {
			return fmt.Errorf("has %d bytes; the maximum is %d", len(s), most)
		}
		return nil
	})
}

func (r *reader) manifest(root *document.Node, m *Manifest) {
	whole := Function{Memory: DefaultMemory, Timeout: DefaultTimeout} // the defaults for its tools
	known := r.bounds(&whole)
	var tools *document.Node
	known["version"] = r.Version(1)
	known["release"] = r.words(&m.Release, 100)
	known["description"] = r.words(&m.Description, maxDescription)
	known["tools"] = func(n *document.Node, _ string) { tools = n }
	if !r.Mapping(root, "", known, "version") {
		return
	}
	if tools == nil || tools.Kind == document.List && len(tools.Items) == 0 {
		r.Fail(root, "tools", "the manifest has no tools").Hint = "add tools: with at least one function"
		return
	}
	seen := map[string]bool{}
	r.List(maxTools, func(n *document.Node, field string) {
		f := r.function(n, field, whole)
		if seen[f.Name] && f.Name != "" {
			r.Fail(n, field+".function", "another tool has the function %q", f.Name)
		}
		seen[f.Name] = true
		m.Functions = append(m.Functions, f)
	})(tools, "tools")
}

// bounds reads the keys that a manifest and each of its tools have in common.
func (r *reader) bounds(f *Function) document.Fields {
	return document.Fields{
		"memory": r.Accept(func(s string) (err error) {
			f.Memory, err = parseSize(s)
			return err
		}),
		"timeout": r.Accept(func(s string) (err error) {
			f.Timeout, err = parseTimeout(s)
			return err
		}),
		"wants": func(n *document.Node, field string) { f.Wants = r.readWants(n, field) },
	}
}

func (r *reader) function(n *document.Node, field string, whole Function) Function {
	f := whole
	known := r.bounds(&f)
	known["function"] = r.Accept(func(s string) error {
		if f.Name = s; !functionForm.MatchString(s) {
			return fmt.Errorf("%.80q is not a valid function name; expected letters, digits, _ . and -, at most 64", s)
		}
		return nil
	})
	known["title"] = r.words(&f.Title, 200)
	known["description"] = r.words(&f.Description, maxDescription)
	known["input"] = func(n *document.Node, field string) { f.Input = r.schema(n, field) }
	known["output"] = func(n *document.Node, field string) { f.Output = r.schema(n, field) }
	known["risk"] = r.Accept(func(s string) error {
		risk, ok := tool.ParseRisk(s)
		if f.Risk = risk; !ok {
			return fmt.Errorf("%.40q is not low, medium, high or critical", s)
		}
		return nil
	})
	before := r.Problems()
	r.Mapping(n, field, known)
	switch {
	case r.Problems() > before:
	case f.Name == "":
		r.Fail(n, field+".function", "the tool does not say which function it is")
	case f.Description == "":
		r.Fail(n, field+".description", "the tool has no description").Hint = "describe it, for people and models"
	case f.Input == nil:
		r.Fail(n, field+".input", "the tool has no input schema").Hint = "give a JSON Schema of the arguments; {type: object, additionalProperties: false} for none"
	default:
		var e *fault.Error
		if errors.As(f.checkWants(), &e) {
			r.Fail(n, field+"."+e.Field, "%s", e.Msg).Hint = e.Hint
		}
	}
	if f.Title == "" {
		f.Title = f.Name
	}
	return f
}

func (r *reader) readWants(n *document.Node, field string) (w Wants) {
	places := func(into *[]Place) document.Field {
		return r.List(maxWants, func(n *document.Node, field string) { *into = append(*into, r.place(n, field)) })
	}
	r.Mapping(n, field, document.Fields{
		"files": r.Object(document.Fields{"read": places(&w.Read), "write": places(&w.Write)}),
		"env": r.Strings(&w.Env, maxWants, func(s string) error {
			if !envForm.MatchString(s) {
				return fmt.Errorf("%.80q is not a valid variable name", s)
			}
			return nil
		}),
		"clock":  r.Bool(&w.Clock),
		"random": r.Bool(&w.Random),
	})
	return w
}

// place reads a folder, or {argument: NAME}.
func (r *reader) place(n *document.Node, field string) (p Place) {
	if n.Kind != document.Mapping {
		r.Accept(func(s string) (err error) {
			p.Folder, err = parseFolder(s)
			return err
		})(n, field)
		return p
	}
	r.Mapping(n, field, document.Fields{"argument": r.Accept(func(s string) error {
		if p.Argument = s; !argumentForm.MatchString(s) {
			return fmt.Errorf("%.80q is not a valid argument name", s)
		}
		return nil
	})})
	if len(n.Pairs) == 0 {
		r.Fail(n, field, "the place is empty").Hint = "write a folder, or {argument: NAME}"
	}
	return p
}

// schema reads a JSON Schema and checks that it compiles.
func (r *reader) schema(n *document.Node, field string) json.RawMessage {
	if n.Kind != document.Mapping {
		r.Expected(n, field, "a JSON Schema")
		return nil
	}
	raw, err := json.Marshal(n.Value())
	if err == nil {
		_, err = schema.Compile("the module", raw)
	}
	if err != nil {
		r.Fail(n, field, "is not a valid JSON Schema: %.300v", err)
		return nil
	}
	return raw
}
