package plan

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"

	"github.com/remitrun/remit/internal/fault"
	"github.com/remitrun/remit/internal/tool"
)

var (
	planKeys  = []string{"version", "name", "description", "inputs", "max_parallel", "steps"}
	paramKeys = []string{"type", "required", "default", "enum", "pattern", "description"}
	stepKeys  = []string{"tool", "args", "id", "name", "needs", "if", "on_error"}
	types     = []string{"string", "integer", "number", "boolean", "array", "object"}
	idPattern = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$`)
	// inputPattern has no dot, so that inputs.NAME.FIELD reads in one way.
	inputPattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]{0,99}$`)
)

// object looks up an object's known keys and reports the others.
func (r *reader) object(n *node, field, what string, known []string) map[string]*node {
	if !n.dict {
		r.bad(n.place, field, "", "%s must be an object, not %s", what, n.kind())
		return nil
	}
	out := make(map[string]*node, len(known))
	for i, k := range n.keys {
		ok := false
		for _, name := range known {
			ok = ok || name == k.name
		}
		if !ok {
			r.bad(k.place, join(field, k.name), orHint(nearest(k.name, known), "known keys: "+strings.Join(known, ", ")), "unknown key %q", rest(k.name))
			continue
		}
		out[k.name] = n.kids[i]
	}
	return out
}

// text reads an optional string.
func (r *reader) string(n *node, field string) string {
	if n == nil {
		return ""
	}
	s, ok := n.val.(string)
	if !ok {
		r.bad(n.place, field, "put it into quotes", "must be a string, not %s", n.kind())
	}
	return s
}

func (r *reader) plan(root *node) *Plan {
	p := &Plan{File: r.file, MaxParallel: 1, byID: map[string]*Step{}, params: map[string]*Param{}}
	top := r.object(root, "", "a plan", planKeys)
	if top == nil {
		return p
	}
	if v := top["version"]; v != nil && v.val != "1" && v.val != "1.0" && v.val != json.Number("1") && v.val != json.Number("1.0") {
		r.bad(v.place, "version", "write version: 1, or leave it out", "this version of the plan format is unknown")
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
		r.bad(root.place, "steps", "add steps: with at least one tool to call", "a plan needs steps")
	case !steps.list:
		r.bad(steps.place, "steps", "write - tool: … for each step", "steps must be a list, not %s", steps.kind())
	case len(steps.kids) == 0:
		r.bad(steps.place, "steps", "add at least one", "a plan needs steps")
	case len(steps.kids) > MaxSteps:
		r.bad(steps.place, "steps", "split the plan", "a plan has at most %d steps, this one %d", MaxSteps, len(steps.kids))
	default:
		for i, n := range steps.kids {
			p.Steps = append(p.Steps, r.step(p, n, i))
		}
	}
	return p
}

func (r *reader) parallel(n *node) int {
	num, _ := n.val.(json.Number)
	v, err := strconv.Atoi(string(num))
	if err != nil || v < 1 || v > MaxParallel {
		r.bad(n.place, "max_parallel", "", "must be a whole number from 1 to %d", MaxParallel)
		return 1
	}
	return v
}

func (r *reader) inputs(p *Plan, n *node) {
	if !n.dict {
		r.bad(n.place, "inputs", "write NAME: {type: string}", "inputs must be an object, not %s", n.kind())
		return
	}
	p.Params = make([]Param, 0, len(n.kids))
	for i, k := range n.keys {
		field := join("inputs", k.name)
		if !inputPattern.MatchString(k.name) {
			r.bad(k.place, field, "use letters, digits, _ and -, at most 100", "%q is no name for an input", rest(k.name))
		}
		par := r.param(n.kids[i], k, field)
		p.Params = append(p.Params, par)
		p.params[par.Name] = &p.Params[len(p.Params)-1]
	}
}

