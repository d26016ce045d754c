package learn

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
)

// widenTool writes the entries for a tool: one for each combination of its pinned
// arguments, with all other arguments widened. It reports false for a tool whose
// calls are written as they were: a built-in one, one that runs commands, and one
// that the chain asks about or whose arguments it constrains.
func (b *builder) widenTool(spec *tool.Spec, t *seenTool) bool {
	if spec.Source == "builtin" || spec.Effects.Has(tool.SystemExec) || !b.unconstrained(spec, t) {
		return false
	}
	tr := traitsOf(spec)
	calls, all := b.leavesOf(t)
	widths := map[string]*width{}
	for name, v := range all {
		if w := b.width(tr, name, v.distinct); w != nil {
			widths[name] = w
		}
	}
	for _, name := range sorted(widths) {
		b.widened = append(b.widened, Widening{Entry: "tools " + strconv.Quote(string(spec.ID)), Argument: name,
			Seen: b.shownValues(all[name].distinct), Allows: widths[name].allows})
	}
	extra := b.unseenArgs(spec, tr, all)
	for _, g := range b.pinnedGroups(calls, widths) {
		b.groupEntry(spec, tr, g, widths, extra)
	}
	if tr.reads {
		b.readers = append(b.readers, spec.ID)
	}
	return true
}

// unconstrained reports whether every policy of the chain allows all calls of a tool,
// by an entry that says nothing of its arguments.
func (b *builder) unconstrained(spec *tool.Spec, t *seenTool) bool {
	if len(b.opt.Chain) == 0 || len(b.acting(spec.ID)) > 0 {
		return false
	}
	for _, c := range t.calls {
		if c.args == nil || b.opt.Chain.DecideTool(spec, c.args, c.actions) != policy.Allow || !b.openTo(spec, c.args, c.actions) {
			return false
		}
	}
	return true
}

// openTo reports whether the entries that allow a call say nothing of its arguments.
func (b *builder) openTo(spec *tool.Spec, args map[string]any, actions []tool.Action) bool {
	from, ok := b.allowing(spec, &seenCall{args: args, actions: actions})
	return ok && len(from) > 0 && !slices.ContainsFunc(from, func(e policy.Entry) bool { return e.Args != nil || e.Closed })
}

// toolCall is one call's arguments, taken apart.
type toolCall struct {
	args  map[string]any // by the name that a policy writes
	count int
}

func (b *builder) leavesOf(t *seenTool) ([]toolCall, map[string]*values) {
	var calls []toolCall
	all := map[string]*values{}
	for _, key := range sorted(t.calls) {
		c := toolCall{map[string]any{}, t.calls[key].count}
		for _, l := range b.leaves(t.calls[key].args, nil) {
			c.args[l.name] = l.value
			if all[l.name] == nil {
				all[l.name] = &values{}
			}
			all[l.name].add(l.value)
		}
		calls = append(calls, c)
	}
	return calls, all
}

// pinnedGroups groups calls that have the same values in all pinned arguments, so that
// no entry combines the recipient of one call with the file of another one.
func (b *builder) pinnedGroups(calls []toolCall, widths map[string]*width) [][]toolCall {
	groups := map[string][]toolCall{}
	for _, c := range calls {
		var key strings.Builder
		for _, name := range sorted(c.args) {
			if widths[name] == nil {
				key.WriteString(strconv.Quote(name) + printValue(c.args[name]) + "\n")
			}
		}
		groups[key.String()] = append(groups[key.String()], c)
	}
	var out [][]toolCall
	for _, key := range sorted(groups) {
		out = append(out, groups[key])
	}
	return out
}

// groupEntry writes the entry of calls that differ in widened arguments alone.
func (b *builder) groupEntry(spec *tool.Spec, tr traits, group []toolCall, widths map[string]*width, extra map[string]*width) {
	names, count := map[string]int{}, 0
	for _, c := range group {
		count += c.count
		for name := range c.args {
			names[name]++
		}
	}
	lines := map[string]string{}
	for name := range names {
		w := widths[name]
		if w == nil {
			text, ok := b.pinned(name, group[0].args[name])
			if !ok {
				b.left = append(b.left, suggestion{"tools", string(spec.ID) + " " + name, "its value contains a secret or is too long to be written down", count})
				return
			}
			lines[name] = text
			continue
		}
		lines[name] = braced(w, names[name] < len(group) || tr.reads)
	}
	if tr.reads { // arguments of its other calls and of its schema
		for name, w := range widths {
			if names[name] == 0 && !strings.Contains(name, ".") {
				lines[name] = braced(w, true)
			}
		}
		for name, w := range extra {
			lines[name] = braced(w, true)
		}
	}
	b.add("tools", policy.Allow, entryText(spec.ID, lines), count, "")
	for _, name := range sorted(lines) {
		if w := widths[name]; w != nil {
			b.newly(name + ": " + w.allows)
		} else if w := extra[name]; w != nil {
			b.newly(name + ": " + w.allows)
		}
	}
}

func braced(w *width, optional bool) string {
	if optional {
		return "{" + w.text + ", optional: true}"
	}
	return "{" + w.text + "}"
}

func entryText(id tool.ID, lines map[string]string) string {
	text := "tool: " + strconv.Quote(string(id)) + "\nargs:"
	if len(lines) == 0 {
		return text + " {}"
	}
	for _, name := range sorted(lines) {
		text += "\n  " + strconv.Quote(name) + ": " + lines[name]
	}
	return text
}

