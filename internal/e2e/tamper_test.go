package e2e_test

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	_ "modernc.org/sqlite" // to change the ledger behind the product's back

	"github.com/remitrun/remit"
	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/sqlite"
)

// recorded is a world with a real ledger in it: files, a server, commands where
// the kernel can confine them, refusals, a large output and a long run.
type recordedWorld struct {
	*world
	policy string
	mixed  string // the run of all kinds of calls
	second string // another one like it, with other values
	long   string // a run of many calls
}

// prepared is the world that newRecorded copies, made by the first test that needs one.
var prepared struct {
	once sync.Once
	*recordedWorld
}

// newRecorded returns a world whose home is a copy of the prepared one's. All share the
// workspace.
func newRecorded(t *testing.T) *recordedWorld {
	t.Helper()
	prepared.once.Do(func() { prepared.recordedWorld = recordWorld(t) })
	p := prepared.recordedWorld
	if p == nil {
		t.Fatal("the world was not made: the first test that needed it says why")
	}
	return &recordedWorld{world: p.copied(t), policy: p.policy, mixed: p.mixed, second: p.second, long: p.long}
}

// recordWorld makes the world in the folder of this program, so that it outlives the test.
func recordWorld(t *testing.T) *recordedWorld {
	w := &recordedWorld{world: worldIn(t, filepath.Join(folder, "recorded")).durability("process").serve()}
	w.fill()
	policy := strings.Replace(differentialPolicy, "max_bytes: 16KiB", "max_bytes: 1MiB", 1)
	w.policy = w.beside("policy.yaml", fmt.Sprintf(policy, w.server))
	http := "http://" + w.server
	mixed := func(text string) []call {
		calls := []call{
			{ID: "read", Tool: "fs.read", Args: args("path", "notes.txt")},
			{Tool: "fs.write", Args: args("path", "out/copy.txt", "content", text+" ${{ steps.read.output.content }}")},
			{Tool: "fs.read", Args: args("path", ".env")},
			{Tool: "http.get", Args: args("url", http+"/ok/"+text)},
			{ID: "large", Tool: "http.get", Args: args("url", http+"/large")},
			{Tool: "http.get", Args: args("url", http+"/redirect/denied")},
			{Tool: "http.get", Args: args("url", http+"/count")},
			{Tool: "time.now"}, {Tool: "random.bytes", Args: args("count", 16)},
			{Tool: "fs.read", Args: args("path", "missing-"+text)},
			{Tool: "fs.edit", Args: args("path", "out/copy.txt", "edits", []any{args("old", "one", "new", text)})},
			{Tool: "shell.run", Args: args("script", "echo "+text+" $((6*7)); ls src")},
			{Tool: "shell.run", Args: args("argv", []any{"false"})},
			{Tool: "shell.run", Args: args("argv", []any{"sleep", "60"}, "timeout", "500ms")},
			{Tool: "shell.run", Args: args("argv", []any{"sort", "notes.txt"})},
			{Tool: "fs.stat", If: "${{ steps.read.output.truncated }}", Args: args("path", "notes.txt")},
		}
		return calls
	}
	w.mixed = w.run(w.plan("mixed", 1, mixed("first")...), w.policy).RunID
	w.second = w.run(w.plan("second", 4, mixed("second")...), w.policy).RunID
	var many []call
	for i := range 140 {
		many = append(many, call{Tool: "fs.write", Args: args("path", fmt.Sprintf("out/%d", i), "content", "x")})
	}
	w.long = w.run(w.plan("long", 8, many...), w.policy).RunID
	w.authority()
	w.queue()
	return w
}

// queue fills the tables of queued runs and schedules.
func (w *recordedWorld) queue() {
	w.t.Helper()
	short := w.plan("short", 1, call{Tool: "time.now"})
	w.must(0, "run", short, "-p", w.policy, "--queue", "--limit", "tool:time.now=1")
	w.must(0, "queue", "work", "--until-empty")
	w.must(0, "run", short, "-p", w.policy, "--queue", "--unique", "later", "--delay", "1h")
	w.must(0, "schedule", "add", "nightly", short, "-p", w.policy, "--cron", "0 3 * * *")
	w.must(0, "queue", "pause")
}