func (r *reader) param(n *node, k entry, field string) Param {
	par := Param{Name: k.name, Type: String, Pos: fault.Pos{File: r.file, Line: k.line, Column: k.col}}
	if n.val == nil && !n.dict && !n.list {
		return par // NAME: with nothing is an optional string
	}
	keys := r.object(n, field, "an input", paramKeys)
	if t := keys["type"]; t != nil {
		s := r.string(t, field+".type")
		if par.Type = Type(s); s != "" && !contains(types, s) {
			r.bad(t.place, field+".type", orHint(nearest(s, types), "types: "+strings.Join(types, ", ")), "unknown type %q", rest(s))
			return par
		}
	}
	par.Description = r.string(keys["description"], field+".description")
	if q := keys["required"]; q != nil {
		b, ok := q.val.(bool)
		if par.Required = b; !ok {
			r.bad(q.place, field+".required", "", "must be true or false, not %s", q.kind())
		}
	}
	r.pattern(&par, keys["pattern"], field)
	if e := keys["enum"]; e != nil {
		if !e.list || len(e.kids) == 0 {
			r.bad(e.place, field+".enum", "", "must be a list of allowed values")
		}
		for i, kid := range e.kids {
			v := kid.value()
			if msg := (&Param{Type: par.Type, pattern: par.pattern, Pattern: par.Pattern}).misfit(v); msg != "" {
				r.bad(kid.place, index(field+".enum", i), "", "%s", msg)
			}
			par.Enum = append(par.Enum, v)
		}
	}
	if d := keys["default"]; d != nil {
		par.HasDefault, par.Default = true, d.value()
		if msg := par.misfit(par.Default); msg != "" {
			r.bad(d.place, field+".default", "", "%s", msg)
		}
		if par.Required {
			r.bad(d.place, field+".default", "remove required, or the default", "a required input has no use for a default")
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

func (r *reader) pattern(par *Param, n *node, field string) {
	if n == nil {
		return
	}
	field += ".pattern"
	par.Pattern = r.string(n, field)
	if par.Type != String {
		r.bad(n.place, field, "remove it", "only an input of type string can have a pattern")
		return
	}
	if _, err := regexp.Compile(par.Pattern); err != nil { // alone first: "a)|(b" must not pass
		r.bad(n.place, field, "RE2 syntax", "%v", err)
		return
	}
	re, err := regexp.Compile(`^(?:` + par.Pattern + `)$`)
	if err != nil {
		r.bad(n.place, field, "RE2 syntax", "%v", err)
		return
	}
	par.pattern = re
}

func (r *reader) step(p *Plan, n *node, i int) *Step {
	field := index("steps", i)
	s := &Step{Index: i + 1, Pos: fault.Pos{File: r.file, Line: n.line, Column: n.col},
		args: &template{lit: map[string]any{}}, argPos: map[string]place{}}
	s.ID = s.defaultID()
	keys := r.object(n, field, "a step", stepKeys)
	if keys == nil {
		return s
	}
	if t := keys["tool"]; t == nil {
		r.bad(n.place, field+".tool", "add tool: with the ID of a tool, as remit tools lists them", "a step needs a tool")
	} else if name := r.string(t, field+".tool"); name != "" || t.val == "" {
		id, err := tool.ParseID(name)
		if s.Tool = id; err != nil {
			r.bad(t.place, field+".tool", "remit tools lists them", "%s", fault.Message(err))
		}
	}
	s.Name = r.string(keys["name"], field+".name")
	place := n.place
	if id := keys["id"]; id != nil {
		place = id.place
		if s.ID = r.string(id, field+".id"); !idPattern.MatchString(s.ID) {
			r.bad(id.place, field+".id", "use letters, digits, _, - and dots, at most 100", "%q is no ID for a step", rest(s.ID))
		}
	}
	if other := p.byID[s.ID]; other != nil {
		r.bad(place, field+".id", "give each step its own id", "step %d has the id %q already", other.Index, s.ID)
	} else {
		p.byID[s.ID] = s
	}
	r.stepDetails(s, keys, field)
	return s
}

func (s *Step) defaultID() string { return "step-" + strconv.Itoa(s.Index) }
func (s *Step) field() string     { return index("steps", s.Index-1) }

func (r *reader) stepDetails(s *Step, keys map[string]*node, field string) {
	if o := keys["on_error"]; o != nil {
		switch o.val {
		case "stop":
		case "continue":
			s.OnError = Continue
		default:
			r.bad(o.place, field+".on_error", "", "must be stop or continue")
		}
	}
	if n := keys["needs"]; n != nil {
		r.needs(s, n, field+".needs")
	}
	var refs []*ref
	if a := keys["args"]; a != nil && (a.val != nil || a.list || a.dict) {
		if !a.dict {
			r.bad(a.place, field+".args", "write NAME: VALUE", "args must be an object, not %s", a.kind())
			return
		}
		s.Args = a.value().(map[string]any)
		for _, k := range a.keys {
			s.argPos[k.name] = k.place
		}
		s.args = r.template(a, field+".args", &refs)
	}
	if c := keys["if"]; c != nil {
		r.condition(s, c, field+".if", &refs)
	}
	r.pending = append(r.pending, refs)
}

// needs takes one ID or a list of them.
func (r *reader) needs(s *Step, n *node, field string) {
	list := n.kids
	if _, one := n.val.(string); one {
		list = []*node{n}
	} else if !n.list {
		r.bad(n.place, field, "write needs: [ID]", "must be a list of step IDs, not %s", n.kind())
	}
	r.needPos = grow(r.needPos, s.Index)
	for i, k := range list {
		if id := r.string(k, index(field, i)); id != "" || k.val == "" {
			s.Needs = append(s.Needs, id)
			r.needPos[s.Index] = append(r.needPos[s.Index], k.place)
		}
	}
}

func grow(l [][]place, n int) [][]place {
	for len(l) <= n {
		l = append(l, nil)
	}
	return l
}

func (r *reader) condition(s *Step, n *node, field string, refs *[]*ref) {
	switch v := n.val.(type) {
	case string:
		s.If = v
	case bool:
		s.If = strconv.FormatBool(v)
	default:
		r.bad(n.place, field, "put it into quotes", "a condition must be a string, not %s", n.kind())
		return
	}
	e, found, err := parseCondition(s.If)
	if err != nil {
		r.bad(n.place, field, "", "%v", err)
		return
	}
	s.cond = e
	for _, f := range found {
		f.place, f.field = n.place, field
	}
	*refs = append(*refs, found...)
}
