package glob_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/authority/policy/glob"
)

func TestMatch(t *testing.T) {
	tests := []struct {
		pattern, path string
		want          bool
	}{
		{"a", "a", true}, {"a", "b", false}, {"a", "a/b", false}, {"*", ".x", true}, {"*", "a/b", false},
		{"**", "a/b", true}, {"a/**", "a", true}, {"a/**", "ab", false}, {"**/a", "a", true}, {"**/a", "x/y/a", true},
		{"**/a/**/b", "a/x/a/y/b", true}, {"**/a/*/b", "a/x/a/y/b", true}, {"a/**/b/**/c", "a/b/c/b", false},
		{"?", "é", true}, {"?", "ab", false}, {"[a-c]x", "bx", true}, {"[!a-c]x", "bx", false}, {"{a,b/c}/d", "b/c/d", true},
		{`\*`, "*", true}, {`\*`, "a", false}, {"a{,b}", "a", true}, {"*.go", "x.go.bak", false}, {"a*b*c", "a-b-b-c", true},
		{"a*b", "ab", true}, {"ab*b", "ab", false}, {"{[}],a}", "}", true},
	}
	for _, tt := range tests {
		p, err := glob.Compile(tt.pattern, glob.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Match(tt.path); got != tt.want {
			t.Errorf("%q on %q: %v", tt.pattern, tt.path, got)
		}
		q, err := glob.Compile(tt.pattern, glob.Options{Base: "/w/[x]"})
		if err != nil {
			t.Fatal(err)
		}
		if got := q.Match("/w/[x]/" + tt.path); got != tt.want {
			t.Errorf("%q on %q beneath a base: %v", tt.pattern, tt.path, got)
		}
	}
}

func TestFoldingMatchesLookAlikes(t *testing.T) {
	p, err := glob.Compile("**/.Git/hooks*", glob.Options{Base: "/", Fold: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/a/.git/hooks", "/.GIT/HOOKS2", "/．git/hooks", "/.git /hooks.", "/.g\u200dit/hooks", "/.ｇit/hooks"} {
		if !p.Match(glob.Fold(path)) {
			t.Errorf("%q is not matched", path)
		}
	}
	for _, path := range []string{"/.gitx/hooks", "/git/hooks", "/..git/hooks"} {
		if p.Match(glob.Fold(path)) {
			t.Errorf("%q is matched", path)
		}
	}
}

func TestText(t *testing.T) {
	tests := []struct {
		pattern, text string
		want          bool
	}{
		{"*@example.com", "a.b+c@example.com", true},
		{"*@example.com", "a@evil.test,b@example.com", false},
		{"*@example.com", "a@b@example.com", false},
		{"*@example.com", "\"x\" <a@example.com", false},
		{"*@example.com", "a\n@example.com", false},
		{"*@example.com", "a\u200b@example.com", false},
		{"*@example.com", "a@example.com ", false},
		{"*@example.com", "a@example.com.evil.test", false},
		{"*@*.example.com", "a@b.example.com", true},
		{"**", "any, thing\n@all", true},
		{"**secret**", "my secret, kept", true},
		{"a/*/c", "a/b/c", true}, {"a/*/c", "a/b/b/c", false}, {"a/**/c", "a/b/b/c", true},
		{"{a,b}?", "b1", true}, {"x[0-9]", "x7", true}, {"", "", false}, {"*", "", true}, {"a*", "a\xff", false},
	}
	for _, tt := range tests {
		p, err := glob.CompileText(tt.pattern)
		if err != nil {
			if tt.pattern != "" {
				t.Fatal(err)
			}
			continue
		}
		if got := p.Match(tt.text); got != tt.want {
			t.Errorf("%q on %q: %v", tt.pattern, tt.text, got)
		}
	}
}

func TestNames(t *testing.T) {
	tests := []struct {
		pattern, name string
		wide, want    bool
	}{
		{"fs.*", "fs.read", false, true}, {"fs.*", "fsx", false, false}, {"fs.*", "fs.", false, true},
		{"mcp:github:*", "mcp:github:get_x", false, true}, {"mcp:github:*", "mcp:github:a:b", false, true},
		{"mcp:*:get_*", "mcp:a:get_x", false, true}, {"mcp:*:get_*", "mcp:a:b:get_x", false, false},
		{"mcp:*:get_*", "mcp:a:b:get_x", true, true}, {"fs.read", "fs.read", false, true}, {"fs.read", "fs.readx", false, false},
		{"FS.*", "fs.read", true, true}, {"FS.*", "fs.read", false, false}, {"mcp:*", "mcp:a:b", false, true},
	}
	for _, tt := range tests {
		p, err := glob.CompileName(tt.pattern, ':', tt.wide)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Match(tt.name); got != tt.want {
			t.Errorf("%q on %q (wide %v): %v", tt.pattern, tt.name, tt.wide, got)
		}
	}
}

// slow is the reference: plain recursion on the definition, without classes
// and braces.
func slow(pat, path []string) bool {
	if len(pat) == 0 {
		return len(path) == 0
	}
	if pat[0] == "**" {
		return slow(pat[1:], path) || len(path) > 0 && slow(pat, path[1:])
	}
	return len(path) > 0 && slowName([]rune(pat[0]), []rune(path[0])) && slow(pat[1:], path[1:])
}

func slowName(p, s []rune) bool {
	switch {
	case len(p) == 0:
		return len(s) == 0
	case p[0] == '*':
		return slowName(p[1:], s) || len(s) > 0 && slowName(p, s[1:])
	}
	return len(s) > 0 && (p[0] == '?' || p[0] == s[0]) && slowName(p[1:], s[1:])
}

func agree(t interface{ Fatalf(string, ...any) }, pattern, path string) {
	p, err := glob.Compile(pattern, glob.Options{})
	if err != nil {
		return
	}
	if got, want := p.Match(path), slow(strings.Split(pattern, "/"), strings.Split(path, "/")); got != want {
		t.Fatalf("%q on %q: %v, the reference says %v", pattern, path, got, want)
	}
	b, err := glob.Compile(pattern, glob.Options{Beneath: true})
	if err != nil {
		t.Fatalf("%q: %v", pattern, err)
	}
	want := false
	parts := strings.Split(path, "/")
	for i := range parts {
		want = want || p.Match(strings.Join(parts[:i+1], "/"))
	}
	if got := b.Match(path); got != want {
		t.Fatalf("%q on %q or what it is beneath: %v, want %v", pattern, path, got, want)
	}
}

func TestMatcherAgreesWithReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		agree(t, rapid.StringMatching(`(a|b|é|\*|\?|/|\*\*|/\*\*/){1,10}`).Draw(t, "pattern"), rapid.StringMatching(`[abé]{1,3}(/[abé]{1,3}){0,4}`).Draw(t, "path"))
	})
}

