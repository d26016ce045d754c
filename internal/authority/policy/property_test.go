package policy_test

import (
	"fmt"
	"math/rand"
	"regexp"
	"testing"

	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
)

var (
	patterns = rapid.SampledFrom([]string{"**", "*", "a", "a/**", "**/b", "a/*", "*.env", ".env", "[ab]", "{a,c}/b", "A/**", "/etc/**", "~/x"})
	lists    = rapid.SliceOfN(patterns, 0, 4)
	paths    = rapid.SampledFrom([]string{"a", "b", "a/b", "A/b", "c/b", ".env", "a/.ENV", "/etc/x", "/home/u/x", "/proc/1", "x. "})
	toolIDs  = rapid.SliceOfN(rapid.SampledFrom([]string{"**", "fs.*", "fs.read", "mcp:*"}), 0, 2)
)

// line is where an entry is in the file of a policy.
var line = regexp.MustCompile(`:\d+\)`)

type doc struct {
	allow, ask, deny, tAllow, tAsk, tDeny []string

	unlisted string
}

func (d doc) String() string {
	return fmt.Sprintf("files: {read: {allow: %s, ask: %s, deny: %s}}\ntools: {allow: %s, ask: %s, deny: %s, unlisted: %s}",
		quoted(d.allow), quoted(d.ask), quoted(d.deny), quoted(d.tAllow), quoted(d.tAsk), quoted(d.tDeny), d.unlisted)
}

func drawDoc(t *rapid.T, name string) doc {
	return doc{lists.Draw(t, name+" allow"), lists.Draw(t, name+" ask"), lists.Draw(t, name+" deny"),
		toolIDs.Draw(t, name+" tools"), toolIDs.Draw(t, name+" tools ask"), toolIDs.Draw(t, name+" tools deny"),
		rapid.SampledFrom([]string{"ask", "deny"}).Draw(t, name+" unlisted")}
}

func drawCall(t *rapid.T) policy.Call {
	c := policy.Call{Tool: &tool.Spec{ID: "fs.read", Source: "builtin"}}
	for _, p := range rapid.SliceOfN(paths, 1, 3).Draw(t, "paths") {
		c.Actions = append(c.Actions, read(p))
	}
	return c
}

func mustChain(t *rapid.T, docs ...doc) policy.Chain {
	var c policy.Chain
	for _, d := range docs {
		p, err := policy.Parse("p", []byte("version: 1\n"+d.String()))
		if err != nil {
			t.Fatal(err)
		}
		r, err := p.Bind(env)
		if err != nil {
			t.Fatal(err)
		}
		c = append(c, r)
	}
	return c
}

func shuffled(list []string, r *rand.Rand) []string {
	out := append([]string{}, list...)
	r.Shuffle(len(out), func(i, k int) { out[i], out[k] = out[k], out[i] })
	return out
}

func TestPropertiesOfDecisions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, call := drawDoc(t, "policy"), drawCall(t)
		c := mustChain(t, d)
		got := c.Decide(call)

		strictest := c.Decide(policy.Call{Tool: call.Tool}).Effect
		for _, a := range call.Actions {
			strictest = min(strictest, c.DecideAction(a).Effect)
		}
		if got.Effect != strictest {
			t.Fatalf("%v, but the strictest action gives %v", got.Effect, strictest)
		}

		more := d
		more.deny = append([]string{patterns.Draw(t, "extra")}, d.deny...)
		if e := mustChain(t, more).Decide(call).Effect; e > got.Effect {
			t.Fatalf("one more deny entry made %v of %v", e, got.Effect)
		}

		r := rand.New(rand.NewSource(rapid.Int64().Draw(t, "seed")))
		mixed := doc{shuffled(d.allow, r), shuffled(d.ask, r), shuffled(d.deny, r), shuffled(d.tAllow, r), shuffled(d.tAsk, r), shuffled(d.tDeny, r), d.unlisted}
		if e := mustChain(t, mixed).Decide(call).Effect; e != got.Effect {
			t.Fatalf("another order made %v of %v", e, got.Effect)
		}

		narrow := mustChain(t, d, drawDoc(t, "narrowing"))
		if e := narrow.Decide(call).Effect; e > got.Effect {
			t.Fatalf("narrowing made %v of %v", e, got.Effect)
		}

		p := c[0].Policy()
		q, err := policy.Parse("p", p.Print())
		if err != nil {
			t.Fatal(err)
		}
		again, err := q.Bind(env)
		if err != nil {
			t.Fatal(err)
		}
		if e := (policy.Chain{again}).Decide(call); e.Effect != got.Effect || e.Rule.String() != got.Rule.String() || line.ReplaceAllString(e.Reason, "") != line.ReplaceAllString(got.Reason, "") {
			t.Fatalf("printed and read again: %v %s %q, was %v %s %q", e.Effect, e.Rule, e.Reason, got.Effect, got.Rule, got.Reason)
		}
		if (got.Effect == policy.Allow) != (len(got.Refusals) == 0) {
			t.Fatalf("%v with refusals %v", got.Effect, got.Refusals)
		}
	})
}
