package extension

import (
	"encoding/json"
	"fmt"
	"math/big"
	"path"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/document"
	"github.com/remitrun/remit/internal/base/regex"
	"github.com/remitrun/remit/internal/base/tool"
)

var withins = map[string]tool.ActionKind{"files.read": tool.FileRead, "files.write": tool.FileWrite, "files.delete": tool.FileDelete, "network": tool.Network}

func (r *reader) params(into *[]Param, flags bool) document.Field {
	return r.List(maxParams, func(n *document.Node, f string) { *into = append(*into, r.param(n, f, flags)) })
}

func (r *reader) param(n *document.Node, field string, flag bool) Param {
	p := Param{Type: String}
	var def, choices *document.Node
	known := document.Fields{
		"name":        r.String(&p.Name, checkParam),
		"description": r.Prose(&p.Description, 1000),
		"type": func(n *document.Node, f string) {
			if p.Type = Type(n.Text); n.Kind != document.String || !slices.Contains([]Type{String, Integer, Number, Boolean, JSON}, p.Type) {
				r.Fail(n, f, "must be string, integer, number, boolean or json, not %s", n.Describe())
			}
		},
		"required": r.Bool(&p.Required),
		"repeat":   r.Bool(&p.Repeat),
		"default":  func(n *document.Node, _ string) { def = n },
		"choices": func(n *document.Node, f string) {
			choices = n
			r.Strings(&p.Choices, 100)(n, f)
		},
		"within": func(n *document.Node, f string) {
			if p.Within = withins[n.Text]; n.Kind != document.String || p.Within == 0 {
				r.Fail(n, f, "must be files.read, files.write, files.delete or network, not %s", n.Describe())
			}
		},
	}
	if flag {
		known["short"] = r.String(&p.Short, checkShort)
		known["option"] = r.String(&p.Option, checkOption)
	}
	r.Mapping(n, field, known, "name", "description")
	if choices != nil && p.Type != String {
		r.Fail(choices, field+".choices", "is only for strings")
	}
	if p.Within != 0 && p.Type != String {
		r.Fail(n, field+".within", "is only for strings")
	}
	if def != nil {
		r.byDefault(def, field+".default", &p)
	}
	return p
}

// byDefault reads a default, which must be what a call could give.
func (r *reader) byDefault(n *document.Node, field string, p *Param) {
	p.Default = n.Value()
	if p.Required {
		r.Fail(n, field, "a required parameter cannot have a default")
	}
	values := []any{p.Default}
	if p.Repeat {
		l, ok := p.Default.([]any)
		if !ok {
			r.Fail(n, field, "must be a list, since it is repeated")
		}
		values = l
	}
	for _, v := range values {
		if why := p.unfit(v); why != "" {
			r.Fail(n, field, "%s", why)
		}
	}
}

func checkParam(s string) error {
	if len(s) > maxName || !paramForm.MatchString(s) || s == "help" {
		return fmt.Errorf("%q is not a valid name of an argument or flag; expected words of letters and digits, as max-count", clip.Text(s, 60))
	}
	return nil
}

func checkShort(s string) error {
	if len(s) != 1 || !paramForm.MatchString(s) {
		return fmt.Errorf("%q is not a letter", clip.Text(s, 60))
	}
	return nil
}

func checkOption(s string) error {
	if len(s) > maxName || !optionForm.MatchString(s) {
		return fmt.Errorf("%q is not an option such as -n, --depth or --depth=", clip.Text(s, 60))
	}
	return nil
}

var integerForm = regex.Lazy(`^-?(0|[1-9][0-9]*)$`)

// unfit says why a value is none that the parameter takes, "" if it is one.
func (p *Param) unfit(v any) string {
	switch v := v.(type) {
	case string:
		if p.Type == String && len(p.Choices) > 0 && !slices.Contains(p.Choices, v) {
			return fmt.Sprintf("must be one of %s, not %q", strings.Join(p.Choices, ", "), clip.Text(v, 60))
		}
		if p.Type == String || p.Type == JSON {
			return ""
		}
	case json.Number:
		if p.Type == Number || p.Type == JSON || p.Type == Integer && integerForm.MatchString(v.String()) {
			return ""
		}
	case bool:
		if p.Type == Boolean || p.Type == JSON {
			return ""
		}
	default:
		if p.Type == JSON {
			return ""
		}
	}
	return "must be " + article[p.Type]
}

var article = map[Type]string{String: "a string", Integer: "a whole number", Number: "a number", Boolean: "true or false", JSON: "JSON"}

// Parse reads a value as it is written on a command line.
func (p *Param) Parse(s string) (any, error) {
	var v any = s
	switch p.Type {
	case Integer, Number:
		if !json.Valid([]byte(s)) {
			return nil, fmt.Errorf("must be %s, not %q", article[p.Type], clip.Text(s, 60))
		}
		v = json.Number(s)
		if f, _, err := big.ParseFloat(s, 10, 64, big.ToNearestEven); err != nil || f.IsInf() {
			return nil, fmt.Errorf("must be %s, not %q", article[p.Type], clip.Text(s, 60))
		}
	case Boolean:
		if s != "true" && s != "false" {
			return nil, fmt.Errorf("must be true or false, not %q", clip.Text(s, 60))
		}
		v = s == "true"
	case JSON:
		var err error
		if v, err = canon.Decode([]byte(s)); err != nil {
			return nil, fmt.Errorf("must be JSON, not %q", clip.Text(s, 60))
		}
	}
	if why := p.unfit(v); why != "" {
		return nil, fmt.Errorf("%s", why)
	}
	return v, nil
}

