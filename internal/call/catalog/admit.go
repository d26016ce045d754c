package catalog

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/inspect"
	"github.com/remitrun/remit/internal/base/schema"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/tools/infer"
)

// Bounds on the tools of one source, and so on the cost of a source that floods.
const (
	maxTools       = 10_000
	maxDescription = 64 << 10 // bytes, of one tool
	maxSchema      = 1 << 20  // bytes, of one tool's input or output
	maxSource      = 64 << 20 // bytes, of all text of a source
	maxRefused     = 100      // refusals that are listed one by one
)

// Refused is a tool that a source offers and that is not listed.
type Refused struct {
	Source string `json:"source"`
	ID     string `json:"id"`
	Why    string `json:"why"`
}

// snapshot is the tools that a source offered at one time.
type snapshot struct {
	gen     uint64 // of the change notice that it answers
	at      time.Time
	tools   map[tool.ID]*listed
	sorted  []*listed
	refused []Refused
	more    int // refusals beyond those
}

// admission takes a source's tools in, or refuses them.
type admission struct {
	c      *Catalog
	source string
	bytes  int
	s      *snapshot
}

// admit makes a snapshot of the tools that a source offers.
func (c *Catalog) admit(source string, tools []permit.Tool) *snapshot {
	a := &admission{c: c, source: source, s: &snapshot{at: c.now(), tools: map[tool.ID]*listed{}}}
	if len(tools) > maxTools {
		a.refuse(source, "it offers %d tools; only the first %d are looked at", len(tools), maxTools)
		tools = tools[:maxTools]
	}
	byID := map[tool.ID][]*listed{}
	var order []tool.ID
	for _, one := range a.look(tools) {
		if one.why != "" {
			a.refuse(one.id, "%s", one.why)
			continue
		}
		id := one.l.said.ID
		if byID[id] == nil {
			order = append(order, id)
		}
		if !slices.ContainsFunc(byID[id], func(l *listed) bool { return l.digest == one.l.digest }) {
			byID[id] = append(byID[id], one.l) // a list that repeats itself has each tool once
		}
	}
	once := order[:0]
	for _, id := range order {
		if n := len(byID[id]); n > 1 {
			a.refuse(string(id), "its source has %d different tools of this name", n)
			continue
		}
		once = append(once, id)
	}
	for _, id := range a.distinct(once) {
		l := byID[id][0]
		a.s.tools[id] = l
		a.s.sorted = append(a.s.sorted, l)
	}
	slices.SortFunc(a.s.sorted, func(x, y *listed) int { return strings.Compare(string(x.said.ID), string(y.said.ID)) })
	return a.s
}

func (a *admission) refuse(id, format string, args ...any) {
	if len(a.s.refused) >= maxRefused {
		a.s.more++
		return
	}
	if len(id) > 200 {
		id = id[:200] + "…"
	}
	a.s.refused = append(a.s.refused, Refused{a.source, strings.ToValidUTF8(id, "\uFFFD"), fmt.Sprintf(format, args...)})
}

// candidate is a tool that is looked at.
type candidate struct {
	tool  permit.Tool
	spec  *tool.Spec
	hints infer.Hints
	id    string
	why   string  // it is refused; "": it is listed
	l     *listed // nil where it is refused
}

// look looks at each tool by itself: at what costs little, and bounds the rest, in
// turn, and at the rest at once.
func (a *admission) look(tools []permit.Tool) []candidate {
	all := make([]candidate, len(tools))
	for i, t := range tools {
		all[i] = a.named(t)
	}
	each(len(all), func(i int) {
		one := &all[i]
		if one.why == "" {
			one.why = a.unusable(one.spec)
		}
		if one.why == "" {
			one.l = a.c.list(a.source, one.tool, one.spec, one.hints)
		}
	})
	return all
}

