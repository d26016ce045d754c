package agents

import (
	"context"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/grants"
	"github.com/remitrun/remit/internal/service/policies"
)

// Grant implements agent.GrantSource. A session's grant is the caller's grant, or else one
// of the policies in force, narrowed by their roles for the agent and by the agent's own
// policy. A sub-agent's grant is its parent's, narrowed in the same way and handed on.
func (h *host) Grant(ctx context.Context, q agent.GrantRequest) (agent.Granted, error) {
	if q.Workspace == "" {
		q.Workspace = h.q.Workspace
	}
	if q.Parent != nil {
		return h.child(ctx, q)
	}
	base, err := h.base(ctx, q)
	if err != nil {
		return agent.Granted{}, err
	}
	out, terms, err := h.narrow(base, q)
	if err != nil {
		return agent.Granted{}, err
	}
	if !base.Grant.Kept() { // its limits are not counted elsewhere
		terms.Budgets = grant.BudgetsOf(slices.Concat(base.Grant.Chain(), terms.Policies)...)
	}
	out.Grant, out.Handovers = base.Grant.Derive(terms), base.Handovers
	auth, _, err := h.Grants.Open(ctx)
	if err != nil {
		return agent.Granted{}, err
	}
	if q.New {
		return out, auth.Begin(ctx, out.Grant, recordOf(out, terms, len(base.Sources), q))
	}
	return out, auth.Check(ctx, out.Grant)
}

// base gives the authority from which a session's grant derives, as it is now.
func (h *host) base(ctx context.Context, q agent.GrantRequest) (agent.Granted, error) {
	if q.By.Token == "" {
		return h.baseHere(q)
	}
	out := agent.Granted{Workspace: q.Workspace}
	var narrower []*policy.Policy
	switch {
	case h.q.Root != nil:
		narrower = append(narrower, h.q.Root)
	case h.q.Policy != "":
		p, err := policies.Read(h.q.Policy)
		if err != nil {
			return out, err
		}
		narrower = append(narrower, p)
	}
	var err error
	if out.Grant, out.Sources, _, err = h.Grants.Under(ctx, grants.Presented{Token: q.By.Token, Proven: q.By.Proven}, h.Home.Env(q.Workspace), narrower...); err != nil {
		return out, err
	}
	c, err := h.Grants.Authentic(q.By.Token)
	if err != nil {
		return out, err
	}
	for i := 1; i < len(c.Links()); i++ {
		if c.Handed(i) {
			out.Handovers = append(out.Handovers, i)
		}
	}
	if out.Under = c.Leaf().String(); q.Under == "" && !q.New {
		return out, fault.New(fault.GrantHolder, "the session was started under the policies in force here, not under a grant").
			WithHint("continue it without a grant")
	}
	if q.Under != "" {
		out.Under = q.Under
		if derived := slices.ContainsFunc(out.Grant.Nodes(), func(n grant.Node) bool { return n.ID.String() == q.Under }); derived {
			return out, nil
		}
		same, err := h.samePerson(ctx, out.Under, c.Leaf().String())
		if err == nil && !same {
			err = fault.New(fault.GrantHolder, "your token is not derived from this session's grant %s", q.Under).
				WithHint("present that grant, or one derived from it")
		}
		return out, err
	}
	return out, nil
}

// baseHere is base for a session without a token, under the policies in force here.
func (h *host) baseHere(q agent.GrantRequest) (agent.Granted, error) {
	out := agent.Granted{Workspace: q.Workspace}
	if q.Under != "" {
		return out, fault.New(fault.GrantHolder, "the session was started under the grant %s, which is needed to continue it", q.Under).
			WithHint("present that grant, or one derived from it")
	}
	ps, err := h.policies(q.Workspace)
	if err != nil {
		return out, err
	}
	if out.Grant, out.Sources, err = h.Policies.Grant(ps, q.Workspace); err != nil {
		return out, err
	}
	for i := range out.Sources {
		out.Sources[i].Holders = []string{out.Grant.Holder()}
	}
	return out, nil
}

// samePerson reports whether two grants are one person's own. The session goes on under the
// second one: nothing of the first one's authority counts any more.
func (h *host) samePerson(ctx context.Context, first, second string) (bool, error) {
	_, st, err := h.Grants.Open(ctx)
	if err != nil {
		return false, err
	}
	before, err := grants.OwnerOf(ctx, st, first)
	if err != nil || before == "" {
		return false, err
	}
	now, err := grants.OwnerOf(ctx, st, second)
	return now == before, err
}

// policies gives the policies in force, for callers without a grant.
func (h *host) policies(workspace string) ([]*policy.Policy, error) {
	if h.q.Root != nil {
		return h.Policies.Bounded(h.q.Root)
	}
	ps, _, err := h.Policies.Chain(h.q.Policy, workspace)
	return ps, err
}

