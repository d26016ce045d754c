package reach_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/reach"
	"github.com/remitrun/remit/internal/base/racetest"
	"github.com/remitrun/remit/internal/base/tool"
)

var env = policy.Env{Workspace: "/ws", Home: "/home/u", State: "/home/u/.local/share/remit", Path: []string{"/usr/bin", "/bin"}}

// builtin are tools as those that are compiled in.
var builtin = []*tool.Spec{
	{ID: "fs.read", Source: "builtin", Effects: tool.EffectSet(tool.FSRead)},
	{ID: "fs.write", Source: "builtin", Effects: tool.EffectSet(tool.FSWrite)},
	{ID: "fs.delete", Source: "builtin", Effects: tool.EffectSet(tool.FSDelete)},
	{ID: "http.get", Source: "builtin", Effects: tool.EffectSet(tool.NetworkHTTP)},
	{ID: "shell.run", Source: "builtin", Effects: tool.EffectSet(tool.SystemExec, tool.FSRead, tool.FSWrite, tool.NetworkHTTP)},
}

// world has the holders of a document, those that its roles name among them.
func world(t *testing.T, doc string, holders ...string) *reach.World {
	t.Helper()
	p, err := policy.Parse("test.yaml", []byte("version: 1\nname: test\n"+doc))
	if err != nil {
		t.Fatalf("%v\n%s", err, doc)
	}
	w := &reach.World{Env: env, Tools: builtin}
	binder := grant.NewBinder(env)
	for _, h := range append([]string{"user:ann"}, holders...) {
		chain, err := binder.Links(p, h)
		if err != nil {
			t.Fatal(err)
		}
		w.Holders = append(w.Holders, reach.Holder{Name: h, Chain: chain})
	}
	return w
}