// pinned is the constraint for the very value that was used. Text for people may be
// left out of the policy, and is then bound by its length; ok is false for another
// value that must not be written down.
func (b *builder) pinned(name string, v any) (text string, ok bool) {
	switch {
	case b.writable(v):
		return "{equals: " + printValue(v) + "}", true
	case roleOf(name) == words:
		return anyLike(v), true
	}
	return "{equals: " + printValue(v) + "}", b.speakable(v)
}

// speakable reports whether a value has no secret and is not too long, though it may
// look as if it were made up anew each time.
func (b *builder) speakable(v any) bool {
	switch v := v.(type) {
	case string:
		return len(v) <= longest && utf8.ValidString(v) && !b.looks.isSecret(v)
	case []any:
		return len(v) <= longest && !slices.ContainsFunc(v, func(w any) bool { return !b.speakable(w) })
	case map[string]any:
		for name, w := range v {
			if !b.speakable(w) || !b.speakable(name) {
				return false
			}
		}
		return len(v) <= longest
	}
	return true
}

// schema has the fields that are read of the JSON Schema of a tool's arguments.
type schema struct {
	Properties map[string]struct {
		Type  any              `json:"type"`
		AnyOf []map[string]any `json:"anyOf"`
		Items struct {
			Type any `json:"type"`
		} `json:"items"`
	} `json:"properties"`
	Required []string `json:"required"`
}

// unseenArgs widens a tool that only reads to the arguments of its schema that no call
// had.
func (b *builder) unseenArgs(spec *tool.Spec, tr traits, seen map[string]*values) map[string]*width {
	if !tr.reads || len(seen) == 0 {
		return nil
	}
	out := map[string]*width{}
	all, _ := schemaWidths(spec, tr)
	for _, name := range sorted(all) {
		escaped := escapeName(name)
		if seen[escaped] != nil || slices.ContainsFunc(sorted(seen), func(s string) bool { return strings.HasPrefix(s, escaped+".") }) {
			continue
		}
		out[escaped] = all[name]
		b.widened = append(b.widened, Widening{Entry: "tools " + strconv.Quote(string(spec.ID)), Argument: escaped, Seen: "it was not used", Allows: all[name].allows})
	}
	return out
}

func escapeName(name string) string {
	return strings.NewReplacer(`\`, `\\`, ".", `\.`).Replace(name)
}

// schemaWidths bounds the arguments of a tool that only reads by their types. ok is
// false if it needs one that names a place, or that cannot be bounded.
func schemaWidths(spec *tool.Spec, tr traits) (out map[string]*width, ok bool) {
	var s schema
	if len(spec.Input) > 0 && json.Unmarshal(spec.Input, &s) != nil {
		return nil, false
	}
	out, ok = map[string]*width{}, len(spec.Input) > 0
	for name, p := range s.Properties {
		types := []any{p.Type, p.Items.Type}
		for _, alt := range p.AnyOf {
			types = append(types, alt["type"])
		}
		r := roleOf(escapeName(name))
		var w *width
		switch is := func(t string) bool { return types[0] == t || p.Type == nil && slices.Contains(types[2:], any(t)) }; {
		case r == place, r == program, tr.sends:
		case is("string"):
			w = &width{"max_length: 200", "any text of up to 200 characters"}
		case is("integer"), is("number"):
			w = &width{"min: 0, max: 1000000", "any number from 0 to 1000000"}
		case is("boolean"):
			w = &width{"one_of: [true, false]", "true and false"}
		case is("array") && types[1] == "string":
			w = &width{"max_length: 20, each: {max_length: 200}", "any list of up to 20 elements, each text of up to 200 characters"}
		}
		if w != nil {
			out[name] = w
		} else if slices.Contains(s.Required, name) {
			ok = false
		}
	}
	return out, ok
}

// fewReaders is how many tools of a server that only read must have been used for the
// others to be added.
const fewReaders = 2

// otherReaders adds the tools of a server that only read, where several of its tools
// that only read were used. Tools that name a place or reach the web are not added.
func (b *builder) otherReaders() {
	used := map[string]int{}
	for _, id := range b.readers {
		used[serverOf(id)]++
	}
	for _, spec := range b.opt.Known {
		if spec == nil || used[serverOf(spec.ID)] < fewReaders || b.tools[spec.ID] != nil || spec.Source == "builtin" {
			continue
		}
		tr := traitsOf(spec)
		args, ok := schemaWidths(spec, tr)
		if !ok || !tr.reads || tr.sends || b.mentioned(spec.ID) || b.opt.Chain.DecideTool(spec, nil, nil) != policy.Allow || !b.openTo(spec, nil, nil) {
			continue
		}
		lines := map[string]string{}
		var s schema
		_ = json.Unmarshal(spec.Input, &s) // schemaWidths read it
		for name, w := range args {
			lines[escapeName(name)] = braced(w, !slices.Contains(s.Required, name))
		}
		b.add("tools", policy.Allow, entryText(spec.ID, lines), 0, "")
		b.newly("this tool, which only reads by its name")
		b.widened = append(b.widened, Widening{Entry: "tools " + strconv.Quote(string(spec.ID)),
			Seen: strconv.Itoa(used[serverOf(spec.ID)]) + " other tools of this server that only read", Allows: "this tool, which only reads by its name"})
	}
}

func serverOf(id tool.ID) string {
	return string(id)[:strings.LastIndexByte(string(id), ':')+1]
}

// mentioned reports whether the chain asks about a tool, or denies some calls of it.
func (b *builder) mentioned(id tool.ID) bool {
	for _, r := range b.opt.Chain {
		if r == nil || r.Policy() == nil {
			return true
		}
		for _, e := range r.Policy().Entries() {
			if e.Section == "tools" && e.Effect != policy.Allow && e.Matches(string(id)) {
				return true
			}
		}
	}
	return false
}
