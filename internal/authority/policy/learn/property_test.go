package learn_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/learn"
	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/tool"
)

var (
	filePatterns = []string{"**", "*", "src/**", "src/*", "src/*.go", "src/?.go", "src/[ab].go", "src/{a,b}.go", "**/*.go", "src/a*", "src/.env",
		"**/.env", "a*/**", "src/*/x", "src/*/**", "*/a.go", "/tmp/**", "/tmp/*", "~/x", "src/id_rsa*", "out/*-*.json", "**/x"}
	fileNames = []string{"a.go", "b.go", "c.go", "ab", ".env", "id_rsa_1", "x", "*", "[a].go", "~", "3f2a9c4d1b77e0", "r-3f2a9c4d1b77e0.json", "d"}
	hosts     = []string{"api.example.com", "example.com", "*.example.com", "*", "93.184.216.34"}
	urlPaths  = []string{"", "/**", "/v1/**", "/v1/*", "/v1/*/x", "/v1/users/*", "/v1/users/7", "/v1/a*"}
	words     = []string{"git", "log", "push", "--force", "a", "b", "ghp_0123456789abcdefghijABCDEFGHIJ012345", "x*y", ""}
	cmdPats   = []string{"git **", "git log **", "git * *", "git push **", "** --force **", "git log *", "git", "/usr/bin/git **", "*", "**", "git ** a"}
	toolPats  = []string{"fs.read", "fs.*", "mcp:mail:*", "mcp:**", "{tool: 'mcp:mail:send', args: {to: {each: '*@x.org'}, body: {max_length: 20}, n: {min: 1, optional: true}}}",
		"{tool: 'mcp:mail:*', args: {to: {}}, others: allow}", "{tool: 'fs.read', args: {path: {glob: 'src/**'}}}",
		"{tool: 'mcp:mail:send', args: {m.a: {one_of: [x, y]}}, others: allow}", "{tool: 'mcp:mail:get', args: {path: {within: files.read, base: src}, to: {}}}",
		"{tool: 'mcp:mail:get', args: {path: {}}}"}
	// Entries of ask and deny have no others, those of deny no within.
	strictPats = []string{"fs.read", "mcp:mail:get", "mcp:**", "{tool: 'mcp:mail:send', args: {to: {each: '*@evil.org'}}}",
		"{tool: 'mcp:mail:*', args: {n: {min: 2}}}", "{tool: 'fs.read', args: {path: {glob: 'src/**'}}}", "{tool: 'mcp:mail:send', args: {m.a: x}}"}
)

func list(t *rapid.T, of []string, most int, label string) string {
	// A long list is one of allow: a generous one lets more be learned.
	out := rapid.SliceOfN(rapid.SampledFrom(of), most/2, most).Draw(t, label)
	for i, s := range out {
		if !strings.HasPrefix(s, "{") || !strings.Contains(s, "tool:") {
			out[i] = fmt.Sprintf("%q", s)
		}
	}
	return "[" + strings.Join(out, ", ") + "]"
}

func drawURLs(t *rapid.T, most int, label string) string {
	var out []string
	for range rapid.IntRange(0, most).Draw(t, label) {
		m := rapid.SampledFrom([]string{"", "GET ", "GET,POST "}).Draw(t, "methods")
		out = append(out, m+rapid.SampledFrom(hosts).Draw(t, "host")+rapid.SampledFrom(urlPaths).Draw(t, "path"))
	}
	return list(t, append(out, "localhost"), most, label+" of")
}

// drawPolicy writes a random policy, often generous.
func drawPolicy(t *rapid.T, narrows bool) string {
	var b strings.Builder
	lists := func(draw func(most int, label string) string) string {
		return fmt.Sprintf("{allow: %s, ask: %s, deny: %s}", draw(5, "allow"), draw(1, "ask"), draw(1, "deny"))
	}
	of := func(texts []string) func(int, string) string {
		return func(most int, label string) string { return list(t, texts, most, label) }
	}
	fmt.Fprintf(&b, "files: {read: %s, write: %s}\n", lists(of(filePatterns)), lists(of(filePatterns)))
	fmt.Fprintf(&b, "network: %s\n", lists(func(most int, label string) string { return drawURLs(t, most, label) }))
	fmt.Fprintf(&b, "commands: %s\n", lists(of(cmdPats)))
	if rapid.Bool().Draw(t, "tools") {
		fmt.Fprintf(&b, "tools: {allow: %s, ask: %s, deny: %s, unlisted: %s}\n", list(t, toolPats, 5, "tools"), list(t, strictPats, 1, "tools ask"), list(t, strictPats, 1, "tools deny"),
			rapid.SampledFrom([]string{"ask", "deny"}).Draw(t, "unlisted"))
	}
	if narrows && rapid.Bool().Draw(t, "inherit") {
		b.WriteString("rest: inherit\n")
	}
	return b.String()
}