func TestAnswers(t *testing.T) {
	const sends = "\nnetwork: {allow: [api.test]}\n"
	for _, test := range []struct {
		name, doc, from, to string
		want                reach.Verdict
		holders             []string
		steps               int
	}{
		{"read and send", "files: {read: {allow: ['**']}}" + sends, "files src/**", "network *", reach.Reachable, nil, 2},
		{"nothing is sent", "files: {read: {allow: ['**']}}", "files src/**", "network *", reach.Unreachable, nil, 0},
		{"another host", "files: {read: {allow: ['**']}}" + sends, "files src/**", "network other.test", reach.Unreachable, nil, 0},
		{"sensitive names", "files: {write: {allow: ['~/**']}}", "user:ann", "files.write ~/.ssh/**", reach.Unreachable, nil, 0},
		{"a spelled name", "files: {write: {allow: ['~/.ssh/config']}}", "user:ann", "files.write ~/.ssh/**", reach.Reachable, nil, 1},
		{"names of several folders", "files: {read: {allow: ['~/**']}}", "user:ann", "files.read ~/.config/gcloud/**", reach.Unreachable, nil, 0},
		{"deny beats", "files: {read: {allow: ['**'], deny: ['private/**']}}" + sends, "files private/**", "network *", reach.Unreachable, nil, 0},
		{"deny in another case", "files: {read: {allow: ['**'], deny: ['PRIVATE/**']}}" + sends, "files private/**", "network *", reach.Unreachable, nil, 0},
		{"a part is not denied", "files: {read: {allow: ['**'], deny: ['private/a/**']}}" + sends, "files private/**", "network *", reach.Reachable, nil, 2},
		{"only through ask", "files: {read: {allow: ['**']}}\nnetwork: {ask: [api.test]}", "files src/**", "network *", reach.Conditional, nil, 2},
		{"a question covers all", "files: {read: {allow: ['**'], ask: ['src/**']}}" + sends, "files src/**", "network *", reach.Conditional, nil, 2},
		{"no tool", "files: {read: {allow: ['**']}}\ntools: {allow: [fs.read]}" + sends, "files src/**", "network *", reach.Unreachable, nil, 0},
		{"a command with network", "files: {read: {allow: ['**']}}\ncommands: {allow: ['curl **']}\ntools: {allow: [shell.run]}" + sends, "files src/**", "network *", reach.Reachable, nil, 2},
		{"no command", "files: {read: {allow: ['**']}}\ntools: {allow: [shell.run]}" + sends, "files src/**", "network *", reach.Conditional, nil, 2},
		{"no command may be run", "files: {read: {allow: ['**']}}\ncommands: {deny: ['**']}\ntools: {allow: [shell.run]}" + sends, "files src/**", "network *", reach.Unreachable, nil, 0},
		{"a person types", "files: {read: {allow: ['**']}}", "user:ann", "commands rm **", reach.Conditional, nil, 1},
		{"an opaque tool reads", "files: {read: {allow: ['**']}}\ntools: {allow: ['mcp:fs:admin/*', http.get]}" + sends, "files src/**", "network *", reach.Conditional, nil, 2},
		{"an opaque tool hands on", "files: {read: {allow: ['**']}}\nnetwork: {allow: [api.test]}\ntools: {allow: [fs.read, http.get, 'mcp:x:y']}\nroles:\n  agent:docs: {rest: inherit, network: {allow: []}}",
			"agent:docs", "network *", reach.Conditional, []string{"agent:docs"}, 1},
		{"a Unix socket", "network: {allow: ['unix:/run/docker.sock']}\ncommands: {allow: ['docker **']}", "user:ann", "network *", reach.Reachable, nil, 1},
		{"that Unix socket", "network: {allow: ['unix:/run/docker.sock']}\ncommands: {allow: ['docker **']}", "user:ann", "network unix:/run/docker.sock", reach.Reachable, nil, 1},
		{"another Unix socket", "network: {allow: ['unix:/run/docker.sock']}\ncommands: {allow: ['docker **']}", "user:ann", "network unix:/run/other.sock", reach.Unreachable, nil, 0},
		{"a key of the agent", "network: {allow: ['SIGN ssh-agent:*']}\ncommands: {allow: ['git **']}", "user:ann", "network LOGIN ssh-agent:*", reach.Unreachable, nil, 0},
		{"in another session", "labels: {private: {from: ['files private/**'], kind: confidential}}\nflows: {private: {only: ['files out/**']}}\nfiles: {read: {allow: ['**']}, write: {allow: ['**']}}" + sends, "label private", "network *", reach.Unreachable, nil, 0},
		{"an opaque tool", "files: {read: {allow: ['**']}}\ntools: {allow: [fs.read, 'mcp:mail:*']}", "files src/**", "network *", reach.Conditional, nil, 2},
		{"a wildcard host against a denied one", "network: {allow: ['*.api.test'], deny: ['bad.api.test']}", "user:ann", "network bad.api.test", reach.Unreachable, nil, 0},
		{"beside a denied host", "network: {allow: ['*.api.test'], deny: ['bad.api.test']}", "user:ann", "network *.api.test", reach.Reachable, nil, 1},
		{"a method", "network: {allow: ['GET api.test']}", "user:ann", "network POST api.test", reach.Unreachable, nil, 0},
		{"private addresses", "network: {allow: ['*']}", "user:ann", "network 10.0.0.1", reach.Unreachable, nil, 0},
		{"a command", "commands: {allow: ['git **'], deny: ['git push **']}", "user:ann", "commands git push **", reach.Unreachable, nil, 0},
		{"held writes", "files: {write: {allow: ['**'], hold: true}}", "user:ann", "files out/**", reach.Conditional, nil, 1},
		{"through a shared file", "files: {read: {allow: ['**']}, write: {allow: ['out/**']}}\nnetwork: {allow: [api.test]}\nroles:\n  agent:docs: {rest: inherit, network: {allow: []}}\n  agent:mail: {rest: inherit, files: {read: {allow: ['out/**']}, write: {allow: []}}}",
			"agent:docs", "network *", reach.Reachable, []string{"agent:docs", "agent:mail"}, 3},
		{"no shared file", "files: {read: {allow: ['**']}, write: {allow: ['out/**']}}\nnetwork: {allow: [api.test]}\nroles:\n  agent:docs: {rest: inherit, network: {allow: []}}\n  '*:*': {rest: inherit, files: {read: {allow: ['in/**']}, write: {allow: []}}}",
			"agent:docs", "network *", reach.Unreachable, []string{"agent:docs", "agent:mail"}, 0},
		{"a label", "labels: {private: {from: ['files private/**'], kind: confidential}}\nfiles: {read: {allow: ['**']}}" + sends, "label private", "network *", reach.Reachable, nil, 2},
		{"a flow", "labels: {private: {from: ['files private/**'], kind: confidential}}\nflows: {private: {only: ['files private/**']}}\nfiles: {read: {allow: ['**']}}" + sends, "label private", "network *", reach.Unreachable, nil, 0},
		{"what is not trusted", "network: {allow: [api.test]}\ncommands: {allow: ['git push']}\nflows: {untrusted: {ask: ['commands git push **']}}", "label untrusted", "commands git push **", reach.Conditional, nil, 2},
		{"a flow closes shared files", "labels: {private: {from: ['files private/**'], kind: confidential}}\nflows: {private: {only: ['files private/**']}}\nfiles: {read: {allow: ['**']}, write: {allow: ['out/**']}}" + sends +
			"roles:\n  agent:docs: {rest: inherit}\n  'user:*': {rest: inherit, files: {read: {allow: ['out/**']}}}", "label private", "network *", reach.Unreachable, []string{"agent:docs"}, 0},
		{"commands go on in a compartment", "labels: {private: {from: ['files private/**'], kind: confidential}}\nflows: {private: {only: ['files private/**']}}\nfiles: {read: {allow: ['**']}}\ncommands: {allow: [make]}", "label private", "commands make", reach.Reachable, nil, 2},
		{"a secret's data", "labels: {crm: {from: ['secrets crm'], kind: confidential}}" + sends, "label crm", "network *", reach.Conditional, nil, 2},
		{"a question about flags", "network: {allow: [api.test]}\ncommands: {allow: ['git **']}\nflows: {untrusted: {ask: ['commands git push --force']}}", "label untrusted", "commands git push **", reach.Reachable, nil, 2},
		{"a flow's own host", "labels: {private: {from: ['files private/**'], kind: confidential}}\nflows: {private: {only: ['network api.test']}}\nfiles: {read: {allow: ['**']}}" + sends, "label private", "network *", reach.Reachable, nil, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := world(t, test.doc, test.holders...)
			got, err := w.Ask(test.from, test.to)
			if err != nil {
				t.Fatal(err)
			}
			if got.Verdict != test.want || len(got.Steps) != test.steps {
				t.Errorf("%v with %d steps, want %v with %d: %+v", got.Verdict, len(got.Steps), test.want, test.steps, got.Steps)
			}
		})
	}
}

