package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// olderKeys is the number of key columns of each sealed table of which rows are put back.
var olderKeys = map[string]int{"grants": 1, "standings": 1, "proofs": 1, "budgets": 2, "leases": 3, "questions": 1, "votes": 2, "requests": 2, "ephemera": 2,
	"slots": 2, "pauses": 1, "queue": 1, "schedules": 1, "agents": 1, "labels": 2}

// rowsOf are all rows of some tables, by table and key.
type rowsOf map[string]map[string][]any

func (d Tamper) snapshot(t *testing.T) (rowsOf, map[string][]string) {
	out, columns := rowsOf{}, map[string][]string{}
	for table, keys := range olderKeys {
		rows, cols := d.rows(t, table)
		columns[table], out[table] = cols, map[string][]any{}
		for _, row := range rows {
			out[table][fmt.Sprint(row[:keys]...)] = row
		}
	}
	return out, columns
}

// olderFixture has a history in each sealed table: authority that ended.
type olderFixture struct {
	*changedFixture
	before store.Schedule // as it was first saved
}

func olderStore(t *testing.T, s store.Backend) *olderFixture {
	t.Helper()
	ctx, at := context.Background(), time.Now()
	f := &olderFixture{changedFixture: changedStore(t, s)}
	check := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := byte(13); i <= 14; i++ {
		check(s.Request(ctx, store.Approval{ID: fixID(i), Holder: "agent:x", Binding: [32]byte{i}, Run: f.open, Call: 1, Needs: 2, Asked: at, Until: at.Add(time.Hour), GoodFor: time.Hour, Body: []byte(`{}`)}))
		check(s.Vote(ctx, fixID(i), store.Vote{By: "user:ann", Yes: true, At: at}))
	}
	check(s.Vote(ctx, fixID(14), store.Vote{By: "user:bob", Yes: true, At: at})) // approved
	task := store.Task{Plan: []byte("version: 1\n"), Doc: []byte(`{}`), Policies: []ledger.PolicySource{{Name: "p", Source: "version: 1\n"}}}
	for i := byte(23); i <= 24; i++ {
		_, _, err := s.Enqueue(ctx, store.QueuedRun{ID: fixID(i), Priority: 1, Principal: "user:ann", Queued: at, Due: at, Task: task}, store.QueueRoom{})
		check(nil, err)
	}
	for i := byte(25); i <= 26; i++ { // one waits, one is started
		_, _, err := s.Enqueue(ctx, f.unique(i), store.QueueRoom{})
		check(nil, err)
	}
	run := fixID(26)
	check(s.StartQueued(ctx, ledger.Entry{Event: ledger.Event{Kind: ledger.RunStarted, At: 1, ID: run[:], Mode: ledger.Live}}, nil))
	check(s.SaveAgent(ctx, store.AgentRecord{ID: fixID(41), Name: "wide", Doc: []byte(`{"policy":"wide"}`), By: "user:ann", Saved: at}))
	put(t, s, labelling(0, 0, ledger.FileLabel{File: ledger.PathKey("/w/secret"), Labels: []string{"private"}}, ledger.FileLabel{File: ledger.FolderKey("1.2", "/w/d"), Labels: []string{"private"}}))
	before, err := s.Schedule(ctx, "n")
	check(nil, err)
	f.before = before
	return f
}

// unique is a queued run with a unique key. Each has its own.
func (f *olderFixture) unique(n byte) store.QueuedRun {
	task := store.Task{Plan: []byte("version: 1\n"), Doc: []byte(`{}`), Policies: []ledger.PolicySource{{Name: "p", Source: "version: 1\n"}}}
	return store.QueuedRun{ID: fixID(n), Priority: 1, Principal: "user:ann", Unique: string(rune(n)), Queued: time.Now(), Due: time.Now(), Task: task}
}

