package e2e_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// processes counts the processes of this machine that were started with an
// argument.
func processes(t *testing.T, arg string) int {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, f := range all {
		b, err := os.ReadFile(f) // one that has ended meanwhile cannot be read
		if err == nil && bytes.Contains(b, []byte("\x00"+arg+"\x00")) {
			n++
		}
	}
	return n
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, most time.Duration, holds func() bool) {
	t.Helper()
	for began := time.Now(); !holds(); time.Sleep(5 * time.Millisecond) {
		if d := time.Since(began); d > most {
			t.Fatalf("after %s: not %s", d, what)
		}
	}
}

// napping is a run under a grant of its own: a shell with a child, and another
// that has left its session, all named by an argument that nothing else on this
// machine has.
type napping struct {
	id, nap string
	out     bytes.Buffer
	ended   chan error
}

func (w *world) startNap(policy, seconds string) *napping {
	t := w.t
	t.Helper()
	n := &napping{nap: seconds + time.Now().Format(".000000000"), ended: make(chan error, 1)}
	plan := w.plan("long", 1, call{Tool: "shell.run", Args: args("argv", []any{"sh", "-c", "sleep " + n.nap + " & setsid sleep " + n.nap + " & wait; sleep " + n.nap})},
		call{Tool: "fs.list", Args: args("path", ".")})
	var issued struct{ ID, Token string }
	if err := json.Unmarshal([]byte(w.must(0, "grant", "issue", "-p", policy, "--holder", "agent:a", "--expires", "1h", "--json")), &issued); err != nil {
		t.Fatal(err)
	}
	n.id = issued.ID
	c := w.command("run", plan, "--grant", issued.Token, "-w", w.workspace, "--json")
	var errs bytes.Buffer
	c.Stdout, c.Stderr = &n.out, &errs
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { n.ended <- c.Wait() }()
	eventually(t, "started", time.Minute, func() bool {
		select {
		case <-n.ended:
			if strings.Contains(n.out.String(), "E2007") {
				t.Skip("this machine cannot confine commands, and so runs none")
			}
			t.Fatalf("the run ended: %s%s", n.out.String(), errs.String())
		default:
		}
		return processes(t, n.nap) >= 2
	})
	return n
}

const napPolicy = "version: 1\nname: nap\nfiles: {read: {allow: [\"**\"]}}\ncommands: {allow: [\"sh **\", \"sleep **\", \"setsid **\"]}\n"

func TestARevocationFromAnotherProcessKillsTheProcessTree(t *testing.T) {
	w := newWorld(t)
	policy := w.beside("cancel.yaml", napPolicy)
	fastest := time.Hour // a loaded machine may be late now and then
	for try := 0; try < 10 && fastest > time.Second; try++ {
		n := w.startNap(policy, "303")
		began := time.Now() // the command that revokes counts as well
		w.must(0, "grant", "revoke", n.id)
		eventually(t, "dead", time.Minute, func() bool { return processes(t, n.nap) == 0 })
		fastest = min(fastest, time.Since(began))
		<-n.ended
		if r := w.parse(n.out.String()); r.Steps[0].Status == "completed" || r.Steps[1].Status == "completed" {
			t.Errorf("the steps ended as %s and %s", r.Steps[0].Status, r.Steps[1].Status)
		}
	}
	t.Logf("the process tree was dead after %s", fastest)
	if fastest > time.Second {
		t.Errorf("the process tree was never dead sooner than %s after the revocation, want within a second", fastest)
	}
	w.must(0, "verify")
}

func TestARevokedCallMayFinishWhereThePolicySaysSo(t *testing.T) {
	t.Parallel() // it mostly waits
	w := newWorld(t)
	n := w.startNap(w.beside("finish.yaml", napPolicy+"on_revoke: finish\n"), "4")
	w.must(0, "grant", "revoke", n.id)
	<-n.ended
	r := w.parse(n.out.String())
	if r.Steps[0].Status != "completed" {
		t.Errorf("the call under way ended as %s: %+v", r.Steps[0].Status, r.Steps[0].Error)
	}
	if e := r.Steps[1].Error; r.Steps[1].Status != "denied" || e == nil || e.Code != "E6004" {
		t.Errorf("a call that began after the revocation ended as %s: %+v", r.Steps[1].Status, e)
	}
	w.must(0, "verify")
}