func TestBadQuestions(t *testing.T) {
	w := world(t, "files: {read: {allow: ['**']}}")
	for _, test := range []struct{ from, to, want string }{
		{"agent:dcos", "network *", `no policy here names "agent:dcos"`},
		{"files", "network *", "neither a principal nor a section"},
		{"fils src/**", "network *", "neither a principal nor a section"},
		{"files src/**", "label private", "stands first"},
		{"label private", "network *", `no policy here has the label "private"`},
		{"files a//b", "network *", "empty segment"},
		{"user:ann", "network ftp://x", "scheme"},
	} {
		_, err := w.Ask(test.from, test.to)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s to %s: %v, want %q", test.from, test.to, err, test.want)
		}
	}
}

// TestDenyClosesWays: whatever is denied besides, no answer becomes more open.
func TestDenyClosesWays(t *testing.T) {
	racetest.Skip(t, "one goroutine computes")
	rnd := rand.New(rand.NewPCG(1, 2))
	pick := func(list ...string) string { return list[rnd.IntN(len(list))] }
	rank := map[reach.Verdict]int{reach.Unreachable: 0, reach.Conditional: 1, reach.Reachable: 2}
	closed := 0
	for range 10 {
		paths := func() string { return pick("**", "src/**", "private/**", "out/*", "~/**", "**/*.key") }
		doc := fmt.Sprintf("files: {read: {allow: ['%s'], ask: ['%s'], deny: [%%s]}, write: {allow: ['%s', '%s'], deny: [%%s]}}\n"+
			"network: {allow: ['%s'], ask: ['%s'], deny: [%%s]}\nroles:\n  agent:a: {rest: inherit, network: {allow: ['%s']}}\n  agent:b: {rest: inherit, files: {read: {allow: ['%s']}}}",
			paths(), paths(), paths(), paths(), pick("api.test", "*", "*.api.test"), pick("api.test", "POST other.test"), pick("api.test", "GET *"), paths())
		less := fmt.Sprintf(doc, "", "", "")
		more := fmt.Sprintf(doc, "'"+paths()+"'", "'"+paths()+"'", "'"+pick("api.test", "*.test", "GET *")+"'")
		from, to := pick("agent:a", "agent:b", "files src/**", "files private/**"), pick("network *", "files out/**", "network POST api.test", "files ~/.ssh/**")
		before, err := world(t, less, "agent:a", "agent:b").Ask(from, to)
		if err != nil {
			t.Fatal(err)
		}
		after, err := world(t, more, "agent:a", "agent:b").Ask(from, to)
		if err != nil {
			t.Fatal(err)
		}
		if rank[after.Verdict] > rank[before.Verdict] {
			t.Errorf("%s to %s: %v, and %v with more denied:\n%s\n%s", from, to, before.Verdict, after.Verdict, less, more)
		}
		if rank[after.Verdict] < rank[before.Verdict] {
			closed++
		}
	}
	if closed == 0 {
		t.Error("no denial closed any way")
	}
}

