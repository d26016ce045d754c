//go:build !race

package remit_test

import (
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// clause is a clause in the place of a noun, as in "frees the reservation of who has stopped the
// turn". Not every match is a fault, so folders may have some.
var clause = regexp.MustCompile(`(?i)\b(what|whoever|whatever|who|whom|those|that which|which of)\b[^.;:]{0,40}` +
	`\b(is|are|was|were|has|have|had|does|do|did|may|can|must|says|said|needs|wants|names|means|gives|asks|allows)\b`)

// allowedClauses are the sentences with such a clause in the comments, the messages and the pages
// of each top folder. The numbers may only fall.
var allowedClauses = map[string][3]int{
	"agents": {0, 1, 0}, "docs": {0, 0, 7}, "tools": {0, 3, 0},
}

// The end of a sentence, and in Markdown a piece of code and the beginning of a block.
var sentenceEnd, codeSpan, newBlock = regexp.MustCompile(`[.!?]["')*]*\s+`), regexp.MustCompile("`[^`]*`"), regexp.MustCompile(`^\s*(#|[-*] |\d+\. |$)`)

// clauses returns the sentences of a text that have a clause in the place of a noun.
func clauses(text string) []string {
	return slices.DeleteFunc(sentenceEnd.Split(strings.Join(strings.Fields(text), " "), -1), func(s string) bool { return !clause.MatchString(s) })
}

// pageClauses returns them for a page in Markdown, without its code and its tables.
func pageClauses(text string) (out []string) {
	var block []string
	code := false
	for line := range strings.Lines(text + "\n\n") {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		if fence || newBlock.MatchString(line) {
			out = append(out, clauses(codeSpan.ReplaceAllString(strings.Join(block, " "), "X"))...)
			block = nil
		}
		if code = code != fence; !code && !fence && !strings.HasPrefix(strings.TrimSpace(line), "|") {
			block = append(block, line)
		}
	}
	return out
}

// messages returns the texts in a file that people are shown: those of errors, hints and help.
func messages(f *ast.File) map[token.Pos]string {
	out := map[token.Pos]string{}
	take := func(list ...ast.Expr) {
		for _, e := range list {
			ast.Inspect(e, func(n ast.Node) bool {
				if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					out[lit.Pos()], _ = strconv.Unquote(lit.Value)
				}
				return true
			})
		}
	}
	calls := []string{"New", "Wrap", "Errorf", "WithHint", "ForOperator"}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if sel, ok := n.Fun.(*ast.SelectorExpr); ok && slices.Contains(calls, sel.Sel.Name) {
				take(n.Args...)
			}
		case *ast.KeyValueExpr:
			if key := nameOf(n.Key); key == "Short" || key == "Long" {
				take(n.Value)
			}
		}
		return true
	})
	return out
}

// foundClauses returns the places of all clauses, by top folder and kind.
func foundClauses(t *testing.T) map[string][3][]string {
	found := map[string][3][]string{}
	add := func(pkg string, kind int, place string, list []string) {
		folder, _, _ := strings.Cut(pkg, "/")
		of := found[folder]
		for _, s := range list {
			of[kind] = append(of[kind], place+": "+s)
		}
		found[folder] = of
	}
	for _, s := range sources(t) {
		for _, c := range s.file.Comments {
			add(s.pkg, 0, s.fset.Position(c.Pos()).String(), clauses(c.Text()))
		}
		for pos, text := range messages(s.file) {
			add(s.pkg, 1, s.fset.Position(pos).String(), clauses(text))
		}
	}
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || slices.Contains([]string{"testdata", "bin", "changelog"}, d.Name())):
			return filepath.SkipDir
		case !strings.HasSuffix(name, ".md") || name == "CHANGELOG.md" || d.Name() == "prompt.md":
			return nil
		}
		text, err := os.ReadFile(name)
		add(strings.TrimPrefix(filepath.ToSlash(filepath.Dir(name)), "internal/"), 2, name, pageClauses(string(text)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestPlainEnglish: a noun stands where a clause would have to be read twice.
func TestPlainEnglish(t *testing.T) {
	for text, want := range map[string]int{
		"It frees the reservation of who has stopped it. So it is free.":      1,
		"What a run wrote is\nkept. What is held is released.":                2,
		"It releases the reservation of the caller. Nobody can tell who.":     0,
		"```\nwhat it is\n```\n| what it is |\n`what it is`\n- what\n- it is": 0,
	} {
		if got := pageClauses(text); len(got) != want {
			t.Errorf("%q has the clauses %q, want %d", text, got, want)
		}
	}
	for folder, kinds := range foundClauses(t) {
		have, allowed := [3]int{}, allowedClauses[folder]
		for kind, list := range kinds {
			if have[kind] = len(list); have[kind] > allowed[kind] {
				t.Errorf("%s has %d clauses in the place of a noun in its %s, and may have %d: call the thing by its name\n%s",
					folder, len(list), [3]string{"comments", "messages", "pages"}[kind], allowed[kind], strings.Join(list, "\n"))
			}
		}
		if have != allowed && have[0] <= allowed[0] && have[1] <= allowed[1] && have[2] <= allowed[2] {
			t.Errorf("allowedClauses may fall to %q: {%d, %d, %d},", folder, have[0], have[1], have[2])
		}
	}
}
