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

// seenTool is a tool that was used, with the arguments of each use.
type seenTool struct {
	seen
	calls map[string]*seenCall // by the arguments' canonical text
}

type seenCall struct {
	args    map[string]any
	actions []tool.Action
	count   int
}

// longest is how long a text may be to be written down as it is.
const longest = 200

func (b *builder) sawTool(u Use) {
	if b.tools == nil {
		b.tools = map[tool.ID]*seenTool{}
	}
	t := b.tools[u.Tool]
	if t == nil {
		t = &seenTool{calls: map[string]*seenCall{}}
		b.tools[u.Tool] = t
	}
	key := "none"
	if u.Args != nil {
		key = printValue(u.Args)
	}
	c := t.calls[key]
	if c == nil {
		c = &seenCall{args: u.Args}
		t.calls[key] = c
	}
	c.actions = append(c.actions, u.Action)
	if u.Args == nil { // whose calls they are of is not known
		t.count, c.count = t.count+u.times(), c.count+u.times()
		return
	}
	// A call is one use for each of its actions; it is counted by the most of them.
	same := 0
	for _, a := range c.actions {
		if a.String() == u.Action.String() {
			same++
		}
	}
	if n := same * u.times(); n > c.count {
		t.count += n - c.count
		c.count = n
	}
}

