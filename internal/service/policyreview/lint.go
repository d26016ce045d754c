package policyreview

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/learn"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/replay"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// The kinds of findings.
const (
	Unused   = "unused"   // no recorded call matched the entry
	Shadowed = "shadowed" // another entry decided every call that matched it
	Broad    = "broad"    // narrower entries decide every recorded call alike
	Approved = "approved" // a person approved every call that it asked about
)

const (
	minUses     = 3   // calls before an entry is called broad, or always approved
	maxNarrower = 3   // entries that may replace one
	maxSearched = 500 // runs that are searched for those of the workspace
)

// Lint is what recorded runs show about the entries of a policy.
type Lint struct {
	Runs     int // of the workspace
	Calls    int
	Skipped  int // runs that could not be judged: their record is damaged or erased
	Unlisted int // calls with processes or effects that are not all recorded
	Findings []Finding
}

// Finding is one entry that recorded runs show to be more than they needed.
type Finding struct {
	Kind     string   `json:"kind" enum:"unused,shadowed,broad,approved"`
	Entry    string   `json:"entry"` // its place, as files.read.allow[0]
	Pattern  string   `json:"pattern"`
	Line     int      `json:"line"`
	Calls    int      `json:"calls"`              // that matched it
	By       string   `json:"by,omitempty"`       // Shadowed: an entry that decided instead
	Narrower []string `json:"narrower,omitempty"` // Broad: the patterns that replace it
}

// Lint compares a policy's allow and ask entries with the calls of the newest recorded runs
// of a workspace. Each call is decided anew under this policy, whatever policy it ran under.
// Entries of deny and of roles are not looked at.
func (s *Reviewer) Lint(ctx context.Context, p *policy.Policy, workspace string, runs int) (Lint, error) {
	l := linter{reviewer: s, env: s.Home.Env(workspace), policy: p, entries: entriesOf(p)}
	st, err := s.Reader(ctx)
	if err != nil {
		return l.out, err
	}
	if err := l.load(ctx, st, workspace, runs); err != nil {
		return l.out, err
	}
	for i := range l.runs {
		if err := l.read(ctx, &l.runs[i]); err != nil {
			return l.out, err
		}
	}
	if l.out.Calls == 0 {
		return l.out, nil // no history shows nothing
	}
	l.findUnneeded()
	err = l.findBroad(ctx)
	slices.SortStableFunc(l.out.Findings, func(x, y Finding) int { return cmp.Compare(x.Line, y.Line) })
	return l.out, err
}

// linter collects what recorded calls matched.
type linter struct {
	reviewer *Reviewer
	env      policy.Env
	policy   *policy.Policy
	entries  []*lintEntry
	runs     []recordedRun
	unknown  bool // the actions of a call are not known
	out      Lint
}

// lintEntry is an entry and what recorded calls made of it.
type lintEntry struct {
	policy.Entry
	name      string
	at        int // its index in the list
	matched   int // calls
	decided   int // calls with an action that it decided
	by        string
	uses      []learn.Use // the actions that it decided
	approved  int
	refused   int  // or not answered
	sensitive bool // a call named a sensitive file, or needs a person with more rights
}

// entriesOf lists the entries of allow and ask that decide calls of tools.
func entriesOf(p *policy.Policy) []*lintEntry {
	var out []*lintEntry
	count := map[string]int{}
	for _, e := range p.Entries() {
		list := e.Section + "." + e.Effect.String()
		at := count[list]
		count[list]++
		// The API's calls and an agent's models are not all recorded as calls of runs.
		if e.Effect != policy.Deny && e.Section != "api" && e.Section != "models" {
			out = append(out, &lintEntry{Entry: e, name: fmt.Sprintf("%s[%d]", list, at), at: at})
		}
	}
	return out
}

func (l *linter) entry(name string) *lintEntry {
	for _, e := range l.entries {
		if e.name == name {
			return e
		}
	}
	return nil
}

// load opens the newest runs of the workspace.
func (l *linter) load(ctx context.Context, st store.Store, workspace string, limit int) error {
	f := store.RunFilter{Mode: ledger.Live, Limit: 100}
	for searched := 0; searched < maxSearched && l.out.Runs < limit; searched += f.Limit {
		page, err := st.Runs(ctx, f)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, run := range page {
			if run.Workspace != workspace || l.out.Runs == limit {
				continue
			}
			rec, err := replay.Open(ctx, st, run)
			if err != nil {
				l.out.Skipped++
				continue
			}
			r := recordedRun{rec: rec}
			if r.tools, err = l.reviewer.Replays.ToolsOf(ctx, rec); err != nil {
				return err
			}
			l.runs = append(l.runs, r)
			l.out.Runs++
		}
		f.Before = page[len(page)-1].Seq
	}
	return nil
}

// chain is the chain for the holder of a recorded run under one policy alone.
func (r *recordedRun) chain(p *policy.Policy) (policy.Chain, error) {
	g, err := grant.Root(r.rec.Run.ID, r.rec.Run.Principal, r.rec.Bound, p)
	return g.Chain(), err
}

