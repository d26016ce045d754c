package app_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/record/store"
)

// change is something that a person can change between two requests of a caller.
type change struct {
	name   string
	make   func(x *changed) (undo func()) // nil: it cannot be undone
	within time.Duration                  // after which it holds; 0: for the next request
	codes  []string                       // of the refusal
}

// changed is a service with a caller whose grant is narrowed twice.
type changed struct {
	*service
	parent, token, id string // the IDs of the grants
}

func (x *changed) renew() {
	x.t.Helper()
	above, parent := x.narrow("version: 1\nname: parent\nrest: inherit\n")
	status, m := x.ask("POST", "/v1/grants", above, `{"policies":["version: 1\nname: own\nrest: inherit\n"]}`)
	if status != 201 {
		x.t.Fatalf("a grant: %d %v", status, m)
	}
	x.parent, x.token, x.id = parent, m["token"].(string), m["id"].(string)
}

func (x *changed) call() (int, map[string]any) {
	return x.ask("POST", "/v1/tools/time.now/invoke", x.token, "{}")
}

func (x *changed) must(err error) {
	x.t.Helper()
	if err != nil {
		x.t.Fatal(err)
	}
}

// standing changes the standing of a grant over the API.
func standing(verb, back string, of func(*changed) string) func(x *changed) func() {
	return func(x *changed) func() {
		x.service.must(200, "POST", "/v1/grants/"+of(x)+"/"+verb, `{}`)
		if back == "" {
			return nil
		}
		return func() { x.service.must(200, "POST", "/v1/grants/"+of(x)+"/"+back, `{}`) }
	}
}

// beyond changes the standing of a grant in another process.
func beyond(of func(*changed) string) func(x *changed) func() {
	return func(x *changed) func() {
		_, err := x.beside().Grants.SetStanding(x.t.Context(), of(x), store.Revoked, "")
		x.must(err)
		return nil
	}
}

// file changes a file of $REMIT_HOME, in place or by a rename.
func file(name, content string, rename bool) func(x *changed) func() {
	return func(x *changed) func() {
		at := filepath.Join(x.homeDir, name)
		before, err := os.ReadFile(at)
		put := func(text string) {
			to := at
			if rename {
				to = filepath.Join(x.homeDir, "new")
			}
			x.must(os.WriteFile(to, []byte(text), 0o600))
			if rename {
				x.must(os.Rename(to, at))
			}
		}
		put(content)
		return func() {
			if err != nil {
				x.must(os.Remove(at))
			} else {
				put(string(before))
			}
		}
	}
}

func parent(x *changed) string { return x.parent }
func own(x *changed) string    { return x.id }

const noTime = "version: 1\nname: outer\nrest: inherit\ntools: {deny: [time.now]}\n"

// changes are kinds of changes. A refusal at the door has a code of grants, one by the policies a denial.
var changes = []change{
	{"the grant is revoked", standing("revoke", "", own), 0, []string{"E6004"}},
	{"its parent is revoked", standing("revoke", "", parent), 0, []string{"E6004"}},
	{"the grant is paused", standing("pause", "resume", own), 0, []string{"E6005"}},
	{"its parent is paused", standing("pause", "resume", parent), 0, []string{"E6005"}},
	{"another process revokes the grant", beyond(own), time.Second, []string{"E6004"}},
	{"another process revokes its parent", beyond(parent), time.Second, []string{"E6004"}},
	{"the outer policy denies the tool", file("policy.yaml", noTime, false), 0, []string{"E1001"}},
	{"another outer policy is renamed to it", file("policy.yaml", noTime, true), 0, []string{"E1001"}},
	{"the outer policy allows no call", file("policy.yaml", "version: 1\nname: outer\nrest: inherit\ntools: {allow: []}\n", true), 0, []string{"E1001"}},
	{"the outer policy asks", file("policy.yaml", "version: 1\nname: outer\nrest: inherit\ntools: {ask: [time.now]}\n", false), 0, []string{"E1002"}},
	{"the outer policy is damaged", file("policy.yaml", "version: 1\nnonsense", true), 0, []string{"E1003"}},
	{"the keys of grants are removed", file("keys/grant.json", `{"keys":[]}`, false), 0, []string{"E6008"}},
	{"other keys of grants are renamed to them", file("keys/grant.json", `{"keys":[{"public":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=","id":"x","made":"2026-01-01T00:00:00Z"}]}`, true), 0, []string{"E6008"}},
	{"the grant expires", func(x *changed) func() {
		x.token, x.id = x.narrow("version: 1\nname: short\nrest: inherit\n", `,"expires_in":1`)
		return nil
	}, 2 * time.Second, []string{"E6002"}},
	{"the grant has another budget", func(x *changed) func() {
		x.token, x.id = x.narrow("version: 1\nname: one\nrest: inherit\n", `,"calls":1`)
		if status, m := x.call(); status != 200 {
			x.t.Fatalf("the only call of the budget: %d %v", status, m)
		}
		return nil
	}, 0, []string{"E6012"}},
}