// TestNothingAllowedIsUnreachable: whatever the policies allow one holder or ask about, a
// question about exactly that finds a way.
func TestNothingAllowedIsUnreachable(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	pick := func(list ...string) string { return list[rnd.IntN(len(list))] }
	decided := 0
	for range 60 {
		paths := func() string {
			return pick("**", "src/**", "private/**", "out/*", "~/**", "**/*.key", "~/.ssh/config", "src/[a-m]?")
		}
		tools := pick("tools: {allow: [fs.read, http.get]}", "tools: {allow: ['**']}", "tools: {deny: [http.get]}", "tools: {allow: [shell.run]}", "")
		doc := fmt.Sprintf("files: {read: {allow: ['%s'], ask: ['%s'], deny: ['%s']}, write: {allow: ['%s'], deny: ['%s']}}\n"+
			"network: {allow: ['%s'], ask: ['%s'], deny: ['%s']}\ncommands: {%s: ['make **']}\n%s",
			paths(), paths(), paths(), paths(), paths(), pick("api.test", "*", "*.api.test", "unix:/run/s"), pick("api.test", "POST other.test"), pick("evil.test", "GET *.test"),
			pick("allow", "ask", "deny"), tools)
		w := world(t, doc)
		section, subject := pick("files.read", "files.write"), pick("/ws/", "/home/u/", "/home/u/.ssh/")+pick("src/a", "private/k.key", "out/x", "config", ".env", "src/bc")
		entry := subject
		if rnd.IntN(3) == 0 {
			section, subject, entry = "network", pick("GET https://api.test:443/", "POST https://other.test:443/a", "GET https://b.api.test:443/", " unix:/run/s"), ""
			entry += strings.TrimSpace(subject)
		}
		a, ok := policy.ActionOn(section, subject)
		if !ok {
			t.Fatal(subject)
		}
		allowed := false
		for _, spec := range builtin {
			fits := section == "files.read" && spec.Effects.Has(tool.FSRead) || section == "files.write" && spec.Effects.Has(tool.FSWrite) || section == "network" && spec.Effects.Has(tool.NetworkHTTP)
			allowed = allowed || fits && w.Holders[0].Chain.Decide(policy.Call{Tool: spec, Actions: []tool.Action{a}}).Effect >= policy.Ask
		}
		answer, err := w.Ask("user:ann", section+" "+entry)
		if err != nil {
			t.Fatal(err)
		}
		if allowed {
			decided++
		}
		if allowed && answer.Verdict == reach.Unreachable {
			t.Errorf("%s %s is allowed, and unreachable by\n%s", section, subject, doc)
		}
	}
	if decided < 10 {
		t.Errorf("only %d are allowed", decided)
	}
}

