package policy

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"github.com/remitrun/remit/internal/authority/provenance"
	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/document"
	"github.com/remitrun/remit/internal/base/tool"
)

// Steered is a value that chooses the effect of a call, and that is not known to come from people
// or trusted data.
type Steered struct {
	Argument string            `json:"argument"` // its name; words of a command are numbered
	Value    string            `json:"value"`
	From     provenance.Origin `json:"from"`
	Destroys bool              `json:"destroys,omitempty"` // the call destroys it, and people did not name it
	Similar  string            `json:"similar,omitempty"`  // a trusted address that it could be taken for
	Uses     int               `json:"uses,omitempty"`     // how many calls went to that address
}

// String says where the value came from. Texts of the session are quoted and cut.
func (s Steered) String() string {
	quoted := func(t string) string { return strconv.QuoteToASCII(clip.Text(t, 60)) }
	out := "`" + strings.Trim(strconv.QuoteToASCII(clip.Text(s.Argument, 60)), `"`) + "` "
	switch o := s.From; o.Kind {
	case provenance.Outside, provenance.Trusted:
		out += "came from " + o.Tool
		if o.About != "" {
			out += " " + quoted(o.About)
		}
		out += fmt.Sprintf(" (call %d", o.Call)
		if o.Run != "" {
			out += " of run " + o.Run
		}
		if o.Field != "" {
			out += ", field " + quoted(o.Field)
		}
		if out += ")"; o.Kind == provenance.Outside || !s.Destroys {
			out += ", untrusted"
		}
	case provenance.Policy, provenance.Plan, provenance.Person:
		out += "is not together in what people said"
	default:
		out += "came from nothing that is known"
	}
	if s.Destroys {
		out += "; the call destroys it, and you did not name it"
	} else {
		out += "; you did not name it"
	}
	if s.Similar != "" {
		out += fmt.Sprintf("; similar to %s, which %d calls went to", quoted(s.Similar), s.Uses)
	}
	return out
}

// steerRule is one policy's list ask_steered of a label.
type steerRule struct {
	label   Labels
	link    int
	asks    []flowSource
	choose  []FlowEntry
	text    []FlowEntry
	outside flowLabel // data that is not trusted by default, minus the exceptions of this policy
}

// steering makes the rules of the lists ask_steered.
func (f *Flows) steering() error {
	h := fnv.New64a()
	for i := range f.labels {
		for link, r := range f.chain {
			for _, fl := range r.policy.content().data.flows {
				if fl.Label != f.labels[i].name || len(fl.Steered) == 0 {
					continue
				}
				s := steerRule{label: 1 << i, link: link, choose: fl.Choose, text: fl.Text}
				if err := s.make(f.chain, r, fl); err != nil {
					return err
				}
				f.steers = append(f.steers, s)
				h.Write([]byte(strconv.Itoa(link) + r.policy.Digest().String()))
			}
		}
	}
	f.scope = h.Sum64()
	return nil
}

func (s *steerRule) make(c Chain, r *Rules, fl Flow) error {
	var one flowLabel
	for i, e := range fl.Steered {
		if err := one.source(&s.asks, r, e); err != nil {
			return err
		}
		b := &s.asks[i].bound
		b.effect = Ask
		name := "flows." + fl.Label + ".ask_steered[" + strconv.Itoa(i) + "]"
		if e.standard {
			name = "flows." + Standard
		}
		b.rule = Rule{Policy: r.policy.Name(), File: r.policy.file, Line: e.Line, Name: name, Pattern: e.String()}
	}
	for _, text := range builtinSources {
		e, err := parseFlowEntry(text, sources, true)
		if err == nil {
			err = one.source(&s.outside.from, c[0], e)
		}
		if err != nil {
			return err
		}
	}
	for _, l := range r.policy.content().data.labels {
		for _, e := range l.But {
			if l.Confidential {
				continue
			}
			if err := one.source(&s.outside.but, r, e); err != nil {
				return err
			}
		}
	}
	return nil
}

// textEntries reads the list text of a flow.
func (p *parser) textEntries(into *[]FlowEntry) document.Field {
	return p.List(0, func(n *document.Node, path string) {
		text, ok := p.Text(n, path)
		if !ok {
			return
		}
		id, names, _ := strings.Cut(text, " ")
		name, err := compileToolName(id, false)
		if names = strings.ReplaceAll(names, " ", ""); err != nil || names == "" || slices.Contains(strings.Split(names, ","), "") {
			p.Fail(n, path, "%q is not a valid entry; expected a tool and the names of its arguments, as %q", clip.Text(text, 60), "mcp:mail:send_email subject,body")
			return
		}
		*into = append(*into, FlowEntry{Section: id, Pattern: names, Line: n.Line, pos: p.Pos(n), name: name})
	})
}

// GivenTexts are the entries that the first policy of the chain allows: what they name, the
// operator named. Later policies may be the caller's.
func (c Chain) GivenTexts() []string {
	var out []string
	if len(c) == 0 || c[0] == nil {
		return nil
	}
	for id := range c[0].sections {
		for _, b := range c[0].sections[id].lists[Allow] {
			out = append(out, b.rule.Pattern)
		}
	}
	return out
}

