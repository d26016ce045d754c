package policy_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/authority/provenance"
	"github.com/remitrun/remit/internal/base/tool"
)

const everything = `files: {read: {allow: ["**"]}, write: {allow: ["**"]}}
network: {allow: ["*"]}
commands: {allow: ["**"]}
tools: {allow: ["**"]}
models: {allow: ["*/*"]}
`

func flows(t testing.TB, srcs ...string) (policy.Chain, *policy.Flows) {
	t.Helper()
	c := chain(t, srcs...)
	f, err := c.Flows()
	if err != nil {
		t.Fatal(err)
	}
	return c, f
}

func post(t testing.TB, url string) tool.Action {
	t.Helper()
	to, err := target.Parse("POST", url)
	if err != nil {
		t.Fatal(err)
	}
	return tool.Action{Kind: tool.Network, Target: to}
}

// through decides a call in a context, as the runner does.
func through(f *policy.Flows, labels []string, call policy.Call) (policy.Decision, policy.Of, policy.Chain) {
	of := f.Of(call, false)
	c := f.Narrow(f.Set(labels), of, false)
	return f.DecideFlows(c, call), of, c
}

func builtin(actions ...tool.Action) policy.Call {
	return policy.Call{Tool: &tool.Spec{ID: "x.y", Source: "builtin"}, Actions: actions}
}

func TestFlowsDecide(t *testing.T) {
	_, f := flows(t, everything+flowPolicy)
	mcp := func(id tool.ID) policy.Call { return policy.Call{Tool: &tool.Spec{ID: id, Source: "mcp"}} }
	tests := map[string]struct {
		context string
		call    policy.Call
		want    policy.Effect
		rule    string
		result  string
	}{
		"nothing seen":                  {"", builtin(post(t, "https://evil.example/")), policy.Allow, "", "web"},
		"a file of the compartment":     {"", builtin(read("private/a")), policy.Allow, "", "private"},
		"another file":                  {"", builtin(read("a")), policy.Allow, "", ""},
		"in the compartment, elsewhere": {"private", builtin(post(t, "https://evil.example/")), policy.Deny, "flows.private.only", "web"},
		"in the compartment, its host":  {"private", builtin(post(t, "https://api.acme.com/x")), policy.Allow, "", "web"},
		"reading is no leak":            {"private", builtin(read("a")), policy.Allow, "", ""},
		"writing elsewhere":             {"private", builtin(write("a")), policy.Deny, "flows.private.only", ""},
		"writing inside":                {"private", builtin(write("private/a")), policy.Allow, "", ""},
		"copying out at once":           {"", builtin(read("private/a"), write("a")), policy.Deny, "flows.private.only", "private"},
		"a link to the compartment":     {"", builtin(tool.Action{Kind: tool.FileRead, Path: "/ws/link", Real: "/ws/private/a"}), policy.Allow, "", "private"},
		"by another spelling":           {"", builtin(read("PRIVATE/a")), policy.Allow, "", "private"},
		"a model":                       {"private", builtin(tool.Action{Kind: tool.Model, Model: "a/b"}), policy.Deny, "flows.private.only", ""},
		"a statement":                   {"private", builtin(tool.Action{Kind: tool.TableRead, Database: "main"}), policy.Deny, "flows.private.only", ""},
		"a server's tool":               {"private", mcp("mcp:mail:send"), policy.Deny, "flows.private.only", "web"},
		"a server's tool, nothing seen": {"", mcp("mcp:mail:send"), policy.Allow, "", "web"},
		"an excepted tool":              {"", mcp("mcp:contacts:list"), policy.Allow, "", ""},
		"steered by the web":            {"web", builtin(post(t, "https://api.acme.com/x")), policy.Ask, "flows.web.ask[1]", "web"},
		"only read by the web":          {"web", builtin(get(t, "https://api.acme.com/x")), policy.Allow, "", "web"},
		"a push":                        {"web", builtin(run("git", "push", "origin")), policy.Ask, "flows.web.ask[0]", "web"},
		"a status":                      {"web", builtin(run("git", "status")), policy.Allow, "", "web"},
		"a deletion":                    {"web", policy.Call{Tool: &tool.Spec{ID: "fs.delete", Source: "builtin", Effects: tool.EffectSet(tool.FSDelete)}}, policy.Ask, "flows.web.ask[2]", ""},
		"deny beats ask":                {"private web", builtin(post(t, "https://evil.example/")), policy.Deny, "flows.private.only", "web"},
		"a label that nobody knows":     {"other", builtin(post(t, "https://evil.example/")), policy.Allow, "", "web"},
	}
	for name, tt := range tests {
		d, of, _ := through(f, strings.Fields(tt.context), tt.call)
		rule := ""
		if d.Rule != nil {
			rule = d.Rule.Name
		}
		if d.Effect != tt.want || rule != tt.rule {
			t.Errorf("%s: %s by %q (%s), want %s by %q", name, d.Effect, rule, d.Reason, tt.want, tt.rule)
		}
		if got := strings.Join(f.Names(of.Result), " "); got != tt.result {
			t.Errorf("%s: the result has %q, want %q", name, got, tt.result)
		}
	}
}

