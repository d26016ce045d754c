package grants

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/authority/grant/token"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/budget"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/call/standing"
	"github.com/remitrun/remit/internal/record/eventlog"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/home"
)

// Presented is a grant that a caller uses: its token and, where the token is bound to a
// key, that key's file.
type Presented struct {
	Token   string
	KeyFile string
	Proven  bool // the holder's proof was verified when the grant was presented to a service
}

// Authority decides about the grants that a ledger keeps: it is a runner.Authority and a
// runner.GrantStopper.
type Authority struct {
	*standing.Authority
	budgets *budget.Manager
}

// Close returns the leased parts of budgets, and stops looking for changes of grants.
func (a *Authority) Close() error { return errors.Join(a.budgets.Close(), a.Authority.Close()) }

// Reserve implements runner.Authority.
func (a *Authority) Reserve(ctx context.Context, run *runner.Run, id tool.ID, want grant.Amounts) (runner.Reservation, error) {
	return a.budgets.Reserve(ctx, run, id, want)
}

// Done implements runner.Authority.
func (a *Authority) Done(ctx context.Context, run *runner.Run) error { return a.budgets.Done(ctx, run) }

// Stop implements runner.GrantStopper.
func (a *Authority) Stop(ctx context.Context, node uuid.UUID, revoke bool, reason string) error {
	to := store.Paused
	if revoke {
		to = store.Revoked
	}
	return a.SetStanding(ctx, store.StandingChange{Grant: node, To: to, By: "policy", Reason: reason, At: time.Now()})
}

// Close releases what Open opened.
func (s *Grants) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.auth == nil {
		return nil
	}
	err := s.auth.Close()
	s.auth = nil
	return err
}

