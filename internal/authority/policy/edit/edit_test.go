package edit_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/compare"
	"github.com/remitrun/remit/internal/authority/policy/edit"
	"github.com/remitrun/remit/internal/authority/policy/learn"
	"github.com/remitrun/remit/internal/base/diff"
)

func parse(t interface{ Fatal(...any) }, src string) *policy.Policy {
	p, err := policy.Parse("p.yaml", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAdd(t *testing.T) {
	read := learn.Line{List: "files.read.allow", Text: "docs/a.txt"}
	tests := map[string]struct {
		src   string
		line  learn.Line
		wants string // the diff's changed lines; "": no edit is possible
	}{
		"a list in block style":     {"version: 1\nfiles:\n  read:\n    allow: # ours\n      - src/**\n      - b\n", read, "+      - \"docs/a.txt\""},
		"a list on its key's level": {"version: 1\nfiles:\n  read:\n    allow:\n    - src/**\n", read, "+    - \"docs/a.txt\""},
		"a list in flow style":      {"version: 1\nfiles: {read: {allow: [\"src/**\"]}} # ours\n", read, "-files: {read: {allow: [\"src/**\"]}} # ours +files: {read: {allow: [\"docs/a.txt\", \"src/**\"]}} # ours"},
		"an empty list":             {"version: 1\nfiles: {read: {allow: []}}\n", read, "-files: {read: {allow: []}} +files: {read: {allow: [\"docs/a.txt\"]}}"},
		"a section without a list":  {"version: 1\nfiles:\n  read:\n    deny: [x]\n", read, "+    allow: +      - \"docs/a.txt\""},
		"a section beside it":       {"version: 1\nfiles: {write: {allow: [x]}}\n", read, "-files: {write: {allow: [x]}} +files: {read: {allow: [\"docs/a.txt\"]}, write: {allow: [x]}}"},
		"no section":                {"version: 1\nname: n", read, "-name: n +name: n +files: +  read: +    allow: +      - \"docs/a.txt\""},
		"JSON":                      {`{"version": 1, "files": {"read": {"allow": ["x"]}}}`, read, `-{"version": 1, "files": {"read": {"allow": ["x"]}}} +{"version": 1, "files": {"read": {"allow": ["docs/a.txt", "x"]}}}`},
		"letters beyond ASCII":      {"version: 1\nname: n\nfiles: {write: {allow: [\"ä/ö\"]}, read: {allow: [x]}}\n", read, "-files: {write: {allow: [\"ä/ö\"]}, read: {allow: [x]}} +files: {write: {allow: [\"ä/ö\"]}, read: {allow: [\"docs/a.txt\", x]}}"},
		"a list that is not there and would close the tools": {"version: 1\n", learn.Line{List: "tools.allow", Text: "\"mcp:a:b\""}, ""},
		"an entry of two lines":                              {"version: 1\n", learn.Line{List: "files.read.allow", Text: "a\nname: x"}, ""},
		"an entry that ends its list":                        {"version: 1\nfiles: {read: {allow: [x]}}\n", learn.Line{List: "files.read.allow", Text: `{tool: a}], deny: [b`}, ""},
		"an entry that is there":                             {"version: 1\nfiles: {read: {allow: [docs/a.txt]}}\n", read, ""},
		"a section with a document's end":                    {"version: 1\n...\n", read, ""},
	}
	for name, tt := range tests {
		p := parse(t, tt.src)
		out, err := edit.Add(p, []learn.Line{tt.line})
		if (err != nil) != (tt.wants == "") {
			t.Errorf("%s: %q, %v", name, out, err)
			continue
		}
		if err != nil {
			continue
		}
		if got := marked(edit.Diff("p.yaml", tt.src, string(out)).Text); got != tt.wants {
			t.Errorf("%s: the diff is\n%s\nwant\n%s", name, got, tt.wants)
		}
	}
}

// marked are the changed lines of a diff.
func marked(diff string) string {
	var out []string
	for line := range strings.Lines(diff) {
		if strings.HasPrefix(line, "---") || strings.HasPrefix(line, "+++") {
			continue
		}
		if line[0] == '+' || line[0] == '-' {
			out = append(out, strings.TrimSuffix(line, "\n"))
		}
	}
	return strings.Join(out, " ")
}

func TestDiffOfSeveralPlaces(t *testing.T) {
	was := "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n"
	is := "1\nx\n2\n3\n4\n5\n6\n7\n8\n9\n10\ny\n11\n12\n"
	want := "--- p\n+++ p\n@@ -1,4 +1,5 @@\n 1\n+x\n 2\n 3\n 4\n@@ -8,5 +9,6 @@\n 8\n 9\n 10\n+y\n 11\n 12\n"
	if got := edit.Diff("p", was, is).Text; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Whatever an entry is, an edit adds it to its list and changes nothing else; and its diff
// turns the one text into the other.
func TestAnEditAddsNothingElse(t *testing.T) {
	texts := []string{
		"version: 1\n", "version: 1\nfiles:\n  read:\n    allow:\n      - a\n", "version: 1\nfiles: {read: {allow: [a], deny: [b]}}\n",
		"version: 1\ncommands:\n  allow: [\"git *\"]\nnetwork:\n  deny: [\"*.com\"]\n", "{\"version\": 1, \"network\": {\"allow\": []}}",
	}
	rapid.Check(t, func(t *rapid.T) {
		src := rapid.SampledFrom(texts).Draw(t, "text")
		l := learn.Line{
			List: rapid.SampledFrom([]string{"files.read.allow", "files.write.allow", "network.allow", "commands.allow", "tools.allow"}).Draw(t, "list"),
			Text: rapid.OneOf(rapid.StringMatching(`[a-z\[\]{}:,#"'*&!|> -]{1,12}`), rapid.String()).Draw(t, "entry"),
		}
		p := parse(t, src)
		out, err := edit.Add(p, []learn.Line{l})
		if err != nil {
			return
		}
		changes := compare.Documents(p, parse(t, string(out)))
		changes = slices.DeleteFunc(changes, func(c compare.Change) bool { return c.Was == "[]" && c.Is == "" })
		if len(changes) != 1 || changes[0].Where != l.List || changes[0].Was != "" {
			t.Fatalf("%q added to %s: %+v", l.Text, l.List, changes)
		}
		if was, is := sides(edit.Diff("p", src, string(out))); was == is || !strings.Contains(src+"\n", was) || !strings.Contains(string(out)+"\n", is) {
			t.Fatalf("%q becomes %q: the difference is %q and %q", src, out, was, is)
		}
	})
}

// sides are the lines that a difference with one hunk has before and after.
func sides(d diff.Diff) (was, is string) {
	for _, l := range d.Hunks[0].Lines {
		if l.Op != diff.Insert {
			was += l.Text + "\n"
		}
		if l.Op != diff.Delete {
			is += l.Text + "\n"
		}
	}
	return was, is
}
