package permit_test

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

type noHeld struct{ permit.Held }

// parties are a node, a worker, and a permit of a call under where: remote.
type parties struct {
	node, worker ed25519.PrivateKey
	p            permit.Permit
	now          time.Time
}

func newParties(t *testing.T) parties {
	t.Helper()
	key := func(b byte) ed25519.PrivateKey {
		return ed25519.NewKeyFromSeed([]byte(strings.Repeat(string(rune(b)), 32)))
	}
	return parties{key('n'), key('w'), permitOf(t, "where: remote\n"), time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)}
}

func permitOf(t *testing.T, where string) permit.Permit {
	t.Helper()
	pol, err := policy.Parse("p.yaml", []byte("version: 1\nname: p\nfiles: {read: {allow: ['**']}}\ncommands: {allow: ['make **']}\n"+where))
	if err != nil {
		t.Fatal(err)
	}
	r, err := pol.Bind(policy.Env{Workspace: "/w", Home: "/home/x", Path: []string{"/usr/bin"}})
	if err != nil {
		t.Fatal(err)
	}
	chain := policy.Chain{r}
	return permit.Mint(permit.Terms{Chain: chain, Limits: chain.Limits(), Call: tool.Digest{1}, Tool: "shell.run",
		Approved: []tool.Action{{Kind: tool.Command, Argv: []string{"make", "all"}, Dir: "/w"}},
		Intent:   permit.Intent{Run: "run", Call: 1, Seq: 7, Tool: tool.Digest{2}}})
}

func (x parties) pub(k ed25519.PrivateKey) ed25519.PublicKey { return k.Public().(ed25519.PublicKey) }

func (x parties) work(t *testing.T) permit.Work {
	t.Helper()
	w, err := x.p.Work()
	if err != nil {
		t.Fatal(err)
	}
	w.Ledger, w.Leaf, w.Worker, w.Node, w.NotAfter, w.Command = "ledger", tool.Digest{3}, x.pub(x.worker), "n1", x.now.Add(5*time.Second), json.RawMessage(`{}`)
	return w
}

