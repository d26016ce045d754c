package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/racetest"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/sqlite"
)

// sealedTables lists the tables whose rows change, each with the number of its
// key columns.
var sealedTables = map[string]int{"grants": 1, "standings": 1, "proofs": 1, "budgets": 2, "leases": 3, "questions": 1, "votes": 2, "requests": 2, "ephemera": 2, "seals": 1}

func id(n byte) uuid.UUID { return uuid.UUID{n, 6: 0x70, 8: 0x80, 15: n} }

// authority is a ledger with rows in every table of grants, budgets and
// approvals. Events 1 to 3 issue grants, 4 begins a run.
func authority(t *testing.T) string {
	t.Helper()
	ctx, home := context.Background(), t.TempDir()
	s := must(sqlite.Open(ctx, sqlite.Options{Home: home, Durability: sqlite.Process}))
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	at := ledger.Time(1_700_000_000_000_000)
	for i := byte(1); i <= 3; i++ {
		g := store.GrantRecord{ID: id(i), Holder: "agent:x", Issued: at}
		if i > 1 {
			g.Parent = id(i - 1)
		}
		check(s.PutGrant(ctx, g))
	}
	run := begin(s)
	for i := byte(1); i <= 3; i++ {
		check(s.SetStanding(ctx, store.StandingChange{Grant: id(i), To: store.Standing(i % 3), By: "user:ann", At: at}))
		must(s.UseProof(ctx, [32]byte{i}, time.Now().Add(time.Hour)))
		must(beginRequest(s, i))
		must(saveEphemeral(s, i))
		check(s.OpenBudget(ctx, id(i), grant.Budgets{Calls: 100, Tokens: 50, EachTool: 5}))
		for _, what := range []string{grant.MeterCalls, grant.MeterEachTool + "fs.read"} {
			must(s.Lease(ctx, run, []store.Lease{{Meter: store.MeterID{Node: id(i), What: what}, Least: 1, Want: 3}}))
		}
		must(s.Request(ctx, store.Approval{ID: id(10 + i), Binding: [32]byte{i}, Run: run, Call: 1, Needs: 2, Asked: at, Until: at.Add(time.Hour), GoodFor: time.Hour}))
		for _, by := range []string{"user:ann", "user:bob"} {
			must(s.Vote(ctx, id(10+i), store.Vote{By: by, Yes: true, At: at.Add(time.Minute)}))
		}
	}
	check(s.SetStanding(ctx, store.StandingChange{Grant: id(3), To: store.Paused, At: at}))
	check(s.SetStanding(ctx, store.StandingChange{Grant: id(3), To: store.Active, At: at}))
	check(s.Close())
	if r := verify(t, home, store.VerifyOptions{}); len(r.Problems) > 0 {
		t.Fatalf("the fixture is not sound: %+v", r.Problems)
	}
	return home
}

// beginRequest notes a request of the grant 1.
func beginRequest(s *sqlite.Store, key byte) (bool, error) {
	r := store.RequestRecord{Holder: id(1).String(), Key: [32]byte{key}, Print: [32]byte{9}, Until: time.Now().Add(time.Hour), Place: "/v1/agents/x"}
	_, state, err := s.BeginRequest(context.Background(), r, 100)
	return state == store.RequestClaimed, err
}

// saveEphemeral saves a new record of the grant 1.
func saveEphemeral(s *sqlite.Store, key byte) (bool, error) {
	e := store.Ephemeral{Kind: "code", Key: [32]byte{key}, Owner: id(1).String(), Until: time.Now().Add(time.Hour), Data: []byte("secret")}
	return s.SaveEphemeral(context.Background(), e, store.EphemeralBounds{})
}