// authority fills the tables of grants, budgets, approvals and requests.
func (w *recordedWorld) authority() {
	w.t.Helper()
	ctx, now := w.t.Context(), time.Now()
	s, err := sqlite.Open(ctx, sqlite.Options{Home: w.home, Durability: sqlite.Process})
	if err != nil {
		w.t.Fatal(err)
	}
	check := func(_ any, err error) {
		w.t.Helper()
		if err != nil {
			w.t.Fatal(err)
		}
	}
	for i := range byte(4) {
		id := uuid.Must(uuid.NewV7())
		meter := store.MeterID{Node: id, What: grant.MeterCalls}
		check(nil, s.PutGrant(ctx, store.GrantRecord{ID: id, Holder: "agent:x", Issued: now, Budgets: grant.Budgets{Calls: 9}}))
		check(nil, s.SetStanding(ctx, store.StandingChange{Grant: id, To: store.Paused + store.Standing(i%2), By: "user:ann", At: now}))
		check(s.UseProof(ctx, [32]byte(append(id[:], id[:]...)), now.Add(time.Hour)))
		check(nil, s.OpenBudget(ctx, id, grant.Budgets{Calls: 9}))
		check(s.Lease(ctx, 0, []store.Lease{{Meter: meter, Least: 1, Want: 5}}))
		check(nil, s.Settle(ctx, 0, []store.Settlement{{Meter: meter, Spent: 2}}))
		check(s.Request(ctx, store.Approval{ID: id, Binding: [32]byte{i}, Needs: 2, Asked: now, Until: now.Add(time.Hour), GoodFor: time.Hour}))
		check(s.Vote(ctx, id, store.Vote{By: "user:ann", Yes: i > 1, At: now}))
		_, _, err := s.BeginRequest(ctx, store.RequestRecord{Holder: id.String(), Key: [32]byte{i}, Until: now.Add(time.Hour), Status: 201, Place: "/v1/agents/x"}, 9)
		check(nil, err)
		w.session(s, i)
	}
	check(nil, s.Close())
}

// session fills the tables of agents, sessions, labels and short-lived records.
func (w *recordedWorld) session(s *sqlite.Store, i byte) {
	w.t.Helper()
	ctx, agent, id, run := w.t.Context(), uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7())
	_, aerr := s.SaveAgent(ctx, store.AgentRecord{ID: agent, Name: fmt.Sprint("agent ", i), Doc: []byte(`{}`), By: "user:ann"})
	_, serr := s.SaveSession(ctx, store.SessionRecord{ID: id, Agent: agent, Doc: []byte(`{}`), By: "user:ann"})
	seq, rerr := s.Append(ctx, ledger.Entry{Event: ledger.Event{Kind: ledger.RunStarted, At: 1, ID: run[:], Mode: ledger.Live, Name: "session", Subject: id[:]}})
	_, merr := s.AddMessages(ctx, id, 0, store.MessageRecord{Run: seq, Doc: []byte(`"hello"`)}, store.MessageRecord{Run: seq, Doc: []byte(`"there"`)})
	_, ferr := s.ChangeFiles(ctx, id, store.Quota{Bytes: 99, Files: 9}, store.FileChange{Path: "/docs", Folder: true}, store.FileChange{Path: "/docs/a", Content: []byte{'a', i}})
	doc, jerr := json.Marshal(ledger.FileLabels{Changes: []ledger.FileLabel{{File: ledger.PathKey(fmt.Sprint("/w/", i)), Labels: []string{"web"}}}})
	_, lerr := s.Append(ctx, ledger.Entry{Event: ledger.Event{Kind: ledger.FilesLabelled, At: 2, Run: seq}, Payload: ledger.Payload{ledger.PartDoc: doc}})
	_, eerr := s.Append(ctx, ledger.Entry{Event: ledger.Event{Kind: ledger.RunFinished, At: 2, Run: seq, Status: tool.Completed}})
	_, perr := s.SaveEphemeral(ctx, store.Ephemeral{Kind: "code", Key: [32]byte{i}, Owner: "ann", Until: time.Now().Add(time.Hour), Data: []byte("x")}, store.EphemeralBounds{})
	if err := errors.Join(aerr, serr, rerr, merr, ferr, jerr, lerr, eerr, perr); err != nil {
		w.t.Fatal(err)
	}
}

