package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Print writes the policy in canonical form: YAML with every string quoted, in
// a fixed order. Parsing it gives the same policy.
func (p *Policy) Print() []byte {
	d := p.document()
	w := &printer{}
	w.line(0, "version: 1")
	w.line(0, "name: %s", quote(d.name))
	w.body(0, d)
	if len(d.roles) > 0 {
		w.line(0, "roles:")
		for _, r := range d.roles {
			w.line(1, "%s:", quote(r.pattern))
			before := w.b.Len()
			w.body(2, r.policy.doc)
			if w.b.Len() == before {
				w.b.Truncate(before - 1)
				w.b.WriteString(" {}\n")
			}
		}
	}
	return w.b.Bytes()
}

type printer struct{ b bytes.Buffer }

func (w *printer) line(indent int, format string, args ...any) {
	w.b.WriteString(strings.Repeat("  ", indent))
	fmt.Fprintf(&w.b, format+"\n", args...)
}

func (w *printer) body(in int, d *document) {
	if d.sections[readSection].set || d.sections[writeSection].set {
		w.line(in, "files:")
		w.section(in+1, "read", &d.sections[readSection], []field{{"max_bytes", d.readBytes}})
		w.section(in+1, "write", &d.sections[writeSection], []field{{"max_bytes", d.writeBytes}, {"hold", d.hold}})
	}
	w.section(in, "network", &d.sections[networkSection], []field{{"max_bytes", d.responseBytes}, {"timeout", d.requestTimeout},
		{"bandwidth", d.bandwidth}, {"total_bytes", d.totalBytes}, {"inspect", d.inspect}})
	w.section(in, "commands", &d.sections[commandSection], []field{{"env", d.env}, {"path", d.path},
		{"timeout", d.commandTimeout}, {"max_output", d.outputBytes}, {"memory", d.memory}, {"processes", d.processes},
		{"cpu", d.cpu}, {"files", d.openFiles}, {"disk", d.disk}})
	w.section(in, "tools", &d.sections[toolSection], []field{{"ask_from_risk", d.askFromRisk.text()},
		{"deny_from_risk", d.denyFromRisk.text()}, {"admin_from_risk", d.adminFromRisk.text()}, {"frozen_plan_from_risk", d.planFromRisk.text()}})
	w.section(in, "models", &d.sections[modelSection], []field{{"tokens", d.tokens}})
	w.section(in, "api", &d.sections[apiSection], nil)
	w.secrets(in, d)
	w.fields(in, "agents", []field{{"spawn", d.spawn}, {"depth", d.depth}})
	w.limits(in, d)
	w.gates(in, d)
	w.fields(in, "ledger", []field{{"durability", d.durability}})
	if d.system != "" {
		w.line(in, "system: %s", d.system)
	}
	if d.isolation != "" {
		w.line(in, "isolation: %s", d.isolation)
	}
	w.fields(in, "sandbox", []field{{"tier", d.tier}})
	w.fields(in, "mcp", []field{{"elicitation", d.asking.elicitation}, {"sampling", d.asking.sampling}, {"roots", d.asking.roots}})
	if d.inherit {
		w.line(in, "rest: inherit")
	}
}

func (w *printer) limits(in int, d *document) {
	fields := []field{{"calls", d.calls}, {"calls_per_tool", d.callsPerTool}, {"time", d.time}, {"bytes_in", d.bytesIn},
		{"bytes_out", d.bytesOut}, {"money", usd(d.money)}}
	w.fields(in, "limits", fields)
	if len(d.perTool) == 0 {
		return
	}
	if !slices.ContainsFunc(fields, func(f field) bool { return f.text() != "" }) {
		w.line(in, "limits:")
	}
	w.line(in+1, "per_tool:")
	for _, t := range d.perTool {
		w.line(in+2, "%s: %d", quote(t.pattern), t.calls)
	}
}

// usd writes millionths of a US dollar as money reads them.
func usd(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d.%06d USD", n/1e6, n%1e6)
}

// field is a key with a value; a zero value, "" or nil is not written.
type field struct {
	key   string
	value any
}

