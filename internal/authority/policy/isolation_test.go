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

// What commands share, every link must say, or leave to the others.
func TestWhatIsSharedNeedsEveryLink(t *testing.T) {
	for _, shared := range []struct {
		yes, no string
		of      func(policy.Chain) bool
	}{
		{"sandbox: {tier: session}\n", "sandbox: {tier: fresh}\n", policy.Chain.SessionTier},
		{"sandbox: {home: kept}\n", "sandbox: {home: fresh}\n", policy.Chain.KeepsHome},
		{"system: standard\n", "system: minimal\n", policy.Chain.StandardSystem},
	} {
		tests := map[string]struct {
			links []string
			want  bool
		}{
			"nothing said":             {[]string{""}, false},
			"no":                       {[]string{shared.no}, false},
			"yes":                      {[]string{shared.yes}, true},
			"the next inherits":        {[]string{shared.yes, "rest: inherit\n"}, true},
			"the next says nothing":    {[]string{shared.yes, ""}, false},
			"the next is stricter":     {[]string{shared.yes, shared.no + "rest: inherit\n"}, false},
			"the first says nothing":   {[]string{"", shared.yes}, false},
			"all of them":              {[]string{shared.yes, shared.yes}, true},
			"nobody says, all inherit": {[]string{"rest: inherit\n"}, false},
		}
		for name, tc := range tests {
			t.Run(shared.yes+name, func(t *testing.T) {
				if got := shared.of(chainOfSources(t, tc.links...)); got != tc.want {
					t.Errorf("got %v, want %v", got, tc.want)
				}
			})
		}
		if shared.of(policy.Chain{}) || shared.of(policy.Chain{nil}) {
			t.Errorf("an empty chain says %s", shared.yes)
		}
	}
}

func TestIsolationAndTierArePrinted(t *testing.T) {
	const src = "version: 1\nname: \"test\"\nisolation: landlock\nsandbox:\n  tier: session\n  home: kept\n"
	p, err := policy.Parse("test.yaml", []byte(src))
	if err != nil || string(p.Print()) != src {
		t.Errorf("got %q, %v", p.Print(), err)
	}
	for _, bad := range []string{"isolation: weak", "isolation: 1", "sandbox: session", "sandbox: {tier: warm}", "sandbox: {home: mine}", "sandbox: {teir: fresh}"} {
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
		"both say it":  {[]string{"isolation: none\nsandbox: {tier: session, home: kept}\n", "isolation: landlock\nrest: inherit\n"}, "isolation: landlock\nsandbox:\n  tier: session\n  home: kept\n"},
		"one does not": {[]string{"isolation: none\nsandbox: {tier: session, home: kept}\n", ""}, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p, err := chainOfSources(t, tc.links...).Relist("learnt", []byte("version: 1\n"), nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := string(p.Print()); tc.want != "" && !strings.HasSuffix(got, tc.want) || tc.want == "" && strings.Contains(got, "isolation") || tc.want == "" && strings.Contains(got, "sandbox") {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