// copied is a copy of the world's home.
func (w *recordedWorld) copied(t *testing.T) *world {
	t.Helper()
	out := &world{t: t, workspace: w.workspace, server: w.server, home: t.TempDir()}
	copyHome(t, w.home, out.home)
	return out
}

func copyHome(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	keys, err := filepath.Glob(filepath.Join(to, "keys", "*"))
	if err != nil || len(keys) == 0 {
		t.Fatal("no keys", err)
	}
	for _, k := range keys {
		if err := os.Chmod(k, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// open opens the database as somebody who has the file, but not the keys.
func open(t *testing.T, home string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(home, "remit.db")+"?_pragma=synchronous(0)&_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func query(t *testing.T, db *sql.DB, q string, args ...any) [][]any {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), q, args...)
	if err != nil {
		t.Fatalf("%s: %v", q, err)
	}
	defer func() { _ = rows.Close() }()
	cols, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var out [][]any
	for rows.Next() {
		row, into := make([]any, len(cols)), make([]any, len(cols))
		for i := range row {
			into[i] = &row[i]
		}
		if err := rows.Scan(into...); err != nil {
			t.Fatal(err)
		}
		for i, v := range row {
			if b, ok := v.([]byte); ok {
				row[i] = append([]byte{}, b...) // an empty one stays one, and is no NULL
			}
		}
		out = append(out, row)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

func execute(t *testing.T, db *sql.DB, q string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), q, args...); err != nil {
		t.Fatalf("%s: %v", q, err)
	}
}

// unguarded puts the triggers aside and gives a function that puts them back.
func unguarded(t *testing.T, db *sql.DB) (back func()) {
	t.Helper()
	triggers := query(t, db, "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
	for _, tr := range triggers {
		execute(t, db, "DROP TRIGGER "+tr[0].(string))
	}
	return func() {
		t.Helper()
		for _, tr := range triggers {
			execute(t, db, tr[1].(string))
		}
	}
}

// table is a table as the database itself tells it, so that a new one is
// tested without being listed here.
type table struct {
	name    string
	columns []string
	key     []string // what names a row
}

func tables(t *testing.T, db *sql.DB) []table {
	t.Helper()
	var out []table
	for _, r := range query(t, db, "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name") {
		tb := table{name: r[0].(string)}
		if tb.name == "erasing" {
			continue // it has a row only inside the transaction of an erasure; TestVerifyNamesForgedErasures leaves one
		}
		for _, c := range query(t, db, "SELECT name, pk FROM pragma_table_info(?)", tb.name) {
			if name := c[0].(string); tb.name == "queue" && (name == "lane" || name == "claimed" || name == "tries") {
				continue // by them workers look for the next run; they decide nothing, and nothing tells of them
			}
			tb.columns = append(tb.columns, c[0].(string))
			if c[1].(int64) > 0 {
				tb.key = append(tb.key, c[0].(string))
			}
		}
		if tb.key == nil {
			tb.key = []string{"rowid"}
		}
		if n := query(t, db, "SELECT count(*) FROM "+tb.name)[0][0].(int64); n == 0 {
			t.Fatalf("table %s is empty: the test shows nothing for it", tb.name)
		}
		out = append(out, tb)
	}
	if len(out) < 7 {
		t.Fatalf("only the tables %v", out)
	}
	return out
}

func (tb table) where() string { return strings.Join(tb.key, " = ? AND ") + " = ?" }

// rows returns the keys of some rows, spread over all of them: for column number n one of
// four, in the long way 16.
func (tb table) rows(t *testing.T, db *sql.DB, n int) [][]any {
	t.Helper()
	all := query(t, db, "SELECT "+strings.Join(tb.key, ", ")+" FROM "+tb.name+" ORDER BY 1")
	most := 4
	if soak() {
		most = 16
	}
	some := all
	if len(all) > most {
		some = [][]any{all[0], all[1]}
		for i := 2; i < most; i++ {
			some = append(some, all[1+(i-1)*(len(all)-2)/(most-2)])
		}
	}
	if soak() {
		return some
	}
	return some[n%len(some):][:1]
}

// flip changes one byte, or one bit of a number.
func flip(v any, at int) any {
	switch v := v.(type) {
	case int64:
		return v ^ 1<<(at%4)
	case string:
		b := []byte(v)
		b[at%len(b)] ^= 1
		return string(b)
	case []byte:
		if len(v) == 0 {
			return []byte{0}
		}
		b := bytes.Clone(v)
		b[at%len(b)] ^= 1 << (at % 8)
		return b
	}
	return []byte{0} // NULL
}

// problems verifies and gives the problems, but for those of missing triggers.
func problems(t *testing.T, rt *remit.Runtime, o remit.VerifyOptions) []remit.Problem {
	t.Helper()
	v, err := rt.Verify(t.Context(), o)
	if (err == nil) != (len(v.Problems) == 0) || err != nil && !errors.Is(err, remit.VerifyFailed) {
		t.Fatalf("%d problems with error %v", len(v.Problems), err)
	}
	return slices.DeleteFunc(v.Problems, func(p remit.Problem) bool { return p.Table == "schema" && strings.HasPrefix(p.Key, "trigger ") })
}

// names reports whether a problem names the record.
func names(ps []remit.Problem, tb table, key []any) bool {
	return slices.ContainsFunc(ps, func(p remit.Problem) bool {
		seq, isSeq := key[0].(int64)
		return p.Table == tb.name && (tb.name != "events" || isSeq && p.Event == uint64(seq))
	})
}

func (w *world) runtime() *remit.Runtime {
	w.t.Helper()
	rt, err := remit.Open(w.t.Context(), remit.Options{Home: w.home, Workspace: w.workspace, Environ: w.environ()})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = rt.Close() }) // of a damaged ledger it may well fail
	return rt
}

func TestVerifyNamesEachFlippedByte(t *testing.T) {
	w := newRecorded(t)
	c := w.copied(t)
	db := open(t, c.home)
	unguarded(t, db)
	rt := c.runtime()
	if ps := problems(t, rt, remit.VerifyOptions{}); len(ps) > 0 {
		t.Fatalf("the ledger is not sound: %v", ps)
	}
	flips := 0
	for _, tb := range tables(t, db) {
		for n, col := range tb.columns {
			for i, key := range tb.rows(t, db, n) {
				was := query(t, db, "SELECT "+col+" FROM "+tb.name+" WHERE "+tb.where(), key...)[0][0]
				is := flip(was, (n+i)*7+len(tb.name)+len(col))
				if _, err := db.ExecContext(t.Context(), "UPDATE "+tb.name+" SET "+col+" = ? WHERE "+tb.where(), append([]any{is}, key...)...); err != nil {
					continue // the schema itself does not let it happen
				}
				flips++
				if ps := problems(t, rt, remit.VerifyOptions{}); !names(ps, tb, key) {
					t.Errorf("%s.%s of row %v: %v became %v: %v", tb.name, col, key, was, is, ps)
				}
				now := slices.Clone(key)
				if k := slices.Index(tb.key, col); k >= 0 {
					now[k] = is
				}
				execute(t, db, "UPDATE "+tb.name+" SET "+col+" = ? WHERE "+tb.where(), append([]any{was}, now...)...)
			}
		}
	}
	if ps := problems(t, rt, remit.VerifyOptions{}); len(ps) > 0 {
		t.Fatalf("the test did not put back what it changed: %v", ps)
	}
	t.Logf("%d flips", flips)
}

// forgery is a change behind the product's back, and the table that verify must name.
type forgery struct {
	name, table string
	do          func(db *sql.DB)
}

// columnsChanged changes each column of the table's last row.
func (tb table) columnsChanged(t *testing.T) (all []forgery) {
	for _, col := range tb.columns {
		all = append(all, forgery{tb.name + "." + col, tb.name, func(db *sql.DB) {
			was := query(t, db, "SELECT "+col+" FROM "+tb.name+" WHERE "+tb.last())[0][0]
			if _, err := db.ExecContext(t.Context(), "UPDATE "+tb.name+" SET "+col+" = ? WHERE "+tb.last(), flip(was, 3)); err != nil {
				execute(t, db, "DELETE FROM "+tb.name+" WHERE "+tb.last())
			}
		}})
	}
	return all
}

// rowsChanged deletes the last row or all rows, or adds one.
func (tb table) rowsChanged(t *testing.T) []forgery {
	named := tb.name
	if tb.name == "events" {
		named = "log" // which says how many there were
	}
	all := []forgery{
		{tb.name + ": the last row deleted", tb.name, func(db *sql.DB) { execute(t, db, "DELETE FROM "+tb.name+" WHERE "+tb.last()) }},
		{tb.name + ": all rows deleted", named, func(db *sql.DB) { execute(t, db, "DELETE FROM "+tb.name) }},
	}
	if tb.name == "log" {
		return all // holds one row by its schema
	}
	return append(all, forgery{tb.name + ": a row added", tb.name, func(db *sql.DB) {
		var values []string
		for _, col := range tb.columns {
			values = append(values, map[bool]string{
				true: "CASE typeof(" + col + ") WHEN 'integer' THEN " + col + " + 1000000 WHEN 'text' THEN " + col + " || 'x' ELSE zeroblob(length(" + col + ")) END", false: col,
			}[slices.Contains(tb.key, col) || col == "id" || col == "address" || col == "seq"])
		}
		execute(t, db, "INSERT INTO "+tb.name+"("+strings.Join(tb.columns, ", ")+") SELECT "+strings.Join(values, ", ")+" FROM "+tb.name+" WHERE "+tb.last())
	}})
}

// last is the condition that selects the table's last row.
func (tb table) last() string {
	key := strings.Join(tb.key, ", ")
	return "(" + key + ") = (SELECT " + key + " FROM " + tb.name + " ORDER BY " + strings.Join(tb.key, " DESC, ") + " DESC LIMIT 1)"
}

// TestTheCommandNamesWhatWasChanged changes each table in files of their own, and has the
// command look at them. The long way tries every change of every table; else each table has
// one changed column and one changed row, and the tests of the store try every change.
func TestTheCommandNamesWhatWasChanged(t *testing.T) {
	w := newRecorded(t)
	schema := func(ddl, table string) forgery {
		return forgery{ddl, table, func(db *sql.DB) { execute(t, db, ddl) }}
	}
	all := []forgery{schema("CREATE TABLE more(x)", "schema"), schema("CREATE VIEW v AS SELECT 1", "schema"), schema("DROP INDEX events_run", "schema"),
		schema("CREATE TRIGGER quiet AFTER INSERT ON events BEGIN DELETE FROM run_tools; END", "schema"), schema("DROP TABLE run_tools", "run_tools")}
	for i, tb := range tables(t, open(t, w.home)) {
		for _, kind := range [][]forgery{tb.columnsChanged(t), tb.rowsChanged(t)} {
			if !soak() {
				kind = kind[i%len(kind):][:1]
			}
			all = append(all, kind...)
		}
	}
	for _, f := range all {
		c := w.copied(t)
		db := open(t, c.home)
		back := unguarded(t, db)
		f.do(db)
		back()
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if r := c.remit("verify"); r.status != 4 || !strings.Contains(r.out+r.err, f.table) {
			t.Errorf("%s: verify ended with status %d:\n%s%s", f.name, r.status, r.out, r.err)
		}
	}
}
