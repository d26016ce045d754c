package policy

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy/glob"
	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/authority/provenance"
	"github.com/remitrun/remit/internal/base/regex"
	"github.com/remitrun/remit/internal/base/tool"
)

// steering looks up the values of one call for one rule.
type steering struct {
	flows        *Flows
	call         *Call
	index        *provenance.Index
	rule         *steerRule
	confidential bool

	deletes  bool     // the entry is about deleted files
	words    []string // of the pattern of the entry that names the commands: a person must say them
	destroys bool     // every value: the tool deletes what its arguments name
	reads    bool     // the call only reads: links that some text has may be followed
	found    []Steered
}

// all are the values that no trusted source has.
func (k *steering) all() []Steered {
	c := k.call
	acts, _ := k.kinds(c.Actions)
	if c.Tool.Source == "builtin" && acts {
		k.some(nil, c.Actions)
		return k.found
	}
	k.destroys = c.Tool.Effects.Has(tool.FSDelete) || c.Tool.Effects.Has(tool.DatabaseDelete) || slices.ContainsFunc(tool.Words(string(c.Tool.ID)), func(w string) bool { return slices.Contains(destroying, w) })
	k.walk("", map[string]any(c.Args), k.flows.schemaOf(c.Tool), k.argument)
	return k.found
}

// some are the values of the actions that an entry names, and the URLs, addresses and account
// numbers in all other data that the call sends.
func (k *steering) some(e *flowSource, named []tool.Action) {
	_, leaves := k.kinds(k.call.Actions)
	k.deletes = e != nil && e.Section == "side_effects"
	if k.words = nil; e != nil && e.Section == "commands" {
		k.words = strings.FieldsFunc(e.Pattern, func(r rune) bool { return r == ' ' })
	}
	for i := range named {
		k.action(&named[i], e != nil)
	}
	if leaves {
		k.walk("", map[string]any(k.call.Args), nil, func(name, value string, _ *argumentSchema) { k.sent(named, name, value) })
	}
}

// kinds reports whether the actions determine the call's effect, and whether data leaves by it.
// It notes whether the call only reads.
func (k *steering) kinds(actions []tool.Action) (acts, leaves bool) {
	k.reads = k.call.Tool.Effects&^(tool.Harmless|tool.EffectSet(tool.NetworkHTTP, tool.NetworkDNS)) == 0 && !actsByName(k.call.Tool.ID)
	for i := range actions {
		a := &actions[i]
		switch a.Kind {
		case tool.FileRead, tool.FileWrite, tool.FileDelete:
			acts = true
		case tool.Command:
			acts, leaves, k.reads = true, true, false
		case tool.Network:
			acts, leaves = true, true
			k.reads = k.reads && (a.Target.Method == "GET" || a.Target.Method == "HEAD")
		}
	}
	return acts, leaves
}

// destroying are words in the names of tools that delete what their arguments name.
var destroying = strings.Fields("delete remove destroy erase purge wipe drop truncate cancel revoke")

// argumentSchema is what the rule reads of a tool's schema.
type argumentSchema struct {
	Properties map[string]*argumentSchema
	Items      *argumentSchema
	Enum       []any
	Const      any
	Media      string // contentMediaType
}

// UnmarshalJSON reads the keywords by their exact names, as validators do.
func (s *argumentSchema) UnmarshalJSON(b []byte) error {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(b, &m); err != nil {
		return err
	}
	for key, into := range map[string]any{"properties": &s.Properties, "items": &s.Items, "enum": &s.Enum, "const": &s.Const, "contentMediaType": &s.Media} {
		if raw, ok := m[key]; ok {
			if err := json.Unmarshal(raw, into); err != nil {
				return err
			}
		}
	}
	return nil
}

// lists reports whether the schema itself has the value. It does not rely on a check of the arguments,
// which may have left the keyword out.
func (s *argumentSchema) lists(value string) bool {
	if s == nil {
		return false
	}
	for _, one := range append([]any{s.Const}, s.Enum...) {
		text, ok := one.(string)
		if !ok {
			b, err := json.Marshal(one)
			if text = string(b); err != nil || one == nil {
				continue
			}
		}
		if text == value {
			return true
		}
	}
	return false
}

