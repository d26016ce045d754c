package policy_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/authority/grant/token"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
)

// TestATokenKeepsEveryDecision: policies that went through a token decide as
// they did before, and each block more only narrows.
func TestATokenKeepsEveryDecision(t *testing.T) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		docs := make([]doc, rapid.IntRange(1, 4).Draw(t, "links"))
		for i := range docs {
			docs[i] = drawDoc(t, fmt.Sprintf("link%d", i))
		}
		block := func(i int) token.Block {
			return token.Block{Policies: []token.Policy{{File: "p.yaml", Source: "version: 1\n" + docs[i].String()}}, Issued: now}
		}
		root := block(0)
		root.Holder, root.Expires = "agent:a", now.Add(time.Hour)
		text, err := token.Issue(token.Root{Ledger: tool.Digest{1}, ID: uuid.Must(uuid.NewV7()), Block: root}, key, rand.Reader)
		for i := 1; i < len(docs) && err == nil; i++ {
			text, err = token.Append(text, block(i), rand.Reader)
		}
		if err != nil {
			t.Fatal(err)
		}
		c, err := token.Decode(text)
		if err != nil {
			t.Fatal(err)
		}
		chains, err := c.Bind(env)
		if err != nil {
			t.Fatal(err)
		}
		call := drawCall(t)
		var sofar policy.Chain
		last := policy.Allow
		for i := range docs {
			sofar = append(sofar, chains[i]...)
			want, got := mustChain(t, docs[:i+1]...).Decide(call), sofar.Decide(call)
			if got.Effect != want.Effect || got.Rule.String() != want.Rule.String() || got.Link != want.Link {
				t.Fatalf("%d blocks: %v by %s, the policies say %v by %s", i+1, got.Effect, got.Rule, want.Effect, want.Rule)
			}
			if got.Effect > last {
				t.Fatalf("block %d made %v of %v", i, got.Effect, last)
			}
			last = got.Effect
		}
	})
}
