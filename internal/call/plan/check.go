package plan

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/document"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// Tools provides the tool properties that a check needs.
type Tools interface {
	// Spec finds a tool.
	Spec(id tool.ID) (*tool.Spec, bool)
	// Validate checks a call's whole arguments against the tool's input schema.
	// The problems it reports may name the argument in fault.Error.Field.
	Validate(id tool.ID, args tool.Args) error
	// Suggest names the tool most like a misspelt ID, or is "".
	Suggest(id string) string
}

// Check finds, before anything runs, tools that do not exist
// (fault.ToolUnknown) and arguments that are missing, unknown or wrong
// (fault.ArgsInvalid): every problem at once, as a [fault.List]. Arguments that
// are written out are checked by the whole schema; where expressions are among
// them, the others are checked by their type, and the whole once it is known,
// before the call.
func (p *Plan) Check(tools Tools) error {
	r := newReader(p.File)
	shapes := map[tool.ID]*shape{}
	for _, s := range p.Steps {
		spec, ok := tools.Spec(s.Tool)
		if !ok {
			hint := "remit tools lists them"
			if near := tools.Suggest(string(s.Tool)); near != "" {
				hint = "did you mean " + strconv.Quote(near) + "?"
			}
			r.problem(fault.ToolUnknown, s.node(), s.field()+".tool", hint, "unknown tool %q", string(s.Tool))
			continue
		}
		if s.args.literal() {
			s.checkWhole(r, tools)
			continue
		}
		if shapes[s.Tool] == nil {
			shapes[s.Tool] = readShape(spec.Input)
		}
		s.checkShape(r, shapes[s.Tool])
	}
	return r.Err()
}

func (s *Step) node() *document.Node { return &document.Node{Line: s.Pos.Line, Column: s.Pos.Column} }

// argAt is the position of an argument, or of the step.
func (s *Step) argAt(name string) *document.Node {
	for _, at := range s.argPos {
		if at.name == name {
			return &document.Node{Line: int(at.line), Column: int(at.column)}
		}
	}
	return s.node()
}

func (s *Step) checkWhole(r *reader, tools Tools) {
	args, err := s.Resolve(nil)
	if err == nil {
		err = tools.Validate(s.Tool, args)
	}
	if err == nil {
		return
	}
	var list fault.List
	if one := (*fault.Error)(nil); !errors.As(err, &list) && errors.As(err, &one) {
		list = fault.List{one}
	}
	if len(list) == 0 {
		list = fault.List{fault.New(fault.ArgsInvalid, "%s", fault.Message(err))}
	}
	for _, e := range list {
		field := s.field() + ".args"
		if e.Field != "" {
			field += "." + strings.TrimPrefix(e.Field, "args.")
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(e.Field, "args."), ".")
		name, _, _ = strings.Cut(name, "[")
		r.problem(e.Code, s.argAt(name), field, e.Hint, "%s: %s", s.Tool, e.Msg)
	}
}

// shape describes the top level of the arguments, as far as a schema defines it.
type shape struct {
	Properties map[string]struct {
		Type any   `json:"type"`
		Enum []any `json:"enum"`
	} `json:"properties"`
	Required   []string `json:"required"`
	Additional any      `json:"additionalProperties"`
}

func readShape(schema json.RawMessage) *shape {
	sh := &shape{}
	d := json.NewDecoder(strings.NewReader(string(schema)))
	d.UseNumber()
	if err := d.Decode(sh); err != nil {
		return &shape{} // an odd schema; the whole check before the call has the last word
	}
	return sh
}

func (s *Step) checkShape(r *reader, sh *shape) {
	bad := func(name, hint, format string, args ...any) {
		r.problem(fault.ArgsInvalid, s.argAt(name), document.Join(s.field()+".args", name), hint, format, args...)
	}
	for _, name := range sh.Required {
		if !slices.Contains(s.args.keys, name) {
			bad(name, "add it", "%s needs the argument %q", s.Tool, name)
		}
	}
	for i, name := range s.args.keys {
		prop, known := sh.Properties[name]
		t := s.args.kids[i]
		switch {
		case !known && sh.Additional == false:
			bad(name, orHint(nearest(name, sortedKeys(sh.Properties)), "remove it"), "%s knows no argument %q", s.Tool, excerpt(name))
		case !known:
		case t.ref != nil:
		case !typeFits(prop.Type, t):
			bad(name, "", "%s: must be of type %s", s.Tool, typeNames(prop.Type))
		case t.literal() && len(prop.Enum) > 0 && !slices.ContainsFunc(prop.Enum, func(e any) bool { return equal(e, t.lit) }):
			b, err := canon.Marshal(prop.Enum)
			if err != nil {
				b = []byte("the values that its schema lists")
			}
			bad(name, "", "%s: must be one of %s", s.Tool, b)
		}
	}
}

func typeNames(t any) string {
	var names []string
	switch t := t.(type) {
	case string:
		names = []string{t}
	case []any:
		for _, e := range t {
			if s, ok := e.(string); ok {
				names = append(names, s)
			}
		}
	}
	return strings.Join(names, " or ")
}

// typeFits compares an argument's JSON type with a schema's type keyword.
func typeFits(keyword any, t *template) bool {
	names := typeNames(keyword)
	if names == "" {
		return true
	}
	for name := range strings.SplitSeq(names, " or ") {
		switch {
		case t.parts != nil:
			if name == "string" {
				return true
			}
		case t.kids != nil:
			if name == map[bool]string{true: "array", false: "object"}[t.list] {
				return true
			}
		case name == "null" && t.lit == nil:
			return true
		case name == "integer" && wholeNumber(t.lit), name != "integer" && Type(name).holds(t.lit):
			return true
		}
	}
	return false
}

// wholeNumber counts 1.0 as an integer, as JSON Schema does.
func wholeNumber(v any) bool {
	n, ok := v.(json.Number)
	if !ok {
		return false
	}
	if intPattern.MatchString(string(n)) {
		return true
	}
	b, err := canon.Marshal(n)
	return err == nil && (intPattern.Match(b) || strings.Contains(string(b), "e+"))
}
