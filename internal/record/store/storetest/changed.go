package storetest

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// Tamper changes the database of a store without its keys. Statements have the parameters ?.
type Tamper struct {
	DB *sql.DB
	// Rebind writes the parameters of a statement as the database wants them.
	Rebind func(string) string
	Fresh  int // every so many changes are also tried in a new process
	Rows   int // of each table, that are changed; 0: all
	// Numbered are the tables in which events have their numbers.
	Numbered []string
}

// keyColumns is the number of key columns of each table of which decisions read rows. The first
// columns of a table are its key.
var keyColumns = map[string]int{"grants": 1, "standings": 1, "proofs": 1, "budgets": 2, "leases": 3, "questions": 1, "votes": 2, "requests": 2, "ephemera": 2,
	"slots": 2, "pauses": 1, "queue": 1, "schedules": 1, "events": 1, "runs": 1}

// changedFixture is a store with authority in each of its tables.
type changedFixture struct {
	store.Backend
	ended, open ledger.Seq
}

func fixID(n byte) uuid.UUID { return uuid.UUID{n, 6: 0x70, 8: 0x80, 15: n} }

func changedStore(t *testing.T, s store.Backend) *changedFixture {
	t.Helper()
	ctx, f, at := context.Background(), &changedFixture{Backend: s}, time.Now()
	check := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := byte(1); i <= 3; i++ {
		g := store.GrantRecord{ID: fixID(i), Holder: "user:ann", Issued: at, Note: "note"}
		if i > 1 {
			g.Parent = fixID(i - 1)
		}
		check(nil, s.PutGrant(ctx, g))
	}
	check(nil, s.SetStanding(ctx, store.StandingChange{Grant: fixID(1), To: store.Revoked, By: "user:ann", At: at}))
	check(nil, s.SetStanding(ctx, store.StandingChange{Grant: fixID(3), To: store.Paused, By: "user:ann", At: at}))
	check(s.UseProof(ctx, [32]byte{1}, at.Add(time.Hour)))
	f.open, _ = start(t, s, nil)
	f.ended, _ = start(t, s, nil)
	put(t, s, intent(f.open, 1), outcome(f.open, 1, tool.Completed))
	for i := byte(1); i <= 2; i++ {
		check(nil, s.OpenBudget(ctx, fixID(i), grant.Budgets{Calls: 10, EachTool: 5}))
		for _, what := range []string{grant.MeterCalls, grant.MeterEachTool + "fs.read"} {
			check(s.Lease(ctx, f.open, []store.Lease{{Meter: store.MeterID{Node: fixID(i), What: what}, Least: 1, Want: 3}}))
			check(nil, s.Settle(ctx, f.open, []store.Settlement{{Meter: store.MeterID{Node: fixID(i), What: what}, Spent: 1}}))
		}
	}
	for i := byte(1); i <= 2; i++ {
		check(s.Request(ctx, store.Approval{ID: fixID(10 + i), Holder: "agent:x", Binding: [32]byte{i}, Grant: fixID(2), Run: f.open, Call: 1, Needs: 2, Asked: at, Until: at.Add(time.Hour), GoodFor: time.Hour, Body: []byte(`{"tool":"x"}`)}))
		check(s.Vote(ctx, fixID(10+i), store.Vote{By: "user:ann", Yes: true, At: at}))
	}
	check(s.Vote(ctx, fixID(12), store.Vote{By: "user:bob", Yes: false, At: at}))
	_, _, err := s.BeginRequest(ctx, store.RequestRecord{Holder: "ann", Key: [32]byte{2}, Print: [32]byte{3}, Until: at.Add(time.Hour), Place: "/v1"}, 10)
	check(nil, err)
	check(s.SaveEphemeral(ctx, store.Ephemeral{Kind: "code", Key: [32]byte{1}, Owner: "ann", Until: at.Add(time.Hour), Data: []byte("x")}, store.EphemeralBounds{}))
	task := store.Task{Plan: []byte("version: 1\n"), Doc: []byte(`{}`), Token: "secret", Policies: []ledger.PolicySource{{Name: "p", Source: "version: 1\n"}}}
	for i := byte(21); i <= 22; i++ {
		_, _, err = s.Enqueue(ctx, store.QueuedRun{ID: fixID(i), Priority: 1, Principal: "user:ann", Queued: at, Due: at, Task: task}, store.QueueRoom{})
		check(nil, err)
	}
	run := fixID(21)
	check(s.StartQueued(ctx, ledger.Entry{Event: ledger.Event{Kind: ledger.RunStarted, At: 1, ID: run[:], Mode: ledger.Live}}, []store.Slot{{Key: "k", Most: 1}}))
	check(s.SaveSchedule(ctx, store.Schedule{ID: fixID(31), Name: "n", Principal: "user:ann", Priority: 1, Next: at, Saved: at, Task: task}))
	check(nil, s.PauseQueue(ctx, true, "user:ann"))
	return f
}

