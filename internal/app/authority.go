package app

import (
	"context"
	"crypto/rand"
	"errors"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/authority/grant/token"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/call/budget"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/call/standing"
	"github.com/remitrun/remit/internal/record/eventlog"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/policies"
)

// Presented is a grant that somebody uses: its token, and where the token is
// bound to a key, the file of that key.
type Presented struct {
	Token   string
	KeyFile string
}

// authorities is a runner.Authority and runner.Standings over the ledger.
type authorities struct {
	*standing.Authority
	bank *budget.Bank
}

func (a *authorities) close() error { return errors.Join(a.bank.Close(), a.Close()) }

// Reserve implements runner.Authority.
func (a *authorities) Reserve(ctx context.Context, run *runner.Run, id tool.ID, want grant.Amounts) (runner.Reservation, error) {
	return a.bank.Reserve(ctx, run, id, want)
}

// Done implements runner.Authority.
func (a *authorities) Done(ctx context.Context, run *runner.Run) error { return a.bank.Done(ctx, run) }

// Stop implements runner.Standings.
func (a *authorities) Stop(ctx context.Context, node uuid.UUID, revoke bool, reason string) error {
	to := store.Paused
	if revoke {
		to = store.Revoked
	}
	return a.SetStanding(ctx, store.StandingChange{Grant: node, To: to, By: "policy", Reason: reason, At: time.Now()})
}

// granted is the parts that grants need, built when they are first needed.
func (a *App) granted(ctx context.Context) (*authorities, store.Backend, error) {
	if _, err := a.Store(ctx); err != nil {
		return nil, nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.store == nil {
		return nil, nil, fault.New(fault.StoreFailed, "the ledger is closed")
	}
	if a.auth == nil {
		a.auth = &authorities{Authority: standing.New(standing.Options{Grants: a.store, Budgets: a.store}), bank: budget.New(a.store)}
	}
	return a.auth, a.store, nil
}

// authentic reads a token that this ledger issued, whoever has it and whenever
// it may be used.
func (a *App) authentic(text string) (token.Claims, error) {
	keys, err := a.grantKeys()
	if err != nil {
		return token.Claims{}, err
	}
	trust, err := keys.trust()
	if err != nil {
		return token.Claims{}, err
	}
	return token.Authentic(text, trust, time.Now())
}

// present verifies a token for use in a workspace. What is wrong with it is
// recorded as a violation.
func (a *App) present(ctx context.Context, p Presented, workspace string) (token.Claims, error) {
	_, st, err := a.granted(ctx)
	if err != nil {
		return token.Claims{}, err
	}
	c, err := a.verify(ctx, st, p, workspace)
	if err != nil {
		return c, errors.Join(err, a.forged(ctx, st, err))
	}
	return c, nil
}

func (a *App) verify(ctx context.Context, st store.Backend, p Presented, workspace string) (token.Claims, error) {
	keys, err := a.grantKeys()
	if err != nil {
		return token.Claims{}, err
	}
	trust, err := keys.trust()
	if err != nil {
		return token.Claims{}, err
	}
	audience := trust.Ledger.String()
	use := token.Use{At: time.Now(), Workspace: workspace, Audience: audience}
	if p.KeyFile != "" {
		key, err := ReadPrivateKey(p.KeyFile)
		if err != nil {
			return token.Claims{}, err
		}
		proof, err := token.Prove(p.Token, key, token.Proving{At: use.At, Audience: audience}, rand.Reader)
		if err != nil {
			return token.Claims{}, err
		}
		use.Held = token.Held{Proof: proof, Seen: func(id [32]byte, _, until time.Time) (bool, error) { return st.UseProof(ctx, id, until) }}
	}
	return token.Verify(p.Token, trust, use)
}

// forged records that a grant was refused.
func (a *App) forged(ctx context.Context, st store.Backend, why error) error {
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
		Event:   ledger.Event{Kind: ledger.Violation, At: time.Now().UnixMicro(), Code: code, Principal: "user:" + a.Home.User, Violated: kind},
		Payload: ledger.Payload{ledger.PartReason: []byte(fault.Message(why))},
	})
	log, lerr := a.logs()
	if lerr == nil {
		log.Violation(eventlog.Entry{Action: "grant", Runner: "builtin", User: "user:" + a.Home.User, Code: code.Error(), Error: fault.Message(why)})
	}
	return errors.Join(err, lerr)
}

// under gives the grant of a run under a token: what the token says, bounded
// further by the person's own outer bound and by whatever narrows it here.
func (a *App) under(ctx context.Context, p Presented, workspace string, narrower ...*policy.Policy) (grant.Grant, []ledger.PolicySource, *authorities, error) {
	none := func(err error) (grant.Grant, []ledger.PolicySource, *authorities, error) {
		return grant.Grant{}, nil, nil, err
	}
	c, err := a.present(ctx, p, workspace)
	if err != nil {
		return none(err)
	}
	auth, st, err := a.granted(ctx)
	if err != nil {
		return none(err)
	}
	env := a.Home.Env(workspace)
	g, err := auth.Restore(ctx, c, env)
	if err != nil {
		return none(errors.Join(err, a.forged(ctx, st, err)))
	}
	sources, err := sourcesOf(c)
	if err != nil {
		return none(err)
	}
	today, err := a.todaysPolicy(ctx, g)
	if err != nil {
		return none(err)
	}
	outer, err := a.Policies.Outer()
	if err != nil {
		return none(err)
	}
	for _, p := range []*policy.Policy{today, outer} {
		if p != nil {
			narrower = append(narrower, p)
		}
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
		sources = append(sources, source(n, g.Holder()))
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
			out = append(out, source(p, c.Holders(i)...))
		}
	}
	return out, nil
}

func source(p *policy.Policy, holders ...string) ledger.PolicySource {
	return ledger.PolicySource{Name: p.Name(), File: p.File(), Source: string(p.Source()), Holders: holders}
}

// ReadToken gives the token that text is or, as @FILE, that a file holds.
func ReadToken(text string) (string, error) {
	file, ok := strings.CutPrefix(text, "@")
	if !ok {
		return strings.TrimSpace(text), nil
	}
	b, err := wholefile.Read(filepath.Clean(file), token.MaxSize+1024)
	if err != nil {
		return "", fault.Wrap(fault.GrantInvalid, err, "the file %q with the token cannot be read: %v", file, wholefile.Cause(err)).
			WithHint("name a file that remit grant issue wrote, as @FILE")
	}
	return strings.TrimSpace(string(b)), nil
}

// ReadNames gives names, with those that a file lists, a line each, in place of
// @FILE. Nil stays nil.
func ReadNames(names []string) ([]string, error) {
	if names == nil {
		return nil, nil
	}
	out := []string{}
	for _, n := range names {
		file, ok := strings.CutPrefix(n, "@")
		if !ok {
			out = append(out, n)
			continue
		}
		b, err := wholefile.Read(filepath.Clean(file), policies.MaxPolicySize)
		if err != nil {
			return nil, fault.Wrap(fault.Usage, err, "the list %q cannot be read: %v", file, wholefile.Cause(err))
		}
		for line := range strings.Lines(string(b)) {
			if line = strings.TrimRight(line, "\r\n"); line != "" {
				out = append(out, line)
			}
		}
	}
	return out, nil
}