// TestAChangeHoldsForTheNextCall makes every kind of change between two calls of a caller, in orders
// that are drawn: what the first call found out must not hold longer than the change.
func TestAChangeHoldsForTheNextCall(t *testing.T) {
	x := &changed{service: newService(t)}
	for seed := range uint64(3) {
		order := rand.New(rand.NewPCG(seed, 1)).Perm(len(changes)) //nolint:gosec // repeatable on purpose
		x.renew()
		for _, i := range order {
			c := changes[i]
			for range 2 {
				if status, m := x.call(); status != 200 || m["status"] != "completed" {
					t.Fatalf("seed %d: before %s: %d %v", seed, c.name, status, m)
				}
			}
			undo := c.make(x)
			status, m := x.call()
			for end := time.Now().Add(10 * c.within); status == 200 && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				status, m = x.call()
			}
			if status == 200 || !slices.Contains(c.codes, fmt.Sprint(m["code"])) {
				t.Errorf("seed %d: %s: %d %v", seed, c.name, status, m)
			}
			if undo == nil {
				x.renew()
				continue
			}
			undo()
		}
	}
	x.verifies(t)
}

// verifies stops the service, and verifies its whole record.
func (s *service) verifies(t *testing.T) {
	t.Helper()
	s.stop()
	st, err := s.beside().Reader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if rep, err := st.Verify(t.Context(), store.VerifyOptions{}); err != nil || !rep.OK {
		t.Errorf("the record does not verify: %+v %v", rep, err)
	}
}

// TestCallersAtOnceAreCountedExactly: a budget allows exactly its calls to callers at once, and each
// call that is answered is in the record, in a run of its own that has ended.
func TestCallersAtOnceAreCountedExactly(t *testing.T) {
	const budget, callers, each = 17, 8, 6
	s := newService(t)
	token, _ := s.narrow("version: 1\nname: some\nrest: inherit\n", fmt.Sprintf(`,"calls":%d`, budget))
	var mu sync.Mutex
	answered := map[string]int{}
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range each {
				status, m := s.ask("POST", "/v1/tools/time.now/invoke", token, "{}")
				mu.Lock()
				if answered[m["run_id"].(string)] = status; status != 200 && m["code"] != "E6012" {
					t.Errorf("%d %v", status, m)
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if len(answered) != callers*each {
		t.Errorf("%d calls are %d runs", callers*each, len(answered))
	}
	done := 0
	for run, status := range answered {
		r := s.must(200, "GET", "/v1/runs/"+run, "")
		if want := map[bool]string{true: "completed", false: "denied"}[status == 200]; r["status"] != want || r["total"] != 1.0 {
			t.Errorf("answered with %d: %v", status, r)
		}
		if status == 200 {
			done++
		}
	}
	if done != budget {
		t.Errorf("a budget of %d allowed %d calls", budget, done)
	}
	s.verifies(t)
}
