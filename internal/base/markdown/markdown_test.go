package markdown_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/base/markdown"
)

// marked makes styles visible.
func marked(s markdown.Style, t string) string {
	if t == "" || s == markdown.Plain {
		return t
	}
	return map[markdown.Style]string{markdown.Strong: "B", markdown.Emphasis: "I", markdown.Code: "C", markdown.Faint: "F"}[s] + "<" + t + ">"
}

func TestRender(t *testing.T) {
	for name, tt := range map[string]struct{ src, want string }{
		"heading":              {"# A *big* title\n", "B<A>B< >I<big>B< >B<title>\n"},
		"emphasis":             {"a **b** _c_ `d  e`\n", "a B<b> I<c> C<d>C< >C< >C<e>\n"},
		"wrapped":              {"one two three four five six seven\n", "one two three four five\nsix seven\n"},
		"hard break":           {"one  \ntwo\nthree\n", "one\ntwo three\n"},
		"list":                 {"- a\n- b\n  1. c\n  2. d\n", "F<• >a\nF<• >b\nF<  1. >c\nF<  2. >d\n"},
		"numbers":              {"3. a\n4. b\n", "F<3. >a\nF<4. >b\n"},
		"quote":                {"> a\n> b\n", "F<│ >a b\n"},
		"code":                 {"```go\nfunc  f() {\n\tx\n}\n```\n", "F<    >C<func  f() {>\nF<    >C<    x>\nF<    >C<}>\n"},
		"rule":                 {"a\n\n---\n", "a\n\nF<" + strings.Repeat("─", 24) + ">\n"},
		"link":                 {"see [the docs](https://evil.test/x \"title\")\n", "see the docs\nF< (https://evil.test/x)>\n"},
		"link to what it is":   {"[https://a.test](https://a.test)\n", "https://a.test\n"},
		"link by reference":    {"[a][1]\n\n[1]: https://evil.test\n", "[a][1]\n\n[1]: https://evil.test\n"},
		"link of other text":   {"[https://a.test](https://b.test)\n", "https://a.test\nF< (https://b.test)>\n"},
		"image":                {"![x](http://a.test/i.png)\n", "F<image: >x\nF< (http://a.test/i.png)>\n"},
		"autolink":             {"<https://a.test>\n", "https://a.test\n"},
		"HTML":                 {"a <b onclick=x>c</b>\n\n<script>\nx\n</script>\n", "a <b onclick=x>c</b>\n\n<script> x </script>\n"},
		"table":                {"| a | b |\n|---|---|\n| 1 | **x** |\n| 22 | y |\n", "B<a>   B<b>\n1   B<x>\n22  y\n"},
		"wide table":           {"| a | b |\n|---|---|\n| one two three | four five six |\n", "B<a> F<|> B<b>\none two three F<|> four\nfive six\n"},
		"escapes and entities": {"\\*a\\* &amp; &lt;b&gt;\n", "*a* & <b>\n"},
		"terminal escapes":     {"a \x1b[31mred\x1b[0m &#x1b;[2J \u202e `\x9b`\n\n```\n\x1b]8;;x\x07\n```\n", "a \\x1b[31mred\\x1b[0m\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got := markdown.Render(tt.src, markdown.Options{Width: 24, Paint: marked})
			if name == "terminal escapes" {
				if !strings.HasPrefix(got, tt.want) || strings.ContainsAny(got, "\x1b\x07\u202e\u009b") {
					t.Errorf("%q", got)
				}
				return
			}
			// A space before a bracket may be a piece of its own.
			clean := func(s string) string {
				return strings.NewReplacer(">C<", "", ">B<", "", ">F<", "", "F< (", "F<(", "F< >", " ").Replace(s)
			}
			if clean(got) != clean(tt.want) {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

const sample = "# Title\nText of a *paragraph*\nin two lines.\n\n- one\n\n  more of one\n- two\n  ```sh\n  a\n\n  b\n  ```\n\nAfter the list.\n\n```\ncode\n\n# no heading\n```\nEnd [x](https://a.test)."

// However a text is cut into pieces, the same is printed.
func TestStreamIsTheSameInAnyPieces(t *testing.T) {
	o := markdown.Options{Width: 40, Paint: marked}
	whole := markdown.Stream{Options: o}
	want := whole.Write(sample) + whole.End()
	for _, part := range []string{"B<Title>\n\n", "I<paragraph>", "more of one", "F<  >", "C<# no heading>", "(https://a.test)"} {
		if !strings.Contains(want, part) {
			t.Errorf("no %q in\n%s", part, want)
		}
	}
	for size := 1; size < 12; size++ {
		s := markdown.Stream{Options: o}
		got := ""
		for rest := sample; rest != ""; {
			n := min(size, len(rest))
			got += s.Write(rest[:n])
			rest = rest[n:]
		}
		if got += s.End(); got != want {
			t.Fatalf("in pieces of %d:\n%s\nwant\n%s", size, got, want)
		}
	}
}

// Blocks are printed as soon as they are complete, and lines of code as they come.
func TestStreamDoesNotWait(t *testing.T) {
	s := markdown.Stream{Options: markdown.Options{Width: 40}}
	for _, step := range [][2]string{
		{"# Title\n", "Title\n"}, {"a paragraph\n", ""}, {"\n", "\na paragraph\n"}, {"```\n", ""}, {"one\n", "\n    one\n"}, {"tw", ""}, {"o\n", "    two\n"}, {"```\n", ""}, {"end", ""},
	} {
		if got := s.Write(step[0]); got != step[1] {
			t.Errorf("after %q: %q, want %q", step[0], got, step[1])
		}
	}
	if got := s.End(); got != "\nend\n" {
		t.Errorf("at the end: %q", got)
	}
	if got := s.Write("new\n\n"); got != "new\n" {
		t.Errorf("the next text: %q", got)
	}
}

func FuzzStream(f *testing.F) {
	f.Add(sample)
	f.Add("> > > - 1. `a\n~~~\n\x1b")
	f.Add(strings.Repeat("[", 300) + strings.Repeat(">", 300))
	f.Fuzz(func(t *testing.T, src string) {
		s := markdown.Stream{Options: markdown.Options{Width: 40}}
		got := ""
		for _, piece := range strings.SplitAfter(src, "a") {
			got += s.Write(piece)
		}
		for _, c := range got + s.End() {
			if c != '\n' && (c < ' ' || c >= 0x7f && c < 0xa0 || c == 0x202e || c == 0x200b) {
				t.Fatalf("%q gives the character %q", src, fmt.Sprintf("%U", c))
			}
		}
	})
}

// Deeply nested and long texts take a bounded time.
func TestHostileSizes(t *testing.T) {
	for _, src := range []string{strings.Repeat(">", 60_000), strings.Repeat("- ", 20_000), strings.Repeat("[", 60_000), strings.Repeat("*a ", 20_000), strings.Repeat("a", 1<<20), strings.Repeat("|a", 20_000) + "\n" + strings.Repeat("|-", 20_000), strings.Repeat("<", 60_000), strings.Repeat("`a``", 15_000)} {
		s := markdown.Stream{Options: markdown.Options{Width: 80}}
		_ = s.Write(src)
		_ = s.End()
	}
}
