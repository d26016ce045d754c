package command_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/authority/policy/command"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

var trusted = []string{"/usr/local/bin", "/usr/bin", "/bin"}

func cmd(argv ...string) *tool.Action {
	return &tool.Action{Kind: tool.Command, Argv: argv, Dir: "/ws"}
}

func pattern(t testing.TB, s string) *command.Pattern {
	t.Helper()
	p, err := command.ParsePattern(s)
	if err != nil {
		t.Fatalf("ParsePattern(%q): %v", s, err)
	}
	return p.Bind("/ws")
}

func TestMatch(t *testing.T) {
	one, many := command.NonLiteral, command.NonLiteralMany
	tests := map[string]struct {
		pattern string
		argv    []string
		want    bool
	}{
		"bare name":                         {"git", []string{"git"}, true},
		"more words":                        {"git", []string{"git", "status"}, false},
		"any words":                         {"git **", []string{"git", "a", "b"}, true},
		"any words, none":                   {"git **", []string{"git"}, true},
		"one word":                          {"git *", []string{"git", "a"}, true},
		"one word, none":                    {"git *", []string{"git"}, false},
		"one word, two":                     {"git *", []string{"git", "a", "b"}, false},
		"empty word":                        {"git *", []string{"git", ""}, true},
		"part of a word":                    {"git --a=*", []string{"git", "--a=b c"}, true},
		"literals in order":                 {"x a*b*c", []string{"x", "a1b2c"}, true},
		"literals do not overlap":           {"x ab*ba", []string{"x", "aba"}, false},
		"quoted star":                       {"x '*'", []string{"x", "a"}, false},
		"quoted star itself":                {`x \*`, []string{"x", "*"}, true},
		"quoted space":                      {`x "a b"*`, []string{"x", "a bc"}, true},
		"question mark is itself":           {"x a?", []string{"x", "ab"}, false},
		"brackets are themselves":           {"x [ab]", []string{"x", "[ab]"}, true},
		"in the middle":                     {"x ** -f **", []string{"x", "a", "-f"}, true},
		"arguments keep their case":         {"x -F", []string{"x", "-f"}, false},
		"names keep their case":             {"git", []string{"GIT"}, false},
		"trusted folder":                    {"git", []string{"/usr/bin/git"}, true},
		"other folder":                      {"git", []string{"/opt/git"}, false},
		"below a trusted folder":            {"git", []string{"/usr/bin/x/git"}, false},
		"trusted folder, not clean":         {"git", []string{"/usr/bin/../bin/git"}, false},
		"trusted folder twice slashed":      {"git", []string{"/usr/bin//git"}, false},
		"planted":                           {"git", []string{"./git"}, false},
		"planted below":                     {"git", []string{"bin/git"}, false},
		"any command is not a path":         {"**", []string{"./git"}, false},
		"any command":                       {"**", []string{"git", "x"}, true},
		"absolute":                          {"/opt/x/tool **", []string{"/opt/x/tool", "a"}, true},
		"absolute, not clean":               {"/opt/x/tool", []string{"/opt/y/../x/tool"}, false},
		"absolute by name":                  {"/opt/x/tool", []string{"tool"}, false},
		"absolute wildcard":                 {"/opt/*/tool", []string{"/opt/x/tool"}, true},
		"absolute wildcard within a folder": {"/opt/*/tool", []string{"/opt/x/y/tool"}, false},
		"workspace":                         {"./run.sh", []string{"./run.sh"}, true},
		"workspace, absolute":               {"./run.sh", []string{"/ws/run.sh"}, true},
		"workspace, climbing":               {"./run.sh", []string{"./a/../run.sh"}, false},
		"outside the workspace":             {"./run.sh", []string{"/w/run.sh"}, false},
		"one unknown word, literal":         {"x a", []string{"x", one}, false},
		"one unknown word, part":            {"x a*", []string{"x", one}, false},
		"one unknown word, any":             {"x *", []string{"x", one}, true},
		"one unknown word, **":              {"x **", []string{"x", one}, true},
		"unknown words, *":                  {"x *", []string{"x", many}, false},
		"unknown words, **":                 {"x **", []string{"x", many}, true},
		"unknown words, then known":         {"x ** b", []string{"x", many, "b"}, true},
		"unknown name":                      {"**", []string{one}, false},
		"a NUL of one's own":                {"x *", []string{"x", "a\x00"}, false},
		"nothing":                           {"**", nil, false},
		"empty name":                        {"**", []string{""}, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := pattern(t, tt.pattern).Match(cmd(tt.argv...), trusted); got != tt.want {
				t.Errorf("%q on %q: got %v", tt.pattern, tt.argv, got)
			}
		})
	}
}

