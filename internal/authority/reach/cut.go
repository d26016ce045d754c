package reach

import (
	"maps"
	"slices"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/language"
	"github.com/remitrun/remit/internal/base/tool"
)

// Entry is an entry of a list allow or ask of a policy.
type Entry struct {
	Rule string `json:"rule"` // as decisions name it
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`

	rule policy.Rule
}

const (
	maxCut      = 3  // entries that are taken away together
	maxCutTries = 40 // policies that are tried
)

// Cut finds the fewest entries without which the way that was found does not exist, nor any
// other: no way at all, or none that needs no person if the answer is [Reachable]. It is nil
// if there is none of up to three entries, or the search for it would take too long.
func (w *World) Cut(a Answer) ([]Entry, error) {
	if a.Verdict == Unreachable {
		return nil, nil
	}
	source, err := w.term(a.From, true)
	if err != nil {
		return nil, err
	}
	sink, err := w.term(a.To, false)
	if err != nil {
		return nil, err
	}
	tries := maxCutTries
	for n := 1; n <= maxCut; n++ {
		c := cutter{source, sink, a.Verdict == Reachable, &tries}
		if found, err := c.cut(w, a.Steps, n); err != nil || found != nil {
			return found, err
		}
	}
	return nil, nil
}

// cutter is a search for a cut of one question.
type cutter struct {
	source, sink *term
	open         bool
	tries        *int
}

// cut takes away one entry that the steps need, and up to n-1 that the ways left need.
func (c *cutter) cut(w *World, steps []Step, n int) ([]Entry, error) {
	for _, e := range w.needed(steps) {
		if *c.tries--; *c.tries < 0 {
			return nil, nil
		}
		less := w.withoutEntry(e)
		left, err := less.way(c.source, c.sink, c.open)
		if err != nil {
			return nil, err
		}
		if left == nil {
			return []Entry{e}, nil
		}
		if n == 1 {
			continue
		}
		if more, err := c.cut(less, left, n-1); err != nil || more != nil {
			return append([]Entry{e}, more...), err
		}
	}
	return nil, nil
}

// needed is the entries by which the policies of the holders allow the steps, or ask.
func (w *World) needed(steps []Step) []Entry {
	var out []Entry
	for _, s := range steps {
		if s.subject == "" {
			continue
		}
		for _, r := range w.Holders[s.holder].Chain {
			d := w.decideTool(policy.Chain{r}, s.subject)
			if a, ok := policy.ActionOn(s.section, s.subject); ok {
				d = policy.Chain{r}.DecideAction(a)
			}
			if d.Rule == nil || d.Effect == policy.Deny || r.Without(*d.Rule) == nil {
				continue
			}
			e := Entry{d.Rule.String(), d.Rule.File, d.Rule.Line, *d.Rule}
			if !slices.Contains(out, e) {
				out = append(out, e)
			}
		}
	}
	return out
}

// withoutEntry is the world without an entry.
func (w *World) withoutEntry(e Entry) *World {
	less := &World{Env: w.Env, Tools: w.Tools, Holders: slices.Clone(w.Holders), b: w.b}
	changed := make([]bool, len(w.Holders))
	for h, holder := range w.Holders {
		for i, r := range holder.Chain {
			if fewer := r.Without(e.rule); fewer != nil {
				chain := slices.Clone(less.Holders[h].Chain)
				chain[i] = fewer
				less.Holders[h].Chain, changed[h] = chain, true
			}
		}
	}
	less.known, less.means = maps.Clone(w.known), maps.Clone(w.means)
	maps.DeleteFunc(less.known, func(at place, _ language.Language) bool { return changed[at.holder] })
	maps.DeleteFunc(less.means, func(at place, _ []*tool.Spec) bool { return changed[at.holder] })
	return less
}
