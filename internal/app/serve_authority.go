package app

import (
	"context"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/approval"
	"github.com/remitrun/remit/internal/doors/httpapi"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/approvals"
	"github.com/remitrun/remit/internal/service/grants"
	"github.com/remitrun/remit/internal/service/policyreview"
	"github.com/remitrun/remit/internal/service/runs"
)

// Grants implements httpapi.Grants.
func (s *served) Grants(ctx context.Context, f store.GrantFilter) ([]grants.Info, error) {
	return s.app.Grants.List(ctx, f)
}

// Grant implements httpapi.Grants.
func (s *served) Grant(ctx context.Context, id string) (grants.Info, error) {
	_, st, err := s.app.Grants.Open(ctx)
	if err != nil {
		return grants.Info{}, err
	}
	g, err := st.Grant(ctx, id)
	if err != nil {
		return grants.Info{}, err
	}
	return grants.InfoOf(ctx, st, g)
}

// moment is a time that may not be there.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// Narrow implements httpapi.Grants. It is recorded, so that it can be found and
// revoked before it is ever used.
func (s *served) Narrow(ctx context.Context, who *httpapi.Caller, q httpapi.GrantTerms) (httpapi.NewGrant, error) {
	t := grants.Terms{
		Workspace: s.workspace, Holder: q.Holder, Expires: time.Duration(q.Seconds) * time.Second, Sealed: q.Sealed, Note: q.Note,
		Budgets: grant.Budgets{Calls: q.Calls, Tokens: q.Tokens, Money: q.Money, Children: q.Children, Depth: q.Depth},
	}
	if q.Holder == who.Name {
		t.Holder = ""
	}
	if err := t.Budgets.Check(); err != nil {
		return httpapi.NewGrant{}, fault.New(fault.ArgsInvalid, "%s", fault.Message(err)).In("body")
	}
	for i, text := range q.Policies {
		p, err := policy.Parse("policies["+strconv.Itoa(i)+"]", []byte(text))
		if err != nil {
			return httpapi.NewGrant{}, err
		}
		t.Parsed = append(t.Parsed, p)
	}
	made, err := s.app.Grants.NarrowKept(ctx, who.Token, t)
	if err != nil {
		return httpapi.NewGrant{}, err
	}
	return httpapi.NewGrant{Token: made.Text, ID: made.Claims.Leaf().String(), Holder: made.Claims.Holder(), Until: moment(made.Claims.Expires())}, nil
}

// Set implements httpapi.Grants.
func (s *served) Set(ctx context.Context, who *httpapi.Caller, id, standing, reason string) error {
	to, ok := map[string]store.Standing{"active": store.Active, "paused": store.Paused, "revoked": store.Revoked}[standing]
	if !ok {
		return fault.New(fault.Internal, "%q is not a valid standing of a grant", standing)
	}
	auth, _, err := s.app.Grants.Open(ctx)
	if err != nil {
		return err
	}
	node, err := uuid.Parse(id)
	if err != nil {
		return fault.New(fault.GrantUnknown, "no grant has the ID %q", id)
	}
	return auth.SetStanding(ctx, store.StandingChange{Grant: node, To: to, By: who.Name, Reason: reason, At: time.Now()})
}

// Questions implements httpapi.Approvals.
func (s *served) Questions(ctx context.Context, waiting bool, before uint64, limit int) ([]store.Approval, error) {
	f := store.QuestionFilter{Before: ledger.Seq(before), Limit: limit}
	if waiting {
		f.State = store.Waiting
	}
	return s.app.Approvals.List(ctx, f)
}

// Question implements httpapi.Approvals.
func (s *served) Question(ctx context.Context, id string) (store.Approval, error) {
	q, _, err := s.app.Approvals.Find(ctx, id)
	return q, err
}

// QuestionHistory implements httpapi.Approvals.
func (s *served) QuestionHistory(ctx context.Context, id string, v approval.Viewer) (approval.History, error) {
	return s.app.Approvals.History(ctx, id, v)
}

// Answer implements httpapi.Approvals. The answer is that of the person whom the ledger
// issued the caller's grant to; the store refuses any grant that derives from another.
func (s *served) Answer(ctx context.Context, who *httpapi.Caller, id string, a httpapi.Answer) (store.Approval, error) {
	leaf, err := uuid.Parse(who.Leaf)
	if err != nil || leaf == uuid.Nil { // a vote without a grant would be that of the person at this machine
		return store.Approval{}, fault.New(fault.Internal, "the caller's grant has the ID %q", who.Leaf)
	}
	where := "http api"
	if who.Device != "" {
		where = "web ui"
	}
	return s.app.Approvals.Answer(ctx, id, approvals.Answer{By: who.Person, Grant: leaf, Where: where, Yes: a.Yes, Session: a.Session, Reason: a.Reason, Digest: a.Digest})
}

// Check implements httpapi.Policies.
func (s *served) Check(_ context.Context, text string) (httpapi.PolicySummary, error) {
	p, err := s.app.PolicyReview.Parsed(text, s.workspace)
	if err != nil {
		return httpapi.PolicySummary{}, err
	}
	return httpapi.PolicySummary{OK: true, Name: p.Name(), Digest: p.Digest().String(), Text: string(p.Print())}, nil
}

// Explain implements httpapi.Policies. Nothing is looked up: a caller that may only ask for a
// policy's decisions does not learn where links of this machine lead.
func (s *served) Explain(ctx context.Context, who *httpapi.Caller, text, id string, args map[string]any) (policyreview.Explanation, error) {
	chain, err := s.chain(ctx, who, text)
	if err != nil {
		return policyreview.Explanation{}, err
	}
	plain, err := runs.Plain(args)
	if err != nil {
		return policyreview.Explanation{}, err
	}
	ex, err := s.app.PolicyReview.ExplainUnder(ctx, chain, s.workspace, tool.ID(id), plain, nil)
	for i := range ex.Rules {
		ex.Rules[i].Where = "" // a grant's policy may have been read from any file of this machine
	}
	return ex, err
}

// chain is a policy that came with a request, or what bounds the caller.
func (s *served) chain(ctx context.Context, who *httpapi.Caller, text string) (policy.Chain, error) {
	if text != "" {
		p, err := policy.Parse("policy", []byte(text))
		if err != nil {
			return nil, err
		}
		return grant.Links(s.app.Home.Env(s.workspace), p, who.Name)
	}
	g, _, _, err := s.app.Grants.Under(ctx, who.Presented(), s.app.Home.Env(s.workspace))
	return g.Chain(), err
}

// Authority implements httpapi.Policies.
func (s *served) Authority(ctx context.Context, who *httpapi.Caller, everybody bool, from, to string) (policyreview.Authority, error) {
	chain, err := s.chain(ctx, who, "")
	if err != nil {
		return policyreview.Authority{}, err
	}
	return s.app.PolicyReview.Authority(ctx, policyreview.Question{Everybody: everybody, Holder: who.Name, Chain: chain, From: from, To: to}, s.workspace)
}

// DryRun implements httpapi.Policies.
func (s *served) DryRun(ctx context.Context, text, run string) (httpapi.DryRun, error) {
	p, err := s.app.PolicyReview.Parsed(text, s.workspace)
	if err != nil {
		return httpapi.DryRun{}, err
	}
	changed, judged, err := s.app.Replays.Rejudge(ctx, run, p)
	return httpapi.DryRun{Run: run, Judged: judged, Changed: changed}, err
}
