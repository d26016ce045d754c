package standing_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/authority/grant/token"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/call/standing"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/sqlite"
)

// issuer is a ledger with the key that its tokens are signed with.
type issuer struct {
	t     *testing.T
	key   ed25519.PrivateKey
	trust token.Trust
	store *sqlite.Store
	*standing.Authority
}

var env = policy.Env{Workspace: "/w", Home: "/home/ann"}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s := openStore(t, t.TempDir())
	return &issuer{t: t, key: key, trust: token.Trust{Ledger: token.KeyID(pub), Keys: []token.Key{{Public: pub}}}, store: s,
		Authority: newAuthority(t, standing.Options{Grants: s, Budgets: s})}
}

func policies(texts ...string) []token.Policy {
	var out []token.Policy
	for _, t := range texts {
		out = append(out, token.Policy{File: "p.yaml", Source: "version: 1\n" + t})
	}
	return out
}

// issue makes a token and records it, if it is to be.
func (i *issuer) issue(record bool, b token.Block) string {
	i.t.Helper()
	if b.Holder == "" {
		b.Holder = "user:ann"
	}
	b.Issued, b.Expires = time.Now(), time.Now().Add(time.Hour)
	text, err := token.Issue(token.Root{Ledger: i.trust.Ledger, ID: uuid.Must(uuid.NewV7()), Block: b}, i.key, rand.Reader)
	if err != nil {
		i.t.Fatal(err)
	}
	if record {
		if err := i.Issue(context.Background(), i.claims(text), "a note"); err != nil {
			i.t.Fatal(err)
		}
	}
	return text
}

func (i *issuer) claims(text string) token.Claims {
	i.t.Helper()
	c, err := token.Verify(text, i.trust, token.Use{At: time.Now()})
	if err != nil {
		i.t.Fatal(err)
	}
	return c
}

func (i *issuer) restore(text string) (grant.Grant, error) {
	i.t.Helper()
	return i.Restore(context.Background(), i.claims(text), env)
}

