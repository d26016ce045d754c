package token_test

import (
	"bytes"
	"strings"
	"testing"
	"unicode"

	"github.com/remitrun/remit/internal/authority/grant/token"
)

// genuine returns tokens of every kind that the ledger has issued.
func genuine(t testing.TB) []string {
	one := issue(t, root())
	bound, err := token.HandOn(bound(t), token.Block{Holder: "agent:b", HolderKey: public("bob")}, key("ann"), source("fuzz"))
	if err != nil {
		t.Fatal(err)
	}
	return []string{one, three(t), seal(t, one), seal(t, three(t)), bound,
		add(t, one, token.Block{Delegate: []string{}, Workspace: "/a", Audience: "b"})}
}

// FuzzDecode: a decoded token has one spelling, its description is safe on a
// terminal, and narrowing it leaves its earlier content unchanged.
func FuzzDecode(f *testing.F) {
	for _, s := range genuine(f) {
		f.Add(raw(f, s))
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s := text(b)
		if _, err := token.Decode(string(b)); err == nil && text(raw(t, string(b))) != string(b) {
			t.Fatalf("a second spelling of a token is read: %q", b)
		}
		c, err := token.Decode(s)
		if err != nil {
			return
		}
		if p := decoded(t, s); p.text(t) != s {
			t.Fatalf("a second spelling of a token is read: %s", s)
		}
		for _, l := range token.Describe(c, noon) {
			if strings.IndexFunc(l.Text, func(r rune) bool { return !unicode.IsPrint(r) }) >= 0 {
				t.Fatalf("%s: %q", l.Label, l.Text)
			}
		}
		next, err := token.Append(s, token.Block{}, source("fuzz"))
		if err != nil {
			return
		}
		n, err := token.Decode(next)
		if err != nil || len(n.Links()) != len(c.Links())+1 || n.ID() != c.ID() || !n.Expires().Equal(c.Expires()) {
			t.Fatalf("narrowed, it says something else: %v", err)
		}
	})
}

// FuzzVerify: only issued tokens are accepted.
func FuzzVerify(f *testing.F) {
	issued := genuine(f)
	for _, s := range issued {
		f.Add(raw(f, s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s := text(b)
		_, err := token.Authentic(s, trust, noon)
		if err == nil && !contains(issued, s) {
			t.Fatalf("a token that nobody has issued is accepted: %s", s)
		}
	})
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// FuzzAppended: any block that a holder appends and signs correctly is refused or
// narrows the grant.
func FuzzAppended(f *testing.F) {
	for _, s := range genuine(f) {
		for _, b := range apart(f, s).Blocks {
			f.Add(b.Payload)
		}
	}
	first := rogue{payload: encode(f, rootSaid().but(11, said{1: 50, 10: 0}))}
	f.Fuzz(func(t *testing.T, payload []byte) {
		s := forge(t, key("ledger"), first, rogue{payload: payload})
		c, err := token.Authentic(s, trust, noon)
		if err != nil {
			return
		}
		l := c.Links()
		if !bytes.Equal(apart(t, s).Blocks[0].Payload, first.payload) || len(l) != 2 || l[0].Holder != "user:ann" || c.ID() != root().ID {
			t.Fatal("the root says something else")
		}
		if c.Expires().After(l[0].Expires) || c.NotBefore().Before(l[0].NotBefore) || c.Budgets().Calls == 0 || c.Budgets().Calls > 50 || c.Holder() != "user:ann" {
			t.Fatalf("it has more than before: until %s, %s, %q", c.Expires(), c.Budgets(), c.Holder())
		}
	})
}

// FuzzProof: only the proof that the holder made is accepted.
func FuzzProof(f *testing.F) {
	s := issueWith(f, func(r *token.Root) { r.HolderKey = public("ann") })
	good := prove(f, s, "ann", token.Proving{At: noon})
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add("")
	f.Fuzz(func(t *testing.T, p string) {
		_, err := token.Verify(s, trust, token.Use{At: noon, Held: token.Held{Proof: p, Seen: token.NewReplay(1).Use}})
		if (err == nil) != (p == good) {
			t.Fatalf("%q: %v", p, err)
		}
	})
}
