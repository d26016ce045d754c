package plan

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Print writes the plan as canonical YAML: reading it gives an equal plan,
// and printing that the same bytes. Comments and styles of the source are lost.
func (p *Plan) Print() []byte {
	w := &printer{}
	w.b.WriteString("version: 1\n")
	w.field(0, "name", p.Name)
	w.field(0, "description", p.Description)
	if len(p.Params) > 0 {
		w.b.WriteString("inputs:\n")
		for i := range p.Params {
			w.param(&p.Params[i])
		}
	}
	if p.MaxParallel != 1 {
		w.b.WriteString("max_parallel: " + strconv.Itoa(p.MaxParallel) + "\n")
	}
	w.b.WriteString("steps:\n")
	for _, s := range p.ordinary() {
		w.step(s)
	}
	w.commitments(p.Steps[len(p.ordinary()):])
	return []byte(w.b.String())
}

type printer struct{ b strings.Builder }

func (w *printer) pad(indent int) { w.b.WriteString(strings.Repeat(" ", indent)) }

// field prints a string field unless it is empty.
func (w *printer) field(indent int, key, s string) {
	if s != "" {
		w.pad(indent)
		w.b.WriteString(key + ": " + quote(s) + "\n")
	}
}

func (w *printer) value(indent int, key string, v any) {
	w.pad(indent)
	w.b.WriteString(key + ":")
	w.printValue(indent, v)
}

func (w *printer) param(par *Param) {
	w.pad(2)
	w.b.WriteString(quote(par.Name) + ":\n")
	w.field(4, "type", string(par.Type))
	if par.Required {
		w.b.WriteString("    required: true\n")
	}
	if par.HasDefault {
		w.value(4, "default", par.Default)
	}
	if len(par.Enum) > 0 {
		w.value(4, "enum", par.Enum)
	}
	w.field(4, "pattern", par.Pattern)
	w.field(4, "description", par.Description)
}

func (w *printer) step(s *Step) {
	w.b.WriteString("  - tool: " + quote(string(s.Tool)) + "\n")
	if s.ID != s.defaultID() {
		w.field(4, "id", s.ID)
	}
	w.field(4, "name", s.Name)
	if len(s.Needs) > 0 {
		needs := make([]any, len(s.Needs))
		for i, n := range s.Needs {
			needs[i] = n
		}
		w.value(4, "needs", needs)
	}
	w.field(4, "if", s.If)
	if s.OnError != Stop {
		w.field(4, "on_error", s.OnError.String())
	}
	if len(s.Args) > 0 {
		w.value(4, "args", map[string]any(s.Args))
	}
}

// printValue prints a value behind "key:" or "-".
func (w *printer) printValue(indent int, v any) {
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 {
			w.b.WriteString(" {}\n")
			return
		}
		w.b.WriteByte('\n')
		for _, k := range sortedKeys(v) {
			w.value(indent+2, quote(k), v[k])
		}
	case []any:
		if len(v) == 0 {
			w.b.WriteString(" []\n")
			return
		}
		w.b.WriteByte('\n')
		for _, e := range v {
			w.pad(indent + 2)
			w.b.WriteByte('-')
			w.printValue(indent+2, e)
		}
	default:
		w.b.WriteString(" " + scalarText(v) + "\n")
	}
}

func scalarText(v any) string {
	switch v := v.(type) {
	case bool:
		return strconv.FormatBool(v)
	case json.Number:
		return string(v)
	case string:
		return quote(v)
	}
	return "null"
}

// quote prints YAML's double-quoted form, with every character that could be
// invisible or that YAML does not allow escaped.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == utf8.RuneError || unicode.IsPrint(r):
			b.WriteRune(r)
		case r <= 0xFF:
			b.WriteString(`\x` + hex(r, 2))
		case r <= 0xFFFF:
			b.WriteString(`\u` + hex(r, 4))
		default:
			b.WriteString(`\U` + hex(r, 8))
		}
	}
	b.WriteByte('"')
	return b.String()
}

func hex(r rune, digits int) string {
	s := strconv.FormatInt(int64(r), 16)
	return strings.Repeat("0", digits-len(s)) + s
}
