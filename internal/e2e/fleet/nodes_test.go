package fleet_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestNodesThatDifferAreListed: two nodes are started with different policies. The API at each of them,
// a person's page, remit db nodes and remit doctor list both nodes and what differs.
func TestNodesThatDifferAreListed(t *testing.T) {
	t.Parallel()
	f := newFleet(t, twoActs)
	idp := f.people()
	a := f.start()
	policy := filepath.Join(f.dir, "policy.yaml")
	text, err := os.ReadFile(policy)
	if err == nil {
		err = os.WriteFile(policy, append(text, "# another one\n"...), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	b := f.start()
	for _, n := range []*node{a, b} {
		var list []any
		f.until("both nodes are listed", func() bool {
			list, _ = n.must(200, "GET", "/v1/parts", "")["nodes"].([]any)
			return len(list) == 2
		})
		differ := 0
		for _, one := range list {
			got, _ := one.(map[string]any)
			if differs, _ := got["differs"].([]any); slices.Contains(differs, "policy") {
				differ++
			}
		}
		if differ != 1 {
			t.Errorf("%d nodes differ: %v", differ, list)
		}
	}
	for command, want := range map[string]string{"db nodes": "differs in: policy", "doctor": "differs from the first node in: policy"} {
		remit := exec.Command(os.Args[0], strings.Fields(command)...)
		remit.Env = append(os.Environ(), "REMIT_TEST_CLI=1", "REMIT_HOME="+filepath.Join(f.dir, "home"), "HOME="+f.dir, "USER=ann")
		if out, _ := remit.CombinedOutput(); strings.Count(string(out), want) != 1 { // doctor fails for it
			t.Errorf("remit %s: %s", command, out)
		}
	}
	ann := &person{f: f, idp: idp, name: "ann", cookies: map[string]*http.Cookie{}}
	ann.wants(200, b, ann.leave(b))
	if _, _, page := ann.browse(b, "GET", "/ui/settings", nil); !strings.Contains(page, ">Nodes</h2>") || strings.Count(page, "<td>lease ") != 2 || !strings.Contains(page, "<code>policy</code>") {
		t.Errorf("the page has %s", page)
	}
}
