package translate_test

import (
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/translate"
	"github.com/remitrun/remit/internal/base/racetest"
	"github.com/remitrun/remit/internal/base/tool"
)

var update = flag.Bool("update", false, "write the golden files")

// TestGolden compares the translation of one file of each source.
func TestGolden(t *testing.T) {
	for file, agent := range map[string]string{"claude.json": "claude", "codex.toml": "codex", "codex.rules": "codex", "capsule.yaml": "capsule", "opencode.jsonc": "opencode",
		"vscode.json": "vscode", "gemini.toml": "gemini", "zed.json": "zed"} {
		t.Run(file, func(t *testing.T) {
			src, err := os.ReadFile(filepath.Join("testdata", file))
			if err != nil {
				t.Fatal(err)
			}
			res, err := translate.Translate(agent, file, src)
			if err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			out.Write(res.Policy)
			for _, d := range res.Dropped {
				out.WriteString("# dropped " + d.Rule + "\n#   " + d.Reason + "\n")
			}
			golden := filepath.Join("testdata", file+".golden")
			if *update {
				if err := os.WriteFile(golden, []byte(out.String()), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil || string(want) != out.String() {
				t.Errorf("%v\ngot\n%s", err, out.String())
			}
		})
	}
}

var env = policy.Env{Workspace: "/ws", Home: "/home/u", State: "/home/u/.local/share/remit", Path: []string{"/usr/bin"}}

func decide(t *testing.T, src []byte, a tool.Action) policy.Effect {
	t.Helper()
	p, err := policy.Parse("p.yaml", src)
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Bind(env)
	if err != nil {
		t.Fatal(err)
	}
	return policy.Chain{r}.DecideAction(a).Effect
}

var vocabulary = []string{"git", "gitk", "push", "log", "main", "-f", "a/b", "a"}

func sentence(r *rand.Rand, words []string, most int) string {
	var out []string
	for range 1 + r.IntN(most) {
		out = append(out, words[r.IntN(len(words))])
	}
	return strings.Join(out, " ")
}

// star reports whether a text matches a pattern in which * is any text: the sources' own reading,
// written anew.
func star(pattern, text string) bool {
	if pattern == "" {
		return text == ""
	}
	if pattern[0] == '*' {
		for i := 0; i <= len(text); i++ {
			if star(pattern[1:], text[i:]) {
				return true
			}
		}
		return false
	}
	return text != "" && text[0] == pattern[0] && star(pattern[1:], text[1:])
}

// matches is star, where a space and * at the end also match nothing.
func matches(pattern, text string) bool {
	if body, ok := strings.CutSuffix(pattern, " *"); ok && star(body, text) {
		return true
	}
	return star(pattern, text)
}

type ruleOf struct {
	pattern string
	e       policy.Effect
}

// A translated policy allows no command that its source denies, asks about or does not allow.
func TestNothingIsWidened(t *testing.T) {
	racetest.Skip(t, "one goroutine computes")
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the cases must be the same each time
	effects := []policy.Effect{policy.Allow, policy.Allow, policy.Allow, policy.Allow, policy.Ask, policy.Deny}
	patterns := append([]string{"*", "*", "g*", "*sh", "p*h", "-*", "*"}, vocabulary...)
	allowed := 0
	for range 400 {
		var rules []ruleOf
		for range 1 + r.IntN(5) {
			rules = append(rules, ruleOf{sentence(r, patterns, 4), effects[r.IntN(len(effects))]})
		}
		for agent, source := range sourcesOf(t, r, rules) {
			res, err := translate.Translate(agent, source.file, source.text)
			if err != nil {
				t.Fatalf("%s: %v\n%s", agent, err, source.text)
			}
			for range 8 {
				line := sentence(r, vocabulary, 4)
				argv := strings.Fields(line)
				got := decide(t, res.Policy, tool.Action{Kind: tool.Command, Argv: argv, Dir: "/ws"})
				if want := source.decide(line); got == policy.Allow && want != policy.Allow {
					t.Fatalf("%s: %q is allowed, the source says %v\n%s\n%s", agent, line, want, source.text, res.Policy)
				}
				if got == policy.Allow {
					allowed++
				}
			}
		}
	}
	if allowed < 100 {
		t.Errorf("only %d commands were allowed: the property was hardly tested", allowed)
	}
}

type source struct {
	file   string
	text   []byte
	decide func(line string) policy.Effect
}

// sourcesOf writes the same rules for sources, each with its own way to decide.
func sourcesOf(t *testing.T, r *rand.Rand, rules []ruleOf) map[string]source {
	t.Helper()
	lists, ordered := map[string][]string{}, strings.Builder{}
	seen := map[string]bool{}
	var last []ruleOf
	approve, approvals := map[string]bool{}, []ruleOf{}
	var gemini strings.Builder
	type ranked struct {
		ruleOf
		priority int
	}
	var ranks []ranked
	for _, q := range rules {
		lists[q.e.String()] = append(lists[q.e.String()], "Bash("+q.pattern+")")
		if !seen[q.pattern] {
			seen[q.pattern] = true
			last = append(last, q)
			ordered.WriteString(map[bool]string{true: ",", false: ""}[ordered.Len() > 0] + quoted(t, q.pattern) + ":" + quoted(t, q.e.String()))
		}
		if strings.Contains(q.pattern, "*") {
			continue
		}
		if _, there := approve[q.pattern]; !there {
			approve[q.pattern] = q.e == policy.Allow
			approvals = append(approvals, q)
		}
		p := r.IntN(3)
		gemini.WriteString("[[rule]]\ntoolName = \"run_shell_command\"\ncommandPrefix = " + quoted(t, q.pattern) + "\npriority = " + string(rune('0'+p)) +
			"\ndecision = " + quoted(t, map[policy.Effect]string{policy.Allow: "allow", policy.Ask: "ask_user", policy.Deny: "deny"}[q.e]) + "\n")
		ranks = append(ranks, ranked{q, p})
	}
	claude, err := json.Marshal(map[string]any{"permissions": lists})
	if err != nil {
		t.Fatal(err)
	}
	code, err := json.Marshal(map[string]any{"chat.tools.terminal.autoApprove": approve})
	if err != nil {
		t.Fatal(err)
	}
	prefix := func(p, line string) bool { return line == p || strings.HasPrefix(line, p+" ") }
	strictest := func(list []ruleOf, fits func(p, line string) bool) func(string) policy.Effect {
		return func(line string) policy.Effect {
			found, e := false, policy.Allow
			for _, q := range list {
				if fits(q.pattern, line) {
					found, e = true, min(e, q.e)
				}
			}
			if !found {
				return policy.Deny
			}
			return e
		}
	}
	return map[string]source{
		"claude": {"settings.json", claude, strictest(rules, matches)},
		"opencode": {"opencode.json", []byte(`{"permission": {"bash": {` + ordered.String() + `}}}`), func(line string) policy.Effect {
			e := policy.Deny
			for _, q := range last {
				if matches(q.pattern, line) {
					e = q.e
				}
			}
			return e
		}},
		"vscode": {"settings.json", code, strictest(approvals, prefix)},
		"gemini": {"policy.toml", []byte(gemini.String()), func(line string) policy.Effect {
			e, best := policy.Deny, -1
			for _, q := range ranks {
				if prefix(q.pattern, line) && (q.priority > best || q.priority == best && q.e < e) {
					e, best = q.e, q.priority
				}
			}
			return e
		}},
	}
}

func quoted(t *testing.T, s string) string {
	t.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Files that Claude Code must not read are neither read nor written.
func TestFilesOfClaude(t *testing.T) {
	tests := map[string]struct {
		rules string
		path  string
		kind  tool.ActionKind
		want  policy.Effect
	}{
		"read in the workspace":            {`{}`, "/ws/a.txt", tool.FileRead, policy.Allow},
		"not outside":                      {`{}`, "/etc/hosts", tool.FileRead, policy.Deny},
		"writing is asked about":           {`{}`, "/ws/a.txt", tool.FileWrite, policy.Ask},
		"denied at any depth":              {`{"deny": ["Read(*.bak)"]}`, "/ws/x/y.bak", tool.FileRead, policy.Deny},
		"denied reading denies writing":    {`{"deny": ["Read(secrets/**)"], "allow": ["Edit"]}`, "/ws/secrets/a", tool.FileWrite, policy.Deny},
		"a folder's name denies its files": {`{"deny": ["Read(private)"]}`, "/ws/a/private/b", tool.FileRead, policy.Deny},
		"relative to the settings":         {`{"deny": ["Read(/conf/**)"]}`, "/ws/conf/a", tool.FileRead, policy.Deny},
		"an allowed edit":                  {`{"allow": ["Edit(src/**)"]}`, "/ws/src/a.go", tool.FileWrite, policy.Allow},
		"an edit elsewhere":                {`{"allow": ["Edit(src/**)"]}`, "/ws/a.go", tool.FileWrite, policy.Deny},
		"a dead rule allows nothing":       {`{"allow": ["Write(out/**)", "Edit(src/**)"]}`, "/ws/out/a", tool.FileWrite, policy.Deny},
		"a dead rule denies":               {`{"deny": ["Write(out/**)"], "allow": ["Edit"]}`, "/ws/out/a", tool.FileWrite, policy.Deny},
		"a refusal that cannot be written": {`{"deny": ["Read([ab].txt)"]}`, "/ws/c.txt", tool.FileRead, policy.Ask},
		"a mode that allows all":           {`{"defaultMode": "bypassPermissions"}`, "/ws/a", tool.FileWrite, policy.Ask},
		"all reading denied":               {`{"deny": ["Read"]}`, "/ws/a", tool.FileRead, policy.Deny},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			res, err := translate.Translate("claude", "settings.json", []byte(`{"permissions": `+tt.rules+`}`))
			if err != nil {
				t.Fatal(err)
			}
			if got := decide(t, res.Policy, tool.Action{Kind: tt.kind, Path: tt.path}); got != tt.want {
				t.Errorf("got %v, want %v\n%s%v", got, tt.want, res.Policy, res.Dropped)
			}
		})
	}
}

func TestWhatCannotBeReadIsAnError(t *testing.T) {
	for agent, list := range map[string][]string{
		"claude": {"", "[]", `{"a": 1, "a": 2}`, "x"},
		"gemini": {"[[rule", "rule = 1"},
		"codex":  {"for x in y: pass", `prefix_rule(pattern=["a"] + B)`, `prefix_rule(pattern=["a" + "b"])`, `prefix_rule(pattern=["a"], decision=D)`, `prefix_rule(["a"])`, `other(a="b")`, `prefix_rule(pattern=["a"], decision="maybe")`, `prefix_rule(pattern=["a"], unless="b")`},
		"nobody": {"{}"},
	} {
		for _, src := range list {
			file := "settings.json"
			if agent == "codex" {
				file = "team.rules"
			}
			if res, err := translate.Translate(agent, file, []byte(src)); err == nil {
				t.Errorf("%s: %q became\n%s", agent, src, res.Policy)
			}
		}
	}
}

func FuzzTranslate(f *testing.F) {
	for _, s := range []string{`{"permissions": {"allow": ["Bash(a *)"]}}`, `prefix_rule(pattern=["a"])`, "[[rule]]\ntoolName='x'"} {
		for _, agent := range translate.Agents() {
			f.Add(agent, s)
		}
	}
	f.Fuzz(func(t *testing.T, agent, src string) {
		for _, file := range []string{"a.json", "a.rules"} {
			res, err := translate.Translate(agent, file, []byte(src))
			if err != nil {
				continue
			}
			if _, err := policy.Parse("p.yaml", res.Policy); err != nil {
				t.Fatalf("%v\n%s", err, res.Policy)
			}
		}
	})
}