// advance ends the authority of the fixture.
func (f *olderFixture) advance(t *testing.T) {
	t.Helper()
	ctx, at := context.Background(), time.Now()
	check := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(nil, f.CloseQuestion(ctx, fixID(13), store.Closing{By: "user:ann", At: at}))
	_, _, err := f.Claim(ctx, [32]byte{14}, at)
	check(nil, err)
	check(nil, f.ChangeQueued(ctx, store.QueueChange{ID: fixID(24), To: ledger.QueueCancelled, By: "user:ann", At: at}))
	run := fixID(23)
	check(f.StartQueued(ctx, ledger.Entry{Event: ledger.Event{Kind: ledger.RunStarted, At: 1, ID: run[:], Mode: ledger.Live}}, nil))
	later := f.before
	later.Paused, later.By, later.Saved = true, "user:ann", at
	check(f.SaveSchedule(ctx, later))
	check(f.SaveAgent(ctx, store.AgentRecord{ID: fixID(41), Version: 1, Name: "narrow", Doc: []byte(`{"policy":"narrow"}`), By: "user:ann", Saved: at}))
	check(nil, f.SetStanding(ctx, store.StandingChange{Grant: fixID(3), To: store.Revoked, By: "user:ann", At: at}))
}

// uses returns decisions from rows that advance changes.
func (f *olderFixture) uses() map[string][]func(ctx context.Context, s store.Backend) (any, error) {
	out := f.changedFixture.uses()
	start := func(n byte) func(context.Context, store.Backend) (any, error) {
		return func(ctx context.Context, s store.Backend) (any, error) {
			run := fixID(n)
			return s.StartQueued(ctx, ledger.Entry{Event: ledger.Event{Kind: ledger.RunStarted, At: 1, ID: run[:], Mode: ledger.Live}}, nil)
		}
	}
	answers := append(out["questions"], func(ctx context.Context, s store.Backend) (any, error) {
		q, err := s.Vote(ctx, fixID(13), store.Vote{By: "user:bob", Yes: true, At: time.Now()})
		return q.State, err
	}, func(ctx context.Context, s store.Backend) (any, error) {
		_, ok, err := s.Claim(ctx, [32]byte{14}, time.Now())
		return ok, err
	})[2:] // the text of a question is for people
	out["questions"], out["votes"], out["ephemera"] = answers, answers, append(out["ephemera"], answers...) // a note there sums up the open questions
	again := func(n byte) func(context.Context, store.Backend) (any, error) {
		return func(ctx context.Context, s store.Backend) (any, error) {
			q := f.unique(n)
			q.ID = uuid.Must(uuid.NewV7())
			_, fresh, err := s.Enqueue(ctx, q, store.QueueRoom{})
			return fresh, err
		}
	}
	out["queue"] = append(out["queue"][1:], start(23), start(24), again(25), again(26))
	out["schedules"] = []func(context.Context, store.Backend) (any, error){func(ctx context.Context, s store.Backend) (any, error) {
		return nil, s.FireSchedule(ctx, f.before, time.Now().Add(time.Hour), uuid.New(), time.Now(), store.QueueRoom{})
	}, func(ctx context.Context, s store.Backend) (any, error) { // the name is taken
		other := f.before
		other.ID, other.Version = uuid.Must(uuid.NewV7()), 0
		_, err := s.SaveSchedule(ctx, other)
		return nil, err
	}}
	out["agents"] = []func(context.Context, store.Backend) (any, error){func(ctx context.Context, s store.Backend) (any, error) {
		a, err := s.Agent(ctx, fixID(41).String())
		return string(a.Doc), err
	}}
	out["labels"] = []func(context.Context, store.Backend) (any, error){func(ctx context.Context, s store.Backend) (any, error) {
		of, err := s.LabelsOf(ctx, []string{"private"}, []ledger.LabelKey{ledger.PathKey("/w/secret")})
		return fmt.Sprint(of), err
	}, func(ctx context.Context, s store.Backend) (any, error) {
		list, err := s.Labelled(ctx, store.LabelFilter{Label: "private", Prefix: "folder:"})
		return fmt.Sprint(len(list)), err
	}}
	return out
}

