package policy

import (
	"slices"
	"strconv"
	"sync"

	"github.com/remitrun/remit/internal/authority/policy/glob"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// Labels is a set of the labels of one chain; see [Flows].
type Labels uint64

// Flows decides on the labels of data for one chain of policies. The labels of a call are a
// function of the call alone; a context has the labels of all its calls. A flow is one
// more policy for a call: what a label permits holds at the decision, in the handles and in
// the sandbox alike. It is safe for concurrent use.
type Flows struct {
	chain  Chain
	labels []flowLabel
	steers []steerRule
	scope  uint64 // under which results of trusted calls are trusted
	local  *Rules // keeps commands on this machine and confined; nil: no label is withheld

	mu      sync.Mutex
	chains  map[flowKey]Chain
	schemas map[*tool.Spec]*argumentSchema
}

type flowKey struct {
	context, named Labels
	foreign        bool
}

// maxFlowChains bounds the cache of chains.
const maxFlowChains = 256

// flowLabel is a label, as the policies of a chain together describe it.
type flowLabel struct {
	name         string
	confidential bool
	from, but    []flowSource
	only, lone   []*Rules // one for each policy with a list only; lone: of calls that other programs carry out
	asks         []*Rules
}

// flowSource is a bound entry of from or but.
type flowSource struct {
	FlowEntry

	rules *Rules
	bound boundEntry
}

// flowLink marks rules that were made of a flow.
type flowLink struct {
	label string
	rule  Rule         // as decisions name it
	link  int          // the policy in the chain that has the flow
	asks  []flowSource // nil: it has a list only

	tools, databases []*glob.Text // of only
	foreign          bool         // of only: another program carries out the call
}

// Flows returns the chain's flows, or nil if no policy has any labels.
func (c Chain) Flows() (*Flows, error) {
	if !c.HasFlows() {
		return nil, nil
	}
	if slices.ContainsFunc(c, func(r *Rules) bool { return r == nil || r.policy == nil }) {
		return nil, fault.New(fault.PolicyInvalid, "a policy of the chain is missing")
	}
	f := &Flows{chain: c, chains: map[flowKey]Chain{}, schemas: map[*tool.Spec]*argumentSchema{}}
	for _, name := range c.LabelNames() {
		l, err := c.flowLabel(name)
		if err != nil {
			return nil, err
		}
		f.labels = append(f.labels, l)
	}
	if len(f.labels) > MaxDataLabels {
		return nil, fault.New(fault.PolicyInvalid, "the policies together have %d labels; the limit is %d", len(f.labels), MaxDataLabels)
	}
	if err := f.steering(); err != nil {
		return nil, err
	}
	return f, f.confine()
}

func (s *dataSettings) used() bool { return len(s.labels)+len(s.flows) > 0 }

// LabelNames are the labels that the policies of the chain name, sorted.
func (c Chain) LabelNames() []string {
	var names []string
	for _, r := range c {
		if r == nil || r.policy == nil {
			continue
		}
		for _, l := range r.policy.content().data.labels {
			names = append(names, l.Name)
		}
		for _, fl := range r.policy.content().data.flows {
			names = append(names, fl.Label)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// LabelSources are the sources that any policy of the chain gives a label, in order, without
// its exceptions; none if no policy names it.
func (c Chain) LabelSources(name string) []FlowEntry {
	var out []FlowEntry
	if name == Untrusted && slices.Contains(c.LabelNames(), name) {
		for _, text := range builtinSources {
			if e, err := parseFlowEntry(text, sources, true); err == nil {
				out = append(out, e)
			}
		}
	}
	for _, r := range c {
		for _, l := range r.policy.content().data.labels {
			if l.Name == name {
				out = append(out, l.From...)
			}
		}
	}
	return out
}

// flowLabel joins what the policies say about a label.
func (c Chain) flowLabel(name string) (flowLabel, error) {
	l := flowLabel{name: name}
	if name == Untrusted {
		for _, text := range builtinSources {
			e, err := parseFlowEntry(text, sources, true)
			if err != nil {
				return l, err
			}
			if err := l.source(&l.from, c[0], e); err != nil {
				return l, err
			}
		}
	}
	var buts [][]FlowEntry
	for _, r := range c {
		for _, d := range r.policy.content().data.labels {
			if d.Name != name {
				continue
			}
			l.confidential = l.confidential || d.Confidential
			buts = append(buts, d.But)
			for _, e := range d.From {
				if err := l.source(&l.from, r, e); err != nil {
					return l, err
				}
			}
		}
	}
	for i, r := range c {
		for _, d := range r.policy.content().data.labels {
			if d.Name != name {
				continue
			}
			for _, e := range d.But {
				if !inAll(buts, e) {
					continue
				}
				if err := l.source(&l.but, r, e); err != nil {
					return l, err
				}
			}
		}
		for _, fl := range r.policy.content().data.flows {
			if fl.Label != name {
				continue
			}
			if err := l.flow(r, i, fl); err != nil {
				return l, err
			}
		}
	}
	l.confidential = l.confidential || len(l.only) > 0
	return l, nil
}

// inAll reports whether every list has the entry.
func inAll(lists [][]FlowEntry, e FlowEntry) bool {
	return !slices.ContainsFunc(lists, func(list []FlowEntry) bool {
		return !slices.ContainsFunc(list, func(o FlowEntry) bool { return o.String() == e.String() })
	})
}

func (l *flowLabel) source(into *[]flowSource, r *Rules, e FlowEntry) error {
	s := flowSource{FlowEntry: e, rules: r}
	if e.name == nil && e.effects == 0 {
		p, err := e.pattern(true)
		if err == nil {
			p, err = p.bind(r, Deny)
		}
		if err != nil {
			return fault.New(fault.PolicyInvalid, "%v", err).At(e.pos).In(e.String())
		}
		s.bound = boundEntry{pattern: p}
	}
	*into = append(*into, s)
	return nil
}

// flow makes the rules of one policy's flow.
func (l *flowLabel) flow(r *Rules, link int, fl Flow) error {
	rule := func(list string) Rule {
		return Rule{Policy: r.policy.Name(), File: r.policy.file, Line: fl.Line, Name: "flows." + fl.Label + "." + list}
	}
	if len(fl.Ask) > 0 {
		fk := &flowLink{label: fl.Label, rule: rule("ask"), link: link}
		for i, e := range fl.Ask {
			var one flowLabel
			if err := one.source(&fk.asks, r, e); err != nil {
				return err
			}
			b := &fk.asks[i].bound
			b.effect, b.rule = Ask, rule("ask["+strconv.Itoa(i)+"]")
			b.rule.Line, b.rule.Pattern = e.Line, e.String()
			b.reason = "the context has the label " + fl.Label + ", so it needs approval by " + b.rule.String()
		}
		made, err := flowRules(r, fk, nil)
		if err != nil {
			return err
		}
		l.asks = append(l.asks, made)
	}
	if !fl.only {
		return nil
	}
	for _, e := range fl.Only { // files of another run may be read again
		if (e.Section == "files" || e.Section == "databases") && !e.sink {
			if err := l.source(&l.from, r, e); err != nil {
				return err
			}
		}
	}
	for _, foreign := range []bool{false, true} {
		made, err := onlyRules(r, &flowLink{label: fl.Label, rule: rule("only"), link: link, foreign: foreign}, fl.Only)
		if err != nil {
			return err
		}
		if foreign {
			l.lone = append(l.lone, made)
		} else {
			l.only = append(l.only, made)
		}
	}
	return nil
}

// flowRules makes rules with the sections that fill sets; the other policies decide the rest.
func flowRules(r *Rules, fk *flowLink, fill func(*content) error) (*Rules, error) {
	d := &content{name: r.policy.Name(), inherit: true}
	if fill != nil {
		if err := fill(d); err != nil {
			return nil, err
		}
	}
	p := &Policy{file: r.policy.file, doc: d}
	p.src = append([]byte(fk.rule.Name+"\n"), p.Print()...)
	made, err := p.Bind(r.env)
	if err != nil {
		return nil, err
	}
	made.flow, made.own = fk, r.own
	for id := range made.sections {
		for _, list := range made.sections[id].lists {
			for i := range list {
				b := &list[i]
				b.rule.Name, b.rule.Line = fk.rule.Name, fk.rule.Line
				if b.effect == Allow {
					b.reason = "allowed by " + b.rule.String()
				}
			}
		}
	}
	return made, nil
}

// onlyRules are the rules of a list only: its entries, and nothing else that data can leave by.
// Commands run here, with full confinement. Commands of foreign calls must be listed.
func onlyRules(r *Rules, fk *flowLink, list []FlowEntry) (*Rules, error) {
	closed := []sectionID{networkSection, writeSection, modelSection}
	if fk.foreign {
		closed = append(closed, commandSection)
	}
	made, err := flowRules(r, fk, func(d *content) error {
		d.place.places, d.isolation.least = []string{Local.String(), Container.String()}, FullIsolation.String()
		for _, id := range closed {
			d.section(id).set, d.section(id).allowSet = true, true
		}
		ids := map[string]sectionID{"network": networkSection, "files": writeSection, "models": modelSection, "commands": commandSection}
		for _, e := range list {
			id := ids[e.Section]
			if id == noSection || id == commandSection && !fk.foreign {
				continue
			}
			p, err := e.pattern(false)
			if err != nil {
				return fault.New(fault.PolicyInvalid, "%v", err).At(e.pos)
			}
			d.section(id).add(Allow, entry{e.pos, p})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, id := range []sectionID{databaseReadSection, databaseWriteSection} {
		made.sections[id] = boundSection{allowSet: true}
	}
	for _, e := range list {
		switch e.Section {
		case "tools":
			fk.tools = append(fk.tools, e.name)
		case "databases":
			fk.databases = append(fk.databases, e.name)
		}
	}
	return made, nil
}