func FuzzMatcherAgreesWithReference(f *testing.F) {
	f.Add("a/**/b*?", "a/x/bcd")
	f.Add("**/*a*/**", "b/cad")
	f.Fuzz(func(t *testing.T, pattern, path string) {
		if len(pattern) > 20 || len(path) > 30 || strings.ContainsAny(pattern, `\[]{}`) || strings.Count(pattern, "***") > 0 || !clean(path) {
			return
		}
		agree(t, pattern, path)
	})
}

func clean(path string) bool {
	return strings.ToValidUTF8(path, "") == path && path != "" && !strings.Contains("/"+path+"/", "//")
}

func TestHostilePatternsAreFast(t *testing.T) {
	start := time.Now()
	path := strings.Repeat("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/", 130) + "a"
	for _, pattern := range []string{strings.Repeat("**/*a*a*a/", 15) + "b", strings.Repeat("*a", 500) + "b", strings.Repeat("{a,a}", 8) + "/**/b"} {
		p, err := glob.Compile(pattern, glob.Options{})
		if err != nil {
			t.Fatal(err)
		}
		p.Match(path)
	}
	text, err := glob.CompileText(strings.Repeat("**a", 80) + "b")
	if err != nil {
		t.Fatal(err)
	}
	text.Match(strings.Repeat("a", 10000))
	if d := time.Since(start); d > 20*time.Second {
		t.Errorf("took %v", d)
	}
}

// differences are third-party cases that are otherwise here, and why.
func difference(pattern, path string) string {
	switch {
	case pattern == "":
		return "an empty pattern is an error"
	case strings.Contains(pattern, "**/b,bcd") || strings.Contains(pattern, "bcd,**/b") || pattern == "abc**":
		return "** as part of a segment is an error"
	case strings.HasSuffix(pattern, "/"):
		return "a pattern with an empty segment is an error"
	case path == "" || strings.HasPrefix(path, "/") || strings.HasSuffix(path, "/") || strings.Contains(path, "//"):
		return "paths are clean before they are matched"
	}
	return ""
}

func TestThirdPartyGlobs(t *testing.T) {
	dir := os.Getenv("REMIT_TESTDATA")
	if dir == "" {
		t.Skip("REMIT_TESTDATA is not set")
	}
	b, err := os.ReadFile(filepath.Join(dir, "policy/globs.json"))
	if err != nil {
		t.Fatal(err)
	}
	var f struct {
		Doublestar struct {
			Cases []struct {
				Pattern, Path string
				Match         bool
				Bad           bool `json:"bad_pattern"`
			}
		}
		Rampart struct {
			Cases []struct {
				Pattern, Value string
				Match          bool
			}
		}
	}
	if err := json.Unmarshal(b, &f); err != nil {
		t.Fatal(err)
	}
	same := 0
	for _, c := range f.Doublestar.Cases {
		if difference(c.Pattern, c.Path) != "" {
			continue
		}
		same++
		p, err := glob.Compile(strings.TrimPrefix(c.Pattern, "/"), glob.Options{})
		if (err != nil) != c.Bad {
			t.Errorf("%q: %v, want bad %v", c.Pattern, err, c.Bad)
		} else if err == nil && p.Match(c.Path) != c.Match {
			t.Errorf("%q on %q: want %v", c.Pattern, c.Path, c.Match)
		}
	}
	for _, c := range f.Rampart.Cases {
		// Its other cases are commands, where its * crosses words, or test
		// descriptions: only patterns of paths are comparable.
		if !strings.HasPrefix(c.Pattern, "**/") || strings.HasPrefix(c.Value, "./") {
			continue
		}
		same++
		p, err := glob.Compile(c.Pattern, glob.Options{})
		if err != nil {
			t.Errorf("%q: %v", c.Pattern, err)
		} else if p.Match(strings.TrimPrefix(c.Value, "/")) != c.Match {
			t.Errorf("%q on %q: want %v", c.Pattern, c.Value, c.Match)
		}
	}
	t.Logf("%d of %d cases compared", same, len(f.Doublestar.Cases)+len(f.Rampart.Cases))
}