func drawPath(t *rapid.T, label string) string {
	parts := []string{rapid.SampledFrom([]string{"/ws", "/ws/src", "/ws/src/d", "/ws/out", "/tmp", "/home/u", "/ws/ab"}).Draw(t, label)}
	parts = append(parts, rapid.SliceOfN(rapid.SampledFrom(fileNames), 0, 2).Draw(t, label+" names")...)
	return strings.Join(parts, "/")
}

func drawAction(t *rapid.T) tool.Action {
	switch rapid.IntRange(0, 3).Draw(t, "kind") {
	case 0, 1:
		a := tool.Action{Kind: rapid.SampledFrom([]tool.ActionKind{tool.FileRead, tool.FileWrite}).Draw(t, "files"), Path: drawPath(t, "path")}
		if rapid.Bool().Draw(t, "linked") {
			a.Real = drawPath(t, "real")
		}
		return a
	case 2:
		host := rapid.SampledFrom([]string{"api.example.com", "a.b.example.com", "example.com", "93.184.216.34", "localhost"}).Draw(t, "host")
		p := rapid.SampledFrom([]string{"", "/v1", "/v1/users/7", "/v1/users/8", "/v1/users/9", "/v1/7/x", "/v1/ab", "/v1/a%2Ab", "/v1/x y"}).Draw(t, "url path")
		tg, err := target.Parse(rapid.SampledFrom([]string{"GET", "POST", "PUT"}).Draw(t, "method"), "https://"+host+strings.ReplaceAll(p, " ", "%20"))
		if err != nil {
			t.Fatal(err)
		}
		if rapid.IntRange(0, 4).Draw(t, "unseen") == 0 {
			tg.Method, tg.Path = "", ""
		}
		return tool.Action{Kind: tool.Network, Target: tg}
	}
	a := tool.Action{Kind: tool.Command, Dir: "/ws"}
	a.Argv = append([]string{rapid.SampledFrom([]string{"git", "/usr/bin/git", "./git", "rm"}).Draw(t, "program")},
		rapid.SliceOfN(rapid.SampledFrom(append([]string{"\x00word", "\x00words"}, words...)), 0, 3).Draw(t, "words")...)
	switch rapid.IntRange(0, 3).Draw(t, "exe") {
	case 0:
		a.Exe = "/usr/bin/git"
	case 1:
		a.Exe = "/ws/git"
	}
	return a
}

func spec(id tool.ID) *tool.Spec {
	s := &tool.Spec{ID: id, Source: "builtin"}
	if strings.HasPrefix(string(id), "mcp:") {
		s.Source = "mcp"
		s.Input = json.RawMessage(`{"properties": {"body": {"type": "string"}, "n": {"type": "number"}, "path": {"type": "string"}}}`)
	}
	return s
}

func drawRandomCall(t *rapid.T) policy.Call {
	id := rapid.SampledFrom([]tool.ID{"fs.read", "shell.run", "mcp:mail:send", "mcp:mail:get", "mcp:mail:list"}).Draw(t, "tool")
	c := policy.Call{Tool: spec(id), Args: tool.Args{}}
	if strings.HasPrefix(string(id), "mcp:") {
		text := rapid.SampledFrom([]string{"x", "hello there", strings.Repeat("long ", 60), "ghp_0123456789abcdefghijABCDEFGHIJ012345"})
		if rapid.Bool().Draw(t, "to") {
			c.Args["to"] = []any{rapid.SampledFrom([]string{"a@x.org", "b@x.org", "e@evil.org"}).Draw(t, "address")}
		}
		if rapid.Bool().Draw(t, "body") {
			c.Args["body"] = text.Draw(t, "text")
		}
		if rapid.Bool().Draw(t, "n") {
			c.Args["n"] = json.Number(rapid.SampledFrom([]string{"0", "1", "2.5"}).Draw(t, "number"))
		}
		if rapid.Bool().Draw(t, "path") {
			c.Args["path"] = rapid.SampledFrom([]string{"a.go", "/ws/src/b.go", "/tmp/x", "../x"}).Draw(t, "argument")
		}
		if rapid.Bool().Draw(t, "m") {
			c.Args["m"] = map[string]any{"a": rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "m.a")}
		}
		return c
	}
	c.Args["path"] = rapid.SampledFrom([]string{"src/a.go", "b.go"}).Draw(t, "argument")
	if rapid.Bool().Draw(t, "one action") {
		c.Actions = append(c.Actions, drawAction(t))
		return c
	}
	for range rapid.IntRange(0, 2).Draw(t, "actions") {
		c.Actions = append(c.Actions, drawAction(t))
	}
	return c
}

