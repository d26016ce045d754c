package fleet_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// write replaces a file of the fleet.
func (f *fleet) write(name, text string) {
	f.Helper()
	if err := os.WriteFile(filepath.Join(f.dir, name), []byte(strings.ReplaceAll(text, "WORLD", f.world)), 0o600); err != nil {
		f.Fatal(err)
	}
}

// remit runs a command on the ledger of the nodes.
func (f *fleet) remit(args ...string) (string, error) {
	ctx, stop := context.WithTimeout(f.Context(), time.Minute)
	defer stop()
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), "REMIT_TEST_CLI=1", "REMIT_HOME="+filepath.Join(f.dir, "home"), "HOME="+f.dir, "USER=ann")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestAShortProcessMakesItsCallAfterAKill: kill -9 of a node in the middle of a call. Its lease is over,
// and so is that of a node that lives, as after a jump of the clock. A process that begins then makes its
// call at once: a wait for the leases would take five minutes. It closes the run of the dead node alone.
func TestAShortProcessMakesItsCallAfterAKill(t *testing.T) {
	t.Parallel()
	f := newFleet(t, twoActs)
	url := f.db.Schema(t, f.dir)
	f.write("home/config.yaml", "ledger: {database: '"+url+"', lease: 5m}\n")
	f.write("plan.yaml", "version: 1\nname: short\nsteps:\n  - {id: a, tool: http.request, args: {method: POST, url: WORLD/short}}\n")
	living, dead := f.start(), f.start()
	kept, left := living.session(), dead.session()
	f.hold("/first")
	for n, one := range []func(){func() { living.send(kept) }, func() { dead.send(left) }} {
		one()
		f.until("the first calls", func() bool { return f.happened("/first") == n+1 })
	}
	dead.kill()
	f.db.Count(t, url, "WITH m AS (UPDATE members SET lease_until = clock_timestamp() - interval '1 second') SELECT 0")
	if out, err := f.remit("run", filepath.Join(f.dir, "plan.yaml"), "-w", filepath.Join(f.dir, "work"), "-p", filepath.Join(f.dir, "policy.yaml")); err != nil || f.happened("/short") != 1 {
		t.Fatalf("its call had %d effects: %v %s", f.happened("/short"), err, out)
	}
	if n := f.db.Count(t, url, "SELECT count(*) FROM members"); n != 1 {
		t.Errorf("then there are %d nodes, want the one that lives", n)
	}
	if got := living.state(kept); got != "working" {
		t.Errorf("the session of the node that lives is %s", got)
	}
}
