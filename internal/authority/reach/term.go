package reach

import (
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/language"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/near"
	"github.com/remitrun/remit/internal/base/tool"
)

// term is one side of a question: a principal, or subjects of sections.
type term struct {
	principal string
	label     string
	parts     []part
}

// part is subjects of one section that are asked about. Without a section nothing is known
// of them but their text.
type part struct {
	section, text string
	asked         language.Language
}

// sections are the sections that a question may name, each with its meaning as a source and as a
// sink.
var sections = map[string][2]string{
	"files": {"files.read", "files.write"}, "files.read": {"files.read", "files.read"}, "files.write": {"files.write", "files.write"},
	"files.delete": {"files.delete", "files.delete"}, "network": {"network", "network"}, "commands": {"commands", "commands"},
	"tools": {"tools", "tools"}, "models": {"models", "models"}, "api": {"api", "api"},
}

// term reads one side of a question.
func (w *World) term(text string, from bool) (*term, error) {
	word, rest, two := strings.Cut(strings.TrimSpace(text), " ")
	switch rest = strings.TrimSpace(rest); {
	case !two && strings.Contains(word, ":"):
		return w.principal(word)
	case word == "label" && from:
		return w.labelled(rest)
	case word == "label":
		return nil, fault.New(fault.Usage, "%q: a label says where data comes from, so it stands first", text)
	case sections[word] == [2]string{} || rest == "":
		var names []string
		for name := range sections {
			names = append(names, name)
		}
		err := fault.New(fault.Usage, "%q is neither a principal nor a section with an entry", text)
		if best := near.Word(word, names); best != "" && best != word {
			return nil, err.WithHint("did you mean %s?", best)
		}
		return nil, err.WithHint("write agent:NAME, 'label NAME', 'files src/**', 'network *', 'commands git push **' or 'tools mcp:NAME:*'")
	}
	section := sections[word][1]
	if from {
		section = sections[word][0]
	}
	p, err := w.part(section, rest)
	return &term{parts: []part{p}}, err
}

func (w *World) principal(name string) (*term, error) {
	var names []string
	for _, h := range w.Holders {
		names = append(names, h.Name)
	}
	if slices.Contains(names, name) {
		return &term{principal: name}, nil
	}
	err := fault.New(fault.Usage, "no policy here names %q", name)
	if best := near.Word(name, names); best != "" {
		return nil, err.WithHint("did you mean %s?", best)
	}
	return nil, err.WithHint("known are %s", strings.Join(names, ", "))
}

func (w *World) part(section, entry string) (part, error) {
	q, err := policy.NewAsked(w.Env, section, entry)
	if err != nil {
		return part{}, err
	}
	return part{section, section + " " + entry, q.Language(w.b, true)}, nil
}

// labelled is the sources of a label. Its exceptions are not taken off: that is never
// too little.
func (w *World) labelled(name string) (*term, error) {
	t := &term{label: name}
	var names []string
	seen := map[string]bool{}
	for _, h := range w.Holders {
		names = append(names, h.Chain.LabelNames()...)
		for _, e := range h.Chain.LabelSources(name) {
			if seen[e.String()] {
				continue
			}
			seen[e.String()] = true
			p, err := part{text: e.String()}, error(nil)
			if section := sections[e.Section][0]; section != "" { // secrets and databases have no language
				p, err = w.part(section, e.Pattern)
			}
			if err != nil {
				return nil, err
			}
			t.parts = append(t.parts, p)
		}
	}
	if slices.Contains(names, name) {
		return t, nil
	}
	err := fault.New(fault.Usage, "no policy here has the label %q", name)
	if best := near.Word(name, names); best != "" {
		return nil, err.WithHint("did you mean %s?", best)
	}
	return nil, err.WithHint("a policy's section labels says where data with a label comes from")
}

// effects are the side effects of tools that can act in a section.
var effects = map[string]tool.Effects{
	"files.read": tool.EffectSet(tool.FSRead), "files.write": tool.EffectSet(tool.FSWrite), "files.delete": tool.EffectSet(tool.FSDelete),
	"network": tool.EffectSet(tool.NetworkHTTP, tool.NetworkSocket), "commands": tool.EffectSet(tool.SystemExec),
}

