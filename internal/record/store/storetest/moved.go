package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// movedSet is one of each kind of event that decisions read.
type movedSet struct {
	store.Backend
	t        *testing.T
	node     uuid.UUID
	question uuid.UUID
	queued   store.QueuedRun
	slot     store.Slot
	live     ledger.Seq // has a lease of 3 calls, the unique key and the slot
	ended    ledger.Seq // has used 2 of the 4 calls of its lease
	liveID   uuid.UUID
	endedID  uuid.UUID
	events   map[string]ledger.Seq
}

func (m *movedSet) check(_ any, err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

// add appends entries, and notes the event of the last one under a name.
func (m *movedSet) add(name string, entries ...ledger.Entry) {
	m.t.Helper()
	m.events[name] = put(m.t, m, entries...) + ledger.Seq(len(entries)) - 1
}

func movedEvents(t *testing.T, s store.Backend) *movedSet {
	t.Helper()
	ctx, at := context.Background(), time.Now()
	m := &movedSet{Backend: s, t: t, node: uuid.Must(uuid.NewV7()), question: uuid.Must(uuid.NewV7()), events: map[string]ledger.Seq{}}
	m.check(nil, s.PutGrant(ctx, store.GrantRecord{ID: m.node, Holder: "user:ann", Issued: at}))
	m.check(nil, s.OpenBudget(ctx, m.node, grant.Budgets{Calls: 10, EachTool: 10}))
	m.queued = m.run()
	_, _, err := s.Enqueue(ctx, m.queued, store.QueueRoom{})
	m.check(nil, err)
	m.slot = store.Slot{Key: m.node.String(), Most: 1}
	m.liveID = m.queued.ID
	m.live, err = s.StartQueued(ctx, ledger.Entry{Event: ledger.Event{Kind: ledger.RunStarted, At: 1, ID: m.liveID[:], Mode: ledger.Live}}, []store.Slot{m.slot})
	m.check(nil, err)
	m.add("an open intent", intent(m.live, 1))
	m.ended, m.endedID = start(t, s, nil)
	for _, what := range []string{grant.MeterCalls, grant.MeterEachTool + "fs.write"} {
		m.check(s.Lease(ctx, m.live, []store.Lease{{Meter: store.MeterID{Node: m.node, What: what}, Least: 3, Want: 3}}))
		m.check(s.Lease(ctx, m.ended, []store.Lease{{Meter: store.MeterID{Node: m.node, What: what}, Least: 4, Want: 4}}))
	}
	used := func(e ledger.Entry) ledger.Entry {
		e.Event.Usage = grant.Amounts{Calls: 1}.List()
		return e
	}
	m.add("an intent", used(intent(m.ended, 1)))
	m.add("an outcome", used(outcome(m.ended, 1, tool.Completed)))
	m.add("a call", used(done(m.ended, 2, "fs.write", tool.Completed)))
	m.add("an end", finish(m.ended, tool.Completed))
	q, err := s.Request(ctx, store.Approval{ID: m.question, Holder: "agent:x", Binding: [32]byte(append(m.question[:], m.question[:]...)), Run: m.live, Call: 1, Needs: 3, Asked: at, Until: at.Add(time.Hour), GoodFor: time.Hour, Body: []byte(`{}`)})
	m.check(nil, err)
	for _, by := range []string{"user:ann", "user:bob"} {
		m.check(s.Vote(ctx, m.question, store.Vote{By: by, Yes: true, At: at}))
	}
	g, err := s.Grant(ctx, m.node.String())
	m.check(nil, err)
	m.events["a grant"], m.events["a question"], m.events["a vote"], m.events["another's vote"], m.events["a start"] = g.Seq, q.Seq, q.Seq+1, q.Seq+2, m.live
	one, err := s.Queued(ctx, m.liveID.String())
	m.check(nil, err)
	m.events["a queued run"] = one.Seq
	return m
}

// run is a queued run with the set's unique key.
func (m *movedSet) run() store.QueuedRun {
	task := store.Task{Plan: []byte("version: 1\n"), Doc: []byte(`{}`), Policies: []ledger.PolicySource{{Name: "p", Source: "version: 1\n"}}}
	return store.QueuedRun{ID: uuid.Must(uuid.NewV7()), Priority: 1, Principal: "user:ann", Unique: m.node.String(), Queued: time.Now(), Due: time.Now(), Task: task}
}

// decide makes the decisions that read the set's events. None may give authority; each may be
// refused.
func (m *movedSet) decide(s store.Backend, change string) {
	m.t.Helper()
	ctx := context.Background()
	bad := func(what string, got any, err error) {
		m.t.Helper()
		m.t.Errorf("%s: %s: %v, %v", change, what, got, err)
	}
	if _, fresh, err := s.Enqueue(ctx, m.run(), store.QueueRoom{}); fresh || err != nil && !errors.Is(err, fault.StoreCorrupt) {
		bad("a run with the unique key of a live one was queued", fresh, err)
	}
	other := m.run()
	other.Unique = ""
	_, _, err := s.Enqueue(ctx, other, store.QueueRoom{})
	m.check(nil, err)
	if _, err = s.StartQueued(ctx, ledger.Entry{Event: ledger.Event{Kind: ledger.RunStarted, At: 1, ID: other.ID[:], Mode: ledger.Live}}, []store.Slot{m.slot}); !errors.Is(err, fault.LimitReached) && !errors.Is(err, fault.StoreCorrupt) {
		bad("a run took the slot of a live one", "", err)
	}
	for _, what := range []string{grant.MeterCalls, grant.MeterEachTool + "fs.write"} { // the live run has 3, the ended one used 2
		if got, err := s.Lease(ctx, m.live+1, []store.Lease{{Meter: store.MeterID{Node: m.node, What: what}, Least: 6, Want: 6}}); !errors.Is(err, fault.BudgetSpent) && !errors.Is(err, fault.StoreCorrupt) {
			bad("more of "+what+" than there is", got, err)
		}
	}
	if q, err := s.Vote(ctx, m.question, store.Vote{By: "user:ann", Yes: true, At: time.Now()}); !errors.Is(err, fault.Conflict) && !errors.Is(err, fault.StoreCorrupt) {
		bad("a person answered twice", q.State, err)
	}
	if q, err := s.Question(ctx, m.question.String()); !errors.Is(err, fault.StoreCorrupt) && (err != nil || len(q.Votes) != 2 || q.Votes[0].By != "user:ann" || q.Votes[1].By != "user:bob" || q.Run != m.live || q.Call != 1) {
		bad("another question", q, err)
	}
	if g, err := s.Grant(ctx, m.node.String()); !errors.Is(err, fault.StoreCorrupt) && (err != nil || g.Holder != "user:ann") {
		bad("another grant", g, err)
	}
	for id, want := range map[uuid.UUID]string{m.liveID: ledger.Running, m.endedID: "completed"} {
		if r, err := s.Run(ctx, id.String()); !errors.Is(err, fault.StoreCorrupt) && (err != nil || r.Status != want && !r.Unverified) {
			bad("a run that is "+want, r.Status, err)
		}
	}
}

// honest checks that an unchanged set still gives its authority.
func (m *movedSet) honest(after string) {
	m.t.Helper()
	ctx := context.Background()
	if _, err := m.Lease(ctx, m.live+1, []store.Lease{{Meter: store.MeterID{Node: m.node, What: grant.MeterCalls}, Least: 5, Want: 5}}); err != nil {
		m.t.Errorf("%s: afterwards: %v", after, err)
	}
	if q, err := m.Vote(ctx, m.question, store.Vote{By: "user:cleo", Yes: true, At: time.Now()}); err != nil || q.State != store.Approved {
		m.t.Errorf("%s: afterwards an answer made the question %v; %v", after, q.State, err)
	}
}

// swap exchanges the numbers of two events.
func (d Tamper) swap(t *testing.T, one, other int64) {
	t.Helper()
	for _, table := range d.Numbered {
		for _, c := range [][2]int64{{one, -1}, {other, one}, {-1, other}} {
			if _, err := d.DB.Exec(d.Rebind("UPDATE "+table+" SET seq = ? WHERE seq = ?"), c[1], c[0]); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// otherColumns returns, by column of an event, the values that it is given. exchanged is another set.
func otherColumns(exchanged *movedSet) map[string]map[string]func(m *movedSet) ledger.Seq {
	return map[string]map[string]func(m *movedSet) ledger.Seq{
		"run": {
			"none": func(*movedSet) ledger.Seq { return 0 }, "the live run": func(m *movedSet) ledger.Seq { return m.live },
			"the ended run": func(m *movedSet) ledger.Seq { return m.ended }, "another run": func(*movedSet) ledger.Seq { return exchanged.live },
		},
		"call": {"none": func(*movedSet) ledger.Seq { return 0 }, "the first": func(*movedSet) ledger.Seq { return 1 }, "the second": func(*movedSet) ledger.Seq { return 2 }, "a new one": func(*movedSet) ledger.Seq { return 9 }},
	}
}

// MovedEvents moves each kind of event that decisions read to another run, session or call, and
// exchanges it with another event of its kind. The list of runs, which is not sealed, says that the
// live run has ended. No live run ends by that, no budget comes back, and no answer counts for another.
func MovedEvents(t *testing.T, open OpenStore, tamper func(t *testing.T, home string) Tamper) {
	home := t.TempDir()
	s, ok := open(t, home).(store.Backend)
	if !ok {
		t.Fatal("not a store of everything")
	}
	movedEvents(t, s).decide(s, "before any change")
	exchanged, tried := movedEvents(t, s), 0
	d := tamper(t, home)
	do := func(query string, args ...any) {
		t.Helper()
		if _, err := d.DB.Exec(d.Rebind(query), args...); err != nil {
			t.Fatal(err)
		}
	}
	try := func(m *movedSet, name, how string, move func(seq ledger.Seq) (back func())) {
		change, used := name+": "+how, s
		back := move(m.events[name])
		if name == "an end" {
			do("UPDATE runs SET status = ? WHERE seq = ?", int64(tool.Completed), int64(m.live))
		}
		if tried++; tried%d.Fresh == d.Fresh-1 {
			used, _ = open(t, home).(store.Backend)
			change += ", a new process"
		}
		m.decide(used, change)
		back()
		do("UPDATE runs SET status = 0 WHERE seq = ?", int64(m.live))
		if used != s {
			m.check(nil, used.Close())
		}
	}
	columns := otherColumns(exchanged)
	for name := range exchanged.events {
		m := movedEvents(t, s)
		for column, values := range columns {
			for to, value := range values {
				var was int64
				m.check(nil, d.DB.QueryRow(d.Rebind("SELECT "+column+" FROM events WHERE seq = ?"), int64(m.events[name])).Scan(&was))
				if was == int64(value(m)) {
					continue // an unchanged set gives its authority
				}
				try(m, name, fmt.Sprintf("%s := %s", column, to), func(seq ledger.Seq) func() {
					do("UPDATE events SET "+column+" = ? WHERE seq = ?", int64(value(m)), int64(seq))
					return func() { do("UPDATE events SET "+column+" = ? WHERE seq = ?", was, int64(seq)) }
				})
			}
		}
		others := map[string]ledger.Seq{"exchanged with one of another set": exchanged.events[name]}
		if name == "a vote" {
			others["exchanged with another person's"] = m.events["another's vote"]
		}
		for how, other := range others {
			try(m, name, how, func(seq ledger.Seq) func() {
				d.swap(t, int64(seq), int64(other))
				return func() { d.swap(t, int64(seq), int64(other)) }
			})
		}
		m.honest(name)
	}
	if tried < 60 {
		t.Errorf("only %d changes were tried", tried)
	}
}
