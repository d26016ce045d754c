package reach_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/remitrun/remit/internal/authority/reach"
)

func TestMap(t *testing.T) {
	const team = "files: {read: {allow: ['**']}, write: {allow: ['out/**']}}\nnetwork: {allow: [api.test], ask: ['POST other.test']}\nroles:\n  agent:docs: {rest: inherit, network: {allow: []}}\n"
	for _, test := range []struct {
		name, doc, from, to string
		holders             []string
		want                []string
	}{
		{"through a file", team, "agent:docs", "network *", []string{"agent:docs"}, []string{
			"holder agent:docs -> store out/x true", "store out/x -> holder user:ann true", "holder user:ann -> sink GET https://api.test/ true"}},
		{"each source of a label", team + "labels: {private: {from: ['files private/**', 'secrets crm'], kind: confidential}}", "label private", "network *", nil, []string{
			"source private/x -> holder user:ann true", "source secrets crm -> holder user:ann false", "holder user:ann -> sink GET https://api.test/ true"}},
		{"only what arrives", team, "files src/**", "network POST other.test", []string{"agent:docs"}, []string{
			"source src/x -> holder user:ann true", "source src/x -> holder agent:docs true", "holder user:ann -> sink POST https://other.test/ false",
			"holder agent:docs -> store out/x true", "store out/x -> holder user:ann true"}},
		{"to a holder", team, "agent:docs", "user:ann", []string{"agent:docs"}, []string{"holder agent:docs -> store out/x true", "store out/x -> holder user:ann true"}},
		{"no way", team, "files src/**", "network evil.test", []string{"agent:docs"}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := world(t, test.doc, test.holders...)
			m, err := w.Map(test.from, test.to)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range m.Edges {
				from, to := m.Nodes[e.From], m.Nodes[e.To]
				got = append(got, fmt.Sprintf("%s %s -> %s %s %v", from.Column, from.Name, to.Column, to.Name, e.Open))
			}
			slices.Sort(got)
			slices.Sort(test.want)
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q\nwant %q", got, test.want)
			}
			a, err := w.Ask(test.from, test.to)
			if err != nil || (a.Verdict == reach.Unreachable) != (len(m.Edges) == 0) {
				t.Errorf("the answer is %s, %v", a.Verdict, err)
			}
		})
	}
}

func TestOverview(t *testing.T) {
	w := world(t, "files: {read: {allow: ['**']}}\nnetwork: {allow: [api.test]}\nlabels: {private: {from: ['files private/**'], kind: confidential}}\nflows: {private: {only: ['files private/**']}}")
	o, err := w.Overview()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]reach.Verdict{}
	for _, r := range o.Rows {
		got[r.From] = r.Verdicts
	}
	if fmt.Sprint(got["files **"]) != "[reachable unreachable conditional unreachable]" || fmt.Sprint(got["label private"]) != "[unreachable unreachable conditional unreachable]" || len(got) != 3 {
		t.Error(got)
	}
}