func TestGains(t *testing.T) {
	old := "files: {read: {allow: ['src/**']}}\nnetwork: {ask: [api.test]}\ntools: {allow: [fs.read, 'http.*']}"
	now := "files: {read: {allow: ['src/**', 'docs/**']}}\nnetwork: {allow: [api.test]}\ntools: {allow: [fs.read, 'http.*', 'mcp:mail:*']}"
	gains, err := reach.Gains(world(t, old), world(t, now))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, g := range gains {
		got = append(got, g.Was+" "+g.Is+" "+g.Example)
	}
	want := []string{`deny allow files.read "/ws/docs/x"`, `ask allow network GET https://api.test/`, `deny allow mcp:mail:x`}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if gains, err = reach.Gains(world(t, now), world(t, now)); err != nil || len(gains) != 0 {
		t.Errorf("the same policies: %v, %v", gains, err)
	}
}

func TestExpectations(t *testing.T) {
	list, err := reach.ParseExpectations("a.yaml", []byte("version: 1\ndeny: [label private -> network *]\nallow: ['agent:a->files x']\n"))
	if err != nil || len(list) != 2 || list[0] != (reach.Expectation{From: "agent:a", To: "files x", Want: reach.Reachable, Pos: list[0].Pos}) && list[1].To != "files x" {
		t.Errorf("%+v, %v", list, err)
	}
	for _, bad := range []string{"version: 1\n", "version: 1\ndeny: [x]", "version: 1\ndeny: ['-> y']", "version: 2\ndeny: [a -> b]", "version: 1\nforbid: [a -> b]", "version: 1\ndeny: [{from: a}]"} {
		if _, err := reach.ParseExpectations("a.yaml", []byte(bad)); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// BenchmarkAuthority asks about 200 rules, 50 tools and 20 agents, by the longest proof:
// that nothing leads anywhere.
func BenchmarkAuthority(b *testing.B) {
	var doc strings.Builder
	doc.WriteString("version: 1\nname: large\nfiles:\n  read:\n    allow: [")
	for i := range 50 {
		fmt.Fprintf(&doc, "'project%d/src/**', ", i)
	}
	doc.WriteString("'**']\n    deny: ['private/**', ")
	for i := range 48 {
		fmt.Fprintf(&doc, "'**/secret%d/*', ", i)
	}
	doc.WriteString("'**/*.bak']\n  write: {allow: ['out/**', 'project1/**']}\nnetwork:\n  allow: [")
	for i := range 60 {
		fmt.Fprintf(&doc, "'GET https://api%d.example.com/v1/**', ", i)
	}
	doc.WriteString("'*.example.org']\n  deny: [")
	for i := range 40 {
		fmt.Fprintf(&doc, "'bad%d.example.org', ", i)
	}
	doc.WriteString("'evil.test']\nroles:\n")
	names := make([]string, 20)
	for i := range names {
		names[i] = fmt.Sprintf("agent:a%d", i)
		fmt.Fprintf(&doc, "  %s: {rest: inherit, files: {read: {allow: ['project%d/**', 'out/**']}, write: {allow: ['project%d/out/**']}}}\n", names[i], i, (i+1)%20)
	}
	p, err := policy.Parse("large.yaml", []byte(doc.String()))
	if err != nil {
		b.Fatal(err)
	}
	tools := slices.Clone(builtin)
	for i := len(tools); i < 50; i++ {
		tools = append(tools, &tool.Spec{ID: tool.ID(fmt.Sprintf("extra.t%d", i)), Source: "builtin", Effects: tool.EffectSet(tool.FSRead, tool.NetworkHTTP)})
	}
	for b.Loop() {
		w := &reach.World{Env: env, Tools: tools}
		binder := grant.NewBinder(env)
		for _, h := range names {
			chain, err := binder.Links(p, h)
			if err != nil {
				b.Fatal(err)
			}
			w.Holders = append(w.Holders, reach.Holder{Name: h, Chain: chain})
		}
		for to, want := range map[string]reach.Verdict{"network evil.test": reach.Unreachable, "network *": reach.Reachable} {
			a, err := w.Ways("agent:a0", to)
			if err != nil || a.Verdict != want {
				b.Fatal(to, a.Verdict, err)
			}
		}
	}
}