func bindAll(t *rapid.T, srcs ...string) policy.Chain {
	var c policy.Chain
	for i, s := range srcs {
		p, err := policy.Parse(fmt.Sprintf("p%d", i), []byte("version: 1\n"+s))
		if err != nil {
			t.Fatalf("%v\n%s", err, s)
		}
		r, err := p.Bind(env)
		if err != nil {
			t.Fatal(err)
		}
		c = append(c, r)
	}
	return c
}

func uses(calls []policy.Call) []learn.Use {
	var out []learn.Use
	for _, c := range calls {
		for _, a := range c.Actions {
			out = append(out, learn.Use{Action: a, Tool: c.Tool.ID, Args: c.Args})
		}
		if len(c.Actions) == 0 {
			out = append(out, learn.Use{Tool: c.Tool.ID, Args: c.Args})
		}
	}
	return out
}

// under is a call with the actions that a chain makes of its arguments.
func under(c policy.Chain, call policy.Call) policy.Call {
	call.Actions = slices.Concat(call.Actions, c.Within(call.Tool, call.Args))
	return call
}

func secret(s string) bool { return strings.Contains(s, "ghp_") }

// What was done passes, and nothing else passes that the originals refuse or
// ask about.
func TestLearnedAllowsWhatWasDoneAndNeverMore(t *testing.T) {
	const left = "Done, but not allowed here"
	whole := 0
	rapid.Check(t, func(t *rapid.T) {
		srcs := []string{drawPolicy(t, false)}
		if rapid.IntRange(0, 2).Draw(t, "links") == 0 {
			srcs = append(srcs, drawPolicy(t, true))
		}
		c := bindAll(t, srcs...)
		// Half of the time a person has approved what was asked about.
		least := rapid.SampledFrom([]policy.Effect{policy.Allow, policy.Ask}).Draw(t, "least")
		var done []policy.Call
		tried := rapid.SliceOfN(rapid.Custom(drawRandomCall), 10, 40).Draw(t, "calls")
		for _, call := range tried {
			// A name of the trusted PATH that leads into the workspace is not what its
			// entry means, which shows in the facts alone: it is left to those who ask.
			planted := slices.ContainsFunc(call.Actions, func(a tool.Action) bool { return a.Exe == "/ws/git" && a.Argv[0] != "./git" })
			if call = under(c, call); !planted && c.Decide(call).Effect >= least {
				done = append(done, call)
			}
		}
		got, err := learn.Policy("learned", uses(done), learn.Options{Workspace: "/ws", Home: "/home/u", Chain: c, Spec: spec, Secret: secret,
			Exact: rapid.Bool().Draw(t, "exact"), Known: []*tool.Spec{spec("mcp:mail:get"), spec("mcp:mail:list"), spec("mcp:mail:send")}})
		out := got.Policy
		if err != nil && least == policy.Ask {
			return // what one policy asks about, another constrains
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, strings.Join(srcs, "\n--\n"))
		}
		p, err := policy.Parse("learned", out)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if again, err := policy.Parse("learned", p.Print()); err != nil || !bytes.Equal(again.Print(), p.Print()) {
			t.Fatalf("printed and parsed it is another policy: %v\n%s", err, out)
		}
		r, err := p.Bind(env)
		if err != nil {
			t.Fatal(err)
		}
		learned := policy.Chain{r}
		if !strings.Contains(string(out), left) {
			whole++
			for _, call := range done {
				if d := learned.Decide(under(learned, call)); d.Effect != c.Decide(under(c, call)).Effect {
					t.Fatalf("%s %v %v was done, and learned is %s: %s\n%s\noriginal:\n%s", call.Tool.ID, call.Args, call.Actions, d.Effect, d.Reason, out, strings.Join(srcs, "\n--\n"))
				}
			}
		}
		others := rapid.SliceOfN(rapid.Custom(drawRandomCall), 20, 60).Draw(t, "others")
		for _, call := range slices.Concat(tried, others) {
			was, is := c.Decide(under(c, call)), learned.Decide(under(learned, call))
			if is.Effect > was.Effect {
				t.Fatalf("%s %v %v: learned says %s (%s), the original %s (%s)\n%s\noriginal:\n%s", call.Tool.ID, call.Args, call.Actions,
					is.Effect, is.Reason, was.Effect, was.Reason, out, strings.Join(srcs, "\n--\n"))
			}
		}
		if strings.Contains(string(out), "ghp_0123") {
			t.Fatalf("a secret was written down:\n%s", out)
		}
	})
	if whole == 0 {
		t.Error("no learned policy held all that was done: the test shows little")
	}
	t.Logf("%d were whole", whole)
}
