// Package reach answers questions about everything that several holders of policies can
// do together: can data that comes from here get there, can this agent ever do that. It is
// pure. Start at [World.Ask].
//
// The actions that a policy allows are a regular language (see [policy.Chain.Language]), so that a
// question about all paths, hosts and commands at once is whether an intersection of languages is
// empty. The languages have at least what the policies allow: no way is overlooked. Each way that
// is found is decided once more by the policies themselves, with an example of each step.
//
// A holder stands for a model, and the worst is assumed: it may write, send and obey everything
// that it reads. A tool that is not compiled in may do anything with its arguments. What a narrowed
// or delegated grant reaches, its parent reaches too, so that only holders with policies of their
// own are asked about.
package reach

import (
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/language"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// Holder is who holds policies.
type Holder struct {
	Name  string // "user:ann", "agent:docs"
	Chain policy.Chain
}

// World is the subject of questions.
type World struct {
	Env     policy.Env
	Holders []Holder
	Tools   []*tool.Spec // the tools that are compiled in

	b     *language.Builder
	known map[place]language.Language
	means map[place][]*tool.Spec
}

// place is a section of a holder, with the least effect.
type place struct {
	holder  int
	section string
	least   policy.Effect
}

// Verdict is the answer to a question.
type Verdict string

// The verdicts.
const (
	Unreachable Verdict = "unreachable" // by the policies there is no way
	Reachable   Verdict = "reachable"   // there is a way without a question
	Conditional Verdict = "conditional" // only by a question to a person, or by a tool that is not compiled in
)

// Answer is the verdict, with the shortest way.
type Answer struct {
	From    string  `json:"from"`
	To      string  `json:"to"`
	Verdict Verdict `json:"verdict"`
	Steps   []Step  `json:"steps"`
}

// Step is one step of a way.
type Step struct {
	From    string `json:"from"`
	Does    string `json:"does"` // "reads", "writes", "calls", "sends", …
	To      string `json:"to"`
	Example string `json:"example,omitempty"` // of the action, as policies see it
	Effect  string `json:"effect" enum:"allow,ask,deny"`
	Rule    string `json:"rule,omitempty"`
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	// Proved: the policies decide the example so. If not, the step is at most possible.
	Proved bool   `json:"proved"`
	Why    string `json:"why,omitempty"`

	effect  policy.Effect
	holder  int
	section string
	subject string // of the action, as its language has it
}

// open reports whether the step needs no person and no assumption.
func (s Step) open() bool { return s.Proved && s.effect == policy.Allow }

// Ask answers whether data of from can get to to. Both are principals or, as in policies, sections
// with an entry: "label private", "files src/**", "network *".
func (w *World) Ask(from, to string) (Answer, error) {
	w.begin()
	out := Answer{From: from, To: to, Verdict: Unreachable, Steps: []Step{}}
	source, err := w.term(from, true)
	if err != nil {
		return out, err
	}
	sink, err := w.term(to, false)
	if err != nil {
		return out, err
	}
	for _, open := range []bool{true, false} {
		steps, err := w.way(source, sink, open)
		if err != nil {
			return out, err
		}
		if steps != nil {
			out.Steps, out.Verdict = steps, Conditional
			if open {
				out.Verdict = Reachable
			}
			return out, nil
		}
	}
	return out, nil
}

func (w *World) begin() {
	if w.b == nil {
		w.b, w.known, w.means = language.NewBuilder(), map[place]language.Language{}, map[place][]*tool.Spec{}
	}
}

// node is a holder that has the data in question; labelled: in sessions that have its label.
type node struct {
	holder   int
	labelled bool
}

// way finds the shortest way, with open also of steps that need no person.
func (w *World) way(source, sink *term, open bool) ([]Step, error) {
	ways := map[node][]Step{}
	var queue []node
	visit := func(n node, before, next []Step) {
		if _, known := ways[n]; !known && (!open || allOpen(next)) {
			ways[n] = append(slices.Clip(before), next...)
			queue = append(queue, n)
		}
	}
	for h := range w.Holders {
		steps, ok, err := w.enters(source, h, open)
		if err != nil {
			return nil, err
		}
		if ok {
			visit(node{h, source.label != ""}, nil, steps)
		}
	}
	for i := 0; i < len(queue); i++ {
		n := queue[i]
		label := ""
		if n.labelled {
			label = source.label
		}
		step, found, err := w.leaves(n.holder, label, sink, open)
		if err != nil {
			return nil, err
		}
		if found {
			return append(slices.Clip(ways[n]), step...), nil
		}
		for k := range w.Holders {
			for _, labelled := range []bool{true, false} {
				next := node{k, labelled}
				if _, known := ways[next]; known || labelled && !n.labelled {
					continue
				}
				steps, err := w.hands(n.holder, k, label, labelled, open)
				if err != nil {
					return nil, err
				}
				if steps != nil {
					visit(next, ways[n], steps)
				}
			}
		}
	}
	return nil, nil
}

func allOpen(steps []Step) bool {
	return !slices.ContainsFunc(steps, func(s Step) bool { return !s.open() })
}

// enters returns the steps by which a holder gets the data of the source.
func (w *World) enters(source *term, h int, open bool) (steps []Step, ok bool, err error) {
	if source.principal != "" {
		return nil, source.principal == w.Holders[h].Name, nil
	}
	for _, part := range source.parts {
		if part.section == "" && !open {
			return []Step{{From: part.text, Does: "may give data to", To: w.Holders[h].Name, Effect: policy.Ask.String(), effect: policy.Ask,
				Why: "holders of data from there are unknown"}}, true, nil
		}
		if part.section == "" {
			continue
		}
		s, err := w.step(h, part, open, language.All)
		if err != nil {
			return nil, false, err
		}
		if s != nil && (!open || s.open()) {
			s.From, s.To, s.Does = s.To, w.Holders[h].Name, "is read by"
			return []Step{*s}, true, nil
		}
		if s := w.opaque(h, part); s != nil && !open {
			s.From, s.To, s.Does = part.text, w.Holders[h].Name, "is read, with "+s.Example+", by"
			return []Step{*s}, true, nil
		}
	}
	return nil, false, nil
}

// leaves returns the last step of a way: the holder acts on the sink, in a session that has the
// label.
func (w *World) leaves(h int, label string, sink *term, open bool) ([]Step, bool, error) {
	if sink.principal != "" {
		return nil, sink.principal == w.Holders[h].Name, nil
	}
	for _, part := range sink.parts {
		s, err := w.step(h, part, open, w.limit(h, label, part.section, open))
		if err != nil {
			return nil, false, err
		}
		if s != nil && (!open || s.open()) {
			return []Step{*s}, true, nil
		}
		if s := w.opaque(h, part); s != nil && !open {
			return []Step{*s}, true, nil
		}
	}
	return nil, false, nil
}

// hands returns the steps by which one holder, whose session has the label, hands something to
// another, or to a session of its own: a file, or data kept by a tool that is not compiled in. The
// list only of a flow is a source of its label, so that a holder that reads a file there has the
// label again: labelled asks for such files, and else for the others.
func (w *World) hands(h, k int, label string, labelled, open bool) ([]Step, error) {
	least := policy.Ask
	if open {
		least = policy.Allow
	}
	kept := w.b.Or(language.None)
	for _, f := range w.flows(k, label) {
		kept = w.b.Or(kept, w.flowLanguage(f.Only, "files.read", labelled))
	}
	if !labelled {
		kept = w.b.Not(kept)
	}
	writers, readers := w.actors(h, "files.write", least), w.actors(k, "files.read", least)
	if len(writers) > 0 && len(readers) > 0 {
		both := part{section: "files.write", text: "files.write **", asked: w.b.And(w.language(h, "files.write", least), w.language(k, "files.read", least), kept)}
		wrote, err := w.step(h, both, open, w.limit(h, label, "files.write", open))
		if err != nil {
			return nil, err
		}
		if wrote != nil && wrote.subject != "" {
			read, err := w.step(k, part{section: "files.read", text: "files.read **", asked: w.b.Text(wrote.subject)}, open, language.All)
			if err != nil {
				return nil, err
			}
			if read != nil {
				read.From, read.To, read.Does = wrote.To, w.Holders[k].Name, "is read by"
				return []Step{*wrote, *read}, nil
			}
		}
	}
	if open || labelled {
		return nil, nil
	}
	return w.shares(h, k, len(writers) > 0, len(readers) > 0), nil
}

// flows are the flows that a holder's policies have for a label.
func (w *World) flows(h int, label string) (out []policy.Flow) {
	for _, r := range w.Holders[h].Chain {
		for _, f := range r.Policy().Flows() {
			if label != "" && f.Label == label {
				out = append(out, f)
			}
		}
	}
	return out
}

// limit is the part of a section that a confidential label leaves to a holder of its data, and that
// an untrusted one leaves without a question.
func (w *World) limit(h int, label, section string, open bool) language.Language {
	out := language.All
	for _, f := range w.flows(h, label) {
		if f.Limits() && slices.Contains(limited, section) {
			out = w.b.And(out, w.flowLanguage(f.Only, section, true))
		}
		if open {
			out = w.b.And(out, w.b.Not(w.flowLanguage(f.Ask, section, false)))
		}
	}
	return out
}

// limited are the sections that a flow's list only closes.
var limited = []string{"network", "files.write", "models"}

// flowLanguage is the subjects of a section that entries of a flow name: with over at
// least these, without it at most.
func (w *World) flowLanguage(list []policy.FlowEntry, section string, over bool) language.Language {
	var out []language.Language
	for _, e := range list {
		if e.Section != section && !(e.Section == "files" && strings.HasPrefix(section, "files.")) {
			continue
		}
		if q, err := policy.NewAsked(w.Env, section, e.Pattern); err == nil {
			out = append(out, q.Language(w.b, over))
		} else if over {
			out = append(out, language.All)
		}
	}
	return w.b.Or(out...)
}

// language is a holder's language of a section.
func (w *World) language(h int, section string, least policy.Effect) language.Language {
	at := place{h, section, least}
	l, ok := w.known[at]
	if !ok {
		l = w.Holders[h].Chain.Language(w.b, section, least)
		if section == "commands" && least == policy.Ask && w.person(h) {
			l = w.b.Or(l, w.Holders[h].Chain.TypedLanguage(w.b))
		}
		w.known[at] = l
	}
	return l
}

// person reports whether a holder is a person, which may also type commands.
func (w *World) person(h int) bool { return strings.HasPrefix(w.Holders[h].Name, "user:") }

// maxExamples bounds how many examples of one step the policies are asked about.
const maxExamples = 12

// step returns the holder's action on the part in question; nil: the policies allow none.
func (w *World) step(h int, p part, open bool, within language.Language) (*Step, error) {
	least := policy.Ask
	if open {
		least = policy.Allow
	}
	tools := w.actors(h, p.section, least)
	if len(tools) == 0 {
		return nil, nil
	}
	l := w.b.And(w.language(h, p.section, least), p.asked, within)
	var doubtful *Step
	for range maxExamples {
		subject, ok, err := w.example(p.section, l)
		if err != nil {
			return nil, fault.Wrap(fault.Usage, err, "%q cannot be answered: %v", p.text, err)
		}
		if !ok {
			break
		}
		s := w.decide(h, p.section, subject, tools)
		if s.Proved && s.effect >= least {
			return &s, nil
		}
		if doubtful == nil {
			s.Proved, s.effect, s.Effect = false, policy.Ask, policy.Ask.String()
			s.Why = "the policies refuse this example, but it is not proved that they refuse all"
			doubtful = &s
		}
		l = w.b.And(l, w.b.Not(w.b.Text(subject)))
	}
	return doubtful, nil
}

// example is a short subject of the language that reads well: a request with a usual
// method, a file rather than the folder that an entry names.
func (w *World) example(section string, l language.Language) (subject string, ok bool, err error) {
	usual := language.None
	switch section {
	case "network":
		usual = w.b.Then(w.b.Or(w.b.Text("GET "), w.b.Text("POST "), w.b.Text("PUT "), w.b.Text("DELETE ")), language.All)
	case "tools":
		for _, t := range w.Tools {
			usual = w.b.Or(usual, w.b.Text(string(t.ID)))
		}
		usual = w.b.Or(usual, w.foreign())
	case "files.read", "files.write", "files.delete":
		usual = w.b.Then(language.All, w.b.Text("/x"))
	}
	if subject, ok, err = w.b.Shortest(w.b.And(l, usual)); ok || err != nil {
		return subject, ok, err
	}
	return w.b.Shortest(l)
}

// verbs name the actions of a section.
var verbs = map[string]string{"files.read": "reads", "files.write": "writes", "files.delete": "deletes", "network": "sends to", "commands": "runs",
	"tools": "calls", "models": "asks", "api": "uses"}

// decide has the holder's policies decide an example.
func (w *World) decide(h int, section, subject string, tools []*tool.Spec) Step {
	s := Step{From: w.Holders[h].Name, Does: verbs[section], To: subject, Example: subject, holder: h, section: section, subject: subject, Effect: policy.Deny.String()}
	chain := w.Holders[h].Chain
	if section == "tools" {
		s.set(w.decideTool(chain, subject))
		return s
	}
	a, ok := policy.ActionOn(section, subject)
	if !ok {
		return s
	}
	typed := a
	typed.Typed = section == "commands" && w.person(h)
	s.Example = a.String()
	if s.To = a.Subject(); a.Path != "" {
		s.To = strings.TrimPrefix(a.Path, strings.TrimSuffix(w.Env.Workspace, "/")+"/")
	}
	best := policy.Decision{}
	for _, t := range tools {
		call := policy.Call{Args: args(t, a), Actions: []tool.Action{a}, Tool: t}
		d := chain.DecideAction(a)
		if t != nil {
			d = chain.Decide(call)
		}
		if d.Effect == policy.Allow && section != "commands" && runs(t) && !w.runs(h, policy.Allow) {
			d.Effect = policy.Ask
			s.Why = "each command needs an approval"
		}
		if best.Rule == nil || d.Effect > best.Effect {
			best = d
		}
	}
	if best.Effect == policy.Deny && typed.Typed {
		if best = chain.DecideAction(typed); best.Effect == policy.Ask {
			s.Why = "a command that a person types needs that person's approval"
		}
	}
	if section == "files.write" && best.Effect == policy.Allow && chain.Limits().Hold {
		best.Effect = policy.Ask
		s.Why = "the write is held until a person applies it"
	}
	s.set(best)
	return s
}

// decideTool is what a chain decides on a call of a tool without arguments.
func (w *World) decideTool(c policy.Chain, id string) policy.Decision {
	return c.Decide(policy.Call{Tool: w.spec(id), Args: tool.Args{}})
}

func (s *Step) set(d policy.Decision) {
	s.effect, s.Effect, s.Proved = d.Effect, d.Effect.String(), d.Effect != policy.Deny
	if d.Rule != nil {
		s.Rule, s.File, s.Line = d.Rule.String(), d.Rule.File, d.Rule.Line
	}
}