func (b *builder) toolIDs() []tool.ID {
	var out []tool.ID
	for id := range b.tools {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}

func (b *builder) spec(id tool.ID) *tool.Spec {
	if b.opt.Spec != nil {
		if s := b.opt.Spec(id); s != nil {
			return s
		}
	}
	return &tool.Spec{ID: id}
}

func (b *builder) allTools() {
	for _, id := range b.toolIDs() {
		t := b.tools[id]
		spec := b.spec(id)
		if !b.opt.Exact && b.widenTool(spec, t) {
			continue
		}
		for _, key := range sorted(t.calls) {
			c := t.calls[key]
			b.allTool(spec, c, t.count)
		}
	}
	b.otherReaders()
}

// allTool writes the entry for one call of a tool.
func (b *builder) allTool(spec *tool.Spec, c *seenCall, count int) {
	name := strconv.Quote(string(spec.ID))
	if len(b.opt.Chain) > 0 && b.opt.Chain.DecideTool(spec, c.args, c.actions) == policy.Ask && !slices.Contains(b.asked, spec.ID) {
		b.asked = append(b.asked, spec.ID)
	}
	from, ok := b.allowing(spec, c)
	if !ok {
		// Only an entry of tools.ask lets it through; that one is kept.
		return
	}
	acting := b.acting(spec.ID)
	constrained := len(acting) > 0 || slices.ContainsFunc(from, func(e policy.Entry) bool { return e.Args != nil || e.Closed })
	if !constrained && (spec.Source == "builtin" || c.args == nil) {
		b.add("tools", policy.Allow, name, count, "")
		return
	}
	leaves := b.leaves(c.args, slices.Concat(from, acting))
	if leaves == nil && !constrained {
		b.add("tools", policy.Allow, "tool: "+name+"\nargs: {}", c.count, "")
		return
	}
	var w strings.Builder
	w.WriteString("tool: " + name + "\nargs:")
	if len(leaves) == 0 {
		w.WriteString(" {}")
	}
	for _, l := range leaves {
		text, ok := b.constraint(l, from, acting, spec.Source == "builtin")
		if !ok {
			b.left = append(b.left, suggestion{"tools", string(spec.ID) + " " + l.name,
				"the policies constrain this argument in ways that one entry cannot say", c.count})
			return
		}
		w.WriteString("\n  " + strconv.Quote(l.name) + ": " + text)
	}
	b.add("tools", policy.Allow, w.String(), c.count, "")
}

// allowing gives the entry of each policy that lets a call through: one without
// constraints where there is one. ok is false where a policy only asks.
func (b *builder) allowing(spec *tool.Spec, c *seenCall) (from []policy.Entry, ok bool) {
	for _, list := range b.opt.Chain.Allowing(policy.Call{Tool: spec, Args: c.args, Actions: c.actions}) {
		if list == nil {
			continue
		}
		if len(list) == 0 {
			return nil, false
		}
		at := slices.IndexFunc(list, func(e policy.Entry) bool { return e.Args == nil && !e.Closed })
		if at < 0 && len(list) > 0 {
			at = 0
		}
		if at >= 0 {
			from = append(from, list[at])
		}
	}
	return from, true
}

// acting gives the entries of allow and ask of the whole chain that make
// actions of a tool's arguments: they do so whichever entry lets a call through.
func (b *builder) acting(id tool.ID) []policy.Entry {
	var out []policy.Entry
	for _, r := range b.opt.Chain {
		if r == nil || r.Policy() == nil {
			continue
		}
		for _, e := range r.Policy().Entries() {
			acts := slices.ContainsFunc(e.Args, func(a policy.Arg) bool { return a.Within != "" })
			if e.Section == "tools" && e.Effect != policy.Deny && acts && e.Matches(string(id)) {
				out = append(out, e)
			}
		}
	}
	return out
}

// leaf is an argument, or a part of one, that is constrained as a whole.
type leaf struct {
	name  string // as a policy writes it
	value any
}

// leaves takes arguments apart as far as the entries do, or as they go.
func (b *builder) leaves(args map[string]any, from []policy.Entry) []leaf {
	var out []leaf
	var walk func(prefix string, m map[string]any, depth int)
	walk = func(prefix string, m map[string]any, depth int) {
		for _, k := range sorted(m) {
			name := prefix + escapeName(k)
			sub, isMap := m[k].(map[string]any)
			if isMap && len(sub) > 0 && depth < 12 && !named(from, name) {
				walk(name+".", sub, depth+1)
				continue
			}
			out = append(out, leaf{name, m[k]})
		}
	}
	walk("", args, 0)
	return out
}

// named reports whether an entry constrains an argument as a whole.
func named(from []policy.Entry, name string) bool {
	for _, e := range from {
		if slices.ContainsFunc(e.Args, func(a policy.Arg) bool { return a.Name == name }) {
			return true
		}
	}
	return false
}

// constraint writes the condition on a value: the policies' constraints of the
// argument, the entries that make actions of it, and the value itself if it may be
// written down. ok is false if one constraint cannot express it.
func (b *builder) constraint(l leaf, from, acting []policy.Entry, builtin bool) (text string, ok bool) {
	said, within := "", ""
	for _, e := range from {
		for _, a := range e.Args {
			if a.Name != l.name || a.Constraint == "{}" || a.Constraint == said {
				continue
			}
			if said != "" {
				return "", false
			}
			said, within = a.Constraint, a.Within
		}
	}
	for _, e := range acting {
		for _, a := range e.Args {
			if a.Name != l.name || a.Within == "" || a.Within == within {
				continue
			}
			if within != "" || strings.Contains(said, "each: ") && strings.Contains(a.Within, "each: ") {
				return "", false
			}
			if within = a.Within; said == "" {
				said = within
			} else {
				said = strings.TrimSuffix(said, "}") + ", " + within[1:]
			}
		}
	}
	value := b.writable(l.value)
	own := "equals: " + printValue(l.value)
	switch {
	case said == "" && value:
		return "{" + own + "}", true
	case said == "":
		return anyLike(l.value), true
	case !value || strings.Contains(said, "equals: ") || builtin && freeText(l.value):
		return said, true
	}
	return strings.TrimSuffix(said, "}") + ", " + own + "}", true
}

// freeText reports whether a value is a sentence rather than a name.
func freeText(v any) bool {
	s, ok := v.(string)
	return ok && strings.Contains(s, " ")
}

// writable reports whether a value may be written down: it is short and holds
// nothing that looks like a secret or will not come again.
func (b *builder) writable(v any) bool {
	switch v := v.(type) {
	case string:
		if len(v) > longest || !utf8.ValidString(v) {
			return false
		}
		for word := range strings.FieldsSeq(v) {
			if _, _, ok := b.looks.volatile(word); ok {
				return false
			}
		}
		return !b.looks.isSecret(v)
	case []any:
		return len(v) <= longest && !slices.ContainsFunc(v, func(w any) bool { return !b.writable(w) })
	case map[string]any:
		for _, w := range v {
			if !b.writable(w) {
				return false
			}
		}
		return len(v) <= longest
	}
	return true
}

// anyLike is the constraint that a value satisfies by its size alone.
func anyLike(v any) string {
	n := 0
	switch v := v.(type) {
	case string:
		n = utf8.RuneCountInString(v)
	case []any:
		n = len(v)
	default:
		return "{}"
	}
	return "{max_length: " + strconv.Itoa(n) + "}"
}

// printValue writes a JSON value as a policy does.
func printValue(v any) string {
	switch v := v.(type) {
	case string:
		return strconv.Quote(v)
	case bool:
		return strconv.FormatBool(v)
	case json.Number:
		return string(v)
	case nil:
		return "null"
	case []any:
		parts := make([]string, len(v))
		for i, w := range v {
			parts[i] = printValue(w)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case map[string]any:
		parts := make([]string, 0, len(v))
		for _, k := range sorted(v) {
			parts = append(parts, strconv.Quote(k)+": "+printValue(v[k]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	text, err := json.Marshal(v)
	if err != nil {
		return "null"
	}
	return string(text)
}