// schemaOf reads the schema of a tool once. Of one that cannot be read, nothing is free.
func (f *Flows) schemaOf(t *tool.Spec) *argumentSchema {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s, known := f.schemas[t]; known {
		return s
	}
	s := &argumentSchema{}
	if err := json.Unmarshal(t.Input, s); err != nil {
		s = &argumentSchema{}
	}
	if len(f.schemas) < maxFlowChains {
		f.schemas[t] = s
	}
	return s
}

// parameterName matches the usual names of a tool's parameters. A schema need not list them.
var parameterName = regex.Lazy(`^[A-Za-z_][A-Za-z0-9_-]{0,63}$`)

// walk visits the texts of arguments, in a fixed order.
func (k *steering) walk(name string, v any, s *argumentSchema, visit func(name, value string, s *argumentSchema)) {
	switch v := v.(type) {
	case string:
		visit(name, v, s)
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			in, below := key, (*argumentSchema)(nil)
			if name != "" {
				in = name + "." + key
			}
			if s != nil {
				below = s.Properties[key]
			}
			if below == nil && (name != "" || !parameterName.MatchString(key)) {
				visit(in+" (name)", key, nil)
			}
			k.walk(in, v[key], below, visit)
		}
	case []any:
		var below *argumentSchema
		if s != nil {
			below = s.Items
		}
		for _, one := range v {
			k.walk(name, one, below, visit)
		}
	default:
		if k.destroys && v != nil {
			if text := fmt.Sprint(v); text != "true" && text != "false" {
				visit(name, text, s)
			}
		}
	}
}

// argument checks an argument of a tool.
func (k *steering) argument(name, value string, s *argumentSchema) {
	switch {
	case s.lists(value):
		return
	case s != nil && strings.HasPrefix(s.Media, "text/") || k.isText(name):
		k.text(name, value)
		return
	case !k.destroys && (Free(value) || k.chosen(value)):
		return
	}
	k.check(name, value, k.destroys)
}

// isText reports whether the policy says that an argument is text.
func (k *steering) isText(name string) bool {
	return slices.ContainsFunc(k.rule.text, func(e FlowEntry) bool {
		return e.name.Match(string(k.call.Tool.ID)) && slices.Contains(strings.Split(e.Pattern, ","), name)
	})
}

// chosen reports whether a value is a whole item of a listing that may be chosen from.
func (k *steering) chosen(value string) bool {
	if len(k.rule.choose) == 0 {
		return false
	}
	o, ok := k.index.Item(value)
	return ok && slices.ContainsFunc(k.rule.choose, func(e FlowEntry) bool { return e.name.Match(o.Tool) })
}

// sent checks a text that a built-in tool sends: a URL as a whole, of another text its values.
func (k *steering) sent(named []tool.Action, name, value string) {
	if provenance.IsLink(value) {
		k.check(name, value, false)
		return
	}
	if !slices.ContainsFunc(named, func(a tool.Action) bool { return slices.Contains(a.Argv, value) }) {
		k.text(name, value)
	}
}

// text checks the URLs, addresses and account numbers in a text.
func (k *steering) text(name, value string) {
	for _, v := range provenance.Embedded(value) {
		k.check(name, v, false)
	}
}

// check looks a value up.
func (k *steering) check(name, value string, destroys bool) {
	if strings.TrimSpace(value) == "" {
		return
	}
	f := k.index.Find(k.flows.scope, value)
	switch {
	case f.Trusted && !destroys, destroys && k.index.Named(k.flows.scope, value):
		return
	case k.reads && !destroys && provenance.IsLink(value) && (k.index.HasLink(value, k.confidential) || !k.confidential && k.listed(value)):
		return
	}
	k.add(name, value, f, destroys)
}

// listed reports whether the first policy lists the host of a URL by its name.
func (k *steering) listed(url string) bool {
	t, err := target.Parse("GET", url)
	return err == nil && k.flows.chain[0].anyNetwork(func(p *networkPattern) bool {
		host, one := p.rule.Host()
		return one && host == t.Host && p.rule.Match(t)
	})
}

func (k *steering) add(name, value string, f provenance.Found, destroys bool) {
	if k.index.Endorsed(string(k.call.Tool.ID), name, value) {
		return
	}
	s := Steered{Argument: name, Value: value, From: f.Origin, Destroys: destroys}
	if s.From.Run == k.call.Run {
		s.From.Run = ""
	}
	s.Similar, s.Uses = k.index.Similar(value)
	if !slices.Contains(k.found, s) { // two entries may name the call
		k.found = append(k.found, s)
	}
}