func (x parties) token(t *testing.T) permit.Token {
	t.Helper()
	tok, err := permit.SignWork(x.node, x.work(t))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func TestATokenMintsThePermitThatItWasMadeFrom(t *testing.T) {
	x := newParties(t)
	v, err := permit.Verify(x.token(t), x.pub(x.node), x.pub(x.worker), x.now)
	if err != nil {
		t.Fatal(err)
	}
	p, err := permit.Redeem(v, noHeld{})
	if err != nil {
		t.Fatal(err)
	}
	for argv, want := range map[string]bool{"make all": true, "rm all": false} {
		a := tool.Action{Kind: tool.Command, Argv: strings.Fields(argv), Dir: "/w", Exe: "/usr/bin/" + strings.Fields(argv)[0]}
		if got, was := p.Check(a) == nil, x.p.Check(a) == nil; got != want || was != want {
			t.Errorf("%s: the worker allows %v, the node %v", argv, got, was)
		}
	}
	if p.Env().Workspace != "/w" || p.Tool() != "shell.run" {
		t.Errorf("got %+v", p.Env())
	}
}

func TestEveryFieldOfATokenIsSigned(t *testing.T) {
	x := newParties(t)
	tok := x.token(t)
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(tok.Body, &fields); err != nil {
		t.Fatal(err)
	}
	if len(fields) < 16 {
		t.Fatalf("the token has only %d fields", len(fields))
	}
	for name := range fields {
		changed := map[string]json.RawMessage{}
		for k, v := range fields {
			changed[k] = v
		}
		delete(changed, name)
		b, err := json.Marshal(changed)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := permit.Verify(permit.Token{Body: b, Signature: tok.Signature}, x.pub(x.node), x.pub(x.worker), x.now); !errors.Is(err, fault.GrantInvalid) {
			t.Errorf("without %s: %v", name, err)
		}
	}
	for i := range tok.Body {
		b := append([]byte(nil), tok.Body...)
		b[i] ^= 1
		if _, err := permit.Verify(permit.Token{Body: b, Signature: tok.Signature}, x.pub(x.node), x.pub(x.worker), x.now); err == nil {
			t.Fatalf("byte %d was changed", i)
		}
	}
}

func TestOtherTokensAreRefused(t *testing.T) {
	x := newParties(t)
	sign := func(change func(*permit.Work)) permit.Token {
		w := x.work(t)
		change(&w)
		tok, err := permit.SignWork(x.node, w)
		if err != nil {
			t.Fatal(err)
		}
		return tok
	}
	forged, err := permit.SignWork(x.worker, x.work(t))
	if err != nil {
		t.Fatal(err)
	}
	renewal, err := x.token(t).Renew(x.node, x.now.Add(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		tok  permit.Token
		now  time.Time
		want string
	}{
		"forged":             {forged, x.now, "did not sign"},
		"a renewal":          {renewal, x.now, "did not sign"},
		"empty":              {permit.Token{}, x.now, "did not sign"},
		"another worker":     {sign(func(w *permit.Work) { w.Worker = x.pub(x.node) }), x.now, "another worker"},
		"expired":            {x.token(t), x.now.Add(5 * time.Second), "expired"},
		"the clock is early": {x.token(t), x.now.Add(-time.Hour), "compare the clocks"},
		"for too long":       {sign(func(w *permit.Work) { w.NotAfter = x.now.Add(time.Hour) }), x.now, "longer than"},
		"no intent":          {sign(func(w *permit.Work) { w.Seq = 0 }), x.now, "no recorded intent"},
		"no leaf":            {sign(func(w *permit.Work) { w.Leaf = tool.Digest{} }), x.now, "no recorded intent"},
	} {
		if _, err := permit.Verify(tc.tok, x.pub(x.node), x.pub(x.worker), tc.now); !errors.Is(err, fault.GrantInvalid) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", name, err, tc.want)
		}
	}
}

func TestARenewalMovesOnlyTheEndOfItsToken(t *testing.T) {
	x := newParties(t)
	tok := x.token(t)
	v, err := permit.Verify(tok, x.pub(x.node), x.pub(x.worker), x.now)
	if err != nil {
		t.Fatal(err)
	}
	renew := func(of permit.Token, by ed25519.PrivateKey, until time.Time) permit.Token {
		r, err := of.Renew(by, until)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	later := x.now.Add(9 * time.Second)
	if err := v.Renewed(renew(tok, x.node, later), x.now); err != nil || !v.Until().Equal(later) {
		t.Fatalf("got %v, %v", v.Until(), err)
	}
	if err := v.Renewed(renew(tok, x.node, later.Add(-time.Second)), x.now); err != nil || !v.Until().Equal(later) {
		t.Errorf("an earlier renewal moved the end to %v, %v", v.Until(), err)
	}
	w := x.work(t)
	w.Call = 2
	other, err := permit.SignWork(x.node, w)
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]permit.Token{
		"of another token": renew(other, x.node, later.Add(time.Second)), "forged": renew(tok, x.worker, later.Add(time.Second)),
		"expired": renew(tok, x.node, x.now), "for too long": renew(tok, x.node, x.now.Add(time.Hour)), "the token itself": tok,
	} {
		if err := v.Renewed(r, x.now); err == nil || !v.Until().Equal(later) {
			t.Errorf("%s: until %v, %v", name, v.Until(), err)
		}
	}
}

func TestWhatCannotBecomeAToken(t *testing.T) {
	x := newParties(t)
	if _, err := permit.Redeem(permit.Verified{}, noHeld{}); err == nil {
		t.Error("a token that was not verified minted a permit")
	}
	v, err := permit.Verify(x.token(t), x.pub(x.node), x.pub(x.worker), x.now)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := permit.Redeem(v, nil); err == nil {
		t.Error("a permit without held writes was minted")
	}
	x.p = permitOf(t, "where: [container, local]\n")
	if v, err = permit.Verify(x.token(t), x.pub(x.node), x.pub(x.worker), x.now); err != nil {
		t.Fatal(err)
	}
	if _, err := permit.Redeem(v, noHeld{}); err == nil || !strings.Contains(err.Error(), "do not allow commands on workers") {
		t.Errorf("a chain that does not allow remote minted a permit: %v", err)
	}
	p := permit.Mint(permit.Terms{})
	if _, err := p.Work(); err == nil {
		t.Error("a call without an intent became a token")
	}
	x.p.End()
	if _, err := x.p.Work(); err == nil {
		t.Error("an ended permit became a token")
	}
}
