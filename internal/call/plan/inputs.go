package plan

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/document"
	"github.com/remitrun/remit/internal/base/fault"
)

// Inputs reads the values given for the plan's inputs, as text: a string as it
// is, true or false, numbers, arrays and objects as JSON. The result has every
// declared input: given, default or null. Unknown and missing inputs and
// unfitting values are reported all at once as a [fault.List] of
// fault.PlanInput.
func (p *Plan) Inputs(given map[string]string) (map[string]any, error) {
	var problems fault.List
	out := make(map[string]any, len(p.Params))
	for i := range p.Params {
		par := &p.Params[i]
		text, ok := given[par.Name]
		switch {
		case ok:
			v, msg := par.read(text)
			if msg != "" {
				problems = append(problems, fault.New(fault.PlanInput, "%s", document.Visible(msg)).At(par.Pos).In("inputs."+par.Name))
			}
			out[par.Name] = v
		case par.Required:
			problems = append(problems, fault.New(fault.PlanInput, "this input is required").At(par.Pos).
				In("inputs."+par.Name).WithHint("set it with --input %s=…", par.Name))
		default:
			out[par.Name] = par.Default
		}
	}
	for _, name := range sortedKeys(given) {
		if _, ok := p.params[name]; !ok {
			problems = append(problems, fault.New(fault.PlanInput, "the plan declares no input %q", excerpt(name)).
				At(fault.Pos{File: p.File}).WithHint("%s", p.inputHint(name)))
		}
	}
	if err := problems.Err(); err != nil {
		return nil, err
	}
	return out, nil
}

func (p *Plan) inputHint(name string) string {
	names := sortedKeys(p.params)
	if len(names) == 0 {
		return "it takes none"
	}
	return orHint(nearest(name, names), "its inputs: "+strings.Join(names, ", "))
}

// read makes a value of text, or says why it does not fit. It never repeats
// the text: inputs can be secrets.
func (par *Param) read(text string) (any, string) {
	var v any = text
	if par.Type != String {
		var err error
		if v, err = canon.Decode([]byte(text)); err != nil {
			return nil, "must be " + par.Type.article() + ": " + err.Error()
		}
	}
	return v, par.misfit(v)
}

func (t Type) article() string {
	switch t {
	case Integer, Array, Object:
		return "an " + string(t) + map[Type]string{Array: " in JSON", Object: " in JSON"}[t]
	}
	return "a " + string(t)
}

// misfit says why a value does not fit the input, or "".
func (par *Param) misfit(v any) string {
	if !par.Type.holds(v) {
		return "must be " + par.Type.article()
	}
	if s, ok := v.(string); ok && par.pattern != nil && !par.pattern.MatchString(s) {
		return "does not match the pattern " + strconv.Quote(par.Pattern)
	}
	if _, err := canon.Marshal(v); err != nil {
		return err.Error()
	}
	if len(par.Enum) == 0 {
		return ""
	}
	var allowed []string
	for _, e := range par.Enum {
		if equal(e, v) {
			return ""
		}
		b, err := canon.Marshal(e)
		if err == nil {
			allowed = append(allowed, string(b))
		}
	}
	return "must be one of " + strings.Join(allowed, ", ")
}

func (t Type) holds(v any) bool {
	switch v := v.(type) {
	case string:
		return t == String
	case bool:
		return t == Boolean
	case json.Number:
		return t == Number || t == Integer && intPattern.MatchString(string(v))
	case []any:
		return t == Array
	case map[string]any:
		return t == Object
	}
	return false
}