// named asks a tool for its description, and looks at its name and at how much
// text its source brings.
func (a *admission) named(t permit.Tool) candidate {
	spec, hints, err := ask(t)
	if err != nil {
		return candidate{id: "(a tool)", why: err.Error()}
	}
	out := candidate{tool: t, spec: spec, hints: hints, id: string(spec.ID)}
	if out.why = a.unnamed(out.id); out.why != "" {
		return out
	}
	a.bytes += len(spec.Title) + len(spec.Description) + len(spec.Input) + len(spec.Output) + len(spec.Version)
	if a.bytes > maxSource {
		out.why = fmt.Sprintf("its source's descriptions come to more than %d bytes", maxSource)
	}
	return out
}

// ask asks a tool for its description, which is code of its source's kind
// working on what the source sent.
func ask(t permit.Tool) (spec *tool.Spec, h infer.Hints, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("its description cannot be read: %v", p)
		}
	}()
	if spec = t.Spec(); spec == nil {
		return nil, h, fmt.Errorf("it has no description")
	}
	if t, ok := t.(Hinted); ok {
		h = t.Hints()
	}
	return spec, h, nil
}

// unnamed describes the error in an ID; "" if it is valid.
func (a *admission) unnamed(id string) string {
	if _, err := tool.ParseID(id); err != nil {
		why := "its name has characters that none may have"
		if id == "" || len(id) > 200 {
			return fmt.Sprintf("its name has %d bytes; 1 to 200 are allowed", len(id))
		}
		if as := a.c.imitated(id); as != "" {
			why += ", and looks like " + as
		}
		return why
	}
	leaf, ok := strings.CutPrefix(id, a.source+":")
	if !ok || leaf == "" {
		return "its name does not begin with its source's, " + strconv.Quote(a.source+":")
	}
	if a.c.settingOf(tool.ID(id)).Name {
		return ""
	}
	if as := a.c.imitated(leaf); as != "" {
		return "its name could be taken for the built-in tool " + as
	}
	return ""
}

// imitated is the built-in tool whose name a name is or looks like, or "".
func (c *Catalog) imitated(name string) string {
	for _, key := range inspect.Keys(strings.ReplaceAll(name, ":", ".")) {
		if id := c.alike[key]; id != "" {
			return id
		}
	}
	return ""
}

func (c *Catalog) settingOf(id tool.ID) Said {
	if c.cfg.Said == nil {
		return Said{}
	}
	return c.cfg.Said(id)
}

// unusable describes the error in a tool's description; "" if it is valid.
func (a *admission) unusable(s *tool.Spec) string {
	kind, _, _ := strings.Cut(a.source, ":")
	switch {
	case s.Source == BuiltIn || s.Source == "":
		return "it does not name the kind of its source" // or calls itself built in
	case len(s.Description) > maxDescription || len(s.Title) > maxDescription || len(s.Version) > maxDescription:
		return fmt.Sprintf("its description has %d bytes; the most is %d", max(len(s.Description), len(s.Title), len(s.Version)), maxDescription)
	case kindOf[kind] != nil && !slices.Contains(kindOf[kind], s.Source):
		return fmt.Sprintf("it says that it comes from %q, which %q cannot have", s.Source, a.source)
	case len(s.Input) == 0:
		return "it has no input schema"
	}
	for _, part := range [...]struct {
		name   string
		schema json.RawMessage
	}{{"input", s.Input}, {"output", s.Output}} {
		if len(part.schema) == 0 {
			continue
		}
		switch {
		case len(part.schema) > maxSchema:
			return fmt.Sprintf("its %s schema has %d bytes; the most is %d", part.name, len(part.schema), maxSchema)
		case inspect.TooDeep(part.schema):
			return "its " + part.name + " schema is nested too deep to be looked at"
		}
		doc, err := canon.Decode(part.schema)
		if err != nil {
			return fmt.Sprintf("its %s schema is not JSON that everybody reads alike: %v", part.name, err)
		}
		if bad := inspect.Names(part.schema); bad != "" {
			return fmt.Sprintf("its %s schema has a name with characters that cannot be seen: %s", part.name, bad)
		}
		if part.name != "input" {
			continue // results are not checked against it
		}
		if err := schema.Unusable(doc); err != nil {
			return fmt.Sprintf("its input schema cannot be used: %v", err)
		}
	}
	return ""
}