// Open gives what decides about kept grants, and the ledger. They are opened when they are
// first needed.
func (s *Grants) Open(ctx context.Context) (*Authority, store.Backend, error) {
	st, err := s.home.Ledger(ctx)
	if err != nil {
		return nil, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.auth == nil {
		s.auth = &Authority{Authority: standing.New(standing.Options{Grants: st, Budgets: st, Now: store.LaterOf(st)}), budgets: budget.New(st)}
	}
	return s.auth, st, nil
}

// Ephemera opens the store of short-lived records.
func (s *Grants) Ephemera(ctx context.Context) (store.Ephemera, error) {
	_, st, err := s.Open(ctx)
	return st, err
}

// TakeRequests takes requests of a bucket that all processes of the ledger share.
func (s *Grants) TakeRequests(ctx context.Context, key [32]byte, b store.Bucket, want int) (got int, wait time.Duration, err error) {
	_, st, err := s.Open(ctx)
	if err != nil {
		return 0, 0, err
	}
	return st.TakeRequests(ctx, key, b, want)
}

// SharedEphemera is Ephemera if several nodes use the ledger; else it returns nil.
func (s *Grants) SharedEphemera(ctx context.Context) (store.Ephemera, error) {
	_, st, err := s.Open(ctx)
	if _, nodes := st.(store.Turns); !nodes {
		return nil, err
	}
	return st, err
}

// Authentic reads a token that this ledger issued. It does not check the holder or
// the time.
func (s *Grants) Authentic(text string) (token.Claims, error) {
	v, err := s.verifier()
	if err != nil {
		return token.Claims{}, err
	}
	return v.Authentic(text, time.Now())
}

// present verifies a token for use in a workspace. A fault in it is recorded as a violation.
func (s *Grants) present(ctx context.Context, st store.Backend, p Presented, workspace string) (token.Claims, error) {
	c, err := s.Verify(ctx, st, p, workspace)
	if err != nil {
		return c, errors.Join(err, s.Refused(ctx, st, err))
	}
	return c, nil
}

// Verify verifies a token for use in a workspace, and records nothing.
func (s *Grants) Verify(ctx context.Context, st store.Backend, p Presented, workspace string) (token.Claims, error) {
	v, err := s.verifier()
	if err != nil {
		return token.Claims{}, err
	}
	use := token.Use{At: store.LaterOf(st)(), Workspace: workspace, Audience: v.audience, Held: token.Held{Proven: p.Proven}}
	if p.KeyFile != "" {
		key, err := readPrivateKey(p.KeyFile)
		if err != nil {
			return token.Claims{}, err
		}
		proof, err := token.Prove(p.Token, key, token.Proving{At: use.At, Audience: v.audience}, rand.Reader)
		if err != nil {
			return token.Claims{}, err
		}
		use.Held = token.Held{Proof: proof, Seen: func(id [32]byte, _, until time.Time) (bool, error) { return st.UseProof(ctx, id, until) }}
	}
	return v.Cache.Verify(p.Token, use)
}

// Refused records that a grant was refused.
func (s *Grants) Refused(ctx context.Context, st store.Backend, why error) error {
	code, kind := fault.CodeOf(why), ledger.ViolatedGrant
	switch {
	case code == fault.NotDelegable:
		kind = ledger.ViolatedDepth
	case code == fault.BudgetSpent:
		kind = ledger.ViolatedBudget
	case !code.OfGrant():
		return nil
	}
	_, err := st.Append(context.WithoutCancel(ctx), ledger.Entry{
		Event:   ledger.Event{Kind: ledger.Violation, At: time.Now().UnixMicro(), Code: code, Principal: "user:" + s.home.User, Violated: kind},
		Payload: ledger.Payload{ledger.PartReason: []byte(fault.Message(why))},
	})
	log, lerr := s.home.Log()
	if lerr == nil {
		log.Violation(eventlog.Entry{Action: "grant", Runner: "builtin", User: "user:" + s.home.User, Code: code.Error(), Error: fault.Message(why)})
	}
	return errors.Join(err, lerr)
}

// Under gives the grant of a run under a token, with its policies bound to env: the token's
// authority, bounded further by the person's own outer bound and by all local narrowing.
func (s *Grants) Under(ctx context.Context, p Presented, env policy.Env, narrower ...*policy.Policy) (grant.Grant, []ledger.PolicySource, *Authority, error) {
	none := func(err error) (grant.Grant, []ledger.PolicySource, *Authority, error) {
		return grant.Grant{}, nil, nil, err
	}
	auth, st, err := s.Open(ctx)
	if err != nil {
		return none(err)
	}
	c, err := s.present(ctx, st, p, env.Workspace)
	if err != nil {
		return none(err)
	}
	g, err := auth.Restore(ctx, c, env)
	if err != nil {
		return none(errors.Join(err, s.Refused(ctx, st, err)))
	}
	sources, err := sourcesOf(c)
	if err != nil {
		return none(err)
	}
	today, err := s.BoundToday(ctx, g)
	if err != nil {
		return none(err)
	}
	outer, err := s.policies.Outer()
	if err != nil {
		return none(err)
	}
	if narrower = append(narrower, today...); outer != nil {
		narrower = append(narrower, outer)
	}
	id, err := home.NewID()
	if err != nil {
		return none(err)
	}
	terms := grant.Terms{ID: id, Holder: g.Holder()}
	for _, n := range narrower {
		links, err := grant.Links(env, n, g.Holder())
		if err != nil {
			return none(err)
		}
		terms.Policies = append(terms.Policies, links...)
		sources = append(sources, PolicySource(n, g.Holder()))
	}
	return g.Derive(terms), sources, auth, nil
}

// sourcesOf is the recorded form of a token's policies.
func sourcesOf(c token.Claims) ([]ledger.PolicySource, error) {
	all, err := c.Policies()
	if err != nil {
		return nil, err
	}
	var out []ledger.PolicySource
	for i, ps := range all {
		for _, p := range ps {
			out = append(out, PolicySource(p, c.Holders(i)...))
		}
	}
	return out, nil
}

// PolicySource is how a run records a policy that bounds it, for these holders.
func PolicySource(p *policy.Policy, holders ...string) ledger.PolicySource {
	return ledger.PolicySource{Name: p.Name(), File: p.File(), Source: string(p.Source()), Holders: holders}
}

// JoinErrors keeps the first error's code and message in front.
func JoinErrors(first, second error) error {
	if second == nil {
		return first
	}
	return fault.Wrap(fault.CodeOf(first), second, "%s", fault.Message(first))
}