// actors is the tools by which a holder can act in a section. A nil tool stands for the
// model itself.
func (w *World) actors(h int, section string, least policy.Effect) []*tool.Spec {
	at := place{h, section, least}
	if list, ok := w.means[at]; ok {
		return list
	}
	var out []*tool.Spec
	want, byTool := effects[section]
	if !byTool {
		out = []*tool.Spec{nil}
	}
	chain := w.Holders[h].Chain
	for _, t := range w.Tools {
		if !byTool || t.Effects&want == 0 {
			continue
		}
		if runs(t) && section != "commands" && !w.runs(h, least) {
			continue // a command acts there, and none may be run
		}
		if chain.Naming(t) {
			out = append(out, t)
		}
	}
	w.means[at] = out
	return out
}

// runs reports whether a tool acts by commands.
func runs(t *tool.Spec) bool { return t != nil && t.Effects.Has(tool.SystemExec) }

// runs reports whether a holder may run any command with at least this effect.
func (w *World) runs(h int, least policy.Effect) bool {
	_, some, err := w.b.Shortest(w.language(h, "commands", least))
	return some || err != nil
}

// args is arguments for a call of a tool that has the action.
func args(t *tool.Spec, a tool.Action) tool.Args {
	switch {
	case t == nil:
		return nil
	case a.Path != "":
		return tool.Args{"path": a.Path}
	case a.Kind == tool.Network:
		return tool.Args{"url": a.Target.Scheme + "://" + a.Target.HostPort() + a.Target.Path, "method": a.Target.Method}
	case a.Kind == tool.Command:
		return tool.Args{"command": a.Subject()}
	}
	return tool.Args{}
}

// spec is a tool of this ID, as much as is known of it.
func (w *World) spec(id string) *tool.Spec {
	for _, t := range w.Tools {
		if string(t.ID) == id {
			return t
		}
	}
	return &tool.Spec{ID: tool.ID(id), Source: source(id)}
}

// source is the source that a tool's ID names, as "mcp:mail"; "" of a tool that is
// compiled in.
func source(id string) string {
	parts := strings.SplitN(id, ":", 3)
	if len(parts) < 3 {
		return ""
	}
	return parts[0] + ":" + parts[1]
}

// foreign is the IDs of tools that are not compiled in.
func (w *World) foreign() language.Language {
	word := func(more ...rune) language.Language {
		char := w.b.In(append(more, 'a', 'z', 'A', 'Z', '0', '9', '-', '.', '_', '_')...)
		return w.b.Then(char, w.b.Repeat(char))
	}
	kind := w.b.Then(w.b.In('a', 'z'), w.b.Repeat(w.b.In('a', 'z')))
	return w.b.Then(kind, w.b.Text(":"), word(), w.b.Text(":"), word('/', '/', '@', '@', ':', ':'))
}

// opaque is the call of a tool that is not compiled in, whose effect is unknown; nil: the holder
// can call none.
func (w *World) opaque(h int, p part) *Step {
	if p.section == "tools" {
		return nil
	}
	id, ok, err := w.b.Shortest(w.b.And(w.foreign(), w.language(h, "tools", policy.Ask)))
	if err != nil || !ok {
		return nil
	}
	s := w.decide(h, "tools", id, nil)
	s.Proved, s.Why = false, "the effect of a tool that is not compiled in is unknown"
	s.To = id + ", then " + p.text
	return &s
}

// shares is the steps by which tools that are not compiled in may hand something over: a
// source that both holders call, or a file that such a tool of one writes or reads.
func (w *World) shares(h, k int, writes, reads bool) []Step {
	gives, err := w.b.And(w.foreign(), w.language(h, "tools", policy.Ask)), error(nil)
	takes := w.b.And(w.foreign(), w.language(k, "tools", policy.Ask))
	gave, ok, err := w.b.Shortest(gives)
	took, also, err2 := w.b.Shortest(takes)
	if err != nil || err2 != nil || !(ok && (reads || also) || also && writes) {
		return nil
	}
	through, by := gave, h
	if !ok {
		through, by = took, k
	}
	return []Step{{From: w.Holders[h].Name, Does: "hands on, with " + through + ", to", To: w.Holders[k].Name, Example: through,
		holder: by, section: "tools", subject: through, Effect: policy.Ask.String(), effect: policy.Ask, Why: "the files and data of a tool that is not compiled in are unknown"}}
}
