package policyreview

import (
	"context"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/learn"
	"github.com/remitrun/remit/internal/base/tool"
)

// proposal is patterns that could replace an entry.
type proposal struct {
	entry    *lintEntry
	patterns []string
}

// findBroad finds entries that narrower ones could replace. Every recorded call is decided
// again under the policy with all of them: a proposal that changes a decision is dropped.
func (l *linter) findBroad(ctx context.Context) error {
	was, err := l.effects(ctx, l.policy)
	if err != nil {
		return err
	}
	var good []proposal
	for _, e := range l.entries {
		patterns := l.narrower(e)
		if len(patterns) == 0 {
			continue
		}
		tried := append(slices.Clip(good), proposal{e, patterns})
		p, err := narrowed(l.policy, tried)
		if err != nil {
			continue // cannot be written as a policy
		}
		is, err := l.effects(ctx, p)
		if err != nil {
			return err
		}
		if slices.Equal(was, is) {
			good = tried
		}
	}
	for _, g := range good {
		l.out.Findings = append(l.out.Findings, Finding{Kind: Broad, Entry: g.entry.name, Pattern: g.entry.Pattern,
			Line: g.entry.Line, Calls: g.entry.decided, Narrower: g.patterns})
	}
	return nil
}

// narrowed is a policy with proposals in place of their entries.
func narrowed(p *policy.Policy, list []proposal) (*policy.Policy, error) {
	var err error
	for _, g := range slices.Backward(list) { // from the last: the places of the others stay
		if p, err = p.Narrowed(g.entry.Section, g.entry.at, g.patterns); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// narrower returns narrower patterns that cover all uses of an entry, each shown to be included in
// it; nil where they would be as wide, or too many.
func (l *linter) narrower(e *lintEntry) []string {
	if e.Effect != policy.Allow || e.Section == "tools" || !e.Plain() || e.decided < minUses || len(e.uses) == 0 || l.unseen(e) {
		return nil
	}
	alone := l.chainOfSection(e.Section, e.Pattern)
	if alone == nil {
		return nil
	}
	got, err := learn.Policy("narrower", e.uses, learn.Options{
		Workspace: l.env.Workspace, Home: l.env.Home, Chain: alone, Exact: true,
		Secret: func(text string) bool { return l.reviewer.Home.Redactor().Text(text) != text },
	})
	if err != nil {
		return nil
	}
	p, err := policy.Parse("narrower", got.Policy)
	if err != nil {
		return nil
	}
	var out []string
	for _, n := range p.Entries() {
		if n.Section == e.Section && n.Effect == policy.Allow {
			out = append(out, n.Pattern)
		}
	}
	if len(out) > maxNarrower {
		out = l.commonFolder(e)
	}
	kind := e.uses[0].Action.Kind
	if len(out) == 0 || slices.ContainsFunc(out, func(text string) bool { return !alone.Includes(kind, text) }) {
		return nil
	}
	if l.chainOfSection(e.Section, out...).Includes(kind, e.Pattern) {
		return nil // as wide as the entry
	}
	return out
}

// commonFolder is a pattern of all below the deepest folder of the workspace that holds all
// files that an entry was used for; nil if that is the workspace itself.
func (l *linter) commonFolder(e *lintEntry) []string {
	common := ""
	for _, u := range e.uses {
		for _, p := range []string{u.Action.Path, u.Action.Real} {
			if p == "" {
				continue
			}
			if common == "" {
				common = path.Dir(p)
			}
			for common != "/" && !strings.HasPrefix(p, common+"/") {
				common = path.Dir(common)
			}
		}
	}
	rel, ok := strings.CutPrefix(common, l.env.Workspace+"/")
	if !ok || strings.ContainsAny(rel, `*?[]{}\!~`) {
		return nil
	}
	return []string{rel + "/**"}
}

// chainOfSection is a chain of one policy that allows patterns of one section; nil if that is not valid.
func (l *linter) chainOfSection(section string, patterns ...string) policy.Chain {
	var quoted []string
	for _, text := range patterns {
		quoted = append(quoted, strconv.Quote(text))
	}
	body := "{allow: [" + strings.Join(quoted, ", ") + "]}"
	if kind, ok := strings.CutPrefix(section, "files."); ok {
		section, body = "files", "{"+kind+": "+body+"}"
	}
	p, err := policy.Parse("alone", []byte("version: 1\n"+section+": "+body+"\n"))
	if err != nil {
		return nil
	}
	c, err := chainIn(l.env, p)
	if err != nil {
		return nil
	}
	return c
}

// effects decides all recorded calls, and their observed effects, under a policy.
func (l *linter) effects(ctx context.Context, p *policy.Policy) ([]policy.Effect, error) {
	var out []policy.Effect
	for i := range l.runs {
		r := &l.runs[i]
		chain, err := r.chain(p)
		if err != nil {
			return nil, err
		}
		for _, i := range r.rec.Calls() {
			c, _ := r.rec.Call(i)
			if c.Status == tool.Skipped {
				continue
			}
			d, _, err := r.rec.Judge(ctx, r.tools, chain, c)
			if err != nil {
				return nil, err
			}
			out = append(out, d.Effect)
			seen, _, err := r.rec.Happened(ctx, c)
			if err != nil {
				return nil, err
			}
			for _, h := range seen {
				if a, ok := learn.Observed(r.rec.Bound.Workspace, h); ok {
					out = append(out, chain.DecideAction(a).Effect)
				}
			}
		}
	}
	return out, nil
}