// What a call does not name is withheld from it, and what its labels forbid is denied at the
// moment of use too: the chain says both, so handles, proxies and sandboxes do.
func TestFlowsHoldWhileACallRuns(t *testing.T) {
	_, f := flows(t, everything+"secrets: [{name: crm, tools: [http.get], hosts: [crm.acme.com]}]\n"+
		"labels: {private: {from: ['files private/**', 'network crm.acme.com'], kind: confidential}}\nflows: {private: {only: ['network api.acme.com']}}\n")
	shell := func(actions ...tool.Action) policy.Call {
		return policy.Call{Tool: &tool.Spec{ID: "shell.run", Source: "builtin", Effects: tool.EffectSet(tool.SystemExec)}, Actions: actions}
	}
	named := read("private/a")
	named.Argument = tool.FileArgument
	for name, tt := range map[string]struct {
		context string
		call    policy.Call
		deny    []tool.Action
		allow   []tool.Action
		result  string
	}{
		"a command that names nothing": {"", shell(run("make")), []tool.Action{read("private/a"), write("private/b"), get(t, "https://crm.acme.com/")}, []tool.Action{read("a"), get(t, "https://evil.example/")}, ""},
		"one that names a file":        {"", shell(run("cat", "private/a"), named), []tool.Action{get(t, "https://evil.example/"), write("b")}, []tool.Action{read("private/b"), get(t, "https://api.acme.com/")}, "private"},
		"one in the compartment":       {"private", shell(run("make")), []tool.Action{get(t, "https://evil.example/"), write("b")}, []tool.Action{read("private/b"), get(t, "https://api.acme.com/")}, ""},
		"a search of the workspace":    {"", builtin(read("/ws")), []tool.Action{read("private/a")}, []tool.Action{read("a")}, ""},
	} {
		d, of, c := through(f, strings.Fields(tt.context), tt.call)
		if d.Effect != policy.Allow || strings.Join(f.Names(of.Result), " ") != tt.result {
			t.Errorf("%s: %s %q", name, d.Reason, f.Names(of.Result))
		}
		for _, a := range tt.deny {
			if d := c.DecideAction(a); d.Effect != policy.Deny || !strings.HasPrefix(d.Rule.Name, "flows.private.") {
				t.Errorf("%s: %s is %s by %s", name, a, d.Effect, d.Rule)
			}
		}
		for _, a := range tt.allow {
			if d := c.DecideAction(a); d.Effect != policy.Allow {
				t.Errorf("%s: %s is %s: %s", name, a, d.Effect, d.Reason)
			}
		}
		if at := c.Placement(); at.Allows(policy.Remote) || c.Isolation() != policy.FullIsolation {
			t.Errorf("%s: commands may run at %v under %s", name, at.Places, c.Isolation())
		}
	}
	// A program of its own cannot be confined, so its commands must be listed.
	if d := f.DecideFlows(f.Narrow(f.Set([]string{"private"}), policy.Of{}, true), shell(run("make"))); d.Effect != policy.Deny {
		t.Errorf("a client's command is %s", d.Effect)
	}
}