func TestMatchFacts(t *testing.T) {
	tests := map[string]struct {
		pattern string
		a       tool.Action
		want    bool
	}{
		"found on the path":     {"git", tool.Action{Argv: []string{"git"}, Exe: "/usr/bin/git"}, true},
		"found elsewhere":       {"git", tool.Action{Argv: []string{"git"}, Exe: "/opt/git"}, false},
		"linked from the path":  {"git", tool.Action{Argv: []string{"git"}, Exe: "/opt/git", Names: []string{"/usr/bin/git"}}, true},
		"linked into workspace": {"git", tool.Action{Argv: []string{"git"}, Exe: "/ws/git", Names: []string{"/usr/bin/git"}}, false},
		"merged /usr":           {"git", tool.Action{Argv: []string{"/bin/git"}, Exe: "/somewhere/git"}, true},
		"unknown":               {"**", tool.Action{Argv: []string{"git"}, Unknown: "why"}, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tt.a.Kind, tt.a.Dir = tool.Command, "/ws"
			if got := pattern(t, tt.pattern).Match(&tt.a, trusted); got != tt.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestMatchDeny(t *testing.T) {
	tests := map[string]struct {
		pattern string
		a       tool.Action
		want    bool
	}{
		"name":                     {"git push **", tool.Action{Argv: []string{"git", "push"}}, true},
		"other words":              {"git push **", tool.Action{Argv: []string{"git", "pull"}}, false},
		"by its path":              {"git push **", tool.Action{Argv: []string{"/usr/bin/git", "push"}}, true},
		"by any path":              {"git **", tool.Action{Argv: []string{"./git"}}, true},
		"in another case":          {"git **", tool.Action{Argv: []string{"GIT"}}, true},
		"through a link":           {"python3 **", tool.Action{Argv: []string{"python"}, Exe: "/usr/bin/python3.11", Names: []string{"/usr/bin/python", "/usr/bin/python3"}}, true},
		"through its real name":    {"python3.11", tool.Action{Argv: []string{"python"}, Exe: "/usr/bin/python3.11"}, true},
		"path of what would run":   {"/usr/bin/git **", tool.Action{Argv: []string{"git"}, Exe: "/usr/bin/git"}, true},
		"any command":              {"** --force **", tool.Action{Argv: []string{"git", "push", "--force"}}, true},
		"any command without":      {"** --force **", tool.Action{Argv: []string{"git", "push"}}, false},
		"a word that may be it":    {"** --force **", tool.Action{Argv: []string{"git", command.NonLiteral}}, true},
		"words that may be it":     {"git a b c", tool.Action{Argv: []string{"git", command.NonLiteralMany, "c"}}, true},
		"words that cannot be it":  {"git a b", tool.Action{Argv: []string{"git", command.NonLiteralMany, "c"}}, false},
		"no words may be it":       {"git", tool.Action{Argv: []string{"git", command.NonLiteralMany}}, true},
		"a name that may be it":    {"git a", tool.Action{Argv: []string{command.NonLiteral, "a"}}, true},
		"a path that may be it":    {"/x/git a", tool.Action{Argv: []string{command.NonLiteral, "a"}}, true},
		"workspace path":           {"./x", tool.Action{Argv: []string{"/ws/x"}}, true},
		"workspace path uncleanly": {"./x", tool.Action{Argv: []string{"/ws/y/../x"}}, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tt.a.Kind, tt.a.Dir = tool.Command, "/ws"
			if got := pattern(t, tt.pattern).MatchDeny(&tt.a, trusted); got != tt.want {
				t.Errorf("%q on %v: got %v", tt.pattern, tt.a, got)
			}
		})
	}
}

func TestParsePatternRefuses(t *testing.T) {
	for name, s := range map[string]string{
		"nothing": "", "spaces": "  ", "NUL": "a\x00", "not UTF-8": "a\xff", "open quote": "a 'b", "open double quote": `a "b\"`,
		"lone backslash": `a \`, "** in a word": "a b**", "three stars": "a ***", "relative path": "bin/x", "climbing path": "/a/../b",
		"climbing out": "../x", "slash at the end": "/a/", "control character": "a\tb", "empty name": `"" a`, "home": "~/x",
		"wildcard path": "*/x", "too many words": strings.Repeat("a ", 64), "too long": strings.Repeat("a", 5000),
	} {
		t.Run(name, func(t *testing.T) {
			if p, err := command.ParsePattern(s); !errors.Is(err, fault.PolicyInvalid) {
				t.Errorf("%q gave %v, %v", s, p, err)
			}
		})
	}
}

func TestMatchAllocatesNothing(t *testing.T) {
	p, d, a := pattern(t, "git ** --x=* **"), pattern(t, "** --force **"), cmd("git", "push", "origin", "--x=1", "main")
	if n := testing.AllocsPerRun(100, func() { p.Match(a, trusted); d.MatchDeny(a, trusted) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestMatchTimeIsBounded(t *testing.T) {
	p := pattern(t, "x"+strings.Repeat(" ** a*a*a*b", 30))
	argv := []string{"x"}
	for range 2000 {
		argv = append(argv, strings.Repeat("a", 200))
	}
	start := time.Now()
	if p.Match(cmd(argv...), trusted) || p.MatchDeny(cmd(argv...), trusted) {
		t.Error("matched")
	}
	if d := time.Since(start); d > 20*time.Second {
		t.Errorf("took %v", d)
	}
}

// slow matches by trying everything; only `*`, `**` and letters.
func slow(p, s []string) bool {
	if len(p) == 0 {
		return len(s) == 0
	}
	if p[0] == "**" {
		return slow(p[1:], s) || len(s) > 0 && slow(p, s[1:])
	}
	return len(s) > 0 && (p[0] == "*" || p[0] == s[0]) && slow(p[1:], s[1:])
}

func TestMatchAgreesWithTryingEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := append([]string{"x"}, rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "*", "**"}), 0, 6).Draw(t, "pattern")...)
		s := append([]string{"x"}, rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 6).Draw(t, "argv")...)
		pat, err := command.ParsePattern(strings.Join(p, " "))
		if err != nil {
			t.Fatal(err)
		}
		want := slow(p, s)
		if got := pat.Match(cmd(s...), trusted); got != want {
			t.Fatalf("Match %q on %q: %v", p, s, got)
		}
		if got := pat.MatchDeny(cmd(s...), trusted); got != want {
			t.Fatalf("MatchDeny %q on %q: %v", p, s, got)
		}
	})
}

func FuzzParsePattern(f *testing.F) {
	for _, s := range []string{"git push **", `x "a b"* 'c*' \*`, "** --force **", "./a/*.sh **", "/opt/x *", `a *""* ""`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := command.ParsePattern(s)
		if err != nil {
			return
		}
		q, err := command.ParsePattern(p.String())
		if err != nil || q.String() != p.String() {
			t.Fatalf("%q prints as %q, which reads as %v, %v", s, p, q, err)
		}
	})
}
