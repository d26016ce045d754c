package fleet_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// unknownCall is a call as remit runs --unknown lists it.
type unknownCall struct {
	Run  string `json:"run_id"`
	Call int    `json:"call"`
}

// acts is the number of the first call that has an effect: the first one asks the model.
const acts = "2"

// unknowns lists the calls of which is not known whether they took effect.
func (f *fleet) unknowns() []unknownCall {
	f.Helper()
	text, err := f.remit("runs", "--unknown", "--json")
	var list struct{ Items []unknownCall }
	if err == nil {
		err = json.Unmarshal([]byte(text), &list)
	}
	if err != nil {
		f.Fatalf("%v: %s", err, text)
	}
	return list.Items
}

// TestAnUnknownCallIsSettledOnce: a process beside the nodes settles nothing while the node of the call
// lives. After kill -9 of the node it finds the call, and the first of two processes settles it.
func TestAnUnknownCallIsSettledOnce(t *testing.T) {
	if os.Getenv("REMIT_SOAK") == "" {
		t.Skip("set REMIT_SOAK for it")
	}
	t.Parallel()
	f := newFleet(t, twoActs)
	a, b := f.start(), f.start()
	id := a.session()
	f.hold("/first")
	a.send(id)
	f.until("the first call", func() bool { return f.happened("/first") == 1 })
	if out, err := f.remit("settle", "last", acts, "--happened"); err == nil || !strings.Contains(out, "call "+acts) {
		t.Errorf("a call under way is settled: %v %s", err, out)
	}
	if list := f.unknowns(); len(list) != 0 {
		t.Errorf("while the node lives, %v is unknown", list)
	}
	a.kill()
	b.becomes(id, "idle")
	list := f.unknowns()
	if len(list) != 1 || strconv.Itoa(list[0].Call) != acts {
		t.Fatalf("%v is unknown, want the first call", list)
	}
	for n, want := range []bool{true, false} {
		if out, err := f.remit("settle", list[0].Run, acts, "--happened"); (err == nil) != want {
			t.Errorf("settling it, %d: %v %s", n+1, err, out)
		}
	}
	if list := f.unknowns(); len(list) != 0 {
		t.Errorf("then %v is unknown", list)
	}
	verified(t, f)
}

// TestAnUnknownCallOfAnotherMachineIsFound: no process lives that knows the dead node, and its lock is on
// another machine. A process that has just begun finds the call all the same: it waits for the lease.
func TestAnUnknownCallOfAnotherMachineIsFound(t *testing.T) {
	t.Parallel()
	f := newFleet(t, twoActs)
	a := f.start()
	f.hold("/first")
	a.send(a.session())
	f.until("the first call", func() bool { return f.happened("/first") == 1 })
	a.kill()
	if err := os.RemoveAll(filepath.Join(f.dir, "home", "owners")); err != nil {
		t.Fatal(err)
	}
	f.db.Count(t, f.db.Schema(t, f.dir), "WITH m AS (UPDATE members SET lease_until = clock_timestamp() - interval '1 second') SELECT 0")
	list := f.unknowns()
	if len(list) != 1 {
		t.Fatalf("%v is unknown, want the first call", list)
	}
	if out, err := f.remit("settle", list[0].Run, acts, "--not-happened"); err != nil {
		t.Errorf("settling it: %v %s", err, out)
	}
}