// Further policies add labels and flows and lose none, and no context has fewer labels than
// its parts.
func TestNarrowingNeverLosesALabel(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	pick := func(list []string) string { return list[r.IntN(len(list))] }
	srcs := []string{"files private/**", "files a*", "network *", "network x.example", "tools mcp:*", "tools mcp:a:*", "commands curl **"}
	sinks := []string{"network x.example", "network *", "files private/**", "tools mcp:a:*"}
	document := func() string {
		var b strings.Builder
		b.WriteString("rest: inherit\nlabels:\n")
		fmt.Fprintf(&b, "  p: {from: [%q], but: [%q], kind: confidential}\n", pick(srcs), pick(srcs[4:]))
		fmt.Fprintf(&b, "  q: {from: [%q], but: [%q], kind: confidential}\n", pick(srcs), pick(srcs))
		fmt.Fprintf(&b, "  w: {from: [%q]}\nflows: {p: {only: [%q]}, w: {ask: [%q]}%s}\n", pick(srcs), pick(sinks), pick(sinks), pick([]string{"", ", standard: true"}))
		return b.String()
	}
	calls := []policy.Call{
		builtin(read("private/a")), builtin(read("a1"), write("b")), builtin(post(t, "https://x.example/")), builtin(post(t, "https://y.example/")),
		{Tool: &tool.Spec{ID: "mcp:a:b", Source: "mcp"}}, {Tool: &tool.Spec{ID: "mcp:c:d", Source: "mcp"}}, builtin(run("curl", "x")), builtin(run("ls")),
	}
	rounds := 100
	if os.Getenv("REMIT_SOAK") != "" {
		rounds = 100_000
	}
	for range rounds {
		docs := []string{everything + strings.TrimPrefix(document(), "rest: inherit\n")}
		_, before := flows(t, docs...)
		docs = append(docs, document())
		_, after := flows(t, docs...)
		context := []string{"untrusted", "p", "q", "w"}[:r.IntN(5)]
		for _, c := range calls {
			d1, o1, _ := through(before, context, c)
			d2, o2, _ := through(after, context, c)
			if d2.Effect > d1.Effect {
				t.Fatalf("%s\nthen\n%s\n%v in %v: %s became %s", docs[0], docs[1], c.Actions, context, d1.Effect, d2.Effect)
			}
			was := before.DecideSteered(before.Set(context), c, provenance.New()).Effect
			if is := after.DecideSteered(after.Set(context), c, provenance.New()).Effect; is > was {
				t.Fatalf("%s\nthen\n%s\n%v in %v: a value that asked does not ask", docs[0], docs[1], c.Actions, context)
			}
			for _, l := range before.Names(o1.Result) {
				if !slices.Contains(after.Names(o2.Result), l) {
					t.Fatalf("%s\nthen\n%s\n%v: the label %s is lost", docs[0], docs[1], c.Actions, l)
				}
			}
		}
	}
}

// What a run may write of a label, the next one reads with the label.
func TestWhatAFlowKeepsHasTheLabel(t *testing.T) {
	_, f := flows(t, everything+"labels: {p: {from: ['files private/**'], kind: confidential}}\nflows: {p: {only: ['files out/**', 'databases kept']}}\n")
	for _, a := range []tool.Action{read("out/x"), {Kind: tool.TableRead, Database: "kept"}} {
		d, of, c := through(f, nil, builtin(a))
		if d.Effect != policy.Allow || len(f.Names(of.Result)) != 1 {
			t.Errorf("%s is %s, with %q", a, d.Effect, f.Names(of.Result))
		}
		if d := c.DecideAction(post(t, "https://evil.example/")); a.Kind == tool.FileRead && d.Effect != policy.Deny {
			t.Errorf("while it reads, a request is %s", d.Effect)
		}
	}
	_, _, c := through(f, nil, builtin(read("/ws")))
	if d := c.DecideAction(read("out/x")); d.Effect != policy.Deny {
		t.Errorf("a search of the workspace reads it: %s", d.Effect)
	}
	if _, of, _ := through(f, nil, builtin(read("other"))); of.Result != 0 {
		t.Errorf("another file has %q", f.Names(of.Result))
	}
}

func TestExceptionsNeedEveryPolicyThatNamesTheLabel(t *testing.T) {
	mail := policy.Call{Tool: &tool.Spec{ID: "mcp:mail:read", Source: "mcp"}}
	one := "labels: {web: {from: ['tools mcp:*'], but: ['tools mcp:mail:*']}}\n"
	for name, tt := range map[string]struct {
		docs []string
		want int
	}{
		"one policy":              {[]string{everything + one}, 0},
		"another without labels":  {[]string{everything + one, "rest: inherit"}, 0},
		"another with it":         {[]string{everything + one, "rest: inherit\n" + one}, 0},
		"another without it":      {[]string{everything + one, "rest: inherit\nlabels: {web: {from: ['tools mcp:x:*']}}"}, 1},
		"another of other labels": {[]string{everything + one, "rest: inherit\nlabels: {other: {from: ['tools mcp:x:*']}}"}, 0},
	} {
		_, f := flows(t, tt.docs...)
		if got := f.Names(f.Of(mail, false).Result); len(got) != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func BenchmarkFlows(b *testing.B) {
	c, f := flows(b, everything+flowPolicy)
	call := builtin(read("a/b/c.txt"))
	b.Run("labels of a call", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			f.Of(call, false)
		}
	})
	b.Run("decision in a context", func(b *testing.B) {
		set := f.Set([]string{"web"})
		b.ReportAllocs()
		for b.Loop() {
			f.DecideFlows(f.Narrow(set, policy.Of{}, false), call)
		}
	})
	none := c[:0]
	b.Run("no labels", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if f, err := none.Flows(); f != nil || err != nil {
				b.Fatal(err)
			}
		}
	})
}