// uses returns decisions from the fixture's tables. Each returns its result.
func (f *changedFixture) uses() map[string][]func(ctx context.Context, s store.Backend) (any, error) {
	lease := func(what string, run ledger.Seq, most int64) func(context.Context, store.Backend) (any, error) {
		return func(ctx context.Context, s store.Backend) (any, error) {
			return s.Lease(ctx, run, []store.Lease{{Meter: store.MeterID{Node: fixID(2), What: what}, Least: most, Want: most}})
		}
	}
	question := func(n byte) func(context.Context, store.Backend) (any, error) {
		return func(ctx context.Context, s store.Backend) (any, error) {
			q, err := s.Question(ctx, fixID(n).String())
			q.Votes = slices.DeleteFunc(q.Votes, func(v store.Vote) bool { return v.By == "user:ann" && v.Yes || v.By == "user:bob" && !v.Yes }) // a lost answer counts as not given
			if len(q.Votes) == 0 {
				q.Votes = nil
			}
			return q, err
		}
	}
	claim := func(n byte) func(context.Context, store.Backend) (any, error) {
		return func(ctx context.Context, s store.Backend) (any, error) {
			_, ok, err := s.Claim(ctx, [32]byte{n}, time.Now())
			return ok, err
		}
	}
	budgets := []func(context.Context, store.Backend) (any, error){lease(grant.MeterCalls, f.ended, 8), lease(grant.MeterCalls, f.open, 8), lease(grant.MeterEachTool+"fs.read", f.ended, 3)}
	answers := []func(context.Context, store.Backend) (any, error){question(11), question(12), claim(11), claim(12)}
	queue := []func(context.Context, store.Backend) (any, error){
		func(ctx context.Context, s store.Backend) (any, error) { return s.QueuedTask(ctx, fixID(22)) },
		func(ctx context.Context, s store.Backend) (any, error) {
			run := fixID(22)
			return s.StartQueued(ctx, ledger.Entry{Event: ledger.Event{Kind: ledger.RunStarted, At: 1, ID: run[:], Mode: ledger.Live}}, []store.Slot{{Key: "k", Most: 1}})
		},
	}
	grants := []func(context.Context, store.Backend) (any, error){func(ctx context.Context, s store.Backend) (any, error) { return s.Grant(ctx, fixID(2).String()) }}
	schedules := []func(context.Context, store.Backend) (any, error){func(ctx context.Context, s store.Backend) (any, error) { return s.Schedules(ctx) }}
	return map[string][]func(ctx context.Context, s store.Backend) (any, error){
		"grants": grants,
		"standings": {func(ctx context.Context, s store.Backend) (any, error) {
			of, _, err := s.Standing(ctx, []uuid.UUID{fixID(1), fixID(2), fixID(3)})
			return of, err
		}},
		"proofs": {func(ctx context.Context, s store.Backend) (any, error) {
			return s.UseProof(ctx, [32]byte{1}, time.Now().Add(time.Hour))
		}},
		"budgets": budgets, "leases": budgets, "questions": answers, "votes": answers,
		"requests": {func(ctx context.Context, s store.Backend) (any, error) {
			r, state, err := s.BeginRequest(ctx, store.RequestRecord{Holder: "ann", Key: [32]byte{2}, Print: [32]byte{3}, Until: time.Now().Add(time.Hour)}, 10)
			return []any{state, r.Print, r.Status, r.Place}, err
		}},
		"ephemera": {func(ctx context.Context, s store.Backend) (any, error) {
			return s.SaveEphemeral(ctx, store.Ephemeral{Kind: "code", Key: [32]byte{1}, Owner: "ann", Until: time.Now().Add(time.Hour)}, store.EphemeralBounds{})
		}, func(ctx context.Context, s store.Backend) (any, error) { return s.Ephemerals(ctx, "code", "eve") }},
		"slots": queue, "queue": queue, "schedules": schedules,
		"pauses": {func(ctx context.Context, s store.Backend) (any, error) { return s.QueueIsPaused(ctx) }},
		"events": slices.Concat(grants, budgets, answers, queue[:1], schedules), // events that rows name
		"runs":   slices.Concat(budgets, queue),
	}
}

