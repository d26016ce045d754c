package policy_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/command"
	"github.com/remitrun/remit/internal/authority/policy/language"
	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/racetest"
	"github.com/remitrun/remit/internal/base/tool"
)

// The parts of random policies and of the actions that they decide. They are few, so
// that patterns and subjects meet.
var (
	somePaths = strings.Fields(`** src/** src/*.go **/private **/*.KEY ~/** ~/.ssh/** ~/.config/** /etc/* src/a?c /** out/[a-c]x/** {src,out}/**/b **/.env
		~/.config/gcloud /state/** ~/.config/*/x id_rsa* src/id_* **/.git .git/** **/config .env.* **/.e*`)
	someNames = strings.Fields(`src out a.go abc private Private x.key .env .ssh .config gcloud x b id_rsa id_rsa.pub etc .git config hooks HEAD state proc ax node_modules .env.example .env.Dist .env.local .claude worktrees`)
	someHosts = []string{"*", "api.test", "*.api.test", "GET api.test", "POST,PUT https://api.test/v1/**", "http://localhost:3000", "127.0.0.1:8080",
		"tcp://git.test:22", "GET https://*.api.test/v1/*/x", "api.test:8443", "https://*/v1", "[::1]:8080"}
	someTargets = []string{"https://api.test/", "https://a.api.test/v1/x", "https://a.api.test/v1/b/x", "http://localhost:3000/", "https://127.0.0.1:8080/a",
		"https://api.test:8443/v1", "https://10.0.0.1/", "https://api.test/V1//x;p", "https://[::1]:8080/", "https://other.test/v1"}
	someCommands = []string{"**", "git push **", "git **", "rm -rf *", "make", "/usr/bin/git *", "./run **", "g* push", "** --force **", "rm -r -f x"}
	someLines    = [][]string{{"git", "push"}, {"git", "push", "--force"}, {"/usr/bin/git", "push"}, {"rm", "-fr", "x"}, {"rm", "-rf", "x"}, {"make"}, {"/w/run", "a"},
		{"git"}, {"GIT", "push"}, {"/opt/git", "push"}}
	someModels = []string{"*", "openai/*", "scripted/*", "openai/gpt", "OpenAI/gpt"}
)

func randomPolicy(rnd *rand.Rand) string {
	var b strings.Builder
	list := func(from []string, most int) string {
		var out []string
		for range rnd.IntN(most + 1) {
			out = append(out, fmt.Sprintf("%q", from[rnd.IntN(len(from))]))
		}
		return "[" + strings.Join(out, ", ") + "]"
	}
	section := func(indent, name string, from []string) {
		fmt.Fprintf(&b, "%s%s: {allow: %s, ask: %s, deny: %s}\n", indent, name, list(from, 3), list(from, 1), list(from, 2))
	}
	b.WriteString("version: 1\nname: random\nfiles:\n")
	section("  ", "read", somePaths)
	section("  ", "write", somePaths)
	if rnd.IntN(2) == 0 {
		section("  ", "delete", somePaths)
	}
	section("", "network", someHosts)
	section("", "commands", someCommands)
	section("", "models", someModels)
	return b.String()
}

// randomSubject gives an action and its subject as the section's language has it.
func randomSubject(rnd *rand.Rand, section string) (tool.Action, string) {
	switch section {
	case "network":
		d, err := target.Parse([]string{"GET", "POST", "PUT"}[rnd.IntN(3)], someTargets[rnd.IntN(len(someTargets))])
		if err != nil {
			panic(err)
		}
		return tool.Action{Kind: tool.Network, Target: d}, target.Text(d)
	case "commands":
		argv := someLines[rnd.IntN(len(someLines))]
		return tool.Action{Kind: tool.Command, Argv: argv, Dir: "/w"}, strings.Join(argv, string(command.Separator))
	case "models":
		m := someModels[1+rnd.IntN(len(someModels)-1)]
		return tool.Action{Kind: tool.Model, Model: m}, m
	}
	p := []string{"/w", "/home", "/state", "", "/home/.config", "/long/path/of/a/repository/.git", "/w/.claude/worktrees"}[rnd.IntN(7)]
	for range 1 + rnd.IntN(5) {
		p += "/" + someNames[rnd.IntN(len(someNames))]
	}
	a, _ := policy.ActionOn(section, p)
	return a, p
}

var asked = []string{"files.read", "files.write", "files.delete", "network", "commands", "models"}

// TestLanguagesHaveAllThatIsDecided: whatever a chain of random policies decides, its
// language knows; and what the language gives as an example, the chain mostly decides so.
func TestLanguagesHaveAllThatIsDecided(t *testing.T) {
	racetest.Skip(t, "one goroutine computes")
	env := policy.Env{Workspace: "/w", Home: "/home", State: "/state", Path: []string{"/usr/bin", "/bin"}, Repository: "/long/path/of/a/repository/.git"}
	examples, held := 0, 0
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		var chain policy.Chain
		for range 1 + rnd.IntN(2) {
			text := randomPolicy(rnd)
			p, err := policy.Parse("random.yaml", []byte(text))
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			r, err := p.Bind(env)
			if err != nil {
				t.Fatal(err)
			}
			chain = append(chain, r)
		}
		b := language.NewBuilder()
		for _, section := range asked {
			langs := map[policy.Effect]language.Language{policy.Ask: chain.Language(b, section, policy.Ask), policy.Allow: chain.Language(b, section, policy.Allow)}
			for range 40 {
				a, subject := randomSubject(rnd, section)
				d := chain.DecideAction(a)
				for _, least := range []policy.Effect{policy.Ask, policy.Allow} {
					if d.Effect >= least && !b.Has(langs[least], subject) {
						t.Fatalf("seed %d: the chain answers %v to %s %q by %v, and the language of %v does not have it:\n%s\n%s",
							seed, d.Effect, section, subject, d.Rule, least, chain[0].Policy().Source(), chain[len(chain)-1].Policy().Source())
					}
				}
			}
			subject, ok, err := b.Shortest(langs[policy.Allow])
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				continue
			}
			examples++
			if a, ok := policy.ActionOn(section, subject); ok && chain.DecideAction(a).Effect == policy.Allow {
				held++
			} else if section != "commands" {
				t.Logf("seed %d: %s %q: %v", seed, section, subject, chain.DecideAction(a).Refusals)
			}
		}
	}
	if examples < 20 || held < examples*7/10 {
		t.Errorf("%d of %d examples are allowed", held, examples)
	}
}
