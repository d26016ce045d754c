package policyreview_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
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

// Under no ready policy is a command with options before its subcommand, or under another name
// of it, decided less strictly than the command itself.
func TestProfilesWithOptionsBeforeASubcommand(t *testing.T) {
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
	spellings := map[string][]string{
		"git push origin main": {"git -C . push origin main", "git --no-pager push origin main", "git -P push origin main", "git -p push origin main", "git -c k=v push origin main", "git -c user.name=x push origin main", "git --git-dir=x push origin main", "git --git-dir x push origin main",
			"git --work-tree=x push origin main", "git --namespace=x push origin main", "git --exec-path=x push origin main", "git --literal-pathspecs push origin main", "git -C a -C b -P push origin main", "git --unknown push origin main", "git subtree push --prefix=a origin main",
			"git send-pack h:r main", "/usr/bin/git -C . push origin main", "env git -C . push origin main", "cd a && git -P push origin main"},
		"git unknown":       {"git config alias.p push", "git config --global alias.p '!push'", "git p origin main"},
		"docker rm x":       {"docker --context x rm x", "docker -D rm x", "docker -H tcp://x rm x", "docker container rm x", "docker --unknown rm x"},
		"kubectl delete x":  {"kubectl -n y delete x", "kubectl --context=y delete x", "kubectl --unknown y delete x"},
		"git status":        {"git -c core.fsmonitor=x status", "git --exec-path=x status"},
		"npm publish":       {"npm --prefix p publish", "npm publi", "npm -- publish"},
		"terraform destroy": {"terraform -chdir=prod destroy"},
	}
	strict := []string{"allow", "ask", "deny"}
	for _, p := range all {
		for plain, list := range spellings {
			var b strings.Builder
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "p.yaml"), []byte(p.Source), 0o600); err != nil {
				t.Fatal(err)
			}
			b.WriteString("version: 1\npolicy: p.yaml\ncases:\n")
			for i, script := range append([]string{plain}, list...) {
				fmt.Fprintf(&b, "  - {name: %q, call: {tool: shell.run, args: {script: %q}}, expect: deny}\n", fmt.Sprint(i, " ", script), script)
			}
			if err := os.WriteFile(filepath.Join(dir, "cases.yaml"), []byte(b.String()), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := d.app.PolicyReview.Test(filepath.Join(dir, "cases.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range got[1:] {
				if slices.Index(strict, c.Effect) < slices.Index(strict, got[0].Effect) {
					t.Errorf("%s: %q is %s, and %q is %s", p.Name, c.Name, c.Effect, plain, got[0].Effect)
				}
			}
		}
	}
}