func narrowed(t *testing.T, text string, b token.Block) string {
	t.Helper()
	out, err := token.Append(text, b, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

const handing = `
files: {read: {allow: ["**"]}}
network: {allow: [example.com]}
delegate: {actions: [files.read], to: ["agent:*"], depth: 2}
`

func TestRestoreMakesTheGrantThatTheTokenSays(t *testing.T) {
	i := newIssuer(t)
	five := 5
	text := i.issue(true, token.Block{Policies: policies(handing + "limits: {calls: 7}\nroles: {\"agent:docs\": {rest: inherit, files: {read: {deny: [secret]}}}}"),
		Budgets: grant.Budgets{Calls: 9, Children: &five}})
	text = narrowed(t, text, token.Block{Policies: policies(`files: {read: {allow: ["docs/**"]}}`), Budgets: grant.Budgets{Tokens: 3}})
	text = narrowed(t, text, token.Block{Expires: time.Now().Add(time.Minute)})
	g, err := i.restore(text)
	if err != nil {
		t.Fatal(err)
	}
	c, n := i.claims(text), g.Nodes()
	if len(n) != 3 || g.ID() != c.Leaf() || n[0].ID != c.ID() || g.Holder() != "user:ann" || len(g.Chain()) != 2 || n[0].Links != 1 || n[1].Links != 2 || n[2].Links != 2 {
		t.Fatalf("the grant has %d policies and the nodes %+v", len(g.Chain()), n)
	}
	if n[0].Budgets.Calls != 7 || *n[0].Budgets.Children != 5 || n[1].Budgets.Tokens != 3 || n[1].Budgets.Calls != 0 || !g.Expires().Equal(c.Expires()) {
		t.Errorf("the nodes are %+v", n)
	}
	for _, node := range n {
		if !node.Kept {
			t.Errorf("node %s is not kept", node.ID)
		}
	}
	rec, err := i.store.Grant(context.Background(), c.ID().String())
	if err != nil || rec.Note != "a note" || rec.Holder != "user:ann" || rec.Budgets.Calls != 9 || len(rec.Policies) != 1 || !strings.Contains(rec.Policies[0].Source, "example.com") {
		t.Errorf("the ledger has recorded %+v, %v", rec, err)
	}
	if all, err := i.store.Grants(context.Background(), store.GrantFilter{}); err != nil || len(all) != 1 {
		t.Errorf("%d grants are recorded, %v: narrowing one's own hands nothing on", len(all), err)
	}
}

func TestRestoreRefuses(t *testing.T) {
	i := newIssuer(t)
	one := 1
	root := func(policy string, b grant.Budgets) string {
		return i.issue(true, token.Block{Policies: policies(policy), Budgets: b})
	}
	to := func(holder string, texts ...string) token.Block {
		return token.Block{Holder: holder, Policies: policies(texts...)}
	}
	const less = "files: {read: {allow: [a]}}"
	tests := map[string]struct {
		root   string
		blocks []token.Block
		code   fault.Code
	}{
		"narrowed":                    {root(handing, grant.Budgets{}), []token.Block{{Policies: policies(less)}}, 0},
		"handed on":                   {root(handing, grant.Budgets{}), []token.Block{to("agent:a", less)}, 0},
		"handed on by the child":      {root(handing, grant.Budgets{}), []token.Block{to("agent:a", less+"\ndelegate: {actions: [files.read], to: ['agent:*'], depth: 2}"), to("agent:b")}, 0},
		"a child that may not":        {root(handing, grant.Budgets{}), []token.Block{to("agent:a", less), to("agent:b")}, fault.NotDelegable},
		"too deep for the policy":     {root(handing, grant.Budgets{}), []token.Block{to("agent:a", "rest: inherit\n"+less+"\nnetwork: {}"), to("agent:b"), to("agent:c")}, fault.NotDelegable},
		"to somebody else":            {root(handing, grant.Budgets{}), []token.Block{to("user:bob", less)}, fault.NotDelegable},
		"more than may be handed on":  {root(handing, grant.Budgets{}), []token.Block{to("agent:a")}, fault.NotDelegable},
		"a policy that says nothing":  {root(less, grant.Budgets{}), []token.Block{to("agent:a")}, fault.NotDelegable},
		"narrowing is no depth":       {root(handing, grant.Budgets{Depth: &one}), []token.Block{{Policies: policies(handing)}, to("agent:a", less), {Policies: policies(less)}}, 0},
		"depth of a policy":           {root(handing+"agents: {depth: 1}", grant.Budgets{}), []token.Block{to("agent:a", "rest: inherit\n"+less+"\nnetwork: {}"), to("agent:b")}, fault.NotDelegable},
		"no children":                 {root(handing+"agents: {spawn: 0}", grant.Budgets{}), []token.Block{to("agent:a", less)}, fault.BudgetSpent},
		"never issued":                {i.issue(false, token.Block{Policies: policies(handing)}), nil, fault.GrantUnknown},
		"never issued, but handed on": {i.issue(false, token.Block{Policies: policies(handing)}), []token.Block{to("agent:a", less)}, fault.GrantUnknown},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			text := tt.root
			for _, b := range tt.blocks {
				text = narrowed(t, text, b)
			}
			g, err := i.restore(text)
			if tt.code == 0 && err != nil || tt.code != 0 && !errors.Is(err, tt.code) {
				t.Errorf("Restore = %v, want %v", err, tt.code)
			}
			if err != nil && len(g.Nodes()) > 0 {
				t.Error("it gave a grant besides")
			}
		})
	}
}