func (f field) text() string {
	switch v := f.value.(type) {
	case int:
		if v != 0 {
			return strconv.Itoa(v)
		}
	case int64:
		if v != 0 {
			return strconv.FormatInt(v, 10)
		}
	case *int:
		if v != nil {
			return strconv.Itoa(*v)
		}
	case bool:
		if v {
			return "true"
		}
	case time.Duration:
		if v != 0 {
			return v.String()
		}
	case string:
		return v
	case []string:
		if v != nil {
			quoted := make([]string, len(v))
			for i, s := range v {
				quoted[i] = quote(s)
			}
			return "[" + strings.Join(quoted, ", ") + "]"
		}
	}
	return ""
}

// fields writes a mapping of the fields that are set, if any is.
func (w *printer) fields(in int, name string, fs []field) {
	head := false
	for _, f := range fs {
		s := f.text()
		if s == "" {
			continue
		}
		if !head {
			w.line(in, "%s:", name)
			head = true
		}
		w.line(in+1, "%s: %s", f.key, s)
	}
}

func (w *printer) section(in int, name string, s *section, fs []field) {
	if !s.set {
		return
	}
	w.line(in, "%s:", name)
	before := w.b.Len()
	for _, e := range []Effect{Allow, Ask, Deny} {
		list := s.lists[e]
		switch {
		case len(list) > 0:
			w.line(in+1, "%s:", listNames[e])
			for i := range list {
				w.entry(in+2, &list[i])
			}
		case e == Allow && s.allowSet:
			w.line(in+1, "allow: []")
		}
	}
	for _, f := range fs {
		if t := f.text(); t != "" {
			w.line(in+1, "%s: %s", f.key, t)
		}
	}
	if w.b.Len() == before { // mentioned, so closed
		w.b.Truncate(before - 1)
		w.b.WriteString(" {}\n")
	}
}

func (w *printer) entry(in int, en *entry) {
	if en.look {
		w.networkEntry(in, en)
		return
	}
	if en.args == nil {
		w.line(in, "- %s", quote(en.text))
		return
	}
	w.line(in, "- tool: %s", quote(en.text))
	if len(en.args.list) == 0 {
		w.line(in+1, "args: {}")
	} else {
		w.line(in+1, "args:")
	}
	for _, a := range en.args.list {
		w.line(in+2, "%s: %s", quote(a.name), a.rule.print())
	}
	if en.args.others {
		w.line(in+1, "others: allow")
	}
}

// print writes a constraint as a flow mapping.
func (c *constraint) print() string {
	var parts []string
	add := func(key, value string) { parts = append(parts, key+": "+value) }
	if c.hasEquals {
		add("equals", printValue(c.equals))
	}
	if c.oneOf != nil {
		add("one_of", printValue(c.oneOf))
	}
	if c.glob != nil {
		add("glob", quote(c.globText))
	}
	if c.regex != nil {
		add("regex", quote(c.regex.source))
	}
	if c.min != "" {
		add("min", string(c.min))
	}
	if c.max != "" {
		add("max", string(c.max))
	}
	if c.minLength != nil {
		add("min_length", strconv.Itoa(*c.minLength))
	}
	if c.maxLength != nil {
		add("max_length", strconv.Itoa(*c.maxLength))
	}
	if c.each != nil {
		add("each", c.each.print())
	}
	if c.within != noSection {
		add("within", c.within.String())
	}
	if c.base != "" {
		add("base", quote(c.base))
	}
	if c.optional {
		add("optional", "true")
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func printValue(v any) string {
	switch v := v.(type) {
	case string:
		return quote(v)
	case bool:
		return strconv.FormatBool(v)
	case json.Number:
		return string(v)
	case []any:
		parts := make([]string, len(v))
		for i, w := range v {
			parts[i] = printValue(w)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case map[string]any:
		parts := make([]string, 0, len(v))
		for k, w := range v {
			parts = append(parts, quote(k)+": "+printValue(w))
		}
		slices.Sort(parts)
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return "null"
}

// quote writes a YAML string: Go's escapes are among YAML's.
func quote(s string) string { return strconv.Quote(s) }