// holderOf names an agent as a principal, as roles and delegations do.
func holderOf(a agent.Agent) string {
	name := strings.Map(func(r rune) rune {
		if r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)) || strings.ContainsRune("._-", r) {
			return unicode.ToLower(r)
		}
		return '-'
	}, a.Name)
	return "agent:" + strings.Trim(name, "-")
}

// noAPI takes the actions of the HTTP API away from sessions.
const noAPI = "version: 1\nname: sessions\nrest: inherit\napi: {}\n"

// narrow gives the terms by which a session's grant narrows its base: the roles that each
// policy has for the agent, the agent's policy, and the policy that its parent gave it.
func (h *host) narrow(base agent.Granted, q agent.GrantRequest) (agent.Granted, grant.Terms, error) {
	out := agent.Granted{Under: base.Under, Workspace: base.Workspace, Sources: slices.Clip(base.Sources)}
	terms := grant.Terms{ID: q.ID, Holder: holderOf(q.Agent), Kept: true}
	env := h.Home.Env(q.Workspace)
	add := func(p *policy.Policy) error {
		links, err := grant.Links(env, p, terms.Holder)
		if err != nil {
			return err
		}
		terms.Policies = append(terms.Policies, links...)
		out.Sources = append(out.Sources, grants.PolicySource(p, terms.Holder))
		return nil
	}
	if q.Parent == nil {
		p, err := policy.Parse("(sessions of agents)", []byte(noAPI))
		if err == nil {
			err = add(p)
		}
		if err != nil {
			return out, terms, err
		}
	}
	seen := map[string]bool{}
	for _, r := range base.Grant.Chain() {
		p := r.Policy()
		if key := p.Digest().String(); !seen[key] && len(p.Roles(terms.Holder)) > 0 {
			seen[key] = true
			if err := add(p); err != nil {
				return out, terms, err
			}
		}
	}
	for _, own := range []struct{ name, text string }{
		{"policy of agent " + holderOf(q.Agent), q.Agent.Policy}, {"policy of the sub-agent", q.Policy},
	} {
		if own.text == "" {
			continue
		}
		p, err := policy.Parse(own.name, []byte(own.text))
		if err == nil {
			err = add(p)
		}
		if err != nil {
			return out, terms, err
		}
	}
	return out, terms, nil
}

// child hands a session's grant on to a sub-agent, as far as its policies allow.
func (h *host) child(ctx context.Context, q agent.GrantRequest) (agent.Granted, error) {
	parent := *q.Parent
	q.Workspace = parent.Workspace
	out, terms, err := h.narrow(parent, q)
	if err != nil {
		return out, err
	}
	terms.Budgets = grant.BudgetsOf(terms.Policies...)
	handle := grant.NewHandle(terms.Holder)
	if err := handle.Give(parent.Grant.Derive(terms)); err != nil {
		return out, err
	}
	out.Grant = handle.Grant()
	out.Handovers = append(slices.Clip(parent.Handovers), len(out.Grant.Nodes())-1)
	auth, st, err := h.Grants.Open(ctx)
	if err != nil {
		return out, err
	}
	var rec *store.GrantRecord
	if q.New {
		r := recordOf(out, terms, len(parent.Sources), q)
		rec = &r
	}
	if err := auth.HandOn(ctx, out.Grant, out.Handovers, rec); err != nil {
		return out, grants.JoinErrors(err, h.Grants.Refused(ctx, st, err))
	}
	return out, nil
}

// recordOf gives the ledger's record of a session's grant: its ID, terms and own policies,
// without those of its ancestors.
func recordOf(g agent.Granted, t grant.Terms, inherited int, q agent.GrantRequest) store.GrantRecord {
	rec := store.GrantRecord{
		ID: t.ID, Holder: t.Holder, Issued: time.Now(), Expires: g.Grant.Expires(), Budgets: t.Budgets,
		Policies: slices.Clone(g.Sources[inherited:]), Note: "session " + q.Session.String() + " of " + q.Agent.Name,
	}
	nodes := g.Grant.Nodes()
	for _, n := range slices.Backward(nodes[:len(nodes)-1]) {
		if n.Kept {
			rec.Parent = n.ID
			break
		}
	}
	if rec.Parent == uuid.Nil {
		rec.Policies = slices.Clone(g.Sources)
	}
	return rec
}

// Revoke implements agent.GrantSource.
func (h *host) Revoke(ctx context.Context, id uuid.UUID, by, why string) error {
	auth, _, err := h.Grants.Open(ctx)
	if err != nil {
		return err
	}
	return auth.SetStanding(ctx, store.StandingChange{Grant: id, To: store.Revoked, By: by, Reason: why, At: time.Now()})
}