// Traces reports whether a flow asks about values, so that a session must know where they came from.
func (f *Flows) Traces() bool { return len(f.steers) > 0 }

// Scope identifies the rules that say which results are trusted.
func (f *Flows) Scope() uint64 { return f.scope }

// Untrusts reports whether a set has a label of data that is not trusted.
func (f *Flows) Untrusts(set Labels) bool {
	for i := range f.labels {
		if set&(1<<i) != 0 && !f.labels[i].confidential {
			return true
		}
	}
	return false
}

// Trusts reports whether the result of a call is trusted data, in a context with labels. It is
// unless a label or a default source says otherwise. A result that is computed from the call's
// arguments is trusted only if the arguments are.
func (f *Flows) Trusts(context Labels, of Of, call Call, foreign bool, x *provenance.Index) bool {
	if call.Tool == nil || f.Untrusts(of.Result) || len(f.steers) == 0 {
		return false
	}
	own := call.Tool.Source == "builtin" && slices.ContainsFunc(trustedTools, func(p string) bool { return strings.HasPrefix(string(call.Tool.ID), p) })
	call.Actions = f.typed(call.Actions, call.Recorded)
	for i := range f.steers {
		l := &f.steers[i].outside
		if l.spared(f.chain, &call, nil) {
			continue
		}
		if _, _, outside := l.of(f.chain, &call, foreign); outside || !own {
			return false
		}
	}
	if !own || !f.Untrusts(context) || !call.computes() {
		return true
	}
	k := steering{flows: f, call: &call, index: x, rule: &steerRule{}}
	return len(k.all()) == 0
}

// trustedTools are the built-in tools whose results are the workspace's, the person's databases'
// or the machine's. Results of other tools may repeat untrusted text.
var trustedTools = []string{"fs.", "shell.run", "db.", "time."}

// computes reports whether a call can make its result of its arguments alone.
func (c *Call) computes() bool {
	return c.Tool.Effects.Has(tool.SystemExec) || slices.ContainsFunc(c.Actions, func(a tool.Action) bool {
		return a.Kind != tool.FileRead && a.Kind != tool.FileWrite && a.Kind != tool.FileDelete
	})
}

// DecideSteered decides a call by the lists ask_steered: Allow, or Ask with the values that it
// asks about.
func (f *Flows) DecideSteered(context Labels, call Call, x *provenance.Index) Decision {
	d := Decision{Effect: Allow}
	var all collector
	for i := range f.steers {
		s := &f.steers[i]
		if context&s.label == 0 {
			continue
		}
		k := steering{flows: f, call: &call, index: x, rule: s, confidential: f.confidential(context)}
		at := k.first()
		if at == nil {
			continue
		}
		values := k.found
		d.Effect = Ask
		b := at.bound
		b.reason = "needs approval by " + b.rule.String()
		for n, v := range values {
			if n == maxShownSteered {
				b.reason += fmt.Sprintf("; and %d more", len(values)-n)
				break
			}
			b.reason += ": " + v.String()
		}
		all.matchCall(s.link, &b, &call)
		for _, v := range values {
			if !slices.Contains(d.Steered, v) {
				d.Steered = append(d.Steered, v)
			}
		}
	}
	return all.decision(d)
}

const maxShownSteered = 5

func (f *Flows) confidential(set Labels) bool {
	for i := range f.labels {
		if set&(1<<i) != 0 && f.labels[i].confidential {
			return true
		}
	}
	return false
}

// first judges the values of the call by each entry that names it. It returns the first one
// that asks; nil: none does.
func (k *steering) first() (at *flowSource) {
	for i := range k.rule.asks {
		e := &k.rule.asks[i]
		before := len(k.found)
		switch named, ok := k.named(e); {
		case !ok:
			continue
		case e.Section == "tools", e.Section == "side_effects" && !k.call.deletesFiles(e):
			k.all()
		default:
			k.some(e, named)
		}
		if at == nil && len(k.found) > before {
			at = e
		}
	}
	return at
}

// named are the actions of a call that an entry names, or all if it names the tool; false: it
// names neither.
func (k *steering) named(e *flowSource) ([]tool.Action, bool) {
	call := k.call
	switch {
	case e.Section == "tools":
		return call.Actions, e.name.Match(string(call.Tool.ID)) && (!e.standard || actsByName(call.Tool.ID))
	case e.Section == "side_effects" && !call.deletesFiles(e):
		return call.Actions, call.Tool.Effects&e.effects != 0
	}
	var out []tool.Action
	for i := range call.Actions {
		a := &call.Actions[i]
		deleted := e.Section == "side_effects" && (a.Kind == tool.FileDelete && !k.moves(a) || a.Kind == tool.Command && k.deletesUnnamed(a))
		if deleted || (e.Section != "files" || a.Kind != tool.FileRead) && k.matches(e, a) {
			out = append(out, *a)
		}
	}
	return out, len(out) > 0
}

// deletesFiles reports whether an entry is about deleting files and the call is of a built-in
// tool, whose actions say which files it deletes.
func (c *Call) deletesFiles(e *flowSource) bool {
	return e.effects == tool.EffectSet(tool.FSDelete) && c.Tool.Source == "builtin" && len(c.Actions) > 0
}
