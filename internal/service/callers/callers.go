// Package callers verifies the tokens that clients present to a service, and finds the grants
// under which something was made. Start at [Open] and [Gate.Enter].
package callers

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/authority/dpop"
	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/authority/grant/token"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/memo"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/grants"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/people"
	"github.com/remitrun/remit/internal/service/policies"
)

const (
	// trustFor is how long a verified token is not verified again. Whether it was revoked
	// is checked each time.
	trustFor    = 30 * time.Second
	maxEntered  = 32 << 20    // bytes of verified grants
	maxLineages = 8 << 20     // bytes of lineages
	tellEvery   = time.Second // refused tokens are recorded at most so often
)

// CheckEvery is the interval between the checks of an open stream's caller.
const CheckEvery = time.Second

// Caller is an authenticated client of a service.
type Caller struct {
	Name   string    // the grant's holder, as "user:ann"
	Person string    // the holder of the root grant
	Token  string    // of the grant
	Proven bool      // the grant is bound to a key, and the request proved that the caller has it
	Until  time.Time // when the identity provider's token that was presented stops to count; zero: a grant was presented
	// Lent is whether the token that was presented is bound to a key and the grant is not: the
	// grant must not be given out, as no proof would be needed to use it.
	Lent   bool
	Leaf   string // the grant's own ID
	Root   string // ID of the root grant that it derives from; limits apply to both
	Device string // the device of the person that the grant was made for; "": none
	Tools  bool   // its policies allow at least one tool
	Role   string // that the person has now; "": no identity provider knows the person
	Self   string // the person whose own grant it is, as [grants.OwnerOf] gives it; "": a delegate's
	// Approves reports whether the role may answer questions of the people of a role; nil: the
	// person has no role, or the grant is a delegate's, who answers nothing.
	Approves func(role string) bool
	// May gives nil if the grant's policies allow an action of the api section, as
	// "agents.write"; fault.Denied, NeedsApproval.
	May func(action string) error
}

// Presented is the grant under which the caller's requests are carried out.
func (c *Caller) Presented() grants.Presented {
	return grants.Presented{Token: c.Token, Proven: c.Proven}
}

// Owns reports whether something is the caller's: it was made under the caller's grant, or below
// it, or by the person whose own grant it is. Lineage is of the thing, as [Gate.OfRun] gives it.
func (c *Caller) Owns(lineage []string) bool {
	return slices.Contains(lineage, c.Leaf) || c.Self != "" && len(lineage) > 0 && lineage[0] == c.Self
}

// Gate authenticates callers by their tokens, and finds the person and the grants under which a
// session, run or grant was made: its lineage.
type Gate struct {
	Now    func() time.Time // the clock, for how long a verified token is trusted
	People *people.People   // verifies tokens of identity providers; nil: all of them are refused
	Proofs Rates            // bounds the proofs of each root grant; nil: grants that are bound to a key are refused

	home      *home.Home
	policies  *policies.Policies
	grants    *grants.Grants
	workspace string
	auth      *grants.Authority
	store     store.Backend

	entered  *memo.Memo[*entered]
	lineages *memo.Memo[[]string]

	mu   sync.Mutex
	told time.Time
}

// entered is a verified token.
type entered struct {
	caller Caller
	grant  grant.Grant
	until  time.Time
	key    string // thumbprint of the key that requests must prove; "": none
}

// Open makes a gate for a workspace. It opens the ledger once: doing so for each request
// would cost more than the request.
func Open(ctx context.Context, h *home.Home, p *policies.Policies, gs *grants.Grants, workspace string) (*Gate, error) {
	auth, st, err := gs.Open(ctx)
	return &Gate{Now: time.Now, home: h, policies: p, grants: gs, workspace: workspace, auth: auth, store: st, entered: memo.New[*entered](maxEntered), lineages: memo.New[[]string](maxLineages)}, err
}

