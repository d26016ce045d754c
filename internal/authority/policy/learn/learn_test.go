package learn_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/learn"
	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/tool"
)

var env = policy.Env{Workspace: "/ws", Home: "/home/u", State: "/home/u/.local/share/remit",
	Path: []string{"/usr/local/bin", "/usr/bin", "/bin"}}

func chain(t testing.TB, srcs ...string) policy.Chain {
	t.Helper()
	var c policy.Chain
	for _, s := range srcs {
		p, err := policy.Parse("test.yaml", []byte("version: 1\n"+s))
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

func read(p string) tool.Action { return tool.Action{Kind: tool.FileRead, Path: "/ws/" + p} }
func run(argv ...string) tool.Action {
	return tool.Action{Kind: tool.Command, Argv: argv, Dir: "/ws"}
}
func get(t testing.TB, url string) tool.Action {
	tg, err := target.Parse("GET", url)
	if err != nil {
		t.Fatal(err)
	}
	return tool.Action{Kind: tool.Network, Target: tg}
}

func builtin(id tool.ID) *tool.Spec { return &tool.Spec{ID: id, Source: "builtin"} }

func options(c policy.Chain) learn.Options {
	return learn.Options{Workspace: "/ws", Home: "/home/u", Chain: c, Spec: builtin}
}

// Exactly what was used, though it might be widened.
func TestExactWidensNeitherArgumentsNorHostsNorFolders(t *testing.T) {
	var uses []learn.Use
	for _, x := range []string{"a", "b", "c"} {
		uses = append(uses, mail(map[string]any{"body": "word " + x, "n": json.Number("3")}), learn.Use{Action: get(t, "https://"+x+".x.org/v")})
		uses = append(uses, files("src/"+x+"/x.go")...)
	}
	opt := options(chain(t, "tools: {allow: ['mcp:mail:*', fs.read]}\nnetwork: {allow: ['*']}\nfiles: {read: {allow: ['**']}}"))
	opt.Spec, opt.Exact = spec, true
	got, err := learn.Policy("learned", uses, opt)
	if err != nil {
		t.Fatal(err)
	}
	if out := string(got.Policy); len(got.Widened) > 0 || strings.Contains(out, "*") || strings.Count(out, "equals: 3") != 3 {
		t.Errorf("%v\n%s", got.Widened, out)
	}
}

func mail(args map[string]any) learn.Use {
	return learn.Use{Tool: "mcp:mail:send", Args: args}
}

func files(paths ...string) []learn.Use {
	var out []learn.Use
	for _, p := range paths {
		out = append(out, learn.Use{Tool: "fs.read", Action: read(p)})
	}
	return out
}

func commands(lines ...string) []learn.Use {
	var out []learn.Use
	for _, l := range lines {
		out = append(out, learn.Use{Tool: "shell.run", Action: run(strings.Fields(l)...)})
	}
	return out
}

func TestWhatIsLearned(t *testing.T) {
	const anything = `files: {read: {allow: ["**"]}}`
	gets := func(urls ...string) []learn.Use {
		var out []learn.Use
		for _, u := range urls {
			out = append(out, learn.Use{Tool: "http.get", Action: get(t, u)})
		}
		return out
	}
	tests := map[string]struct {
		policy string
		uses   []learn.Use
		has    []string // lines without their indentation
		lacks  []string // texts
	}{
		"two files stay two files": {anything, files("n/a.md", "n/b.md"), []string{`- "n/a.md"`, `- "n/b.md"`}, []string{"*"}},
		"three of a kind are a pattern of it": {anything, files("n/a.md", "n/b.md", "n/c.md"),
			[]string{`- "n/*.md"`, `# used 3 times, as "n/a.md"`}, []string{`- "n/a.md"`}},
		"three kinds are a folder":        {anything, files("n/a.md", "n/b.go", "n/c"), []string{`- "n/*"`}, nil},
		"not the whole workspace":         {anything, files("a.md", "b.go", "c"), []string{`- "a.md"`, `- "b.go"`, `- "c"`}, []string{`"*"`}},
		"not more than one entry allows":  {`files: {read: {allow: ["n/a.md", "n/b.md", "n/[c-d].md"]}}`, files("n/a.md", "n/b.md", "n/c.md"), []string{`- "n/c.md"`}, []string{"*"}},
		"not what is asked about":         {`files: {read: {allow: ["**"], ask: ["n/x.md"]}}`, files("n/a.md", "n/b.md", "n/c.md"), []string{`- "n/a.md"`}, []string{"*"}},
		"what was asked is asked":         {`files: {read: {allow: ["**"], ask: ["n/x.md"]}}`, files("n/x.md"), []string{"ask:", `- "n/x.md"`, "allow: []"}, nil},
		"a sensitive name as it is":       {`files: {read: {allow: ["**", "n/.env"]}}`, files("n/.env", "n/a", "n/b", "n/c"), []string{`- "n/*"`, `- "n/.env"`}, nil},
		"denied stays denied":             {`files: {read: {allow: ["**"], deny: ["**/*.bak"]}}`, files("a"), []string{`- "**/*.bak"`}, nil},
		"a name that will not come again": {anything, files("out/r-20261121T155753Z.json"), []string{`- "out/r-*.json"`}, []string{"20261121"}},
		"a UUID in the middle":            {anything, files("run/0199f3c2-1111-7abc-8def-0123456789ab/log"), []string{`- "run/*/log"`}, []string{"0199f3c2"}},
		"the policy's own entry for it":   {`files: {read: {allow: ["out/[0-9a-f]*.json"]}}`, files("out/3f2a9c4d1b77.json"), []string{`- "out/[0-9a-f]*.json"`}, []string{"3f2a"}},
		"words are no random names":       {anything, files("src/internationalization.go", "docs/2026-11.md"), []string{`- "src/internationalization.go"`, `- "docs/2026-11.md"`}, nil},
		"identifiers in a URL": {`network: {allow: ["GET https://x.org/**"]}`, gets("https://x.org/users/123/repos"),
			[]string{`- "GET https://x.org/users/*/repos"`}, []string{`"GET https://x.org/users/123`}},
		"an identifier that is not covered": {`network: {allow: ["GET https://x.org/users/7"]}`, gets("https://x.org/users/7"), []string{`- "GET https://x.org/users/7"`}, nil},
		"two hosts stay":                    {`network: {allow: ["*"]}`, gets("https://a.x.org/a", "https://b.x.org/a"), []string{`- "GET https://a.x.org/a"`, `- "GET https://b.x.org/a"`}, []string{"*"}},
		"a secret's entry stays one": {`network: {allow: [{url: "https://x.org/v1/**", secret: {header: X-Key, env: KEY}}]}`, gets("https://x.org/v1/a"),
			[]string{`- url: "GET https://x.org/v1/a"`, `secret: {header: "X-Key", env: "KEY"}`}, nil},
		"a subcommand's words": {`commands: {allow: ["git **"]}`, commands("git log a", "git log b", "git log c"), []string{`- "git log *"`}, nil},
		"subcommands stay":     {`commands: {allow: ["git **"]}`, commands("git log a", "git status a", "git diff a"), []string{`- "git log a"`, `- "git status a"`}, []string{"*"}},
		"words that are not covered": {`commands: {allow: ["git log a", "git log b", "git log c"]}`, commands("git log a", "git log b", "git log c"),
			[]string{`- "git log a"`}, []string{"*"}},
		"a secret in a command": {`commands: {allow: ["curl **"]}`, commands("curl ghp_0123456789abcdefghij"), []string{`- "curl *"`}, []string{"ghp_"}},
		"a secret that nothing covers": {`commands: {allow: ["curl ghp_0123456789abcdefghij -v"]}`, commands("curl ghp_0123456789abcdefghij -v"),
			[]string{`- "curl ghp_0123456789abcdefghij -v"`}, nil}, // the policy says it itself
		"arguments of a tool": {`tools: {allow: ["mcp:mail:*"]}`, []learn.Use{mail(map[string]any{"to": "ann@x.org", "n": json.Number("3")})},
			[]string{`- tool: "mcp:mail:send"`, `"to": {equals: "ann@x.org"}`, `"n": {min: 0, max: 3}`, "# newly allows n: any number from 0 to 3"}, nil},
		"a link that was in a text": {`tools: {allow: ["mcp:mail:*"]}`, []learn.Use{mail(map[string]any{"body": "See www.x.org."})},
			[]string{"# newly allows body: any text of up to 2000 characters without links and addresses other than www.x.org"}, nil},
		"recipients are not combined with files": {`tools: {allow: ["mcp:mail:*"]}`, []learn.Use{mail(map[string]any{"to": "ann", "file": "a"}), mail(map[string]any{"to": "bob", "file": "b"})},
			[]string{`"to": {equals: "ann"}`, `"to": {equals: "bob"}`}, []string{"one_of", "newly"}},
		"lists of recipients": {`tools: {allow: ["mcp:mail:*"]}`, []learn.Use{mail(map[string]any{"to": []any{"ann"}}), mail(map[string]any{"to": []any{"bob"}})},
			[]string{`"to": {max_length: 1, each: {one_of: ["ann", "bob"]}}`}, nil},
		"an account is no number that will not come again": {`tools: {allow: ["mcp:mail:*"]}`, []learn.Use{mail(map[string]any{"iban": "UK12345678901234567890"})},
			[]string{`"iban": {equals: "UK12345678901234567890"}`}, nil},
		"a secret is not written down": {`tools: {allow: ["mcp:mail:*"]}`, []learn.Use{mail(map[string]any{"to": "ghp_0123"})},
			[]string{`#   tools mcp:mail:send to (1×): its value contains a secret or is too long to be written down`}, []string{"ghp_"}},
		"two identifiers are two": {`tools: {allow: ["mcp:mail:*"]}`, []learn.Use{mail(map[string]any{"draft_id": "D-17"}), mail(map[string]any{"draft_id": "D-18"})},
			[]string{`"draft_id": {equals: "D-17"}`, `"draft_id": {equals: "D-18"}`}, nil},
		"three identifiers are a form": {`tools: {allow: ["mcp:mail:*"]}`,
			[]learn.Use{mail(map[string]any{"draft_id": "D-17"}), mail(map[string]any{"draft_id": "D-18"}), mail(map[string]any{"draft_id": "D-19"})},
			[]string{`"draft_id": {regex: "D-[0-9]{2}"}`, "# used 3 times", "# newly allows draft_id: any text of the form D-99"}, []string{"equals"}},
		"dates are a form": {`tools: {allow: ["mcp:mail:*"]}`, []learn.Use{mail(map[string]any{"when": "2024-05-26"})},
			[]string{`"when": {regex: "[0-9]{4}-[0-9]{2}-[0-9]{2}"}`}, nil},
		"what only reads is free": {`tools: {allow: ["mcp:mail:*"]}`, []learn.Use{{Tool: "mcp:mail:search", Args: map[string]any{"query": "offer", "limit": json.Number("5")}}},
			[]string{`"query": {max_length: 200, optional: true}`, `"limit": {min: 0, max: 10, optional: true}`}, nil},
		"but not what names a place": {`tools: {allow: ["mcp:mail:*"]}`, []learn.Use{{Tool: "mcp:mail:get_page", Args: map[string]any{"url": "www.x.org"}}},
			[]string{`"url": {equals: "www.x.org"}`}, []string{"newly"}},
		"three pages of a host": {`tools: {allow: ["mcp:mail:*"]}`, []learn.Use{{Tool: "mcp:mail:get_page", Args: map[string]any{"url": "www.x.org/a"}},
			{Tool: "mcp:mail:get_page", Args: map[string]any{"url": "www.x.org/b"}}, {Tool: "mcp:mail:get_page", Args: map[string]any{"url": "www.x.org"}}},
			[]string{"# newly allows url: every address of www.x.org"}, []string{"equals"}},
		"three folders": {anything, files("src/a/x.go", "src/b/y.go", "src/c/z.go"), []string{`- "src/*/*.go"`, "# newly allows everything else that the pattern matches"}, nil},
		"three hosts of a domain": {`network: {allow: ["GET https://*.x.org/**"]}`, gets("https://a.x.org/v", "https://b.x.org/v", "https://c.x.org/v"),
			[]string{`- "GET https://*.x.org/v"`}, nil},
		"three hosts below one where anybody has names": {`network: {allow: ["*"]}`, gets("https://a.github.io/v", "https://b.github.io/v", "https://c.github.io/v"),
			[]string{`- "GET https://a.github.io/v"`}, []string{"*"}},
		"constraints are kept": {`tools: {allow: [{tool: "mcp:mail:send", args: {to: {each: "*@x.org"}, body: {max_length: 900}}}]}`,
			[]learn.Use{mail(map[string]any{"to": []any{"ann@x.org"}, "body": strings.Repeat("word ", 80)})},
			[]string{`"to": {equals: ["ann@x.org"], each: {glob: "*@x.org"}}`, `"body": {max_length: 900}`}, nil},
		"what was refused is a comment": {anything, []learn.Use{{Tool: "fs.read", Action: read("s"), Refused: true, Why: "no\n- evil", Count: 2}},
			[]string{`#   files.read "s" (2×): no\n- evil`}, []string{"\n- evil"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			opt := options(chain(t, tt.policy))
			opt.Secret = secret
			opt.Spec = spec
			got, err := learn.Policy("learned", tt.uses, opt)
			out := got.Policy
			if err != nil {
				t.Fatal(err)
			}
			var lines []string
			for line := range strings.Lines(string(out)) {
				lines = append(lines, strings.TrimSpace(line))
			}
			for _, want := range tt.has {
				if !slices.Contains(lines, want) {
					t.Errorf("no line %s in\n%s", want, out)
				}
			}
			for _, not := range tt.lacks {
				if body := strings.ReplaceAll(string(out), "# ", ""); strings.Contains(body, not) {
					t.Errorf("%q is in\n%s", not, out)
				}
			}
			c := chain(t, strings.Replace(string(out), "version: 1\n", "", 1))
			for _, u := range tt.uses {
				if u.Refused || u.Action.Kind == tool.NoAction {
					continue
				}
				if got, want := c.DecideAction(u.Action).Effect, opt.Chain.DecideAction(u.Action).Effect; got != want {
					t.Errorf("%s: %v, was %v under\n%s", u.Action, got, want, out)
				}
			}
		})
	}
}

// Without a chain nothing is generalised, and a name that will not come again
// is a comment.
func TestNothingIsGeneralisedWithoutAPolicy(t *testing.T) {
	got, err := learn.Policy("typed", append(files("n/a.md", "n/b.md", "n/c.md"), files("cache/3f2a9c4d1b77.json")...),
		learn.Options{Workspace: "/ws", System: "standard"})
	out := got.Policy
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`- "n/a.md"`, "system: standard", "# Done, but not allowed here:\n#   files.read \"cache/….json\" (1×)"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(string(out), "3f2a") {
		t.Errorf("the name is written down:\n%s", out)
	}
}

// What one document cannot say for a whole chain is an error and not left out.
func TestAChainThatIsNoDocumentIsRefused(t *testing.T) {
	for name, srcs := range map[string][]string{
		"one asks, another constrains": {`tools: {ask: ["mcp:mail:*"]}`, `tools: {allow: [{tool: "mcp:mail:send", args: {to: x}}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			opt := options(chain(t, srcs...))
			opt.Spec = spec
			_, err := learn.Policy("l", []learn.Use{mail(map[string]any{"to": "x"})}, opt)
			if err == nil || !strings.Contains(err.Error(), "cannot be written as one") {
				t.Errorf("%v", err)
			}
		})
	}
	opt := options(chain(t, `files: {read: {allow: ["**"]}}`+"\nlimits: {calls: 9, time: 5m}", `files: {read: {allow: ["n/**"], max_bytes: 10}}`+"\nlimits: {calls: 20}\nrest: inherit"))
	got, err := learn.Policy("l", files("n/a", "n/b", "n/c"), opt)
	out := got.Policy
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`- "n/*"`, "calls: 9", "time: 5m", "max_bytes: 10"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}
