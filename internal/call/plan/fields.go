package plan

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/remitrun/remit/internal/base/document"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/regex"
	"github.com/remitrun/remit/internal/base/tool"
)

var (
	planKeys  = []string{"version", "name", "description", "inputs", "max_parallel", "steps", "commitments"}
	paramKeys = []string{"type", "required", "default", "enum", "pattern", "description"}
	stepKeys  = []string{"tool", "args", "id", "name", "needs", "if", "on_error"}
	types     = []string{"string", "integer", "number", "boolean", "array", "object"}
	idPattern = regex.Lazy(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$`)
	// inputPattern has no dot, so that inputs.NAME.FIELD reads in one way.
	inputPattern = regex.Lazy(`^[A-Za-z_][A-Za-z0-9_-]{0,99}$`)
)

// object looks up an object's known keys and reports the others.
func (r *reader) object(n *document.Node, field string, known []string) map[string]*document.Node {
	out := make(map[string]*document.Node, len(known))
	ok := r.Each(n, field, func(k, v *document.Node, field string) {
		if !slices.Contains(known, k.Text) {
			r.UnknownKey(k, field, known)
			return
		}
		out[k.Text] = v
	})
	if !ok {
		return nil
	}
	return out
}

// string reads an optional string.
func (r *reader) string(n *document.Node, field string) string {
	if n == nil {
		return ""
	}
	s, _ := r.Text(n, field)
	return s
}

func (r *reader) plan(file string, root *document.Node) *Plan {
	p := &Plan{File: file, MaxParallel: 1, byID: map[string]*Step{}, params: map[string]*Param{}}
	top := r.object(root, "", planKeys)
	if top == nil {
		return p
	}
	if v := top["version"]; v != nil && v.Text != "1" && v.Text != "1.0" {
		r.bad(v, "version", "write version: 1, or leave it out", "this version of the plan format is unknown")
	}
	p.Name = r.string(top["name"], "name")
	p.Description = r.string(top["description"], "description")
	if n := top["max_parallel"]; n != nil {
		p.MaxParallel = r.parallel(n)
	}
	if n := top["inputs"]; n != nil {
		r.inputs(p, n)
	}
	steps := top["steps"]
	switch {
	case steps == nil:
		r.bad(root, "steps", "add steps: with at least one tool to call", "a plan needs steps")
	case steps.Kind != document.List:
		r.bad(steps, "steps", "write - tool: … for each step", "steps must be a list, not %s", steps.Describe())
	case len(steps.Items) == 0:
		r.bad(steps, "steps", "add at least one", "a plan needs steps")
	case len(steps.Items) > MaxSteps:
		r.bad(steps, "steps", "split the plan", "the plan has %d steps; the limit is %d", MaxSteps, len(steps.Items))
	default:
		for i, n := range steps.Items {
			p.Steps = append(p.Steps, r.step(p, n, i))
		}
	}
	if n := top["commitments"]; n != nil {
		r.commitments(p, n)
	}
	return p
}

func (r *reader) parallel(n *document.Node) int {
	v := 1
	document.Int(r.Reader, &v, 1, MaxParallel)(n, "max_parallel")
	return v
}

func (r *reader) inputs(p *Plan, n *document.Node) {
	p.Params = make([]Param, 0, len(n.Pairs))
	r.Each(n, "inputs", func(k, v *document.Node, field string) {
		if !inputPattern.MatchString(k.Text) {
			r.bad(k, field, "use letters, digits, _ and -, at most 100", "%q is not a valid input name", excerpt(k.Text))
		}
		par := r.param(v, k, field)
		p.Params = append(p.Params, par)
		p.params[par.Name] = &p.Params[len(p.Params)-1]
	})
}

func (r *reader) param(n *document.Node, k *document.Node, field string) Param {
	par := Param{Name: k.Text, Type: String, Pos: r.Pos(k)}
	if n.Kind == document.Null {
		return par // NAME: with nothing is an optional string
	}
	keys := r.object(n, field, paramKeys)
	if t := keys["type"]; t != nil {
		s := r.string(t, field+".type")
		if par.Type = Type(s); s != "" && !contains(types, s) {
			r.bad(t, field+".type", orHint(nearest(s, types), "types: "+strings.Join(types, ", ")), "unknown type %q", excerpt(s))
			return par
		}
	}
	par.Description = r.string(keys["description"], field+".description")
	if q := keys["required"]; q != nil {
		r.Bool(&par.Required)(q, field+".required")
	}
	r.pattern(&par, keys["pattern"], field)
	if e := keys["enum"]; e != nil {
		if len(e.Items) == 0 {
			r.bad(e, field+".enum", "", "must be a list of allowed values")
		}
		for i, kid := range e.Items {
			v := kid.Value()
			if msg := (&Param{Type: par.Type, pattern: par.pattern, Pattern: par.Pattern}).misfit(v); msg != "" {
				r.bad(kid, document.Index(field+".enum", i), "", "%s", msg)
			}
			par.Enum = append(par.Enum, v)
		}
	}
	if d := keys["default"]; d != nil {
		par.HasDefault, par.Default = true, d.Value()
		if msg := par.misfit(par.Default); msg != "" {
			r.bad(d, field+".default", "", "%s", msg)
		}
		if par.Required {
			r.bad(d, field+".default", "remove required, or the default", "a required input cannot have a default")
		}
	}
	return par
}

func contains(list []string, s string) bool {
	for _, e := range list {
		if e == s {
			return true
		}
	}
	return false
}

func (r *reader) pattern(par *Param, n *document.Node, field string) {
	if n == nil {
		return
	}
	field += ".pattern"
	par.Pattern = r.string(n, field)
	if par.Type != String {
		r.bad(n, field, "remove it", "only an input of type string can have a pattern")
		return
	}
	if _, err := regexp.Compile(par.Pattern); err != nil { // alone first: "a)|(b" must not pass
		r.bad(n, field, "RE2 syntax", "%v", err)
		return
	}
	re, err := regexp.Compile(`^(?:` + par.Pattern + `)$`)
	if err != nil {
		r.bad(n, field, "RE2 syntax", "%v", err)
		return
	}
	par.pattern = re
}

func (r *reader) step(p *Plan, n *document.Node, i int) *Step {
	field := document.Index("steps", i)
	s := &Step{Index: i + 1, Pos: r.Pos(n),
		args: noArgs}
	s.ID = s.defaultID()
	keys := r.object(n, field, stepKeys)
	if keys == nil {
		return s
	}
	if t := keys["tool"]; t == nil {
		r.bad(n, field+".tool", "add tool: with the ID of a tool, as remit tools lists them", "a step needs a tool")
	} else if name := r.string(t, field+".tool"); name != "" || t.Is("") {
		id, err := tool.ParseID(name)
		if s.Tool = id; err != nil {
			r.bad(t, field+".tool", "remit tools lists them", "%s", fault.Message(err))
		}
	}
	s.Name = r.string(keys["name"], field+".name")
	at := n
	if id := keys["id"]; id != nil {
		at = id
		if s.ID = r.string(id, field+".id"); !idPattern.MatchString(s.ID) {
			r.bad(id, field+".id", "use letters, digits, _, - and dots, at most 100", "%q is not a valid step ID", excerpt(s.ID))
		}
	}
	if other := p.byID[s.ID]; other != nil {
		r.bad(at, field+".id", "give each step its own id", "step %d has the id %q already", other.Index, s.ID)
	} else {
		p.byID[s.ID] = s
	}
	r.stepDetails(s, keys, field)
	return s
}

func (s *Step) defaultID() string { return "step-" + strconv.Itoa(s.Index) }

func (s *Step) field() string {
	if s.Commitment != nil {
		return s.path
	}
	return document.Index("steps", s.Index-1)
}

// noArgs are the arguments of steps that have none.
var noArgs = &template{lit: map[string]any{}}

// stepDetails keeps nothing of the document: long plans are held while they run.
func (r *reader) stepDetails(s *Step, keys map[string]*document.Node, field string) {
	if o := keys["on_error"]; o != nil {
		word := ""
		if r.OneOf(&word, "stop", "continue")(o, field+".on_error"); word == "continue" {
			s.OnError = Continue
		}
	}
	if n := keys["needs"]; n != nil {
		r.readNeeds(s, n, field+".needs")
	}
	var refs []*ref
	if a := keys["args"]; a != nil && a.Kind != document.Null {
		var ok bool
		if s.Args, ok = a.Value().(map[string]any); !ok {
			r.bad(a, field+".args", "write NAME: VALUE", "args must be a mapping, not %s", a.Describe())
			return
		}
		s.argPos = make([]argPos, len(a.Pairs))
		for i, p := range a.Pairs {
			s.argPos[i] = argPos{p.Key.Text, int32(p.Key.Line), int32(p.Key.Column)}
		}
		if s.args = (&template{lit: map[string]any(s.Args)}); hasExpression(a) {
			s.args = r.template(a, field+".args", &refs)
		}
	}
	if c := keys["if"]; c != nil {
		r.condition(s, c, field+".if", &refs)
	}
	r.pending = append(r.pending, refs)
}

// readNeeds takes one ID or a list of them.
func (r *reader) readNeeds(s *Step, n *document.Node, field string) {
	list := n.Items
	if n.Kind == document.String {
		list = []*document.Node{n}
	} else if n.Kind != document.List {
		r.bad(n, field, "write needs: [ID]", "must be a list of step IDs, not %s", n.Describe())
	}
	r.needPos = grow(r.needPos, s.Index)
	for i, k := range list {
		if id := r.string(k, document.Index(field, i)); id != "" || k.Is("") {
			s.Needs = append(s.Needs, id)
			r.needPos[s.Index] = append(r.needPos[s.Index], k)
		}
	}
}

func grow(l [][]*document.Node, n int) [][]*document.Node {
	for len(l) <= n {
		l = append(l, nil)
	}
	return l
}

func (r *reader) condition(s *Step, n *document.Node, field string, refs *[]*ref) {
	switch n.Kind {
	case document.String, document.Bool:
		s.If = n.Text
	default:
		r.bad(n, field, "put it into quotes", "a condition must be a string, not %s", n.Describe())
		return
	}
	e, found, err := parseCondition(s.If)
	if err != nil {
		r.bad(n, field, "", "%v", err)
		return
	}
	s.cond = e
	for _, f := range found {
		f.at, f.field = n, field
	}
	*refs = append(*refs, found...)
}
