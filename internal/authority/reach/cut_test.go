package reach_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/authority/reach"
)

func TestCut(t *testing.T) {
	for _, test := range []struct {
		name, doc, from, to string
		want                string // the rules, or "none"
		holders             []string
	}{
		{"one entry", "files: {read: {allow: ['src/**', 'docs/**']}}\nnetwork: {allow: [api.test]}", "files src/**", "network *", `files.read.allow[0] "src/**"`, nil},
		{"two doors", "files: {read: {allow: ['src/**', '*/**']}}\nnetwork: {allow: [a.test, b.test]}", "files src/**", "network *", `files.read.allow[0] "src/**" files.read.allow[1] "*/**"`, nil},
		{"the narrower side", "files: {read: {allow: ['src/**', '*/**']}}\nnetwork: {allow: [a.test]}", "files src/**", "network *", `network.allow[0] "a.test"`, nil},
		{"a question", "files: {read: {ask: ['src/**']}}\nnetwork: {allow: [a.test]}", "files src/**", "network *", `files.read.ask[0] "src/**"`, nil},
		{"a question hides an entry", "files: {read: {allow: ['**'], ask: ['src/**']}}\nnetwork: {allow: [a.test, b.test]}", "files src/**", "network *", `files.read.ask[0] "src/**" files.read.allow[0] "**"`, nil},
		{"only what needs no person", "files: {read: {allow: ['src/**']}}\nnetwork: {allow: [a.test], ask: [b.test]}\ntools: {allow: [http.get, fs.read]}", "user:ann", "network *", `network.allow[0] "a.test"`, nil},
		{"through a file", "files: {read: {allow: ['**']}, write: {allow: ['out/**']}}\nnetwork: {allow: [a.test, b.test]}\nroles:\n  agent:docs: {rest: inherit, network: {allow: []}}", "agent:docs", "network *", `files.write.allow[0] "out/**"`, []string{"agent:docs"}},
		{"an entry of a role", "network: {allow: [a.test, b.test]}\nroles:\n  agent:docs: {rest: inherit, network: {allow: ['*.test']}}", "agent:docs", "network *", `network.allow[0] "*.test"`, []string{"agent:docs"}},
		{"more than three", "network: {allow: [a.test, b.test, c.test, d.test]}", "user:ann", "network *", "none", nil},
		{"no entry", "files: {read: {allow: ['**']}}", "user:ann", "commands rm **", "none", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := world(t, test.doc, test.holders...)
			a, err := w.Ask(test.from, test.to)
			if err != nil || a.Verdict == reach.Unreachable {
				t.Fatal(a, err)
			}
			cut, err := w.Cut(a)
			if err != nil {
				t.Fatal(err)
			}
			var rules []string
			for _, e := range cut {
				rules = append(rules, e.Rule)
			}
			got := strings.Join(rules, " ")
			if cut == nil {
				got = "none"
			}
			if got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			again, err := w.Ask(test.from, test.to)
			if err != nil || again.Verdict != a.Verdict || !slices.EqualFunc(again.Steps, a.Steps, func(x, y reach.Step) bool { return x.Rule == y.Rule }) {
				t.Error("the search changed the world:", again, err)
			}
		})
	}
}