// kindOf maps the first part of a tool's ID to the kinds of sources that may offer the tool.
var kindOf = map[string][]string{"mcp": {"mcp", "mcp-remote"}, "api": {"api"}, "ext": {"extension"}, "wasm": {"wasm"}}

// list makes the catalog's entry of a tool of a source.
func (c *Catalog) list(source string, t permit.Tool, spec *tool.Spec, hints infer.Hints) *listed {
	said := *spec
	used := said
	used.Title, used.Description, used.Version = inspect.Clean(said.Title), inspect.Clean(said.Description), inspect.Clean(said.Version)
	used.Input, used.Output = inspect.CleanSchema(said.Input), inspect.CleanSchema(said.Output)
	l := &listed{source: source, said: &said, hints: hints}
	word := c.settingOf(said.ID)
	hints.Trusted = hints.Trusted || word.Trusted
	l.verdict = infer.Infer(&said, hints).Overrule(word.Said)
	used.Risk, used.Effects = l.verdict.Risk, l.verdict.Effects
	l.entry = runner.Entry{Tool: t, Spec: &used, Source: source, Digest: digest(&said, hints)}
	l.digest = l.entry.Digest.String()
	l.entry.Validate = l.validate
	return l
}

// digest is of all that a source says of a tool, its hints included: a tool whose annotations
// change is not the one that was accepted. Neither the operator's settings for it nor the judgement
// of this version of Remit is part of it, so that these void nothing.
func digest(spec *tool.Spec, h infer.Hints) tool.Digest {
	d := spec.Digest()
	b, err := json.Marshal(h)
	if err != nil || string(b) == "{}" {
		return d
	}
	return sha256.Sum256(append(d[:], b...))
}

// distinct refuses the tools of a source whose names look the same in many fonts: all but the one
// that was accepted, or else seen, first.
func (a *admission) distinct(ids []tool.ID) []tool.ID {
	if !hasLookAlikes(ids) {
		return ids // and the records need not be waited for
	}
	records, _ := a.c.memory.Load(a.source) // where it cannot be read, none of these can be used
	rank := func(id tool.ID) (accepted bool, first time.Time) {
		r, ok := records[id]
		if !ok {
			return false, a.s.at
		}
		return r.Accepted != nil, r.First
	}
	byAge := slices.Clone(ids)
	slices.SortStableFunc(byAge, func(x, y tool.ID) int {
		ax, fx := rank(x)
		ay, fy := rank(y)
		if ax != ay {
			if ax {
				return -1
			}
			return 1
		}
		return fx.Compare(fy)
	})
	taken := [2]map[string]tool.ID{{}, {}}
	var out []tool.ID
	for _, id := range byAge {
		keys := inspect.Keys(string(id))
		like, alike := taken[1][keys[1]]
		if _, spelling := taken[0][keys[0]]; spelling {
			alike = false // only case and separators differ: a source may have both
		}
		if alike && !a.c.settingOf(id).Name {
			a.refuse(string(id), "its name looks like that of %s", like)
			continue
		}
		taken[0][keys[0]], taken[1][keys[1]] = id, id
		out = append(out, id)
	}
	return out
}

// hasLookAlikes reports whether two of the names could be taken for one another.
func hasLookAlikes(ids []tool.ID) bool {
	var taken [2]map[string]bool
	taken[0], taken[1] = make(map[string]bool, len(ids)), make(map[string]bool, len(ids))
	for _, id := range ids {
		for i, key := range inspect.Keys(string(id)) {
			if taken[i][key] {
				return true
			}
			taken[i][key] = true
		}
	}
	return false
}