func query(t *testing.T, d *sql.DB, q string, args ...any) [][]any {
	t.Helper()
	rows := must(d.Query(q, args...))
	defer rows.Close()
	n := len(must(rows.Columns()))
	var out [][]any
	for rows.Next() {
		row, into := make([]any, n), make([]any, n)
		for i := range row {
			into[i] = &row[i]
		}
		if err := rows.Scan(into...); err != nil {
			t.Fatal(err)
		}
		out = append(out, row)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

func columns(t *testing.T, d *sql.DB, table string) []string {
	t.Helper()
	var out []string
	for _, r := range query(t, d, "SELECT name FROM pragma_table_info(?)", table) {
		out = append(out, r[0].(string))
	}
	return out
}

func TestVerifyNamesEveryChangeOfASealedRow(t *testing.T) {
	namesEveryChange(t, authority(t), sealedTables)
}

// unsealed are the columns that decide nothing: by them workers look for the next run.
var unsealed = map[string][]string{"queue": {"lane", "claimed", "tries"}}

// namesEveryChange changes, deletes and copies rows of tables, one by one. It is
// given the number of key columns of each table.
func namesEveryChange(t *testing.T, from string, tables map[string]int) {
	t.Helper()
	racetest.Skip(t, "it repeats what TestVerifyNamesForgeries does with it")
	home := forge(t, from, func(*sql.DB) {})
	d := db(t, home)
	defer d.Close()
	named := func(what, table string) {
		t.Helper()
		if r := verify(t, home, store.VerifyOptions{}); !named(r, table, 0) {
			t.Errorf("%s: problems %+v; want one in %s", what, r.Problems, table)
		}
	}
	for table, keys := range tables {
		cols := columns(t, d, table)
		where := " WHERE " + strings.Join(cols[:keys], " = ? AND ") + " = ?"
		rows := query(t, d, "SELECT * FROM "+table+" ORDER BY 1, 2")
		if len(rows) < 2 {
			t.Fatalf("%s has %d rows: that shows nothing", table, len(rows))
		}
		tried := []int{0, len(rows) / 2, len(rows) - 1}
		if os.Getenv("REMIT_SOAK") == "" {
			tried = tried[1:2]
		}
		for _, i := range tried {
			row := rows[i]
			for c, col := range cols {
				if slices.Contains(unsealed[table], col) {
					continue
				}
				must(d.Exec("UPDATE "+table+" SET "+col+" = ?"+where, append([]any{altered(row[c])}, row[:keys]...)...))
				named(fmt.Sprintf("%s.%s of row %d", table, col, i), table)
				restore(t, d, table, rows)
			}
			must(d.Exec("DELETE FROM "+table+where, row[:keys]...))
			named(fmt.Sprintf("%s: row %d deleted", table, i), table)
			restore(t, d, table, rows)
			added := slices.Clone(row)
			added[0] = altered(row[0])
			restore(t, d, table, append(slices.Clone(rows), added))
			named(fmt.Sprintf("%s: row %d copied", table, i), table)
			restore(t, d, table, rows)
		}
		must(d.Exec("DELETE FROM " + table))
		named(table+": all deleted", table)
		restore(t, d, table, rows)
	}
	if r := verify(t, home, store.VerifyOptions{}); len(r.Problems) > 0 {
		t.Fatalf("the test did not put back what it changed: %+v", r.Problems)
	}
}

// restore makes a table's rows what they were.
func restore(t *testing.T, d *sql.DB, table string, rows [][]any) {
	t.Helper()
	must(d.Exec("DELETE FROM " + table))
	for _, r := range rows {
		for i, v := range r {
			if b, ok := v.([]byte); ok && b == nil { // nil would be written as NULL
				r[i] = []byte{}
			}
		}
		if slices.Contains([]string{"grants", "standings", "questions", "queue", "schedules"}, table) {
			must(d.Exec("DELETE FROM "+table+" WHERE seq = ?", r[slices.Index(columns(t, d, table), "seq")]))
		}
		must(d.Exec("INSERT INTO "+table+" VALUES("+strings.Repeat("?, ", len(r)-1)+"?)", r...))
	}
}

// A row that this ledger itself once wrote has a MAC that fits.
func TestVerifyNamesRowsThatWerePutBack(t *testing.T) {
	ctx, before := context.Background(), authority(t)
	after := forge(t, before, func(*sql.DB) {})
	s := openWith(t, sqlite.Options{Home: after, Durability: sqlite.Process})
	run := begin(s)
	meter := store.MeterID{Node: id(1), What: grant.MeterCalls}
	for _, err := range []error{
		s.SetStanding(ctx, store.StandingChange{Grant: id(1), To: store.Revoked, At: time.Now()}),
		s.Settle(ctx, 4, []store.Settlement{{Meter: meter, Spent: 2, Return: 1}}),
		s.CloseQuestion(ctx, id(11), store.Closing{By: "user:ann", Why: "no longer", At: time.Now()}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(s.Lease(ctx, run, []store.Lease{{Meter: meter, Least: 1, Want: 1}}))
	must(s.UseProof(ctx, [32]byte{9}, time.Now().Add(time.Hour)))
	must(beginRequest(s, 9))
	must(saveEphemeral(s, 9))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	old := db(t, before)
	defer old.Close()
	for _, table := range []string{"standings", "budgets", "leases", "questions", "proofs", "requests", "ephemera"} {
		home := forge(t, after, func(d *sql.DB) { restore(t, d, table, query(t, old, "SELECT * FROM "+table)) })
		if r := verify(t, home, store.VerifyOptions{}); !named(r, table, 0) {
			t.Errorf("%s: problems %+v; want one in it", table, r.Problems)
		}
		home = forge(t, after, func(d *sql.DB) { // together with its seal
			restore(t, d, table, query(t, old, "SELECT * FROM "+table))
			seal := query(t, old, "SELECT * FROM seals WHERE name = ?", table)[0]
			must(d.Exec("DELETE FROM seals WHERE name = ?", table))
			must(d.Exec("INSERT INTO seals VALUES(?, ?, ?, ?, ?)", seal...))
		})
		where := "log" // whose state tells of the seals
		if table == "standings" || table == "questions" {
			where = table // of which events tell
		}
		if r := verify(t, home, store.VerifyOptions{}); !named(r, where, 0) || !named(r, "log", 0) {
			t.Errorf("%s with its seal: problems %+v; want one in %s", table, r.Problems, where)
		}
	}
}

func TestAChangedRowIsRefusedWhenItIsUsed(t *testing.T) {
	ctx, from := context.Background(), authority(t)
	empty := forge(t, from, func(*sql.DB) {}) // the same ledger as it once was, empty
	if err := errors.Join(os.Remove(filepath.Join(empty, sqlite.File)), unfinished(empty)); err != nil {
		t.Fatal(err)
	}
	if err := must(sqlite.Open(ctx, sqlite.Options{Home: empty})).Close(); err != nil {
		t.Fatal(err)
	}
	meter := store.MeterID{Node: id(1), What: grant.MeterCalls}
	standing := func(s *sqlite.Store) error {
		_, _, err := s.Standing(ctx, []uuid.UUID{id(2)})
		return err
	}
	lease := func(s *sqlite.Store) error {
		_, err := s.Lease(ctx, 4, []store.Lease{{Meter: meter, Least: 1, Want: 1}})
		return err
	}
	tests := map[string]struct {
		change string
		use    func(s *sqlite.Store) error
	}{
		"a holder": {"UPDATE grants SET holder = 'user:eve'", func(s *sqlite.Store) error { _, err := s.Grant(ctx, id(1).String()); return err }},
		"another grant's event": {"UPDATE grants SET seq = 100 WHERE seq = 1; UPDATE grants SET seq = 1 WHERE seq = 2; UPDATE grants SET seq = 2 WHERE seq = 100",
			func(s *sqlite.Store) error { _, err := s.Grants(ctx, store.GrantFilter{}); return err }},
		"a standing":         {"UPDATE standings SET standing = 0", standing},
		"a standing removed": {"DELETE FROM standings WHERE standing = 2", standing},
		"all standings":      {"DELETE FROM standings", standing},
		"a standing's seal":  {"UPDATE seals SET version = 0 WHERE name = 'standings'", standing},
		"no seal":            {"DELETE FROM seals", standing},
		"the version":        {"UPDATE seals SET version = 99", func(s *sqlite.Store) error { _, err := s.StandingVersion(ctx); return err }},
		"a standing to change": {"UPDATE standings SET standing = 1", func(s *sqlite.Store) error {
			return s.SetStanding(ctx, store.StandingChange{Grant: id(2), To: store.Active})
		}},
		"a proof":          {"UPDATE proofs SET until = until + 1", func(s *sqlite.Store) error { _, err := s.UseProof(ctx, [32]byte{1}, time.Now()); return err }},
		"a budget":         {"UPDATE budgets SET spent = -100", lease},
		"a budget removed": {"DELETE FROM budgets", lease},
		"a budget to be opened again": {"DELETE FROM budgets",
			func(s *sqlite.Store) error { return s.OpenBudget(ctx, id(1), grant.Budgets{Calls: 100}) }},
		"a proof removed":   {"DELETE FROM proofs", func(s *sqlite.Store) error { _, err := s.UseProof(ctx, [32]byte{1}, time.Now()); return err }},
		"a request":         {"UPDATE requests SET until = 0", func(s *sqlite.Store) error { _, err := beginRequest(s, 1); return err }},
		"a request removed": {"DELETE FROM requests WHERE key = (SELECT min(key) FROM requests)", func(s *sqlite.Store) error { _, err := beginRequest(s, 1); return err }},
		"a lease removed":   {"DELETE FROM leases", lease},
		"a record's owner": {"UPDATE ephemera SET owner = 'eve'", func(s *sqlite.Store) error {
			_, _, err := s.Ephemeral(ctx, "code", [32]byte{1})
			return err
		}},
		"a record removed": {"DELETE FROM ephemera WHERE key = (SELECT min(key) FROM ephemera)", func(s *sqlite.Store) error { _, err := saveEphemeral(s, 1); return err }},
		"a single tool's removed": {"DELETE FROM budgets WHERE what = 'each:fs.read'", func(s *sqlite.Store) error {
			_, err := s.Lease(ctx, 4, []store.Lease{{Meter: store.MeterID{Node: id(1), What: grant.MeterEachTool + "fs.read"}, Least: 1, Want: 1}})
			return err
		}},
		"a lease":    {"UPDATE leases SET amount = 0", lease},
		"a question": {"UPDATE questions SET until = until + 1000000000", func(s *sqlite.Store) error { _, err := s.Question(ctx, id(11).String()); return err }},
		"an approval": {"UPDATE questions SET until = until + 10000000000000", func(s *sqlite.Store) error {
			_, ok, err := s.Claim(ctx, [32]byte{1}, time.Now())
			if ok {
				t.Error("it was claimed")
			}
			return err
		}},
		"a vote": {"UPDATE votes SET by = by || 'x'", func(s *sqlite.Store) error { _, err := s.Question(ctx, id(11).String()); return err }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			home := forge(t, from, func(d *sql.DB) {
				must(d.Exec("ATTACH ? AS empty", filepath.Join(empty, sqlite.File)))
				must(d.Exec(tt.change))
			})
			s := must(sqlite.Open(ctx, sqlite.Options{Home: home, Durability: sqlite.Process}))
			if err := tt.use(s); !errors.Is(err, fault.StoreCorrupt) {
				t.Errorf("%v, want %v", err, fault.StoreCorrupt)
			}
			run := uuid.Must(uuid.NewV7())
			_, err := s.Append(ctx, ledger.Entry{Event: ledger.Event{Kind: ledger.RunStarted, At: 1, ID: run[:], Mode: ledger.Live}})
			err = errors.Join(err, s.Close())
			// The log's state tells of the seals' MACs.
			if seal := strings.Contains(tt.change, "FROM seals") || strings.Contains(tt.change, "empty.seals"); seal != errors.Is(err, fault.StoreCorrupt) || !seal && err != nil {
				t.Errorf("what has nothing to do with it: %v", err)
			}
		})
	}
}

// A row that this ledger once wrote has a MAC that holds. Put back, it would make a budget last
// for ever, or a proof count twice.
func TestARowThatWasPutBackIsRefused(t *testing.T) {
	ctx := context.Background()
	meter := store.MeterID{Node: id(1), What: grant.MeterCalls}
	until, from := time.Now().Add(time.Hour), authority(t)
	for table, use := range map[string]func(s *sqlite.Store) error{
		"budgets": func(s *sqlite.Store) error { return s.Settle(ctx, 4, []store.Settlement{{Meter: meter, Spent: 1}}) },
		"leases": func(s *sqlite.Store) error {
			_, err := s.Lease(ctx, 4, []store.Lease{{Meter: meter, Least: 1, Want: 1}})
			return err
		},
		"proofs":   func(s *sqlite.Store) error { _, err := s.UseProof(ctx, [32]byte{9}, until); return err },
		"ephemera": func(s *sqlite.Store) error { _, err := saveEphemeral(s, 9); return err },
		"requests": func(s *sqlite.Store) error { _, err := beginRequest(s, 9); return err },
		"standings": func(s *sqlite.Store) error {
			return s.SetStanding(ctx, store.StandingChange{Grant: id(1), To: store.Revoked, At: time.Now()})
		},
	} {
		home := forge(t, from, func(*sql.DB) {})
		s := must(sqlite.Open(ctx, sqlite.Options{Home: home, Durability: sqlite.Process}))
		d := db(t, home)
		old := query(t, d, "SELECT * FROM "+table)
		must(0, use(s))
		restore(t, d, table, old)
		fresh := must(sqlite.Open(ctx, sqlite.Options{Home: home, Durability: sqlite.Process}))
		for name, s := range map[string]*sqlite.Store{"the same process": s, "a new process": fresh} {
			err := use(s)
			if table == "standings" {
				_, _, err = s.Standing(ctx, []uuid.UUID{id(1)})
			}
			if !errors.Is(err, fault.StoreCorrupt) {
				t.Errorf("%s put back, in %s: %v, want %v", table, name, err, fault.StoreCorrupt)
			}
		}
		must(0, errors.Join(d.Close(), s.Close(), fresh.Close()))
	}
}

// A table that is put back to an older state, with its seal, while the ledger is in use
// is found before anything new is sealed over it.
func TestATablePutBackWhileInUse(t *testing.T) {
	ctx, home := context.Background(), t.TempDir()
	s := must(sqlite.Open(ctx, sqlite.Options{Home: home, Durability: sqlite.Process}))
	until := time.Now().Add(time.Hour)
	must(s.UseProof(ctx, [32]byte{1}, until))
	d := db(t, home)
	defer d.Close()
	old := query(t, d, "SELECT name, version, rows, sum, mac FROM seals WHERE name = 'proofs'")[0]
	must(s.UseProof(ctx, [32]byte{2}, until))
	must(d.Exec("DELETE FROM proofs WHERE id = ?", append([]byte{2}, make([]byte, 31)...)))
	must(d.Exec("INSERT OR REPLACE INTO seals(name, version, rows, sum, mac) VALUES(?, ?, ?, ?, ?)", old...))
	if fresh, err := s.UseProof(ctx, [32]byte{2}, until); !errors.Is(err, fault.StoreCorrupt) {
		t.Errorf("a proof that was used is fresh again: %v, %v; want %v", fresh, err, fault.StoreCorrupt)
	}
	for range 40 {
		begin(s) // what seals nothing goes on
	}
	if err := s.Close(); !errors.Is(err, fault.StoreCorrupt) {
		t.Errorf("Close signed the state: %v", err)
	}
}
