package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// Approvals checks that a store is a [store.Approvals] as well.
func Approvals(t *testing.T, open OpenStore) {
	t.Helper()
	cases := []struct {
		name string
		run  func(t *testing.T, open OpenStore)
	}{
		{"a question is told as it was asked, also after reopening", approvalsAsk},
		{"a question that waits is not filed twice", approvalsTwice},
		{"a question that has a yes is not filed again", approvalsAnswered},
		{"one no refuses", approvalsNo},
		{"as many different people as it needs must say yes", approvalsSeveral},
		{"only admins approve what admins approve", approvalsAdmin},
		{"an answer under a grant is of the person whom it was issued to", approvalsGrant},
		{"an answer under a grant that is revoked, paused or expired has no effect", approvalsStanding},
		{"an approval is claimed once", approvalsClaim},
		{"an approval of a session's calls is not claimed", approvalsSession},
		{"an answer that comes late, or again, changes nothing", approvalsLate},
		{"a question that was closed is over", approvalsClose},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { c.run(t, open) })
	}
}

type approvalStore interface {
	store.Store
	store.Approvals
}

func openApprovals(t *testing.T, open OpenStore, home string) approvalStore {
	t.Helper()
	a, ok := open(t, home).(approvalStore)
	if !ok {
		t.Fatal("the store keeps no approvals")
	}
	return a
}

var asks = time.UnixMicro(base).UTC()

func question(binding byte) store.Approval {
	return store.Approval{
		ID: uuid.Must(uuid.NewV7()), Binding: [32]byte{binding}, Holder: "agent:x", Needs: 1, Asked: asks, Until: asks.Add(time.Minute),
		GoodFor: time.Hour, Body: []byte(`{"tool":"fs.write"}`),
	}
}

