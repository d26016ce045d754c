package policyreview_test

import (
	"path/filepath"
	"testing"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/profile"
)

// Each ready policy has tests of what it allows and of what it stops, none of its entries is
// without effect, and what would widen an agent is stopped by all of them.
func TestProfiles(t *testing.T) {
	d := newDesk(t, nil)
	all, err := profile.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range profile.AgentNames() {
		a, err := profile.FindAgent(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, a.Profile)
	}
	for _, p := range all {
		parsed, err := policy.Parse(p.Name+".yaml", []byte(p.Source))
		if err != nil {
			t.Errorf("%s: %v", p.Name, err)
			continue
		}
		if mistakes, warnings, err := d.app.PolicyReview.Check(parsed); err != nil || len(mistakes)+len(warnings) > 0 || parsed.Name() != p.Name || p.About == "" {
			t.Errorf("%s: %v, %v, %v", p.Name, mistakes, warnings, err)
		}
		got, err := d.app.PolicyReview.Test(filepath.Join("../../authority/policy/profile/testdata", p.Name+"-test.yaml"))
		if err != nil {
			t.Errorf("%s: %v", p.Name, err)
		}
		count := map[string]int{}
		for _, c := range got {
			count[c.Effect]++
			if !c.Pass {
				t.Errorf("%s: %s: %s", p.Name, c.Name, c.Why)
			}
		}
		if count["allow"] < 3 || count["deny"] < 5 {
			t.Errorf("%s has too few tests: %v", p.Name, count)
		}
	}
}
