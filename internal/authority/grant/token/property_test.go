package token_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/authority/grant/token"
	"github.com/remitrun/remit/internal/base/racetest"
	"github.com/remitrun/remit/internal/base/tool"
)

// drawBlock draws a valid and permitted block.
func drawBlock(t *rapid.T, name string) token.Block {
	moment := func(label string) time.Time {
		if ms := rapid.Int64Range(-1, int64(48*time.Hour/time.Millisecond)).Draw(t, name+label); ms >= 0 {
			return start.Add(time.Duration(ms) * time.Millisecond)
		}
		return time.Time{}
	}
	word := rapid.SampledFrom([]string{"", "user:ann", "agent:docs", "ünï cödé", `a"b\c`})
	b := token.Block{
		Holder: word.Draw(t, name+"holder"), Issued: moment("issued"), NotBefore: moment("not before"), Expires: moment("expires"),
		Audience: word.Draw(t, name+"audience"), Delegate: rapid.SampledFrom([][]string{nil, {"*"}, {"agent:*", "*"}}).Draw(t, name+"delegate"),
		Workspace: rapid.SampledFrom([]string{"", "/", "/srv/a b"}).Draw(t, name+"workspace"),
	}
	n := rapid.Int64Range(0, 1<<40)
	b.Budgets = grant.Budgets{Calls: n.Draw(t, name+"calls"), BytesIn: n.Draw(t, name+"in"), Money: n.Draw(t, name+"money"), Time: time.Duration(n.Draw(t, name+"time"))}
	if d := rapid.IntRange(0, 2).Draw(t, name+"depth"); d > 0 {
		d += 100
		b.Budgets.Depth, b.Budgets.Children = &d, &d
	}
	for _, pattern := range []string{"fs.*", "http.get"} {
		if c := rapid.Int64Range(-1, 5).Draw(t, name+pattern); c >= 0 {
			b.Budgets.PerTool = append(b.Budgets.PerTool, grant.ToolBudget{Tool: pattern, Calls: c})
		}
	}
	for i := range rapid.IntRange(0, 3).Draw(t, name+"pins") {
		if b.Pins == nil {
			b.Pins = map[tool.ID]tool.Digest{}
		}
		b.Pins[tool.ID(fmt.Sprint("tool", i))] = tool.Digest{rapid.Byte().Draw(t, name+"pin"), 1}
	}
	for i := range rapid.IntRange(0, 2).Draw(t, name+"policies") {
		b.Policies = append(b.Policies, token.Policy{File: fmt.Sprintf("p%d.yaml", i), Source: rapid.SampledFrom([]string{wide, narrow}).Draw(t, name+"policy")})
	}
	return b
}

// drawChain issues a token, appends blocks to it, and returns it with its
// expected content.
func drawChain(t *rapid.T, label string) (string, []token.Block) {
	r := root()
	r.ID[15] = rapid.Byte().Draw(t, label+"id")
	blocks := []token.Block{r.Block}
	s, err := token.Issue(r, key("ledger"), source(label+rapid.StringN(1, 5, -1).Draw(t, label+"seed")))
	for i := range rapid.IntRange(0, 5).Draw(t, label+"length") {
		if err != nil {
			break
		}
		b := drawBlock(t, fmt.Sprint(label, i, " "))
		blocks = append(blocks, b)
		s, err = token.Append(s, b, source(label+s))
	}
	if err == nil && rapid.Bool().Draw(t, label+"seal") {
		s, err = token.Seal(s)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s, blocks
}

func said2(b token.Block) string {
	return fmt.Sprint(b.Holder, b.Issued.UnixMilli(), b.NotBefore.UnixMilli(), b.Expires.UnixMilli(), b.Audience, b.Delegate == nil, b.Delegate,
		b.Workspace, b.Budgets, b.Pins, b.Policies)
}

func TestWhateverIsAppendedIsKeptAndNarrows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, blocks := drawChain(t, "")
		c, err := token.Authentic(s, trust, noon)
		if err != nil {
			t.Fatal(err)
		}
		end, begin, budget := blocks[0].Expires, time.Time{}, grant.Budgets{}
		seen := map[tool.Digest]bool{}
		for i, l := range c.Links() {
			if got, want := said2(l.Block), said2(blocks[i]); got != want {
				t.Fatalf("block %d says %s, it should say %s", i, got, want)
			}
			if seen[l.Hash] {
				t.Fatalf("two blocks have the hash %s", l.Hash)
			}
			seen[l.Hash] = true
			budget = budget.Min(l.Budgets)
			if !l.Expires.IsZero() && l.Expires.Before(end) {
				end = l.Expires
			}
			if l.NotBefore.After(begin) {
				begin = l.NotBefore
			}
		}
		if len(c.Links()) != len(blocks) || !c.Expires().Equal(end) || !c.NotBefore().Equal(begin) || c.Budgets().String() != budget.String() {
			t.Fatalf("from %s until %s with %s, it should be from %s until %s with %s", c.NotBefore(), c.Expires(), c.Budgets(), begin, end, budget)
		}
		token.Describe(c.Content(), noon)
	})
}

func TestABlocksHashDependsOnNothingAfterIt(t *testing.T) {
	s := issue(t, root())
	var hashes []tool.Digest
	for i := range 5 {
		c, err := token.Decode(s)
		if err != nil {
			t.Fatal(err)
		}
		for j, h := range hashes {
			if c.Links()[j].Hash != h {
				t.Fatalf("with %d blocks, block %d has another hash", i, j)
			}
		}
		hashes = append(hashes, c.Links()[i].Hash)
		s = add(t, s, token.Block{})
	}
	sealed, err := token.Decode(seal(t, s))
	if err != nil || sealed.Links()[4].Hash != hashes[4] {
		t.Fatal("a seal changes the hashes")
	}
}

// TestAnyBitCounts turns every single bit of a token, sealed and not.
func TestAnyBitCounts(t *testing.T) {
	racetest.Skip(t, "one goroutine checks signatures")
	for name, s := range map[string]string{"open": three(t), "sealed": seal(t, issue(t, root()))} {
		good := raw(t, s)
		b := bytes.Clone(good)
		for i := range 8 * len(good) {
			b[i/8] ^= 1 << (i % 8)
			if _, err := token.Authentic(text(b), trust, noon); err == nil {
				t.Fatalf("%s: bit %d changes nothing", name, i)
			}
			b[i/8] ^= 1 << (i % 8)
		}
	}
}

// TestBlocksKeepTheirPlaces takes two tokens apart and recombines their blocks
// and ends. Only the original two tokens are accepted.
func TestBlocksKeepTheirPlaces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		one, _ := drawChain(t, "one ")
		two, _ := drawChain(t, "two ")
		p, q := decoded(t, one), decoded(t, two)
		pool := slices.Concat(p.Blocks, q.Blocks)
		mixed := parts{Version: 1, Proof: rapid.SampledFrom([]proof{p.Proof, q.Proof}).Draw(t, "end")}
		for range rapid.IntRange(1, len(p.Blocks)+1).Draw(t, "length") {
			mixed.Blocks = append(mixed.Blocks, rapid.SampledFrom(pool).Draw(t, "block"))
		}
		enc, err := canonical.Marshal(mixed)
		if err != nil {
			t.Fatal(err)
		}
		if s := text(enc); s != one && s != two {
			if _, err := token.Authentic(s, trust, noon); err == nil {
				t.Fatalf("accepted: %s", s)
			}
		}
	})
}