// read notes what the calls of one run matched.
func (l *linter) read(ctx context.Context, r *recordedRun) error {
	chain, err := r.chain(l.policy)
	if err != nil {
		return err
	}
	for _, i := range r.rec.Calls() {
		c, _ := r.rec.Call(i)
		if c.Status == tool.Skipped {
			continue
		}
		l.out.Calls++
		call, why, err := r.rec.Needs(ctx, r.tools, chain, c)
		if err != nil {
			return err
		}
		if why != "" { // its actions are not known: nothing about its tool is unused
			l.noteUnknown(c.Tool)
			continue
		}
		seen, more, err := r.rec.Happened(ctx, c)
		if err != nil {
			return err
		}
		if more > 0 || call.Tool.Effects.Has(tool.SystemExec) && c.Intent != 0 {
			l.out.Unlisted++
		}
		l.note(chain, c, call, r.rec.Bound.Workspace, seen)
	}
	return nil
}

func (l *linter) noteUnknown(id tool.ID) {
	for _, e := range l.entries {
		if e.Matches(string(id)) {
			e.matched++
			e.decided++
		}
	}
	l.unknown = true
	l.out.Unlisted++
}

// note counts one call for each entry that it matched, and each that it decided.
func (l *linter) note(chain policy.Chain, c ledger.Call, call policy.Call, workspace string, seen []tool.Happened) {
	matched, decided := map[*lintEntry]bool{}, map[*lintEntry]bool{}
	look := func(one policy.Call, use learn.Use) {
		first := map[string]string{} // the deciding entry by the action's text
		for _, m := range chain.Explain(one) {
			if m.Link != 0 { // of a role
				continue
			}
			by, again := first[m.Action]
			if !again {
				first[m.Action] = m.Rule.Name
			}
			e := l.entry(m.Rule.Name)
			if e == nil {
				continue
			}
			matched[e] = true
			e.sensitive = e.sensitive || m.Admin
			switch {
			case !again:
				decided[e] = true
				if use.Action.Kind.String() == e.Section {
					e.uses = append(e.uses, use)
				}
			case by != e.name && e.by == "":
				e.by = by
			}
		}
	}
	look(policy.Call{Tool: call.Tool, Args: call.Args, Actions: call.Actions, Plan: call.Plan}, learn.Use{})
	for _, a := range call.Actions {
		look(policy.Call{Tool: call.Tool, Args: call.Args, Actions: []tool.Action{a}, Plan: call.Plan},
			learn.Use{Action: a, Below: readsFolder(c.Tool, a, workspace, seen)})
	}
	for _, h := range seen {
		if a, ok := learn.Observed(workspace, h); ok {
			look(policy.Call{Tool: call.Tool, Args: call.Args, Actions: []tool.Action{a}, Plan: call.Plan}, learn.Use{Action: a})
		}
	}
	for e := range matched {
		e.matched++
	}
	for e := range decided {
		e.decided++
		if e.Effect == policy.Ask {
			e.answered(c, call)
		}
	}
}

// answered counts a person's answers to a call that an entry asks about.
func (e *lintEntry) answered(c ledger.Call, call policy.Call) {
	if c.Effect != policy.Ask {
		return // the run's own policy did not ask
	}
	if c.Approved {
		e.approved++
	} else {
		e.refused++
	}
	e.sensitive = e.sensitive || slices.ContainsFunc(call.Actions, namesSensitive) || holdsSensitive(map[string]any(call.Args))
}

// namesSensitive reports whether an action names a file that a pattern must spell.
func namesSensitive(a tool.Action) bool {
	return a.Path != "" && policy.Spelled(a.Path) || a.Real != "" && policy.Spelled(a.Real) || slices.ContainsFunc(a.Argv, spelledIn)
}

// holdsSensitive is namesSensitive for arguments, of which any may be a path.
func holdsSensitive(v any) bool {
	switch v := v.(type) {
	case string:
		return spelledIn(v)
	case []any:
		return slices.ContainsFunc(v, holdsSensitive)
	case map[string]any:
		for _, one := range v {
			if holdsSensitive(one) {
				return true
			}
		}
	}
	return false
}

// spelledIn reports whether a text has a sensitive file's name as one of its words.
func spelledIn(text string) bool {
	words := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \t\n=:,;\"'", r) })
	return slices.ContainsFunc(words, policy.Spelled)
}

// findUnneeded finds the entries that decided nothing, and those that a person always approved.
func (l *linter) findUnneeded() {
	for _, e := range l.entries {
		f := Finding{Entry: e.name, Pattern: e.Pattern, Line: e.Line, Calls: e.matched}
		switch {
		case e.matched == 0 && !l.unseen(e):
			f.Kind = Unused
		case e.matched > 0 && e.decided == 0 && e.Plain() && !l.unseen(e): // options apply all the same
			f.Kind, f.By = Shadowed, e.by
		case e.approved >= minUses && e.refused == 0 && !e.sensitive && !policy.Spelled(e.Pattern):
			f.Kind, f.Calls = Approved, e.approved
		default:
			continue
		}
		l.out.Findings = append(l.out.Findings, f)
	}
}

// unseen reports whether the record may lack actions that an entry decides: a process's own reading
// and writing, its connections, and actions of unknown calls.
func (l *linter) unseen(e *lintEntry) bool {
	if e.Section == "tools" {
		return false
	}
	return l.unknown || l.out.Unlisted > 0 && (strings.HasPrefix(e.Section, "files.") || e.Section == "network")
}