func ask(t *testing.T, a store.Approvals, q store.Approval) store.Approval {
	t.Helper()
	q, err := a.Request(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func yes(by string) store.Vote {
	return store.Vote{By: by, Yes: true, Where: "suite", At: asks.Add(time.Second)}
}

func vote(t *testing.T, a store.Approvals, id uuid.UUID, v store.Vote) store.QuestionState {
	t.Helper()
	q, err := a.Vote(t.Context(), id, v)
	if err != nil {
		t.Fatal(err)
	}
	return q.State
}

func approvalsAsk(t *testing.T, open OpenStore) {
	home := t.TempDir()
	a := openApprovals(t, open, home)
	run, id := start(t, a, nil)
	q := question(1)
	q.Run, q.RunID, q.Call, q.Grant = run, id, 3, uuid.New()
	ask(t, a, q)
	q.State = store.Waiting
	for _, s := range []store.Approvals{a, openApprovals(t, open, home)} {
		got, err := s.Question(t.Context(), q.ID.String()[:18])
		if got.Seq == 0 {
			t.Error("no event tells of it")
		}
		got.Seq = 0
		if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", q) || err != nil {
			t.Errorf("got  %+v\nwant %+v, %v", got, q, err)
		}
	}
	if _, err := a.Question(t.Context(), uuid.NewString()); !errors.Is(err, fault.ApprovalGone) {
		t.Errorf("an unknown question: %v", err)
	}
	if list, err := a.Questions(t.Context(), store.QuestionFilter{Run: run, State: store.Waiting}); err != nil || len(list) != 1 {
		t.Errorf("%d of the run, %v", len(list), err)
	}
	if list, err := a.Questions(t.Context(), store.QuestionFilter{State: store.Refused}); err != nil || len(list) != 0 {
		t.Errorf("%d refused, %v", len(list), err)
	}
}

func approvalsTwice(t *testing.T, open OpenStore) {
	a := openApprovals(t, open, t.TempDir())
	first := ask(t, a, question(1))
	if again := ask(t, a, question(1)); again.ID != first.ID {
		t.Error("the same question was filed twice")
	}
	if other := ask(t, a, question(2)); other.ID == first.ID {
		t.Error("another question was taken for the same")
	}
	late := question(1)
	late.Asked, late.Until = asks.Add(time.Hour), asks.Add(2*time.Hour)
	if again := ask(t, a, late); again.ID == first.ID {
		t.Error("a question whose time is over was given again")
	}
}

// approvalsAnswered: the answer came after the caller had looked for one.
func approvalsAnswered(t *testing.T, open OpenStore) {
	a := openApprovals(t, open, t.TempDir())
	mine, id := start(t, a, nil)
	theirs, _ := start(t, a, nil)
	of := func(binding byte, run ledger.Seq) store.Approval {
		q := question(binding)
		q.Run, q.RunID, q.Asked = run, id, asks.Add(2*time.Second)
		return q
	}
	once := ask(t, a, of(1, mine))
	vote(t, a, once.ID, yes("user:ann"))
	for _, run := range []ledger.Seq{mine, theirs, 0} {
		if again := ask(t, a, of(1, run)); again.ID != once.ID || again.State != store.Approved {
			t.Errorf("run %d was given %s, %s", run, again.ID, again.State)
		}
	}
	late := of(1, mine)
	late.Asked, late.Until = asks.Add(2*time.Hour), asks.Add(3*time.Hour)
	if again := ask(t, a, late); again.ID == once.ID {
		t.Error("a yes whose time is over was given")
	}
	session := yes("user:ann")
	session.Session = []byte(`{"tool":"fs.write"}`)
	all := ask(t, a, of(2, mine))
	vote(t, a, all.ID, session)
	for _, run := range []ledger.Seq{mine, theirs, 0} { // the reader decides whether it holds
		if again := ask(t, a, of(2, run)); again.ID == all.ID {
			t.Errorf("run %d was given a yes for a session", run)
		}
	}
	no := ask(t, a, of(3, mine))
	vote(t, a, no.ID, store.Vote{By: "user:ann", Where: "suite", At: asks.Add(time.Second)})
	if again := ask(t, a, of(3, mine)); again.ID == no.ID {
		t.Error("a no answers only who waits for it")
	}
}

func approvalsNo(t *testing.T, open OpenStore) {
	a := openApprovals(t, open, t.TempDir())
	q := question(1)
	q.Needs = 3
	q = ask(t, a, q)
	vote(t, a, q.ID, yes("user:ann"))
	no := store.Vote{By: "user:bob", Where: "terminal", Reason: "not on a Friday", At: asks.Add(2 * time.Second)}
	if s := vote(t, a, q.ID, no); s != store.Refused {
		t.Errorf("it is %s", s)
	}
	got, err := a.Question(t.Context(), q.ID.String())
	if err != nil || len(got.Votes) != 2 || fmt.Sprintf("%+v", got.Votes[1]) != fmt.Sprintf("%+v", no) {
		t.Errorf("%+v, %v", got.Votes, err)
	}
	if _, err := a.Vote(t.Context(), q.ID, yes("user:cat")); !errors.Is(err, fault.ApprovalGone) {
		t.Errorf("a yes after a no: %v", err)
	}
}

func approvalsSeveral(t *testing.T, open OpenStore) {
	home := t.TempDir()
	a := openApprovals(t, open, home)
	q := question(1)
	q.Needs = 2
	q = ask(t, a, q)
	if s := vote(t, a, q.ID, yes("user:ann")); s != store.Waiting {
		t.Errorf("after one yes it is %s", s)
	}
	if _, err := a.Vote(t.Context(), q.ID, yes("user:ann")); !errors.Is(err, fault.Conflict) {
		t.Errorf("the same person again: %v", err)
	}
	wide := yes("user:bob")
	wide.Session = []byte(`{"tool":"*"}`)
	if _, err := a.Vote(t.Context(), q.ID, wide); !errors.Is(err, fault.Conflict) {
		t.Errorf("a yes to more than the first: %v", err)
	}
	if s := vote(t, openApprovals(t, open, home), q.ID, yes("user:bob")); s != store.Approved {
		t.Errorf("after two yes it is %s", s)
	}
}

func approvalsAdmin(t *testing.T, open OpenStore) {
	a := openApprovals(t, open, t.TempDir())
	q := question(1)
	q.Admin = true
	q = ask(t, a, q)
	if _, err := a.Vote(t.Context(), q.ID, yes("user:ann")); !errors.Is(err, fault.Denied) {
		t.Errorf("a yes of no admin: %v", err)
	}
	v := yes("user:root")
	v.Admin = true
	if s := vote(t, a, q.ID, v); s != store.Approved {
		t.Errorf("it is %s", s)
	}
}

// approvalsStanding: an answer under a grant that is revoked, paused or expired at that moment
// has no effect, and neither has one under a device of such a grant.
func approvalsStanding(t *testing.T, open OpenStore) {
	a := openApprovals(t, open, t.TempDir())
	g, ok := a.(store.Grants)
	if !ok {
		t.Fatal("the store keeps no grants")
	}
	at := asks.Add(time.Second)
	for name, stop := range map[string]func(id uuid.UUID) error{
		"revoked": func(id uuid.UUID) error {
			return g.SetStanding(t.Context(), store.StandingChange{Grant: id, To: store.Revoked, By: "user:op", At: asks})
		},
		"paused": func(id uuid.UUID) error {
			return g.SetStanding(t.Context(), store.StandingChange{Grant: id, To: store.Paused, By: "user:op", At: asks})
		},
		"expired": func(uuid.UUID) error { return nil },
	} {
		until := at.Add(time.Hour)
		if name == "expired" {
			until = at
		}
		root := issue(t, g, func(r *store.GrantRecord) { r.Holder, r.Expires = "user:ann", until })
		device := issue(t, g, func(r *store.GrantRecord) {
			r.Holder, r.Parent, r.Device, r.Expires = "user:ann", root.ID, "browser", time.Time{}
		})
		q := ask(t, a, question(1))
		if err := stop(root.ID); err != nil {
			t.Fatal(err)
		}
		for _, id := range []uuid.UUID{root.ID, device.ID} {
			for _, answer := range []bool{true, false} {
				v := store.Vote{By: "user:ann", Yes: answer, Where: "suite", Grant: id, At: at}
				if got, err := a.Vote(t.Context(), q.ID, v); !fault.CodeOf(err).OfGrant() {
					t.Errorf("%s, yes %v: %s, %v", name, answer, got.State, err)
				}
			}
		}
		if got, err := a.Question(t.Context(), q.ID.String()); err != nil || got.State != store.Waiting || len(got.Votes) > 0 {
			t.Errorf("%s: the question is %s with %d votes, %v", name, got.State, len(got.Votes), err)
		}
	}
}

// approvalsGrant: a delegate's word is not that of the person whose grant it derives from.
func approvalsGrant(t *testing.T, open OpenStore) {
	a := openApprovals(t, open, t.TempDir())
	g, ok := a.(store.Grants)
	if !ok {
		t.Fatal("the store keeps no grants")
	}
	ann := issue(t, g, func(r *store.GrantRecord) { r.Holder = "user:ann" })
	narrowed := issue(t, g, func(r *store.GrantRecord) { r.Holder, r.Parent = "user:ann", ann.ID })
	child := issue(t, g, func(r *store.GrantRecord) { r.Holder, r.Parent = "agent:x", ann.ID })
	bot := issue(t, g, func(r *store.GrantRecord) { r.Holder = "agent:bot" })
	q := ask(t, a, question(1))
	for name, v := range map[string]store.Vote{
		"a delegate in the person's name": {By: "user:ann", Yes: true, Admin: true, Grant: child.ID},
		"a delegate in its own name":      {By: "agent:x", Yes: true, Admin: true, Grant: child.ID},
		"a delegate that says no":         {By: "user:ann", Grant: child.ID},
		"a grant that was narrowed":       {By: "user:ann", Yes: true, Grant: narrowed.ID},
		"another person's grant":          {By: "user:bob", Yes: true, Grant: ann.ID},
		"a grant of no person":            {By: "agent:bot", Yes: true, Grant: bot.ID},
		"a grant that is not known":       {By: "user:ann", Yes: true, Grant: uuid.New()},
	} {
		v.Where, v.At = "suite", asks.Add(time.Second)
		if got, err := a.Vote(t.Context(), q.ID, v); !errors.Is(err, fault.Denied) {
			t.Errorf("%s: %s, %v", name, got.State, err)
		}
	}
	own := yes("user:ann")
	own.Grant = ann.ID
	got, err := a.Vote(t.Context(), q.ID, own)
	if err != nil || got.State != store.Approved || len(got.Votes) != 1 || got.Votes[0].Grant != ann.ID {
		t.Errorf("the person's own grant: %+v, %v", got, err)
	}
	if r, err := a.Verify(t.Context(), store.VerifyOptions{}); err != nil || len(r.Problems) > 0 {
		t.Errorf("%+v, %v", r.Problems, err)
	}
}

func approvalsClaim(t *testing.T, open OpenStore) {
	home := t.TempDir()
	a, b := openApprovals(t, open, home), openApprovals(t, open, home)
	q := ask(t, a, question(1))
	if _, ok, err := a.Claim(t.Context(), q.Binding, asks); ok || err != nil {
		t.Errorf("claimed while it waits: %v", err)
	}
	vote(t, a, q.ID, yes("user:ann"))
	if _, ok, err := a.Claim(t.Context(), [32]byte{9}, asks.Add(time.Second)); ok || err != nil {
		t.Errorf("claimed for another call: %v", err)
	}
	if _, ok, err := a.Claim(t.Context(), q.Binding, asks.Add(2*time.Hour)); ok || err != nil {
		t.Errorf("claimed when it was over: %v", err)
	}
	var claims atomic.Int32
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			s := []store.Approvals{a, b}[i%2]
			got, ok, err := s.Claim(context.Background(), q.Binding, asks.Add(time.Second))
			if err != nil {
				t.Error(err)
			}
			if ok {
				claims.Add(1)
				if got.ID != q.ID || got.State != store.Used || len(got.Votes) != 1 {
					t.Errorf("%+v", got)
				}
			}
		})
	}
	wg.Wait()
	if claims.Load() != 1 {
		t.Errorf("claimed %d times", claims.Load())
	}
}

