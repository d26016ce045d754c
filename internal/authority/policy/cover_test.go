package policy_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/tool"
)

func TestCoversIsProofOrNo(t *testing.T) {
	for name, tt := range map[string]struct {
		kind            tool.ActionKind
		policy, pattern string
		want            bool
	}{
		"a folder in all":                  {tool.FileRead, `files: {read: {allow: ["**"]}}`, "src/**", true},
		"a star in a double star":          {tool.FileRead, `files: {read: {allow: ["src/**"]}}`, "src/*.go", true},
		"a double star in a star":          {tool.FileRead, `files: {read: {allow: ["src/*"]}}`, "src/**", false},
		"two levels do not hold the first": {tool.FileRead, `files: {read: {allow: ["src/*/**"]}}`, "src/**", false},
		"a question mark is no star":       {tool.FileRead, `files: {read: {allow: ["src/?*"]}}`, "src/*", false},
		"a negated class is no star":       {tool.FileRead, `files: {read: {allow: ["src/[^a]*"]}}`, "src/*", false},
		"two entries are not one":          {tool.FileRead, `files: {read: {allow: ["src/*.go", "src/*.md"]}}`, "src/*", false},
		"a spelled name":                   {tool.FileRead, `files: {read: {allow: ["**"]}}`, "src/.env", false},
		"a star that could spell a name":   {tool.FileRead, `files: {read: {allow: ["**"]}}`, "src/.env*", false},
		"a name the entry spells":          {tool.FileRead, `files: {read: {allow: ["src/.env"]}}`, "src/.env", true},
		"what is asked about":              {tool.FileRead, `files: {read: {allow: ["**"], ask: ["src/a"]}}`, "src/*", false},
		"what is asked about elsewhere":    {tool.FileRead, `files: {read: {allow: ["**"], ask: ["docs/**"]}}`, "src/*", true},
		"another method":                   {tool.Network, `network: {allow: ["GET x.org/**"]}`, "POST https://x.org/a", false},
		"a segment":                        {tool.Network, `network: {allow: ["GET x.org/v1/**"]}`, "GET https://x.org/v1/*/y", true},
		"an affix holds no segment":        {tool.Network, `network: {allow: ["GET x.org/v1/a*"]}`, "GET https://x.org/v1/*", false},
		"any host holds no private one":    {tool.Network, `network: {allow: ["*"]}`, "https://10.0.0.1", false},
		"words":                            {tool.Command, `commands: {allow: ["git **"]}`, "git log *", true},
		"a word is no words":               {tool.Command, `commands: {allow: ["git log *"]}`, "git log **", false},
		"some words are not any":           {tool.Command, `commands: {allow: ["git ** *"]}`, "git git **", false},
		"some words before any":            {tool.Command, `commands: {allow: ["git * **"]}`, "git git **", true},
		"a place in the workspace, asked":  {tool.Command, `commands: {allow: ["./build **"], ask: ["/ws/build **"]}`, "./build **", false},
		"one command of it, asked":         {tool.Command, `commands: {allow: ["./build **"], ask: ["/ws/build x"]}`, "./build x", false},
		"another place, asked":             {tool.Command, `commands: {allow: ["./build **"], ask: ["/ws/other **"]}`, "./build **", true},
		"a slash at the end":               {tool.Network, `network: {allow: ["GET x.org/**/*"]}`, "GET https://x.org/a/**", false},
		"a place is no name":               {tool.Command, `commands: {allow: ["git **"]}`, "/usr/bin/git log", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := chain(t, tt.policy).Covers(tt.kind, tt.pattern); got != tt.want {
				t.Errorf("%s covers %q: %v, want %v", tt.policy, tt.pattern, got, tt.want)
			}
			if chain(t, tt.policy, "tools: {}").Covers(tt.kind, tt.pattern) {
				t.Error("a policy without the section covers nothing")
			}
		})
	}
}

