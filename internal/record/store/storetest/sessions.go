package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// Sessions checks that open also returns a [store.Sessions].
func Sessions(t *testing.T, open OpenStore) {
	t.Helper()
	cases := []struct {
		name string
		run  func(t *testing.T, open OpenStore)
	}{
		{"an agent comes back as it was saved", agentsComeBack},
		{"only who saw the newest version changes an agent", agentsStale},
		{"an agent is found by its ID, a unique prefix or its name", agentsFound},
		{"agents are listed newest first, in pages", agentsPaged},
		{"a session comes back as it was saved", sessionsComeBack},
		{"only who saw the newest version changes a session", sessionsStale},
		{"sessions are filtered and paged", sessionsFiltered},
		{"a conversation comes back from anywhere in both directions", messagesComeBack},
		{"messages are added after the last one, all or none", messagesRefused},
		{"of two who add the same message one is told", messagesRace},
		{"200 sessions add messages at once", messagesAtOnce},
		{"a reader sees a conversation grow", messagesGrow},
		{"a session's runs are found", sessionsRuns},
		{"two stores on one home see each other's changes at once", sessionsTwo},
		{"what happened is in the events", sessionsEvents},
		{"nobody else records what the tables must follow", sessionsAppend},
		{"a closed store refuses", sessionsClosed},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { c.run(t, open) })
	}
}

func openSessions(t *testing.T, open OpenStore, home string) (store.Store, store.Sessions) {
	t.Helper()
	s := open(t, home)
	g, ok := s.(store.Sessions)
	if !ok {
		t.Fatalf("%T keeps no sessions", s)
	}
	return s, g
}

func v7() uuid.UUID { return uuid.Must(uuid.NewV7()) }

// saveAgent saves an agent, and gives what it should be.
func saveAgent(t *testing.T, s store.Sessions, a store.AgentRecord) store.AgentRecord {
	t.Helper()
	got, err := s.SaveAgent(context.Background(), a)
	a.Version++
	if a.Created.IsZero() {
		a.Created = a.Saved
	}
	if d := cmp.Diff(a, got); err != nil || d != "" {
		t.Fatalf("SaveAgent: %v (-want +got):\n%s", err, d)
	}
	return a
}

func newAgent(name string) store.AgentRecord {
	return store.AgentRecord{ID: v7(), Name: name, Doc: []byte(`{"name":"` + name + `"}`), By: "user:ann", Saved: ledger.Time(base)}
}

func saveSession(t *testing.T, s store.Sessions, r store.SessionRecord) store.SessionRecord {
	t.Helper()
	got, err := s.SaveSession(context.Background(), r)
	r.Version++
	if r.Created.IsZero() {
		r.Created = r.Saved
	}
	if d := cmp.Diff(r, got); err != nil || d != "" {
		t.Fatalf("SaveSession: %v (-want +got):\n%s", err, d)
	}
	return r
}

func newSession() store.SessionRecord {
	return store.SessionRecord{ID: v7(), Agent: v7(), Doc: []byte(`{}`), By: "user:ann", Saved: ledger.Time(base)}
}

// wantCode reports an error that is not of the code.
func wantCode(t *testing.T, what string, err error, code fault.Code) {
	t.Helper()
	if !errors.Is(err, code) {
		t.Errorf("%s: %v, want %v", what, err, code)
	}
}

func wantSound(t *testing.T, s store.Store) {
	t.Helper()
	if rep, err := s.Verify(context.Background(), store.VerifyOptions{}); err != nil || len(rep.Problems) > 0 {
		t.Errorf("verify: %v, %+v", err, rep.Problems)
	}
}