// Schema is the JSON Schema (2020-12) of the action's arguments.
func (a *Action) Schema() json.RawMessage {
	properties, required := map[string]any{}, []string{}
	for i, p := range a.Params() {
		properties[p.Name] = p.schema(a, i < len(a.Arguments))
		if p.Required {
			required = append(required, p.Name)
		}
	}
	schema := map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
	if len(required) > 0 {
		schema["required"] = required
	}
	b, err := json.Marshal(schema)
	if err != nil {
		return nil // strings, numbers and lists of them: it cannot fail
	}
	return b
}

func (p *Param) schema(a *Action, argument bool) map[string]any {
	one := map[string]any{}
	if p.Type != JSON {
		one["type"] = string(p.Type)
	}
	if len(p.Choices) > 0 {
		one["enum"] = p.Choices
	}
	if a.dashless(p, argument) {
		one["pattern"] = "^([^-]|$)"
	}
	if p.Repeat {
		one = map[string]any{"type": "array", "items": one, "maxItems": maxValues}
		if p.Required {
			one["minItems"] = 1
		}
	}
	one["description"] = p.Description
	if p.Default != nil {
		one["default"] = p.Default
	}
	return one
}

// maxValues bounds the values of a repeated argument.
const maxValues = 1000

// dashless reports whether a program could take the value for an option, which
// it must not be.
func (a *Action) dashless(p *Param, argument bool) bool {
	if a.Runner.Kind != RunExec || p.Type != String && p.Type != JSON || len(p.Choices) > 0 && argument {
		return false
	}
	if argument {
		return !a.Separator
	}
	return !strings.HasSuffix(p.option(), "=")
}

// option is a flag as the program has it.
func (p *Param) option() string {
	if p.Option == "" {
		return "--" + p.Name + "="
	}
	return p.Option
}

// WorkWord in a word of Action.Argv stands for the extension's work folder: the call writes to the
// path that the word names.
const WorkWord = "{work}"

// Words returns the words that a program is started with, after its name: the action's own, the
// flags, the arguments. args fit the action's schema; any other fault in them is an error for
// people. work is the work folder.
func (a *Action) Words(args map[string]any, work string) ([]string, error) {
	out := []string{a.ID}
	if a.Argv != nil {
		out = make([]string, len(a.Argv))
		for i, w := range a.Argv {
			out[i] = strings.ReplaceAll(w, WorkWord, work)
		}
	}
	for i := range a.Flags {
		p := &a.Flags[i]
		for _, v := range p.values(args) {
			words, err := a.flag(p, v)
			if err != nil {
				return nil, err
			}
			out = append(out, words...)
		}
	}
	if a.Separator {
		out = append(out, "--")
	}
	for i := range a.Arguments {
		p := &a.Arguments[i]
		for _, v := range p.values(args) {
			s, err := a.word(p, v, true)
			if err != nil {
				return nil, err
			}
			out = append(out, s)
		}
	}
	return out, nil
}

// Writes are the paths below work that the action's own words name.
func (a *Action) Writes(work string) []string {
	var out []string
	for _, w := range a.Argv {
		if _, rest, ok := strings.Cut(w, WorkWord); ok {
			out = append(out, path.Join(work, rest))
		}
	}
	return out
}

// values are a parameter's values: those of the call, or else its default.
func (p *Param) values(args map[string]any) []any {
	v, ok := args[p.Name]
	if !ok {
		v = p.Default
	}
	if l, many := v.([]any); many && p.Repeat {
		return l
	}
	if v == nil {
		return nil
	}
	return []any{v}
}

func (a *Action) flag(p *Param, v any) ([]string, error) {
	if p.Type == Boolean {
		if v == true {
			return []string{strings.TrimSuffix(p.option(), "=")}, nil
		}
		return nil, nil
	}
	s, err := a.word(p, v, false)
	switch {
	case err != nil:
		return nil, err
	case strings.HasSuffix(p.option(), "="):
		return []string{p.option() + s}, nil
	}
	return []string{p.option(), s}, nil
}

// word is a value as one word.
func (a *Action) word(p *Param, v any, argument bool) (string, error) {
	if why := p.unfit(v); why != "" {
		return "", fmt.Errorf("%s: %s", p.Name, why)
	}
	s, ok := v.(string)
	if !ok {
		b, err := json.Marshal(v)
		if err != nil {
			return "", fmt.Errorf("%s: %w", p.Name, err)
		}
		s = string(b)
	}
	switch {
	case strings.ContainsRune(s, 0):
		return "", fmt.Errorf("%s: holds a NUL byte", p.Name)
	case strings.HasPrefix(s, "-") && a.dashless(p, argument):
		return "", fmt.Errorf("%s: %q begins with a dash, and the program would take it for an option", p.Name, clip.Text(s, 60))
	}
	return s, nil
}
