package policyreview

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/learn"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// Proposal is an entry that would allow something that recorded runs were refused.
type Proposal struct {
	List    string `json:"list"`              // files.read.allow; "" where no entry is proposed
	Entry   string `json:"entry"`             // in YAML, or the refused action
	Count   int    `json:"count"`             // how often it was refused
	Policy  string `json:"policy"`            // the policy that refused it
	Reason  string `json:"reason"`            // why it was refused
	Warning string `json:"warning,omitempty"` // why it should hardly be allowed; "" if nothing speaks against it
}

// Proposals are entries for the refused actions of runs. Nothing is changed by them.
type Proposals struct {
	Runs      int        `json:"runs"`
	Refused   int        `json:"refused"` // calls
	Skipped   int        `json:"skipped"` // runs that could not be read
	Proposals []Proposal `json:"proposals"`
}

// Propose returns the narrowest entries for the refused actions of runs: the runs of ids, or
// without ids those of a workspace that began after since.
func (s *Reviewer) Propose(ctx context.Context, workspace string, ids []string, since time.Time) (Proposals, error) {
	p := proposer{reviewer: s, at: map[string]int{}}
	st, err := s.Reader(ctx)
	if err != nil {
		return p.out, err
	}
	if len(ids) == 0 {
		if ids, err = runsSince(ctx, st, workspace, since); err != nil {
			return p.out, err
		}
	}
	for _, id := range ids {
		l := learner{reviewer: s} // each run under its own policies
		if err := l.load(ctx, st, id); err != nil {
			if code := fault.CodeOf(err); code == fault.RunUnknown || code == fault.Usage {
				return p.out, err
			}
			p.out.Skipped++
			continue
		}
		p.out.Runs++
		if err := p.read(ctx, &l); err != nil {
			return p.out, err
		}
	}
	slices.SortStableFunc(p.out.Proposals, func(x, y Proposal) int {
		return cmp.Or(cmp.Compare(rank(x), rank(y)), cmp.Compare(x.List, y.List), cmp.Compare(x.Entry, y.Entry))
	})
	return p.out, nil
}

// rank puts entries without a warning first and actions without a proposal last.
func rank(p Proposal) int {
	switch {
	case p.List == "":
		return 2
	case p.Warning != "":
		return 1
	}
	return 0
}

// runsSince gives the IDs of a workspace's runs with a refused call.
func runsSince(ctx context.Context, st store.Store, workspace string, since time.Time) ([]string, error) {
	var out []string
	f := store.RunFilter{Mode: ledger.Live, Since: since, Denied: true, Limit: 100}
	for searched := 0; searched < maxSearched; searched += f.Limit {
		page, err := st.Runs(ctx, f)
		if err != nil || len(page) == 0 {
			return out, err
		}
		for _, run := range page {
			if run.Workspace == workspace && run.ID != uuid.Nil {
				out = append(out, run.ID.String())
			}
		}
		f.Before = page[len(page)-1].Seq
	}
	return out, nil
}

// proposer collects proposals.
type proposer struct {
	reviewer *Reviewer
	out      Proposals
	at       map[string]int // their places, by list, entry and reason
}

func (p *proposer) read(ctx context.Context, l *learner) error {
	r := l.runs[0]
	for _, i := range r.rec.Calls() {
		c, _ := r.rec.Call(i)
		if c.Status == tool.Skipped {
			continue
		}
		if letThrough(c) {
			l.uses = nil
			if err := l.attempts(ctx, r.rec, c); err != nil {
				return err
			}
			for _, u := range l.uses {
				p.propose(l, policy.Refusal{Reason: u.Why, Action: u.Action.String()}, u)
			}
			continue
		}
		p.out.Refused++
		call, why, err := r.rec.Needs(ctx, r.tools, l.chain, c)
		if err != nil {
			return err
		}
		if why != "" {
			p.add(Proposal{Entry: string(c.Tool), Reason: why}, 1)
			continue
		}
		p.refused(l, c, call)
	}
	return nil
}

// refused proposes an entry for each rule that refused a call.
func (p *proposer) refused(l *learner, c ledger.Call, call policy.Call) {
	d := l.chain.Decide(call)
	if len(d.Refusals) == 0 {
		p.add(Proposal{Entry: string(c.Tool), Reason: "no rule refuses it: a limit, an approval or its grant did"}, 1)
	}
	l.specs[c.Tool] = call.Tool
	for _, refusal := range d.Refusals {
		u := learn.Use{Tool: c.Tool, Args: call.Args}
		if u.Args == nil {
			u.Args = map[string]any{}
		}
		if i := slices.IndexFunc(call.Actions, func(a tool.Action) bool { return a.String() == refusal.Action }); i >= 0 {
			u.Action = call.Actions[i]
		}
		p.propose(l, refusal, u)
	}
}

// propose adds the entries for one refused action, or for the tool itself.
func (p *proposer) propose(l *learner, r policy.Refusal, u learn.Use) {
	one := Proposal{Entry: r.Action, Reason: r.Reason, Warning: warningOf(r, u)}
	if r.Rule != nil {
		one.Policy = r.Rule.Policy
	}
	bound := l.runs[0].rec.Bound
	lines, why := learn.Narrowest(u, learn.Options{Workspace: bound.Workspace, Home: bound.Home, Spec: func(id tool.ID) *tool.Spec { return l.specs[id] },
		Secret: func(text string) bool { return p.reviewer.Home.Redactor().Text(text) != text }})
	if len(lines) == 0 || r.Rule != nil && !ofList(r.Rule) {
		one.Reason = strings.TrimSuffix(one.Reason+"; no entry is proposed: "+why, "; no entry is proposed: ")
		one.Entry, one.Warning = p.reviewer.Home.Redactor().Text(one.Entry), ""
		p.add(one, max(u.Count, 1))
		return
	}
	for _, line := range lines {
		one.List, one.Entry = line.List, line.Text
		p.add(one, max(u.Count, 1))
	}
}

// ofList reports whether a rule is an entry of a list, or that there is none: another
// rule (a gate of risk, a frozen plan) is not changed by an entry.
func ofList(r *policy.Rule) bool {
	return r.Name == "default" || strings.HasSuffix(r.Name, "]")
}

// warningOf is why an entry should hardly be added.
func warningOf(r policy.Refusal, u learn.Use) string {
	var out []string
	if r.Rule != nil && strings.Contains(r.Rule.Name, ".deny[") {
		out = append(out, r.Rule.String()+" denies it on purpose; an entry of allow has no effect while it is there")
	}
	if r.Rule != nil && strings.Contains(r.Rule.Name, ".ask[") {
		out = append(out, r.Rule.String()+" asks a person about it; an entry of allow would end that")
	}
	if namesSensitive(u.Action) || u.Action.Kind == tool.NoAction && holdsSensitive(u.Args) {
		out = append(out, "it names a sensitive file, which may hold secrets or decide what runs")
	}
	return strings.Join(out, "; ")
}

// add counts a proposal.
func (p *proposer) add(one Proposal, count int) {
	one.Reason = p.reviewer.Home.Redactor().Text(one.Reason)
	key := strings.Join([]string{one.List, one.Entry, one.Policy, one.Reason}, "\x00")
	i, ok := p.at[key]
	if !ok {
		i = len(p.out.Proposals)
		p.at[key] = i
		p.out.Proposals = append(p.out.Proposals, one)
	}
	p.out.Proposals[i].Count += count
}
