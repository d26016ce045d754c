package policy_test

import (
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/authority/policy"
)

func TestTheStrictestIsolationOfAChainHolds(t *testing.T) {
	tests := map[string]struct {
		links []string
		want  policy.Isolation
	}{
		"nothing said":             {[]string{""}, policy.FullIsolation},
		"full":                     {[]string{"isolation: full\n"}, policy.FullIsolation},
		"landlock":                 {[]string{"isolation: landlock\n"}, policy.LandlockIsolation},
		"none":                     {[]string{"isolation: none\n"}, policy.NoIsolation},
		"the next inherits":        {[]string{"isolation: none\n", "rest: inherit\n"}, policy.NoIsolation},
		"the next says nothing":    {[]string{"isolation: none\n", ""}, policy.FullIsolation},
		"the next is stricter":     {[]string{"isolation: none\n", "isolation: landlock\n"}, policy.LandlockIsolation},
		"the next is weaker":       {[]string{"isolation: landlock\n", "isolation: none\nrest: inherit\n"}, policy.LandlockIsolation},
		"the first says nothing":   {[]string{"", "isolation: none\n"}, policy.FullIsolation},
		"nobody says, all inherit": {[]string{"rest: inherit\n"}, policy.FullIsolation},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := chainOfSources(t, tc.links...).Isolation(); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
	if (policy.Chain{}).Isolation() != policy.FullIsolation || (policy.Chain{nil}).Isolation() != policy.FullIsolation {
		t.Error("an empty chain accepts less than full isolation")
	}
}

func TestTheSessionTierNeedsEveryLink(t *testing.T) {
	const session, fresh = "sandbox: {tier: session}\n", "sandbox: {tier: fresh}\n"
	tests := map[string]struct {
		links []string
		want  bool
	}{
		"nothing said":             {[]string{""}, false},
		"fresh":                    {[]string{fresh}, false},
		"session":                  {[]string{session}, true},
		"the next inherits":        {[]string{session, "rest: inherit\n"}, true},
		"the next says nothing":    {[]string{session, ""}, false},
		"the next is stricter":     {[]string{session, fresh + "rest: inherit\n"}, false},
		"the first says nothing":   {[]string{"", session}, false},
		"all of them":              {[]string{session, session}, true},
		"nobody says, all inherit": {[]string{"rest: inherit\n"}, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := chainOfSources(t, tc.links...).SessionTier(); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
	if (policy.Chain{}).SessionTier() || (policy.Chain{nil}).SessionTier() {
		t.Error("an empty chain lets commands share a sandbox")
	}
}

func TestIsolationAndTierArePrinted(t *testing.T) {
	const src = "version: 1\nname: \"test\"\nisolation: landlock\nsandbox:\n  tier: session\n"
	p, err := policy.Parse("test.yaml", []byte(src))
	if err != nil || string(p.Print()) != src {
		t.Errorf("got %q, %v", p.Print(), err)
	}
	for _, bad := range []string{"isolation: weak", "isolation: 1", "sandbox: session", "sandbox: {tier: warm}", "sandbox: {teir: fresh}"} {
		if _, err := policy.Parse("test.yaml", []byte("version: 1\n"+bad+"\n")); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

func TestALearntPolicyIsNoWeakerThanItsChain(t *testing.T) {
	tests := map[string]struct {
		links []string
		want  string // of the two keys
	}{
		"both say it":  {[]string{"isolation: none\nsandbox: {tier: session}\n", "isolation: landlock\nrest: inherit\n"}, "isolation: landlock\nsandbox:\n  tier: session\n"},
		"one does not": {[]string{"isolation: none\nsandbox: {tier: session}\n", ""}, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p, err := chainOfSources(t, tc.links...).Relist("learnt", []byte("version: 1\n"), nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := string(p.Print()); tc.want != "" && !strings.HasSuffix(got, tc.want) || tc.want == "" && strings.Contains(got, "isolation") || tc.want == "" && strings.Contains(got, "tier") {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
