package app

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

// sessionGrants makes the grants of agents' sessions.
type sessionGrants struct {
	app *App
	q   AgentsRequest
}

var _ agent.GrantSource = (*sessionGrants)(nil)

// Grant implements agent.GrantSource. A session's grant is what its caller holds, or the
// policies that hold here, narrowed by the roles that they have for the agent and
// by the agent's own policy; a sub-agent's is its parent's, narrowed in the same
// way and handed on.
func (h *sessionGrants) Grant(ctx context.Context, q agent.GrantRequest) (agent.Granted, error) {
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
	if !base.Grant.Kept() { // nobody else counts what its policies limit
		terms.Budgets = grant.BudgetsOf(slices.Concat(base.Grant.Chain(), terms.Policies)...)
	}
	out.Grant, out.Handovers = base.Grant.Derive(terms), base.Handovers
	auth, _, err := h.app.Grants.Open(ctx)
	if err != nil {
		return agent.Granted{}, err
	}
	if q.New {
		return out, auth.Begin(ctx, out.Grant, recordOf(out, terms, len(base.Sources), q))
	}
	return out, auth.Check(ctx, out.Grant)
}

// base is the authority that a session's derives from, as it is now.
func (h *sessionGrants) base(ctx context.Context, q agent.GrantRequest) (agent.Granted, error) {
	out := agent.Granted{Workspace: q.Workspace}
	if q.By.Token == "" {
		if q.Under != "" {
			return out, fault.New(fault.GrantHolder, "the session was begun under the grant %s, which is needed to go on", q.Under).
				WithHint("present that grant, or one that derives from it")
		}
		ps, err := h.policies(q.Workspace)
		if err != nil {
			return out, err
		}
		if out.Grant, out.Sources, err = h.app.Policies.Grant(ps, q.Workspace); err != nil {
			return out, err
		}
		for i := range out.Sources {
			out.Sources[i].Holders = []string{out.Grant.Holder()}
		}
		return out, nil
	}
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
	if out.Grant, out.Sources, _, err = h.app.Grants.Under(ctx, grants.Presented{Token: q.By.Token}, q.Workspace, narrower...); err != nil {
		return out, err
	}
	c, err := h.app.Grants.Authentic(q.By.Token)
	if err != nil {
		return out, err
	}
	for i := 1; i < len(c.Links()); i++ {
		if c.Handed(i) {
			out.Handovers = append(out.Handovers, i)
		}
	}
	if out.Under = c.Leaf().String(); q.Under == "" && !q.New {
		return out, fault.New(fault.GrantHolder, "the session was begun under the policies of this place, not under a grant").
			WithHint("go on with it without one")
	}
	if q.Under != "" {
		out.Under = q.Under
		if !slices.ContainsFunc(out.Grant.Nodes(), func(n grant.Node) bool { return n.ID.String() == q.Under }) {
			return out, fault.New(fault.GrantHolder, "the session was begun under the grant %s, from which the one presented does not derive", q.Under).
				WithHint("present that grant, or one that derives from it")
		}
	}
	return out, nil
}

// policies are those that hold where no grant is presented.
func (h *sessionGrants) policies(workspace string) ([]*policy.Policy, error) {
	if h.q.Root != nil {
		return h.app.Policies.Bounded(h.q.Root)
	}
	ps, _, err := h.app.Policies.Chain(h.q.Policy, workspace)
	return ps, err
}

// holderOf is an agent as a principal: roles and delegations name it so.
func holderOf(a agent.Agent) string {
	name := strings.Map(func(r rune) rune {
		if r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)) || strings.ContainsRune("._-", r) {
			return unicode.ToLower(r)
		}
		return '-'
	}, a.Name)
	return "agent:" + strings.Trim(name, "-")
}

// noAPI takes from sessions what only people and programs need that call the API.
const noAPI = "version: 1\nname: sessions\nrest: inherit\napi: {}\n"

// narrow gives what a session adds to the grant that its own derives from: the
// roles that each policy has for the agent, the agent's policy, and its parent's.
func (h *sessionGrants) narrow(base agent.Granted, q agent.GrantRequest) (agent.Granted, grant.Terms, error) {
	out := agent.Granted{Under: base.Under, Workspace: base.Workspace, Sources: slices.Clip(base.Sources)}
	terms := grant.Terms{ID: q.ID, Holder: holderOf(q.Agent), Kept: true}
	env := h.app.Home.Env(q.Workspace)
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

// child hands a session's grant on to a sub-agent, as far as its policies let it.
func (h *sessionGrants) child(ctx context.Context, q agent.GrantRequest) (agent.Granted, error) {
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
	auth, st, err := h.app.Grants.Open(ctx)
	if err != nil {
		return out, err
	}
	var rec *store.GrantRecord
	if q.New {
		r := recordOf(out, terms, len(parent.Sources), q)
		rec = &r
	}
	if err := auth.HandOn(ctx, out.Grant, out.Handovers, rec); err != nil {
		return out, grants.JoinErrors(err, h.app.Grants.Refused(ctx, st, err))
	}
	return out, nil
}

// recordOf is how the ledger keeps a session's grant: by its name and its own
// policies, without those of its ancestors.
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
func (h *sessionGrants) Revoke(ctx context.Context, id uuid.UUID, by, why string) error {
	auth, _, err := h.app.Grants.Open(ctx)
	if err != nil {
		return err
	}
	return auth.SetStanding(ctx, store.StandingChange{Grant: id, To: store.Revoked, By: by, Reason: why, At: time.Now()})
}
