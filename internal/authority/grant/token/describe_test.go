package token_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/authority/grant/token"
	"github.com/remitrun/remit/internal/base/tool"
)

// described prints a token's description in the form of a command's output.
func described(t *testing.T, s string, at time.Time) string {
	t.Helper()
	c, err := token.Decode(s)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	block := -2
	for _, l := range token.Describe(c, at) {
		if l.Block != block {
			if block = l.Block; block == token.Whole {
				b.WriteString("all together\n")
			} else {
				fmt.Fprintf(&b, "block %d\n", block)
			}
		}
		fmt.Fprintf(&b, "  %-9s %s\n", l.Label, l.Text)
	}
	return b.String()
}

func TestDescribe(t *testing.T) {
	full := issueWith(t, func(r *token.Root) {
		r.HolderKey, r.NotBefore, r.Audience, r.Delegate = public("ann"), start, "gate\"way", []string{"agent:*", "user:bob"}
		r.Budgets.Depth = number(2)
	})
	given, err := token.HandOn(full, token.Block{Holder: "agent:docs", HolderKey: public("bob"), Issued: noon, Workspace: "/srv/docs",
		Policies: []token.Policy{{File: "narrow.yaml", Source: narrow}}}, key("ann"), source("describe"))
	if err != nil {
		t.Fatal(err)
	}
	wider := add(t, given, token.Block{Holder: "agent:docs", Expires: start.Add(999 * time.Hour), NotBefore: start.Add(-time.Hour), HolderKey: public("bob"),
		Budgets: grant.Budgets{Calls: 1000}, Delegate: []string{}, Pins: map[tool.ID]tool.Digest{"fs.read": {9}}})
	hostile := says(t, rootSaid().but(5, `user:" run this`).but(7, [][]string{{"a.yaml", "version: 1\nname: \"x\\n  until     2999\"\n"}, {"b.yaml", ": ["}}))
	got := "## in words\n" + described(t, seal(t, wider), noon) + "\n## expired\n" + described(t, three(t), start.Add(3*time.Hour)) +
		"\n## too early\n" + described(t, issueWith(t, func(r *token.Root) { r.NotBefore = noon }), start) + "\n## hostile\n" + described(t, hostile, noon) +
		"\n## handed on too far\n" + described(t, appends(t, said{11: said{9: 0}}, said{5: "agent:a"}), noon)
	got += "\n## nowhere\n" + described(t, add(t, wider, token.Block{Audience: "b", Workspace: "/b"}), noon)
	const golden = "testdata/describe.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil { //nolint:gosec // not secret
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	if strings.Contains(got, token.Prefix) || strings.Contains(got, "bmFtZT") {
		t.Error("a token is shown")
	}
}