// OlderRows puts each row of the sealed tables back to its earlier content, and removes each: every
// use is refused or decides as before. An old row was valid once, so its MAC fits.
func OlderRows(t *testing.T, open OpenStore, tamper func(t *testing.T, home string) Tamper) {
	home := t.TempDir()
	s, ok := open(t, home).(store.Backend)
	if !ok {
		t.Fatal("not a store of everything")
	}
	f := olderStore(t, s)
	d := tamper(t, home)
	old, columns := d.snapshot(t)
	f.advance(t)
	now, _ := d.snapshot(t)
	want := map[string][]string{}
	for table := range olderKeys {
		want[table] = decisions(t, s, f.uses()[table])
	}
	check := func(change, table string, got []string) {
		for i := range got {
			if got[i] != "" && got[i] != want[table][i] && !(harmless(got[i]) && table != "labels") {
				t.Errorf("%s: use %d of %s decided %s; want %s, or a refusal", change, i, table, got[i], want[table][i])
			}
		}
	}
	tried := 0
	try := func(change, table string) {
		tried++
		check(change+", the same process", table, decisions(t, s, f.uses()[table]))
		b, _ := open(t, home).(store.Backend)
		check(change+", a new process", table, decisions(t, b, f.uses()[table]))
		if err := b.Close(); err != nil && !errors.Is(err, fault.StoreCorrupt) {
			t.Error(err)
		}
	}
	for table, rows := range now {
		for key, row := range rows {
			was := old[table][key]
			if was != nil && fmt.Sprint(was) != fmt.Sprint(row) {
				d.replace(t, table, columns[table], row, was)
				try(fmt.Sprintf("%s %v put back to %v", table, row, was), table)
				d.replace(t, table, columns[table], was, row)
			}
			d.replace(t, table, columns[table], row, nil)
			try(fmt.Sprintf("%s %v removed", table, row), table)
			d.replace(t, table, columns[table], nil, row)
		}
	}
	for table := range olderKeys {
		if got := decisions(t, s, f.uses()[table]); !slices.Equal(got, want[table]) {
			t.Fatalf("%s: afterwards it decides %v; want %v", table, got, want[table])
		}
	}
	if tried < 30 {
		t.Errorf("only %d changes were tried", tried)
	}
}

// decisions are the results of uses as text; "" for one that was refused because the record was
// changed.
func decisions(t *testing.T, s store.Backend, uses []func(context.Context, store.Backend) (any, error)) (out []string) {
	for _, use := range uses {
		v, err := use(t.Context(), s)
		text, jerr := json.Marshal(v)
		switch {
		case errors.Is(err, fault.StoreCorrupt):
			text = nil
		case err != nil:
			text = []byte(fault.CodeOf(err).Error())
		case jerr != nil:
			text = fmt.Append(nil, v)
		}
		out = append(out, string(text))
	}
	return out
}

// replace removes a row, if there is one, and adds another one, if there is one.
func (d Tamper) replace(t *testing.T, table string, columns []string, row, with []any) {
	t.Helper()
	if row != nil {
		keys := max(1, olderKeys[table]) // the table of seals has one
		if _, err := d.DB.Exec(d.Rebind("DELETE FROM "+table+" WHERE "+strings.Join(columns[:keys], " = ? AND ")+" = ?"), row[:keys]...); err != nil {
			t.Fatal(err)
		}
	}
	if with != nil {
		if _, err := d.DB.Exec(d.Rebind("INSERT INTO "+table+"("+strings.Join(columns, ", ")+") VALUES(?"+strings.Repeat(", ?", len(with)-1)+")"), with...); err != nil {
			t.Fatal(err)
		}
	}
}