func TestAnotherKeyIsAnotherHolder(t *testing.T) {
	i := newIssuer(t)
	mine, my, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	theirs, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	restore := func(text string) error {
		c, err := token.Authentic(text, i.trust, time.Now()) // the proof is the verifier's matter
		if err == nil {
			_, err = i.Restore(context.Background(), c, env)
		}
		return err
	}
	text := narrowed(t, i.issue(true, token.Block{Policies: policies("files: {read: {allow: [a]}}")}), token.Block{HolderKey: mine})
	if err := restore(text); err != nil {
		t.Fatal(err)
	}
	text, err = token.HandOn(text, token.Block{HolderKey: theirs}, my, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if err := restore(text); !errors.Is(err, fault.NotDelegable) {
		t.Errorf("handed on under the same name, by a policy without delegate: %v", err)
	}
}

func TestARoleOfWhoeverItIsHandedToDoesNotBindWhoHandsItOn(t *testing.T) {
	i := newIssuer(t)
	text := i.issue(true, token.Block{Policies: policies(handing + `roles: {"agent:docs": {files: {read: {allow: ["docs/**"]}}}}`)})
	g, err := i.restore(narrowed(t, text, token.Block{Holder: "agent:docs"}))
	if err != nil {
		t.Fatalf("the role has no delegate, and needs none: %v", err)
	}
	if len(g.Chain()) != 2 || strings.Join(g.Chain().Opens(), " ") != "files.read" {
		t.Errorf("the chain has %d policies and opens %q: the role bounds who has it now", len(g.Chain()), g.Chain().Opens())
	}
}

func TestARestoredGrantIsDecidedAnew(t *testing.T) {
	i := newIssuer(t)
	text := i.issue(true, token.Block{Policies: policies(handing)})
	child := narrowed(t, text, token.Block{Holder: "agent:a", Policies: policies("files: {read: {allow: [a]}}")})
	g, err := i.restore(child)
	if err != nil {
		t.Fatal(err)
	}
	set(t, i.Authority, g.ID(), store.Paused)
	if _, err := i.restore(child); !errors.Is(err, fault.GrantPaused) {
		t.Errorf("a paused one: %v", err)
	}
	set(t, i.Authority, g.ID(), store.Active)
	if _, err := i.restore(child); err != nil {
		t.Errorf("a resumed one: %v", err)
	}
	set(t, i.Authority, g.Nodes()[0].ID, store.Revoked)
	for _, text := range []string{text, child} {
		if _, err := i.restore(text); !errors.Is(err, fault.GrantRevoked) {
			t.Errorf("a revoked one: %v", err)
		}
	}
	if err := i.Issue(context.Background(), i.claims(text), ""); !errors.Is(err, fault.Conflict) {
		t.Errorf("a revoked one is issued again: %v", err)
	}
}

func TestWhatIsHandedOnIsRecordedWithItsDescent(t *testing.T) {
	i := newIssuer(t)
	one := 1
	text := i.issue(true, token.Block{Policies: policies(handing), Budgets: grant.Budgets{Children: &one}})
	for _, b := range []token.Block{{Budgets: grant.Budgets{Calls: 5}}, {Holder: "agent:a", Policies: policies("files: {read: {allow: [a]}}")}, {Budgets: grant.Budgets{Calls: 2}}} {
		text = narrowed(t, text, b)
	}
	for range 2 {
		if _, err := i.Delegate(context.Background(), i.claims(text), env, "for the docs"); err != nil {
			t.Fatal(err)
		}
	}
	all, err := i.store.Grants(context.Background(), store.GrantFilter{})
	links := i.claims(text).Links()
	if err != nil || len(all) != 3 { // the last block hands nothing on
		t.Fatalf("%d grants are recorded, %v; want 3", len(all), err)
	}
	for n, g := range all {
		at := 2 - n // newest first
		if g.ID != links[at].Grant || at > 0 && g.Parent != links[at-1].Grant || (g.Holder == "agent:a") != (at == 2) || g.Expires.IsZero() {
			t.Errorf("block %d is recorded as %+v", at, g)
		}
	}
}

// Blocks that nobody has seen can be revoked, and nothing is recorded of what is
// refused.
func TestABlockIsRevokedBeforeItIsUsed(t *testing.T) {
	i := newIssuer(t)
	one := 1
	text := i.issue(true, token.Block{Policies: policies(handing), Budgets: grant.Budgets{Children: &one}})
	child := narrowed(t, text, token.Block{Holder: "agent:a", Policies: policies("files: {read: {allow: [a]}}")})
	set(t, i.Authority, i.claims(child).Leaf(), store.Revoked)
	if _, err := i.restore(child); !errors.Is(err, fault.GrantRevoked) {
		t.Fatalf("Restore = %v", err)
	}
	other := narrowed(t, text, token.Block{Holder: "agent:b", Policies: policies("files: {read: {allow: [a]}}")})
	if _, err := i.restore(other); err != nil {
		t.Errorf("the refused one was counted as the only child: %v", err)
	}
}

func TestChildrenAreCountedOnceAndForAllAbove(t *testing.T) {
	i := newIssuer(t)
	three := 3
	text := i.issue(true, token.Block{Policies: policies(handing), Budgets: grant.Budgets{Children: &three}})
	var wg sync.WaitGroup
	var good atomic.Int32
	children := make([]string, 8)
	for n := range children {
		children[n] = narrowed(t, text, token.Block{Holder: "agent:a", Policies: policies("files: {read: {allow: [a]}}\ndelegate: {actions: [files.read], to: ['agent:*'], depth: 2}")})
		for range 2 { // the same one, twice at once
			wg.Go(func() {
				if _, err := i.restore(children[n]); err == nil {
					good.Add(1)
				} else if !errors.Is(err, fault.BudgetSpent) {
					t.Errorf("Restore = %v", err)
				}
			})
		}
	}
	wg.Wait()
	var usable []string
	for _, c := range children {
		if _, err := i.restore(c); err == nil {
			usable = append(usable, c)
		}
	}
	if len(usable) < 2 || len(usable) > 3 { // two that raced for the last one may both have lost
		t.Fatalf("%d children may be used, of which there may be 3", len(usable))
	}
	for range 2 { // below a child there is no room left either
		_, err := i.restore(narrowed(t, usable[0], token.Block{Holder: "agent:b"}))
		if len(usable) == 3 && !errors.Is(err, fault.BudgetSpent) {
			t.Errorf("a grandchild: %v", err)
		}
	}
	m, err := i.store.Spent(context.Background(), i.claims(text).ID())
	if err != nil || len(m) != 1 || m[0].Leased != 0 || m[0].Spent > 3 {
		t.Errorf("the ledger counts %+v, %v", m, err)
	}
	if rep, err := i.store.Verify(context.Background(), store.VerifyOptions{}); err != nil || len(rep.Problems) > 0 {
		t.Errorf("Verify: %v, %+v", err, rep.Problems)
	}
}

// TestARestoredGrantHasItsTimeAndPlace: a token that was restored before is refused after its
// time, and its policies are bound to the environment of each use.
func TestARestoredGrantHasItsTimeAndPlace(t *testing.T) {
	i := newIssuer(t)
	now := time.Now()
	a := newAuthority(t, standing.Options{Grants: i.store, Budgets: i.store, Now: func() time.Time { return now }})
	c := i.claims(i.issue(true, token.Block{Policies: policies(handing)}))
	begins, ends := c.Links()[0].Issued, c.Expires()
	for step, want := range []struct {
		at   time.Time
		code fault.Code
	}{{begins, 0}, {begins, 0}, {ends, fault.GrantExpired}, {ends.Add(-1), 0}, {ends.Add(time.Hour), fault.GrantExpired}} {
		now = want.at
		if _, err := a.Restore(t.Context(), c, env); want.code == 0 && err != nil || want.code != 0 && !errors.Is(err, want.code) {
			t.Errorf("step %d: %v, want %v", step, err, want.code)
		}
	}
	now = begins
	for _, e := range []policy.Env{env, {Workspace: "/other", Home: env.Home}, {Workspace: env.Workspace, Home: "/root"}, {Workspace: env.Workspace, Home: env.Home, State: "/state"}, {Workspace: env.Workspace, Home: env.Home, Path: []string{"/bin"}}, env} {
		g, err := a.Restore(t.Context(), c, e)
		if err != nil {
			t.Fatal(err)
		}
		if got := g.Chain()[0].Env(); !reflect.DeepEqual(got, e) {
			t.Errorf("the policies are bound to %+v, want %+v", got, e)
		}
	}
}