// Enter verifies the credential of a request, and that its grant can be used now. It is fast for a
// token that was verified before. A proof counts once.
func (g *Gate) Enter(ctx context.Context, c Credential) (*Caller, error) {
	var e *entered
	err := store.Patiently(ctx, store.Patience, store.PatientEvery, func() (err error) {
		e, err = g.enter(ctx, c.Token)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := g.prove(ctx, e, c); err != nil {
		return nil, g.recordRefusal(ctx, c.Token, err)
	}
	return &e.caller, nil
}

// Check returns the present state of an admitted caller, or an error if the caller would be
// refused now: the credential has expired, or its grant cannot be used.
func (g *Gate) Check(ctx context.Context, c *Caller) (*Caller, error) {
	if !c.Until.IsZero() && !g.Now().Before(c.Until) {
		return nil, fault.New(fault.GrantExpired, "the token expired at %s", c.Until.UTC().Format(time.RFC3339)).WithHint("get a new one from its issuer")
	}
	e, err := g.enter(ctx, c.Token)
	if err != nil {
		return nil, err
	}
	now := e.caller
	now.Lent, now.Until = c.Lent, c.Until // of the token that was presented, which the grant stands for
	return &now, nil
}

// Usable gives an error if the grant of a token cannot be used now.
func (g *Gate) Usable(ctx context.Context, token string) error {
	_, err := g.enter(ctx, token)
	return err
}

// Checker checks callers as [Gate.Check] does.
type Checker interface {
	Check(ctx context.Context, c *Caller) (*Caller, error)
}

// Watch checks the caller of an open stream at an interval. The context ends with the first
// refusal, which is its cause, or with stop. A ledger that cannot be read refuses nobody for a
// while: a revocation is seen once it can be.
func Watch(ctx context.Context, by Checker, c *Caller, every time.Duration) (watched context.Context, stop func()) {
	watched, refuse := context.WithCancelCause(ctx)
	go func() {
		t := time.NewTicker(every)
		defer t.Stop()
		for seen := time.Now(); ; {
			select {
			case <-watched.Done():
				return
			case <-t.C:
			}
			switch _, err := by.Check(watched, c); {
			case err == nil:
				seen = time.Now()
			case !errors.Is(err, fault.StoreFailed) || time.Since(seen) > store.LongPatience:
				refuse(err)
				return
			}
		}
	}()
	return watched, func() { refuse(nil) }
}

func (g *Gate) enter(ctx context.Context, text string) (*entered, error) {
	if e, ok := g.entered.Get(text); ok && g.Now().Before(e.until) {
		return e, g.auth.Check(ctx, e.grant)
	}
	e, err := g.verify(ctx, text)
	if err != nil {
		return nil, g.recordRefusal(ctx, text, err)
	}
	g.entered.Put(text, e, e.grant.Chain().Size())
	return e, nil
}

// verify reads a token for the first time, or again.
func (g *Gate) verify(ctx context.Context, text string) (*entered, error) {
	if len(text) > token.MaxSize {
		return nil, fault.New(fault.GrantTooLarge, "the token is larger than any")
	}
	until, ends, key := g.Now().Add(trustFor), time.Time{}, ""
	if g.People != nil && strings.Count(text, ".") == 2 { // a JWT: grants have no dots
		given, err := g.People.Exchange(ctx, text)
		if err != nil {
			return nil, err
		}
		if text, key, ends = given.Token, given.Key, given.Until; ends.Before(until) {
			until = ends
		}
	}
	c, err := g.grants.Verify(ctx, g.store, grants.Presented{Token: text, Proven: true}, g.workspace) // prove verifies the proof
	if err != nil {
		return nil, err
	}
	proven := c.HolderKey() != nil
	if proven {
		if key, err = dpop.Thumbprint(c.HolderKey()); err != nil {
			return nil, err
		}
	}
	env := g.home.Env(g.workspace)
	held, err := g.auth.Restore(ctx, c, env)
	if err != nil {
		return nil, err
	}
	root := held.Nodes()[0].ID.String()
	nodes, err := g.OfGrant(ctx, root)
	if fault.CodeOf(err) == fault.GrantUnknown {
		nodes, err = []string{root}, nil
	}
	if err != nil {
		return nil, err
	}
	for _, n := range held.Nodes()[1:] {
		nodes = append(slices.Clip(nodes), n.ID.String())
		g.keep("grant "+n.ID.String(), nodes)
	}
	kept, err := g.store.Grant(ctx, held.ID().String())
	if err != nil && fault.CodeOf(err) != fault.GrantUnknown { // a grant that was appended offline is no device
		return nil, err
	}
	may, err := g.grants.May(ctx, held, env)
	if err != nil {
		return nil, err
	}
	e := &entered{grant: held, until: until, key: key, caller: Caller{
		Proven: proven, Until: ends, Lent: key != "" && !proven, Name: held.Holder(), Person: held.Nodes()[0].Holder, Token: text, Leaf: held.ID().String(), Root: root, Device: kept.Device, Tools: held.Chain().OpensTools(),
		May: may,
	}}
	return e, g.describe(ctx, &e.caller)
}

// describe adds the role of a person whom an identity provider knows.
func (g *Gate) describe(ctx context.Context, c *Caller) error {
	if g.People == nil || !grants.IsPerson(c.Person) {
		return nil
	}
	root, err := g.store.Grant(ctx, c.Root)
	if err != nil || root.Person == nil {
		return err
	}
	if c.Self, err = grants.OwnerOf(ctx, g.store, c.Leaf); err != nil {
		return err
	}
	role, err := g.People.Role(root.Person)
	c.Role = role.Name
	if c.Self != "" {
		c.Approves = role.Answers
	}
	return err
}

// recordRefusal records that a token of this ledger was refused, and not more often than makes sense. A
// token that anybody could have made is not recorded at all: a caller without a grant cannot write
// to the ledger. The log tells of both.
func (g *Gate) recordRefusal(ctx context.Context, text string, why error) error {
	if errors.Is(why, fault.StoreFailed) {
		return why // the token was not judged
	}
	g.mu.Lock()
	now := g.Now()
	tell := now.Sub(g.told) >= tellEvery
	if tell {
		g.told = now
	}
	g.mu.Unlock()
	if !tell || len(text) > token.MaxSize {
		return why
	}
	if _, err := g.grants.Authentic(text); err != nil {
		return why
	}
	if err := g.grants.Refused(ctx, g.store, why); err != nil {
		return grants.JoinErrors(why, err)
	}
	return why
}

// OfSession gives the lineage of a session: the IDs of the grants under which it was made, the
// root's first. Where an identity provider knows the root's holder, the person's ID comes before.
func (g *Gate) OfSession(ctx context.Context, s agent.Session) ([]string, error) {
	var nodes []string
	var err error
	if s.Grant != "" {
		if nodes, err = g.OfGrant(ctx, s.Grant); err != nil {
			return nil, err
		}
	}
	if s.Run == "" {
		return nodes, nil
	}
	of, err := g.OfRun(ctx, s.Run)
	return append(slices.Clone(nodes), of...), err
}

// OfGrant gives the lineage of a grant, with its own ID. It never changes.
func (g *Gate) OfGrant(ctx context.Context, id string) ([]string, error) {
	if known, ok := g.knownNodes("grant " + id); ok {
		return known, nil
	}
	var nodes []string
	for at := id; at != ""; {
		if above, ok := g.knownNodes("grant " + at); ok {
			nodes = append(slices.Clone(above), nodes...)
			break
		}
		r, err := g.store.Grant(ctx, at)
		if at != id && fault.CodeOf(err) == fault.GrantUnknown {
			return append([]string{at}, nodes...), nil // appended offline, and not presented here so far
		}
		if err != nil {
			return nil, err
		}
		nodes = append([]string{r.ID.String()}, nodes...)
		if at = ""; r.Parent != uuid.Nil {
			at = r.Parent.String()
		} else if r.Person != nil {
			nodes = append([]string{r.Person.ID()}, nodes...)
		}
	}
	g.keep("grant "+id, nodes)
	return nodes, nil
}

// OfRun gives the lineage of a run.
func (g *Gate) OfRun(ctx context.Context, id string) ([]string, error) {
	if known, ok := g.knownNodes("run " + id); ok {
		return known, nil
	}
	r, err := g.store.Run(ctx, id)
	if err != nil {
		return nil, err
	}
	nodes := []string{}
	if p, ok := r.Parts[ledger.PartGrant]; ok {
		b, err := g.store.Load(ctx, p)
		if err != nil {
			return nil, err
		}
		list, err := grant.DecodeDescent(b)
		if err != nil {
			return nil, err
		}
		for _, n := range list {
			nodes = append(nodes, n.ID.String())
		}
		if nodes, err = g.withPerson(ctx, nodes); err != nil {
			return nil, err
		}
	}
	g.keep("run "+id, nodes)
	return nodes, nil
}

// withPerson puts the holder of the first of the grants before them, if that is a person.
func (g *Gate) withPerson(ctx context.Context, nodes []string) ([]string, error) {
	if len(nodes) == 0 {
		return nodes, nil
	}
	root, err := g.OfGrant(ctx, nodes[0])
	if fault.CodeOf(err) == fault.GrantUnknown || err == nil && len(root) == 1 { // the policies in force, or no person is known
		return nodes, nil
	}
	if err != nil {
		return nil, err
	}
	return append([]string{root[0]}, nodes...), nil
}

func (g *Gate) knownNodes(key string) ([]string, bool) {
	return g.lineages.Get(key)
}

func (g *Gate) keep(key string, nodes []string) {
	cost := 0
	for _, n := range nodes {
		cost += 2 * len(n) // with what refers to it
	}
	g.lineages.Put(key, nodes, cost)
}