func approvalsSession(t *testing.T, open OpenStore) {
	a := openApprovals(t, open, t.TempDir())
	q := ask(t, a, question(1))
	v := yes("user:ann")
	v.Session = []byte(`{"tool":"fs.write"}`)
	vote(t, a, q.ID, v)
	if _, ok, err := a.Claim(t.Context(), q.Binding, asks.Add(time.Second)); ok || err != nil {
		t.Errorf("claimed as if for one call: %v", err)
	}
	got, err := a.Question(t.Context(), q.ID.String())
	if err != nil || got.State != store.Approved || string(got.Session) != string(v.Session) || !got.Until.Equal(v.At.Add(time.Hour)) {
		t.Errorf("%+v, %v", got, err)
	}
}

func approvalsLate(t *testing.T, open OpenStore) {
	a := openApprovals(t, open, t.TempDir())
	q := ask(t, a, question(1))
	late := yes("user:ann")
	late.At = q.Until
	if _, err := a.Vote(t.Context(), q.ID, late); !errors.Is(err, fault.ApprovalGone) || !strings.Contains(err.Error(), "until") {
		t.Errorf("a late yes: %v", err)
	}
	if _, err := a.Vote(t.Context(), uuid.New(), yes("user:ann")); !errors.Is(err, fault.ApprovalGone) {
		t.Errorf("a yes to nothing: %v", err)
	}
	vote(t, a, q.ID, yes("user:ann"))
	if _, err := a.Vote(t.Context(), q.ID, store.Vote{By: "user:bob", At: asks.Add(2 * time.Second)}); !errors.Is(err, fault.ApprovalGone) {
		t.Errorf("a no to an approved question: %v", err)
	}
	if got, err := a.Question(t.Context(), q.ID.String()); err != nil || got.State != store.Approved || len(got.Votes) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

func approvalsClose(t *testing.T, open OpenStore) {
	a := openApprovals(t, open, t.TempDir())
	waits, good := ask(t, a, question(1)), ask(t, a, question(2))
	vote(t, a, good.ID, yes("user:ann"))
	for _, q := range []store.Approval{waits, good} {
		for range 2 { // a second time does nothing
			if err := a.CloseQuestion(t.Context(), q.ID, store.Closing{By: "user:ann", Why: "no longer wanted", At: asks.Add(time.Minute)}); err != nil {
				t.Fatal(err)
			}
		}
		if _, ok, err := a.Claim(t.Context(), q.Binding, asks.Add(time.Second)); ok || err != nil {
			t.Errorf("claimed after it was closed: %v", err)
		}
		if _, err := a.Vote(t.Context(), q.ID, yes("user:bob")); !errors.Is(err, fault.ApprovalGone) {
			t.Errorf("answered after it was closed: %v", err)
		}
	}
	if r, err := a.Verify(t.Context(), store.VerifyOptions{}); err != nil || len(r.Problems) > 0 {
		t.Errorf("%+v, %v", r.Problems, err)
	}
}
