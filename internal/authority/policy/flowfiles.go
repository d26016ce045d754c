package policy

import (
	"slices"

	"github.com/remitrun/remit/internal/authority/policy/glob"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// RecordedLabels are labels that files were given when they were written, and that no action
// of a call has: facts.
type RecordedLabels struct {
	// Around are the labels of files that the call's processes can read without naming them.
	Around []string
	// Typed are the labels of the files that typed commands name, by path.
	Typed map[string][]string
}

// LabelledFiles are the paths of the files that were given a label, and the folders in which
// every file may have it. Unknown: there may be more.
type LabelledFiles struct {
	Paths, Folders []string
	Unknown        bool
}

// TypedFiles returns the files that the typed commands among actions name.
func (f *Flows) TypedFiles(actions []tool.Action) []tool.Action {
	return f.typed(actions, RecordedLabels{})[len(actions):]
}

// Labels lists the labels of the chain, sorted.
func (f *Flows) Labels() []string {
	var out []string
	for i := range f.labels {
		out = append(out, f.labels[i].name)
	}
	return out
}

// Pattern returns the labels that a file has by its path alone.
func (f *Flows) Pattern(path string) Labels {
	var out Labels
	a := tool.Action{Kind: tool.FileRead, Path: path}
	for i := range f.labels {
		l := &f.labels[i]
		if l.fromAction(f.chain, &a, true) && !l.spared(f.chain, &Call{Tool: &tool.Spec{}}, &a) {
			out |= 1 << i
		}
	}
	return out
}

// Withheld returns the labels whose files a call must not reach.
func (f *Flows) Withheld(context Labels, of Of, foreign bool) Labels {
	var out Labels
	for i := range f.labels {
		if len(f.labels[i].only) > 0 && !foreign {
			out |= 1 << i
		}
	}
	return out &^ (context | of.Holds | of.Named)
}

// WithholdFiles returns a chain that Narrow gave without the files that were given the label
// with a name.
func (f *Flows) WithholdFiles(narrow Chain, label string, files LabelledFiles) (Chain, error) {
	at := slices.IndexFunc(f.labels, func(l flowLabel) bool { return l.name == label })
	if at < 0 || len(f.labels[at].only) == 0 {
		return nil, fault.New(fault.Internal, "the label %q withholds nothing", label)
	}
	rule := f.labels[at].only[0].flow.rule
	rule.Name = "flows." + label + ".withheld"
	var entries []boundEntry
	add := func(text string) error {
		p, err := parseFilePattern(text, false, Deny)
		if err == nil {
			p, err = p.bind(f.chain[0], Deny)
		}
		if err != nil {
			return fault.New(fault.PolicyInvalid, "the file %q cannot be withheld: %v", text, err)
		}
		b := boundEntry{effect: Deny, pattern: p, rule: rule}
		b.rule.Pattern = text
		entries = append(entries, b)
		return nil
	}
	for _, p := range files.Paths {
		if err := add(glob.Escape(p)); err != nil {
			return nil, err
		}
	}
	for _, p := range files.Folders {
		if err := add(glob.Escape(p) + "/**"); err != nil {
			return nil, err
		}
	}
	if len(entries) == 0 {
		return narrow, nil
	}
	out := slices.Clone(narrow)
	for _, id := range []sectionID{readSection, writeSection, deleteSection} {
		out.deny(id, entries)
	}
	return out, nil
}

// deny adds deny entries to a chain that nobody else has.
func (c Chain) deny(id sectionID, entries []boundEntry) {
	at := slices.IndexFunc(c, func(r *Rules) bool { return !r.sections[id].inherits })
	if at < 0 {
		return // nothing is allowed
	}
	r, doc := *c[at], *c[at].policy
	doc.src = slices.Clip(doc.src)
	for i := range entries {
		doc.src = append(doc.src, "\n"+entries[i].rule.String()...)
	}
	r.policy = &doc
	s := &r.sections[id]
	s.lists[Deny] = append(slices.Clip(s.lists[Deny]), entries...)
	s.index[Deny] = newIndex(s.lists[Deny])
	s.indexed = s.indexed || s.index[Deny] != nil
	c[at] = &r
}

// Lineage returns the labels of a call's output: the labels of its context and of the call itself.
func (of Of) Lineage(context Labels) Labels { return context | of.Named | of.Holds | of.Result }

// Reaching adds labels of data that a call cannot be kept from.
func (of Of) Reaching(labels Labels) Of {
	return Of{of.Named | labels, of.Holds | labels, of.Result | labels}
}

// recorded reports whether the action's file was given the label. Only an exception of the
// call's tool counts: the others are about sources.
func (l *flowLabel) recorded(c Chain, call *Call, a *tool.Action, withheld bool) bool {
	has := slices.Contains(a.Labels, l.name) || !withheld && a.Kind == tool.FileRead && slices.Contains(a.Below, l.name)
	return has && !l.spared(c, call, nil)
}