// ChangedRows changes each column of each row that decisions read, by SQL and without the keys:
// every use is refused or decides as before.
func ChangedRows(t *testing.T, open OpenStore, tamper func(t *testing.T, home string) Tamper) {
	home := t.TempDir()
	s, ok := open(t, home).(store.Backend)
	if !ok {
		t.Fatal("not a store of everything")
	}
	f := changedStore(t, s)
	fresh := func() store.Backend { b, _ := open(t, home).(store.Backend); return b }
	d := tamper(t, home)
	decide := func(s store.Backend, table string) (out []string) {
		for _, use := range f.uses()[table] {
			v, err := use(t.Context(), s)
			text, jerr := json.Marshal(v)
			if jerr != nil {
				text = fmt.Append(nil, v)
			}
			switch {
			case errors.Is(err, fault.StoreCorrupt):
				text = nil // refused
			case err != nil:
				text = []byte(fault.CodeOf(err).Error())
			}
			out = append(out, string(text))
		}
		return out
	}
	check := func(change, table string, got, want []string) {
		for i := range got {
			if got[i] != "" && got[i] != want[i] && !harmless(got[i]) {
				t.Errorf("%s: use %d of %s decided %s; want %s, or a refusal", change, i, table, got[i], want[i])
			}
		}
	}
	for table, keys := range keyColumns {
		want := decide(s, table)
		if slices.Contains(want, "") {
			t.Fatalf("%s: a use is refused before any change: %v", table, want)
		}
		tried := 0
		d.eachChange(t, table, keys, func(change string) {
			if tried++; tried%d.Fresh == d.Fresh-1 {
				s := fresh()
				check(change+", a new process", table, decide(s, table), want)
				if err := s.Close(); err != nil && !errors.Is(err, fault.StoreCorrupt) {
					t.Error(err)
				}
			}
			check(change+", the same process", table, decide(s, table), want)
		})
		if got := decide(s, table); !slices.Equal(got, want) {
			t.Fatalf("%s: afterwards it decides %v; want %v", table, got, want)
		}
	}
}

// harmless reports whether an answer gives no authority: nothing was found, or another rule
// refused.
func harmless(got string) bool {
	return got == "null" || got == "[]" || strings.HasPrefix(got, "E")
}

// eachChange changes one column of one row after the other, and puts it back.
func (d Tamper) eachChange(t *testing.T, table string, keys int, try func(change string)) {
	t.Helper()
	rows, cols := d.rows(t, table)
	if d.Rows > 0 {
		rows = rows[max(0, len(rows)-d.Rows):]
	}
	where := " WHERE " + strings.Join(cols[:keys], " = ? AND ") + " = ?"
	for _, row := range rows {
		for c, col := range cols {
			for _, value := range alterations(row[c], table, col, rows, c) {
				if _, err := d.DB.Exec(d.Rebind("UPDATE "+table+" SET "+col+" = ?"+where), append([]any{value}, row[:keys]...)...); err != nil {
					continue // a constraint
				}
				try(fmt.Sprintf("%s.%s of %v := %v", table, col, row[:keys], value))
				changed := slices.Clone(row)
				changed[c] = value
				if _, err := d.DB.Exec(d.Rebind("UPDATE "+table+" SET "+col+" = ?"+where), append([]any{row[c]}, changed[:keys]...)...); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

func (d Tamper) rows(t *testing.T, table string) (out [][]any, cols []string) {
	t.Helper()
	rows, err := d.DB.Query("SELECT * FROM " + table)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	if cols, err = rows.Columns(); err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		row, into := make([]any, len(cols)), make([]any, len(cols))
		for i := range row {
			into[i] = &row[i]
		}
		if err := rows.Scan(into...); err != nil {
			t.Fatal(err)
		}
		for i, v := range row {
			if b, ok := v.([]byte); ok && b == nil { // nil would be written as NULL
				row[i] = []byte{}
			}
		}
		out = append(out, row)
	}
	if err := rows.Err(); err != nil || len(out) == 0 {
		t.Fatalf("%s has %d rows; %v", table, len(out), err)
	}
	return out, cols
}

// alterations are other values for a column: of its own kind, and of another row.
func alterations(v any, table, col string, rows [][]any, c int) []any {
	if table == "events" && (col == "seq" || col == "run" || col == "call") {
		return nil // see MovedEvents
	}
	var out []any
	switch v := v.(type) {
	case int64:
		out = []any{v + 1, int64(0), int64(-1000000)}
		if table == "events" {
			out = out[:1]
		}
	case string:
		out = []any{v + "x", ""}
	case []byte:
		if len(v) == 0 {
			return []any{[]byte{1}}
		}
		flipped := slices.Clone(v)
		flipped[len(v)/2] ^= 1
		out = []any{flipped}
	default:
		return nil
	}
	if other := rows[len(rows)-1][c]; fmt.Sprint(other) != fmt.Sprint(v) {
		out = append(out, other)
	}
	return slices.DeleteFunc(out, func(o any) bool { return fmt.Sprint(o) == fmt.Sprint(v) })
}
