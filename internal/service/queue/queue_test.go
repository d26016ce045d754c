package queue_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/app/apptest"
	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/changeset"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/grants"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/queue"
	"github.com/remitrun/remit/internal/service/runs"
)

const writing = "version: 1\nfiles: {write: {allow: [\"out/**\"]}}\n"

// place is a Remit with a workspace and a policy.
type place struct {
	*app.App
	t                *testing.T
	home, ws, policy string
}

func newPlace(t *testing.T, policy string) place {
	t.Helper()
	p := place{t: t, home: t.TempDir(), ws: t.TempDir()}
	p.policy = filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(p.policy, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	p.App = apptest.New(t, p.home)
	return p
}

// request is a run that writes a file.
func (p place) request(name string) runs.Request {
	p.t.Helper()
	src := fmt.Sprintf("name: %s\nsteps: [{tool: time.now}, {tool: fs.write, args: {path: out/%s.txt, content: hi}}]\n", name, name)
	parsed, err := p.Runs.ParsePlan(name+".yaml", []byte(src))
	if err != nil {
		p.t.Fatal(err)
	}
	return runs.Request{Plan: parsed, Workspace: p.ws, Policy: p.policy}
}

func (p place) add(r runs.Request, o queue.Options) store.QueuedRun {
	p.t.Helper()
	run, fresh, err := p.Queue.Add(p.t.Context(), r, o)
	if err != nil || !fresh {
		p.t.Fatalf("Add = %v, %v", fresh, err)
	}
	return run
}

// work works until nothing is due.
func (p place) work() {
	p.t.Helper()
	if err := p.Queue.Work(p.t.Context(), queue.Worker{Empty: true, Failed: func(err error) { p.t.Errorf("the worker: %v", err) }}); err != nil {
		p.t.Fatal(err)
	}
}

func (p place) store() store.Backend {
	p.t.Helper()
	st, err := p.Store(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	return st
}

// is checks what became of a queued run.
func (p place) is(run store.QueuedRun, status string, code fault.Code) {
	p.t.Helper()
	got, err := p.store().Queued(p.t.Context(), run.ID.String())
	if err != nil {
		p.t.Fatal(err)
	}
	want := ""
	if code != 0 {
		want = code.Error()
	}
	if got.Status != status || got.Code != want || (code != 0) != (got.Reason != "") {
		p.t.Errorf("%s is %s %s %q, want %s %s with a reason", run.Name, got.Status, got.Code, got.Reason, status, want)
	}
}

// grant issues a grant of the policy.
func (p place) grant(t grants.Terms) (token string, id uuid.UUID) {
	p.t.Helper()
	t.Policies, t.Workspace = []string{p.policy}, p.ws
	made, err := p.Grants.Issue(p.t.Context(), t)
	if err != nil {
		p.t.Fatal(err)
	}
	return made.Text, made.Claims.Leaf()
}

func TestAQueuedRunIsCarriedOutAsItWasQueued(t *testing.T) {
	p := newPlace(t, writing)
	if err := os.Mkdir(filepath.Join(p.ws, "out"), 0o700); err != nil {
		t.Fatal(err)
	}
	run := p.add(p.request("one"), queue.Options{})
	later := p.add(p.request("later"), queue.Options{Delay: time.Hour})
	if err := os.Remove(p.policy); err != nil { // the policy's text was recorded
		t.Fatal(err)
	}
	p.work()
	p.is(run, "completed", 0)
	p.is(later, "scheduled", 0)
	if b, err := os.ReadFile(filepath.Join(p.ws, "out", "one.txt")); err != nil || string(b) != "hi" {
		t.Errorf("it wrote %q, %v", b, err)
	}
	got, err := p.store().Run(t.Context(), run.ID.String())
	if err != nil || got.Status != "completed" || got.Principal != home.Person() {
		t.Errorf("its record is %+v, %v", got, err)
	}
}

// Two processes, which two Remits of one home are to the ledger, carry out each run once.
func TestTwoWorkersCarryOutEachRunOnce(t *testing.T) {
	t.Run("written at once", func(t *testing.T) { twoWorkers(t, writing) })
	// The folder of a run's held changes is made before its start is recorded: a worker that is
	// refused must leave that of the other one alone.
	t.Run("held", func(t *testing.T) { twoWorkers(t, "version: 1\nfiles: {write: {allow: [\"out/**\"], hold: true}}\n") })
}

func twoWorkers(t *testing.T, policy string) {
	t.Helper()
	p := newPlace(t, policy)
	other := place{App: apptest.New(t, p.home), t: t, home: p.home, ws: p.ws}
	const n = 40
	for i := range n {
		p.add(p.request(fmt.Sprintf("r%d", i)), queue.Options{Priority: 1 + i%4})
	}
	var both sync.WaitGroup
	var told atomic.Int32
	for _, at := range []place{p, other} {
		both.Go(func() {
			if err := at.Queue.Work(t.Context(), queue.Worker{Empty: true, Ended: func(store.QueuedRun) { told.Add(1) }}); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	if told.Load() != n {
		t.Errorf("the workers told of %d runs, want each once: %d", told.Load(), n)
	}
	ended, err := p.store().QueuedRuns(t.Context(), store.QueueFilter{Ended: true})
	if err != nil || len(ended) != n {
		t.Fatalf("%d runs ended, %v; want %d", len(ended), err, n)
	}
	for _, r := range ended {
		if r.Status != "completed" || r.Completed != 2 {
			t.Errorf("%s is %+v", r.Name, r)
		}
		_, serr := os.Stat(filepath.Join(p.ws, "out", r.Name+".txt"))
		if set, err := changeset.In(p.home).Load(r.ID.String()); policy == writing && serr != nil || policy != writing && (err != nil || set.State() != changeset.Review) {
			t.Errorf("what %s wrote is lost: %v, %v", r.Name, serr, err)
		}
	}
	all, err := p.store().Runs(t.Context(), store.RunFilter{Limit: 10 * n})
	if err != nil || len(all) != n {
		t.Errorf("%d runs were recorded, %v; want %d", len(all), err, n)
	}
	if v, err := p.store().Verify(t.Context(), store.VerifyOptions{}); err != nil || !v.OK {
		t.Errorf("verify: %+v, %v", v.Problems, err)
	}
}

// Authority that ended while a run waited does not start it.
func TestAuthorityIsDecidedAnewAtTheStart(t *testing.T) {
	p := newPlace(t, writing)
	set := func(to store.Standing) func(uuid.UUID) error {
		return func(id uuid.UUID) error {
			_, err := p.Grants.SetStanding(t.Context(), id.String(), to, "test")
			return err
		}
	}
	for name, c := range map[string]struct {
		terms  grants.Terms
		change func(id uuid.UUID) error
		status string
		code   fault.Code
	}{
		"revoked": {grants.Terms{}, set(store.Revoked), "refused", fault.GrantRevoked},
		"paused":  {grants.Terms{}, set(store.Paused), "scheduled", fault.GrantPaused},
		"spent":   {grants.Terms{Budgets: grant.Budgets{Calls: 2}}, func(uuid.UUID) error { return nil }, "refused", fault.BudgetSpent},
	} {
		t.Run(name, func(t *testing.T) {
			p := p
			p.t = t
			token, id := p.grant(c.terms)
			r := p.request(name)
			r.Policy, r.Grant = "", grants.Presented{Token: token}
			if name == "spent" {
				p.is(func() store.QueuedRun { run := p.add(r, queue.Options{}); p.work(); return run }(), "completed", 0)
			}
			run := p.add(r, queue.Options{})
			if run.Grant != id || run.Root != id || run.Principal != home.Person() {
				t.Errorf("it was queued as %+v", run)
			}
			if err := c.change(id); err != nil {
				t.Fatal(err)
			}
			p.work()
			p.is(run, c.status, c.code)
		})
	}
}

// A run that the trusted policy of a workspace allowed is bounded by that policy as it was,
// and as it is when the run starts.
func TestATrustedPolicyIsAskedThenAndNow(t *testing.T) {
	p := newPlace(t, writing)
	file := filepath.Join(p.ws, "remit.yaml")
	trust := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := p.Policies.Trust(p.ws, ""); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(name string) runs.Request {
		r := p.request(name)
		r.Policy = ""
		return r
	}
	if _, _, err := p.Queue.Add(t.Context(), ask("none"), queue.Options{}); !errors.Is(err, fault.PolicyMissing) {
		t.Errorf("without a policy: %v, want %v", err, fault.PolicyMissing)
	}
	const nothing = "version: 1\nfiles: {write: {allow: []}}\n"
	trust(nothing)
	then := p.add(ask("then"), queue.Options{})
	trust(writing)
	p.work()
	p.is(then, "denied", 0)
	now := p.add(ask("now"), queue.Options{})
	trust(nothing)
	p.work()
	p.is(now, "denied", 0)
	distrusted := p.add(ask("distrusted"), queue.Options{})
	if _, err := p.Policies.Distrust(p.ws); err != nil {
		t.Fatal(err)
	}
	p.work()
	p.is(distrusted, "refused", fault.PolicyMissing)
}

func TestWhatCannotBeQueuedIsRefusedAtOnce(t *testing.T) {
	p := newPlace(t, writing)
	for want, c := range map[string]struct {
		change func(*runs.Request)
		o      queue.Options
	}{
		"5 is not a valid priority":              {nil, queue.Options{Priority: 5}},
		`"tools:x" is not a valid limit`:         {nil, queue.Options{Limits: []store.Slot{{Key: "tools:x", Most: 1}}}},
		"no step of the plan calls tool:fs.read": {nil, queue.Options{Limits: []store.Slot{{Key: "tool:fs.read", Most: 1}}}},
		"it must be at least 1":                  {nil, queue.Options{Limits: []store.Slot{{Key: "grant"}}}},
		"more than a year ahead":                 {nil, queue.Options{Delay: 10000 * time.Hour}},
		"not a text of at most 200 bytes":        {nil, queue.Options{Unique: strings.Repeat("x", 201)}},
		`the plan declares no input "nope"`:      {func(r *runs.Request) { r.Inputs = map[string]string{"nope": "1"} }, queue.Options{}},
		`the key file "key" cannot be read`:      {func(r *runs.Request) { r.Grant = grants.Presented{Token: "remit1_x", KeyFile: "key"} }, queue.Options{}},
		"the token is cut off or changed":        {func(r *runs.Request) { r.Grant = grants.Presented{Token: "remit1_x"} }, queue.Options{}},
	} {
		r := p.request("x")
		if c.change != nil {
			c.change(&r)
		}
		if _, _, err := p.Queue.Add(t.Context(), r, c.o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if list, err := p.store().QueuedRuns(t.Context(), store.QueueFilter{}); err != nil || len(list) != 0 {
		t.Errorf("queued are %+v, %v", list, err)
	}
}

// A limit of one lets runs pass one after the other, and those behind them that have no
// limit do not wait for them.
func TestLimitsHoldBackOnlyTheirOwnRuns(t *testing.T) {
	p := newPlace(t, writing)
	st := p.store()
	one := []store.Slot{{Key: "tool:fs.write", Most: 1}}
	var limited []store.QueuedRun
	for i := range 3 {
		limited = append(limited, p.add(p.request(fmt.Sprintf("l%d", i)), queue.Options{Priority: 1, Limits: one}))
	}
	holder, err := holdSlot(t, p, one)
	if err != nil {
		t.Fatal(err)
	}
	free := p.add(p.request("free"), queue.Options{Priority: 4})
	p.work()
	p.is(free, "completed", 0)
	for _, r := range limited {
		p.is(r, "waiting", 0)
	}
	holder()
	p.work()
	for _, r := range limited {
		p.is(r, "completed", 0)
	}
	if taken, err := st.TakenSlots(t.Context()); err != nil || len(taken) != 0 {
		t.Errorf("taken are %v, %v", taken, err)
	}
}

// holdSlot starts a run that holds slots until release.
func holdSlot(t *testing.T, p place, slots []store.Slot) (release func(), err error) {
	t.Helper()
	run := p.add(p.request("holder"), queue.Options{Priority: 1})
	s, err := p.Runs.Begin(t.Context(), runs.Request{Name: "holder", Workspace: p.ws, Policy: p.policy, ID: run.ID, Record: starter(p.store(), slots)})
	if err != nil {
		return nil, err
	}
	return func() {
		if err := s.End(context.Background()); err != nil {
			t.Error(err)
		}
	}, nil
}

func starter(st store.Backend, slots []store.Slot) func(context.Context, ledger.Entry) (ledger.Seq, error) {
	return func(ctx context.Context, e ledger.Entry) (ledger.Seq, error) { return st.StartQueued(ctx, e, slots) }
}

// TestAQueuedRunHasATime: any worker ends a run that its own process has not ended after its time.
// The limits are free.
func TestAQueuedRunHasATime(t *testing.T) {
	p := newPlace(t, writing)
	one := []store.Slot{{Key: "tool:fs.write", Most: 1}}
	run := p.add(p.request("holder"), queue.Options{})
	s, err := p.Runs.Begin(t.Context(), runs.Request{Name: "holder", Workspace: p.ws, Policy: p.policy, ID: run.ID, Record: starter(p.store(), one)})
	if err != nil {
		t.Fatal(err)
	}
	p.Home.Settings.Queue.RunTime = -2 * time.Minute // since its start, and the time that its process has
	p.work()
	p.is(run, "timeout", 0)
	if taken, err := p.store().TakenSlots(t.Context()); err != nil || len(taken) != 0 {
		t.Errorf("taken are %v, %v", taken, err)
	}
	_ = s.End(t.Context()) // its end is recorded already
}

// TestALastingFailureIsReportedOnce: while the ledger cannot be used, passes fail one after the other.
// Each error code is reported once, and that the queue works again.
func TestALastingFailureIsReportedOnce(t *testing.T) {
	p := newPlace(t, writing)
	open, failures := p.Home.Ledger, []fault.Code{fault.StoreFailed, fault.StoreFailed, fault.StoreMissing, fault.StoreFailed, fault.StoreMissing}
	looks := 0
	p.Home.Ledger = func(ctx context.Context) (store.Backend, error) {
		if looks++; looks <= len(failures) {
			return nil, fault.New(failures[looks-1], "look %d", looks)
		}
		return open(ctx)
	}
	var told []fault.Code
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan error, 1)
	go func() {
		done <- p.Queue.Work(ctx, queue.Worker{Failed: func(err error) { told = append(told, fault.CodeOf(err)) }})
	}()
	for log := []byte(nil); !strings.Contains(string(log), `"queue_works_again"`); time.Sleep(10 * time.Millisecond) {
		log, _ = os.ReadFile(filepath.Join(p.home, "logs", "remit.log")) // it is made with its first line
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if want := []fault.Code{fault.StoreFailed, fault.StoreMissing}; !slices.Equal(told, want) {
		t.Errorf("%v were reported, want %v", told, want)
	}
}