func agentsComeBack(t *testing.T, open OpenStore) {
	home := t.TempDir()
	s, g := openSessions(t, open, home)
	a := newAgent("Grün <\"x\">")
	a.Doc = []byte("{ \"spaces\" : \t1.00, \"big\": \"" + strings.Repeat("x", 20_000) + "\"}")
	a = saveAgent(t, g, a)
	a.Name, a.Doc, a.By, a.Saved = "other", []byte("null"), "agent:x", ledger.Time(base+5)
	a = saveAgent(t, g, a)
	now := newAgent("saved now")
	now.Saved = time.Time{}
	if got, err := g.SaveAgent(context.Background(), now); err != nil || got.Saved.IsZero() || !got.Created.Equal(got.Saved) {
		t.Errorf("saved now it is %+v, %v", got, err)
	}
	wantSound(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, g = openSessions(t, open, home)
	got, err := g.Agent(context.Background(), a.ID.String())
	if d := cmp.Diff(a, got); err != nil || d != "" {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
}

func agentsStale(t *testing.T, open OpenStore) {
	ctx := context.Background()
	s, g := openSessions(t, open, t.TempDir())
	a := saveAgent(t, g, newAgent("a"))
	save := func(what string, code fault.Code, change func(*store.AgentRecord)) {
		t.Helper()
		r := a
		change(&r)
		_, err := g.SaveAgent(ctx, r)
		wantCode(t, what, err, code)
	}
	save("it exists", fault.Stale, func(r *store.AgentRecord) { r.Version = 0 })
	save("a version too far", fault.Stale, func(r *store.AgentRecord) { r.Version = 2 })
	save("another ID", fault.AgentUnknown, func(r *store.AgentRecord) { r.ID = v7() })
	save("no name", fault.Internal, func(r *store.AgentRecord) { r.Name = "" })
	save("no text", fault.Internal, func(r *store.AgentRecord) { r.Name = "\xff" })
	save("no ID", fault.Internal, func(r *store.AgentRecord) { r.ID = uuid.Nil })
	var mu sync.Mutex
	var wg sync.WaitGroup
	won := 0
	for i := range 8 {
		wg.Go(func() {
			r := a
			r.Name = fmt.Sprint("by ", i)
			_, err := g.SaveAgent(ctx, r)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				won++
			} else if !errors.Is(err, fault.Stale) {
				t.Errorf("SaveAgent: %v", err)
			}
		})
	}
	wg.Wait()
	got, err := g.Agent(ctx, a.ID.String())
	if won != 1 || err != nil || got.Version != 2 {
		t.Errorf("%d of 8 changed the agent, which is %+v, %v", won, got, err)
	}
	a = got
	a.Deleted = true
	a = saveAgent(t, g, a)
	save("it was deleted", fault.AgentUnknown, func(r *store.AgentRecord) { r.Deleted = false })
	wantSound(t, s)
}

func agentsFound(t *testing.T, open OpenStore) {
	ctx := context.Background()
	_, g := openSessions(t, open, t.TempDir())
	one, two, gone := newAgent("one"), newAgent("twin"), newAgent("gone")
	one.ID, two.ID = uuid.UUID{1, 2, 3, 4, 6: 0x70, 8: 0x80}, uuid.UUID{1, 2, 3, 5, 6: 0x70, 8: 0x80}
	three := newAgent("twin")
	three.ID = uuid.UUID{7, 6: 0x70, 8: 0x80}
	four := newAgent("0102") // also the beginning of two IDs
	for _, a := range []*store.AgentRecord{&one, &two, &three, &four, &gone} {
		*a = saveAgent(t, g, *a)
	}
	gone.Deleted = true
	gone = saveAgent(t, g, gone)
	for id, want := range map[string]uuid.UUID{
		one.ID.String(): one.ID, "01020304": one.ID, "01020304-0": one.ID, "one": one.ID, two.ID.String(): two.ID, "01020305": two.ID, "0700": three.ID, gone.ID.String(): gone.ID,
		"twin": uuid.Nil, "010203": uuid.Nil, "0102": uuid.Nil, "gone": uuid.Nil, "ONE": uuid.Nil, "": uuid.Nil, "070": uuid.Nil, gone.ID.String()[:35]: uuid.Nil,
		v7().String(): uuid.Nil, "%": uuid.Nil,
	} {
		a, err := g.Agent(ctx, id)
		if a.ID != want || want == uuid.Nil && !errors.Is(err, fault.AgentUnknown) || want != uuid.Nil && err != nil {
			t.Errorf("Agent(%q) = %s, %v; want %s", id, a.ID, err, want)
		}
	}
}

func agentsPaged(t *testing.T, open OpenStore) {
	ctx := context.Background()
	_, g := openSessions(t, open, t.TempDir())
	var want []uuid.UUID
	for i := range 25 {
		a := saveAgent(t, g, newAgent("a"))
		if i%5 == 2 {
			a.Deleted = true
			saveAgent(t, g, a)
			continue
		}
		want = append(want, a.ID)
	}
	slices.Reverse(want)
	var got []uuid.UUID
	for before := uuid.Nil; ; {
		page, err := g.Agents(ctx, store.PageFilter{Before: before, Limit: 7})
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range page {
			got = append(got, a.ID)
		}
		if len(page) < 7 {
			break
		}
		before = page[6].ID
	}
	if !slices.Equal(got, want) {
		t.Errorf("listed %v, want %v", got, want)
	}
	if page, err := g.Agents(ctx, store.PageFilter{}); err != nil || len(page) != 20 {
		t.Errorf("%d agents, %v; want 20", len(page), err)
	}
}

func sessionsComeBack(t *testing.T, open OpenStore) {
	ctx, home := context.Background(), t.TempDir()
	s, g := openSessions(t, open, home)
	parent := saveSession(t, g, newSession())
	r := newSession()
	r.Parent, r.Doc = parent.ID, []byte("[ 1 ]")
	r = saveSession(t, g, r)
	if n, err := g.AddMessages(ctx, r.ID, 0, store.MessageRecord{Doc: []byte("1")}, store.MessageRecord{Doc: []byte("2")}); err != nil || n != 2 {
		t.Fatalf("AddMessages = %d, %v", n, err)
	}
	r.Doc, r.Last, r.Saved = []byte(strings.Repeat(" ", 10_000)), 2, ledger.Time(base+9)
	r = saveSession(t, g, r)
	if got, err := g.SaveSession(ctx, store.SessionRecord{ID: v7()}); err != nil || got.Saved.IsZero() || !got.Created.Equal(got.Saved) {
		t.Errorf("saved now it is %+v, %v", got, err)
	}
	wantSound(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, g = openSessions(t, open, home)
	for _, want := range []store.SessionRecord{parent, r} {
		got, err := g.Session(ctx, want.ID.String())
		if d := cmp.Diff(want, got); err != nil || d != "" {
			t.Errorf("%v (-want +got):\n%s", err, d)
		}
		_, err = g.Session(ctx, want.ID.String()[:4])
		wantCode(t, "a prefix of two", err, fault.SessionUnknown)
		if got, err := g.Session(ctx, strings.ReplaceAll(want.ID.String(), "-", "")[:31]); err != nil || got.ID != want.ID {
			t.Errorf("by its prefix: %v, %v", got.ID, err)
		}
	}
}

func sessionsStale(t *testing.T, open OpenStore) {
	ctx := context.Background()
	s, g := openSessions(t, open, t.TempDir())
	a := saveSession(t, g, newSession())
	save := func(what string, code fault.Code, change func(*store.SessionRecord)) {
		t.Helper()
		r := a
		change(&r)
		_, err := g.SaveSession(ctx, r)
		wantCode(t, what, err, code)
	}
	save("it exists", fault.Stale, func(r *store.SessionRecord) { r.Version = 0 })
	save("a version too far", fault.Stale, func(r *store.SessionRecord) { r.Version = 2 })
	save("another ID", fault.SessionUnknown, func(r *store.SessionRecord) { r.ID = v7() })
	save("another agent", fault.Internal, func(r *store.SessionRecord) { r.Agent = v7() })
	save("another parent", fault.Internal, func(r *store.SessionRecord) { r.Parent = v7() })
	a.Deleted = true
	a = saveSession(t, g, a)
	save("it was deleted", fault.SessionEnded, func(r *store.SessionRecord) { r.Deleted = false })
	_, err := g.AddMessages(ctx, a.ID, 0, store.MessageRecord{Doc: []byte("1")})
	wantCode(t, "a message to a deleted session", err, fault.SessionEnded)
	if _, err := g.Session(ctx, a.ID.String()[:18]); !errors.Is(err, fault.SessionUnknown) {
		t.Errorf("a deleted session by its prefix: %v", err)
	}
	if got, err := g.Session(ctx, a.ID.String()); err != nil || !got.Deleted {
		t.Errorf("a deleted session by its ID: %+v, %v", got, err)
	}
	for _, id := range []string{"", "abc", "zzzz", v7().String(), strings.Repeat("0", 40)} {
		_, err := g.Session(ctx, id)
		wantCode(t, fmt.Sprintf("Session(%q)", id), err, fault.SessionUnknown)
	}
	wantSound(t, s)
}

func sessionsFiltered(t *testing.T, open OpenStore) {
	ctx := context.Background()
	_, g := openSessions(t, open, t.TempDir())
	agents, parent := []uuid.UUID{v7(), v7()}, v7()
	var all []store.SessionRecord
	for i := range 12 {
		r := newSession()
		if r.Agent = agents[i%2]; i%3 == 0 {
			r.Parent = parent
		}
		all = append(all, saveSession(t, g, r))
	}
	gone := all[4]
	gone.Deleted = true
	saveSession(t, g, gone)
	check := func(f store.SessionFilter, want ...int) {
		t.Helper()
		got, err := g.Sessions(ctx, f)
		if err != nil || len(got) != len(want) {
			t.Fatalf("%+v: %d sessions, %v; want %d", f, len(got), err, len(want))
		}
		for i := range want {
			if got[i].ID != all[want[i]].ID {
				t.Errorf("%+v: place %d is another than session %d", f, i, want[i])
			}
		}
	}
	check(store.SessionFilter{}, 11, 10, 9, 8, 7, 6, 5, 3, 2, 1, 0)
	check(store.SessionFilter{Agent: agents[0]}, 10, 8, 6, 2, 0)
	check(store.SessionFilter{Agent: agents[0], Deleted: true}, 10, 8, 6, 4, 2, 0)
	check(store.SessionFilter{Parent: parent}, 9, 6, 3, 0)
	check(store.SessionFilter{Parent: parent, Agent: agents[1]}, 9, 3)
	check(store.SessionFilter{Agent: agents[0], PageFilter: store.PageFilter{Before: all[8].ID, Limit: 2}}, 6, 2)
	check(store.SessionFilter{Agent: v7()})
	check(store.SessionFilter{PageFilter: store.PageFilter{Before: all[0].ID}})
}

func sessionsRuns(t *testing.T, open OpenStore) {
	ctx := context.Background()
	s, g := openSessions(t, open, t.TempDir())
	session, other := saveSession(t, g, newSession()), saveSession(t, g, newSession())
	var want []ledger.Seq
	for i := range 5 {
		of := session.ID
		if i == 2 {
			of = other.ID
		}
		run, _ := start(t, s, func(e *ledger.Event) {
			if e.Subject = of[:]; i == 4 {
				e.Mode, e.ReplayOf = ledger.Replay, e.ID
			}
		})
		if i != 2 {
			want = append(want, run)
		}
	}
	start(t, s, nil)
	runs, err := g.SessionRuns(ctx, session.ID)
	if err != nil || len(runs) != len(want) {
		t.Fatalf("%d runs, %v; want %d", len(runs), err, len(want))
	}
	for i, r := range runs {
		if r.Seq != want[i] || r.Session != session.ID || (r.Mode == ledger.Replay) != (i == 3) {
			t.Errorf("run %d: %+v", i, r)
		}
	}
	if runs, err := g.SessionRuns(ctx, saveSession(t, g, newSession()).ID); err != nil || len(runs) != 0 {
		t.Errorf("a new session's runs: %v, %v", runs, err)
	}
	_, err = g.SessionRuns(ctx, v7())
	wantCode(t, "an unknown session's runs", err, fault.SessionUnknown)
	id, nobody := v7(), v7()
	_, err = s.Append(ctx, ledger.Entry{Event: ledger.Event{Kind: ledger.RunStarted, At: base, ID: id[:], Mode: ledger.Live, Subject: nobody[:]}})
	wantCode(t, "a run of a session that was never saved", err, fault.SessionUnknown)
	wantSound(t, s)
}

func sessionsTwo(t *testing.T, open OpenStore) {
	ctx, home := context.Background(), t.TempDir()
	s, g := openSessions(t, open, home)
	_, h := openSessions(t, open, home)
	a := saveAgent(t, g, newAgent("a"))
	a.Name = "b"
	a = saveAgent(t, h, a)
	if got, err := g.Agent(ctx, "b"); err != nil || got.Version != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	session := saveSession(t, g, newSession()).ID
	for i := range 10 {
		converse(t, []store.Sessions{g, h}[i%2], session, 0, i+1, i+1)
	}
	if got := read(t, g, session, 0, false, -1); len(got) != 10 {
		t.Errorf("%d messages, want 10", len(got))
	}
	wantSound(t, s)
}

func sessionsEvents(t *testing.T, open OpenStore) {
	s, g := openSessions(t, open, t.TempDir())
	run, _ := start(t, s, nil)
	a := saveAgent(t, g, newAgent("a"))
	r := newSession()
	r.Agent, r.Parent = a.ID, v7()
	r = saveSession(t, g, r)
	converse(t, g, r.ID, run, 1, 2)
	r.Deleted, r.Last = true, 2
	saveSession(t, g, r)
	want := []ledger.Event{
		{Kind: ledger.AgentSaved, At: base, Subject: a.ID[:], Number: 1, Name: "a", Principal: "user:ann"},
		{Kind: ledger.SessionSaved, At: base, Subject: r.ID[:], Number: 1, Agent: a.ID[:], Parent: r.Parent[:], Principal: "user:ann"},
		{Kind: ledger.MessageAdded, At: base + 1, Run: run, Subject: r.ID[:], Number: 1},
		{Kind: ledger.MessageAdded, At: base + 2, Run: run, Subject: r.ID[:], Number: 2},
		{Kind: ledger.SessionSaved, At: base, Subject: r.ID[:], Number: 2, Agent: a.ID[:], Parent: r.Parent[:], Principal: "user:ann", Gone: true},
	}
	var got []ledger.Event
	for e, err := range s.Events(context.Background(), run+1) {
		if err != nil || len(e.Parts[ledger.PartDoc].Inline) == 0 {
			t.Fatalf("event %d: %v, parts %v", e.Seq, err, e.Parts)
		}
		e.Event.Commit = nil
		got = append(got, e.Event)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	for c, err := range s.Calls(context.Background(), run) {
		t.Errorf("the run has the call %+v, %v", c, err)
	}
}

func sessionsAppend(t *testing.T, open OpenStore) {
	s, g := openSessions(t, open, t.TempDir())
	id := saveSession(t, g, newSession()).ID
	for k := ledger.AgentSaved; k <= ledger.FileSaved; k++ {
		e := ledger.Event{Kind: k, At: base, Subject: id[:], Number: 1, Name: "x"}
		_, err := s.Append(context.Background(), ledger.Entry{Event: e, Payload: ledger.Payload{ledger.PartDoc: []byte("1")}})
		wantCode(t, k.String(), err, fault.Internal)
	}
	wantSound(t, s)
}

func sessionsClosed(t *testing.T, open OpenStore) {
	ctx := context.Background()
	s, g := openSessions(t, open, t.TempDir())
	r := saveSession(t, g, newSession())
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, aerr := g.SaveAgent(ctx, newAgent("a"))
	_, serr := g.SaveSession(ctx, r)
	_, merr := g.AddMessages(ctx, r.ID, 0, store.MessageRecord{Doc: []byte("1"), At: time.Now()})
	for _, err := range []error{aerr, serr, merr} {
		wantCode(t, "closed", err, fault.StoreFailed)
	}
}