// action checks the subject of an action of a built-in tool. alone: the words of the command
// that names a file are not checked.
func (k *steering) action(a *tool.Action, alone bool) {
	switch a.Kind {
	case tool.FileRead, tool.FileWrite, tool.FileDelete:
		if a.Argument == 0 || alone {
			k.path(a)
		}
	case tool.Command:
		if k.deletes {
			k.unnamed(a)
			return
		}
		if a.Unknown != "" {
			k.add("command", a.Unknown, provenance.Found{}, false)
		}
		if env := k.flows.chain[0].env; a.Dir != "" && a.Dir != env.Workspace {
			k.path(&tool.Action{Kind: tool.FileRead, Path: a.Dir})
		}
		for i, w := range a.Argv {
			k.word(i, w)
		}
	case tool.TableRead, tool.TableWrite:
		k.check("sql", a.SQL, false)
	}
}

// word checks a word of a command. Of the words that the pattern of the entry has, the first
// is the program, and people must have said the others: data cannot order a push.
func (k *steering) word(i int, w string) {
	name := "word " + strconv.Itoa(i+1)
	switch at := slices.Index(k.words, w); {
	case at == 0 && i == 0, Free(w), slices.Contains(quietOptions, w):
	case at > 0:
		if f := k.index.Find(k.flows.scope, w); !f.Said {
			k.add(name, w, f, false)
		}
	default:
		k.check(name, w, false)
	}
}

// quietOptions are options of commands that choose nothing.
var quietOptions = strings.Fields("-q --quiet -v --verbose -u --set-upstream")

// path checks a path: as people write it, a folder above it, or each of its parts.
func (k *steering) path(a *tool.Action) {
	destroys := a.Kind == tool.FileDelete && !k.moves(a)
	env := k.flows.chain[0].env
	rel := a.Path
	if r, err := filepath.Rel(env.Workspace, a.Path); err == nil && filepath.IsLocal(r) {
		rel = r
	}
	var first provenance.Found
	known := func(p string) bool {
		f := k.index.Find(k.flows.scope, p)
		if first.Origin.Kind == provenance.Unknown {
			first = f
		}
		return f.Trusted && !destroys || destroys && k.index.Named(k.flows.scope, p)
	}
	names := []string{a.Path}
	for p := rel; p != "." && p != "/"; p = filepath.Dir(p) {
		names = append(names, p)
	}
	if slices.ContainsFunc(names, known) || rel == "." && !destroys {
		return
	}
	parts := strings.FieldsFunc(rel, func(r rune) bool { return r == '/' })
	if !slices.ContainsFunc(parts, func(p string) bool { return !known(p) }) {
		return
	}
	k.add("path", rel, first, destroys)
}

// Free reports whether a value chooses too little to steer a call: a number, a date, a truth
// value or a short ID.
func Free(v string) bool {
	v = strings.TrimSpace(v)
	if v == "" || v == "true" || v == "false" || glob.Fold(v) != v {
		return v == "" || v == "true" || v == "false"
	}
	digits, other, marks := 0, 0, 0
	for i := 0; i < len(v); i++ {
		switch c := v[i]; {
		case c >= '0' && c <= '9':
			digits++
		case c == ':' || c == '.' || c == ' ' || c == '+':
			marks++
		case c == '-' || c == 'T' || c == 'Z':
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == '#':
			other++
		default:
			return false
		}
	}
	if digits == 0 {
		return false
	}
	return len(v) <= shortID && (other == 0 || marks == 0) || other == 0 && isDate(v)
}

// shortID is the longest ID that chooses freely, in bytes.
const shortID = 8

// isDate reports whether a text is a date with or without a time, as 2026-01-31 18:00.
func isDate(v string) bool {
	if len(v) < 10 || len(v) > 35 || v[4] != '-' || v[7] != '-' {
		return false
	}
	for _, i := range []int{0, 1, 2, 3, 5, 6, 8, 9} {
		if v[i] < '0' || v[i] > '9' {
			return false
		}
	}
	return len(v) == 10 || v[10] == ' ' || v[10] == 'T'
}