// What is covered is allowed: everything that the pattern alone allows.
func TestWhatIsCoveredIsAllowed(t *testing.T) {
	segs := rapid.SampledFrom([]string{"a", "*", "a*", "*.pem", ".env*", "id_rsa*", "b", "?", "[^a]*", "{a,b}", "**"})
	names := rapid.SampledFrom([]string{"a", "b", "ab", ".env", ".env.x", "a.pem", "id_rsa", "id_rsa_x", "q", "proc"})
	words := rapid.SampledFrom([]string{"git", "a", "*", "a*", "**", "b"})
	argv := rapid.SampledFrom([]string{"git", "a", "", "ab", "b", "\x00word", "\x00words"})
	covered := 0
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom([]tool.ActionKind{tool.FileRead, tool.FileWrite, tool.Command, tool.Network}).Draw(t, "kind")
		section, ask := "files: {read: ", ""
		var draw func(label string) string
		var act func() tool.Action
		closing := "}"
		switch kind {
		case tool.Command:
			section, closing = "commands: ", ""
			draw = func(l string) string {
				return strings.Join(append([]string{"git"}, rapid.SliceOfN(words, 0, 3).Draw(t, l)...), " ")
			}
			act = func() tool.Action {
				return tool.Action{Kind: kind, Dir: "/ws", Argv: append([]string{"git"}, rapid.SliceOfN(argv, 0, 4).Draw(t, "argv")...)}
			}
		case tool.Network:
			section, closing = "network: ", ""
			part := rapid.SampledFrom([]string{"a", "*", "a*", "**", "b"})
			draw = func(l string) string {
				return rapid.SampledFrom([]string{"", "GET ", "GET,POST "}).Draw(t, l) + "https://x.org/" + strings.Join(rapid.SliceOfN(part, 1, 3).Draw(t, l+" path"), "/")
			}
			act = func() tool.Action {
				tg, err := target.Parse(rapid.SampledFrom([]string{"GET", "POST"}).Draw(t, "method"),
					"https://x.org/"+strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "ab", "q"}), 0, 4).Draw(t, "url"), "/"))
				if err != nil {
					t.Fatal(err)
				}
				return tool.Action{Kind: kind, Target: tg}
			}
		default:
			if kind == tool.FileWrite {
				section = "files: {write: "
			}
			draw = func(l string) string { return strings.Join(rapid.SliceOfN(segs, 1, 3).Draw(t, l), "/") }
			act = func() tool.Action {
				return tool.Action{Kind: kind, Path: "/ws/" + strings.Join(rapid.SliceOfN(names, 1, 4).Draw(t, "path"), "/")}
			}
		}
		if rapid.Bool().Draw(t, "asks") {
			ask = draw("ask")
		}
		pattern := draw("pattern")
		of := func(allow, ask []string) policy.Chain {
			p, err := policy.Parse("p", []byte("version: 1\n"+section+"{allow: "+quoted(allow)+", ask: "+quoted(ask)+"}"+closing+"\n"))
			if err != nil {
				t.Skip(err)
			}
			r, err := p.Bind(env)
			if err != nil {
				t.Fatal(err)
			}
			return policy.Chain{r}
		}
		asks := []string{}
		if ask != "" {
			asks = append(asks, ask)
		}
		c, alone := of([]string{draw("one"), draw("two")}, asks), of([]string{pattern}, nil)
		if !c.Covers(kind, pattern) {
			return
		}
		covered++
		for range 30 {
			a := act()
			if alone.DecideAction(a).Effect == policy.Allow && c.DecideAction(a).Effect != policy.Allow {
				t.Fatalf("%q is covered, and allows %s, which is refused: %+v", pattern, a, c.DecideAction(a))
			}
		}
	})
	if covered == 0 {
		t.Error("nothing was covered: the test shows nothing")
	}
	t.Logf("%d were covered", covered)
}
