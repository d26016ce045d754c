package sqlite_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/racetest"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/sqlite"
)

// soaked is n, or the second number in a soak.
func soaked(n, soak int) int {
	if os.Getenv("REMIT_SOAK") != "" {
		return soak
	}
	return n
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func begin(s store.Store) ledger.Seq {
	id := uuid.Must(uuid.NewV7())
	return must(s.Append(context.Background(), ledger.Entry{
		Event:   ledger.Event{Kind: ledger.RunStarted, At: 1, ID: id[:], Mode: ledger.Live, Name: "run", Total: 2},
		Payload: ledger.Payload{ledger.PartPlan: []byte("version: 1")},
	}))
}

// call is an effectful call as runs make them: small arguments and result.
func call(run ledger.Seq, n int, durable bool) (intent, outcome ledger.Entry) {
	at := 1_700_000_000_000_000 + int64(n)*1000
	intent = ledger.Entry{Durable: durable, Payload: ledger.Payload{ledger.PartArgs: fmt.Appendf(nil, `{"path":"out/%d.txt","text":"some text of call %d"}`, n, n)}, Event: ledger.Event{
		Kind: ledger.CallIntent, At: at, Run: run, Call: uint32(n), Tool: "fs.write", Digest: bytes.Repeat([]byte{7}, 32), Effect: policy.Allow,
		Rule: `files.write.allow[0] "out/**"`, Risk: tool.Medium, Effects: tool.EffectSet(tool.FSWrite), Timeline: []int64{11, 140}, Step: "write",
	}}
	outcome = ledger.Entry{Payload: ledger.Payload{ledger.PartOutput: []byte(`{"bytes_written":19,"created":true}`), ledger.PartHappened: fmt.Appendf(nil, `[{"effect":"fs.write","on":"/w/out/%d.txt","bytes":19}]`, n)}, Event: ledger.Event{
		Kind: ledger.CallOutcome, At: at + 900, Run: run, Call: uint32(n), Status: tool.Completed, Effects: tool.EffectSet(tool.FSWrite), Timeline: []int64{11, 140, 480, 610},
	}}
	return intent, outcome
}

// fixture is a ledger with every table filled: a finished run of 300 calls with
// blobs, a second one, and a third whose events no checkpoint covers yet.
func fixture(t *testing.T) string {
	t.Helper()
	home := t.TempDir()
	s := must(sqlite.Open(context.Background(), sqlite.Options{Home: home, Durability: sqlite.Process}))
	for r := range 3 {
		run := begin(s)
		for i := 1; i <= []int{300, 4, 3}[r]; i++ {
			in, out := call(run, i, false)
			if i == 5 && r == 0 {
				out.Event.Refused = 3
			}
			if i%100 == 3 {
				out.Payload[ledger.PartOutput] = bytes.Repeat(fmt.Appendf(nil, "%d %d ", r, i), 3000)
			}
			must(s.Append(context.Background(), in, out))
		}
		if r < 2 {
			must(s.Append(context.Background(), ledger.Entry{Event: ledger.Event{Kind: ledger.RunFinished, At: 9, Run: run, Status: tool.Completed}}))
		}
	}
	copied := t.TempDir() // as it was before Close signed its end
	exec(t, home, fmt.Sprintf("VACUUM INTO '%s'", filepath.Join(copied, sqlite.File)))
	if err := os.CopyFS(filepath.Join(copied, "keys"), os.DirFS(filepath.Join(home, "keys"))); err != nil {
		t.Fatal(err)
	}
	private(t, copied)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return copied
}

func private(t *testing.T, home string) {
	t.Helper()
	for _, f := range must(filepath.Glob(filepath.Join(home, "keys", "*"))) {
		if err := os.Chmod(f, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func db(t *testing.T, home string) *sql.DB {
	t.Helper()
	d := must(sql.Open("sqlite", filepath.Join(home, sqlite.File)+"?_pragma=synchronous(0)&_pragma=busy_timeout(5000)"))
	d.SetMaxOpenConns(1)
	return d
}

func exec(t *testing.T, home string, script string, args ...any) {
	t.Helper()
	d := db(t, home)
	defer d.Close()
	if _, err := d.Exec(script, args...); err != nil {
		t.Fatalf("%s: %v", script, err)
	}
}

// forge changes a copy of a ledger as an attacker with the file would: triggers
// are removed and restored, so that the schema is unchanged.
func forge(t *testing.T, from string, change func(d *sql.DB)) string {
	t.Helper()
	home := t.TempDir()
	if err := os.CopyFS(home, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	private(t, home)
	d := db(t, home)
	defer d.Close()
	var triggers []string
	rows := must(d.Query("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"))
	var drop []string
	for rows.Next() {
		var name, text string
		if err := rows.Scan(&name, &text); err != nil {
			t.Fatal(err)
		}
		drop, triggers = append(drop, "DROP TRIGGER "+name), append(triggers, text)
	}
	for _, q := range drop {
		must(d.Exec(q))
	}
	change(d)
	for _, q := range triggers {
		must(d.Exec(q))
	}
	return home
}

func verify(t *testing.T, home string, o store.VerifyOptions) store.VerifyReport {
	t.Helper()
	s, err := sqlite.Open(context.Background(), sqlite.Options{Home: home, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r, err := s.Verify(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// named reports whether a problem names the table, and the event if seq > 0.
func named(r store.VerifyReport, table string, seq ledger.Seq) bool {
	for _, p := range r.Problems {
		if p.Table == table && (seq == 0 || p.Seq == seq) {
			return true
		}
	}
	return false
}

// altered returns a value other than v.
func altered(v any) any {
	switch v := v.(type) {
	case int64:
		return v + 1000
	case string:
		return v + "x"
	case []byte:
		if len(v) == 0 {
			return []byte{1}
		}
		b := bytes.Clone(v)
		b[len(b)/2] ^= 1
		return b
	}
	return []byte("something") // NULL
}

var tables = []string{"events", "blobs", "nodes", "log", "checkpoints", "runs", "run_tools", "blocks"}

func TestVerifyNamesEveryChangedColumn(t *testing.T) {
	racetest.Skip(t, "it repeats what TestVerifyNamesForgeries does with it")
	from := fixture(t)
	if r := verify(t, from, store.VerifyOptions{}); len(r.Problems) > 0 || r.Events != 619 || r.Blobs != 5 || r.Signed == r.Size {
		t.Fatalf("the fixture is not sound: %+v", r)
	}
	for _, table := range tables {
		d := db(t, from)
		rows := must(d.Query("SELECT name, \"notnull\" FROM pragma_table_info(?)", table))
		columns := map[string]bool{}
		for rows.Next() {
			var name string
			var notNull bool
			if err := rows.Scan(&name, &notNull); err != nil {
				t.Fatal(err)
			}
			columns[name] = notNull
		}
		d.Close()
		for column, notNull := range columns {
			if table == "log" && column == "id" {
				continue // a CHECK holds it at 1
			}
			for _, place := range []string{"first", "middle", "last"} {
				t.Run(table+"."+column+" "+place, func(t *testing.T) { changeColumn(t, from, table, column, place, notNull) })
			}
		}
	}
}

// at gives the condition that selects the first, middle or last row.
func at(d *sql.DB, table, place string) string {
	var n int
	if err := d.QueryRow("SELECT count(*) FROM " + table).Scan(&n); err != nil {
		panic(err)
	}
	key := map[string]string{"run_tools": "run", "blocks": "mark || block"}[table]
	if key == "" {
		key = "rowid"
	}
	var v any
	offset := map[string]int{"first": 0, "middle": n / 2, "last": n - 1}[place]
	if err := d.QueryRow(fmt.Sprintf("SELECT %s FROM %s ORDER BY 1 LIMIT 1 OFFSET %d", key, table, offset)).Scan(&v); err != nil {
		panic(err)
	}
	if text, ok := v.(string); ok {
		return fmt.Sprintf(" WHERE %s = '%s'", key, text)
	}
	return fmt.Sprintf(" WHERE %s = %d", key, v)
}

func changeColumn(t *testing.T, from, table, column, place string, notNull bool) {
	home := forge(t, from, func(d *sql.DB) {
		where := at(d, table, place)
		var v any
		if err := d.QueryRow("SELECT " + column + " FROM " + table + where).Scan(&v); err != nil {
			t.Fatal(err)
		}
		must(d.Exec("UPDATE OR REPLACE "+table+" SET "+column+" = ?"+where, altered(v)))
	})
	if r := verify(t, home, store.VerifyOptions{}); !named(r, table, 0) {
		t.Errorf("problems %+v; want one in %s", r.Problems, table)
	}
	if notNull || place != "first" || column == "seq" || column == "size" || column == "idx" || column == "id" {
		return
	}
	home = forge(t, from, func(d *sql.DB) { must(d.Exec("UPDATE " + table + " SET " + column + " = NULL" + at(d, table, place))) })
	if r := verify(t, home, store.VerifyOptions{}); !named(r, table, 0) {
		t.Errorf("NULL: problems %+v; want one in %s", r.Problems, table)
	}
}

func TestVerifyNamesEveryDeletedRecord(t *testing.T) {
	racetest.Skip(t, "it repeats what TestVerifyNamesForgeries does with it")
	from := fixture(t)
	for _, table := range tables {
		for _, place := range []string{"first", "middle", "last"} {
			home := forge(t, from, func(d *sql.DB) { must(d.Exec("DELETE FROM " + table + at(d, table, place))) })
			if r := verify(t, home, store.VerifyOptions{}); len(r.Problems) == 0 || !named(r, table, 0) && !(table == "events" && named(r, "log", 0)) {
				t.Errorf("%s, %s row: problems %+v; want one in it", table, place, r.Problems)
			}
		}
	}
}

func TestVerifyNamesForgeries(t *testing.T) {
	from := fixture(t)
	swap := func(table, columns string, a, b int) func(*sql.DB) {
		return func(d *sql.DB) {
			for _, c := range strings.Fields(columns) {
				must(d.Exec(fmt.Sprintf(`UPDATE %[1]s SET %[2]s = iif(rowid = %[3]d, (SELECT %[2]s FROM %[1]s WHERE rowid = %[4]d), (SELECT %[2]s FROM %[1]s WHERE rowid = %[3]d)) WHERE rowid IN (%[3]d, %[4]d)`, table, c, a, b)))
			}
		}
	}
	tests := map[string]struct {
		change func(*sql.DB)
		table  string
		seq    ledger.Seq
	}{
		"two events change places":         {swap("events", "run call tag body salt data", 40, 42), "events", 40},
		"two payloads change places":       {swap("events", "salt data", 40, 42), "events", 40},
		"two blobs change places":          {swap("blobs", "size enc data", 1, 2), "blobs", 0},
		"an event is rewritten":            {rewrite(40, false), "events", 40},
		"an event and all roots rewritten": {rewrite(40, true), "events", 40},
		"an unsigned event is rewritten":   {rewrite(615, true), "events", 615},
		"a payload is rewritten": {func(d *sql.DB) {
			must(d.Exec("UPDATE events SET data = ? WHERE seq = 40", must(ledger.EncodeParts(map[string]ledger.Part{"args": {Inline: []byte("{}")}}))))
		}, "events", 40},
		"an event is appended": {func(d *sql.DB) {
			must(d.Exec("INSERT INTO events SELECT 620, run, call + 1, tag, body, salt, data FROM events WHERE seq = 619"))
			recompute(d)
		}, "events", 620},
		"the unsigned tail is cut off": {func(d *sql.DB) {
			must(d.Exec("DELETE FROM events WHERE seq > 617"))
			recompute(d)
		}, "log", 0},
		"everything after a checkpoint is cut off": {func(d *sql.DB) {
			must(d.Exec("DELETE FROM events WHERE seq > 602; DELETE FROM runs WHERE seq > 602; DELETE FROM run_tools WHERE run > 602; DELETE FROM checkpoints WHERE size > 602"))
			recompute(d)
			must(d.Exec("UPDATE log SET signed = 602"))
		}, "log", 0},
		"an index loses a row": {func(d *sql.DB) {
			must(d.Exec("PRAGMA writable_schema = 1; UPDATE sqlite_master SET sql = 'CREATE INDEX events_run ON events(run, call) WHERE call <> 5' WHERE name = 'events_run'"))
		}, "schema", 0},
		"a trigger is added":  {func(d *sql.DB) { must(d.Exec("CREATE TRIGGER x AFTER INSERT ON events BEGIN DELETE FROM runs; END")) }, "schema", 0},
		"a table is added":    {func(d *sql.DB) { must(d.Exec("CREATE TABLE x(y)")) }, "schema", 0},
		"an index is removed": {func(d *sql.DB) { must(d.Exec("DROP INDEX runs_open")) }, "schema", 0},
		"a blob is added": {func(d *sql.DB) {
			must(d.Exec("INSERT INTO blobs(address, size, enc, data) VALUES(zeroblob(32), 1, 0, x'00')"))
		}, "blobs", 0},
		"a run is added": {func(d *sql.DB) {
			must(d.Exec("INSERT INTO runs SELECT 2, randomblob(16), status, mode, started, ended, total, completed, denied, failed, refused FROM runs WHERE seq = 1"))
		}, "runs", 2},
		"what was refused is forgotten": {func(d *sql.DB) { must(d.Exec("UPDATE runs SET refused = 0 WHERE refused > 0")) }, "runs", 1},
		"a tool is added":               {func(d *sql.DB) { must(d.Exec("INSERT INTO run_tools VALUES('a.b', 1)")) }, "run_tools", 1},
		"a mark is added":               {func(d *sql.DB) { must(d.Exec("INSERT INTO blocks VALUES('tool:a.b', 1)")) }, "blocks", 257},
		"a mark is forgotten":           {func(d *sql.DB) { must(d.Exec("DELETE FROM blocks WHERE mark = 'refused'")) }, "blocks", 1},
		"a checkpoint is copied": {func(d *sql.DB) {
			must(d.Exec("INSERT INTO checkpoints SELECT 300, note FROM checkpoints WHERE size = 602"))
		}, "checkpoints", 0},
		"a node is added": {func(d *sql.DB) { must(d.Exec("INSERT INTO nodes VALUES(5, zeroblob(32))")) }, "nodes", 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if r := verify(t, forge(t, from, tt.change), store.VerifyOptions{}); !named(r, tt.table, tt.seq) {
				t.Errorf("problems %+v; want one in %s, event %d", r.Problems, tt.table, tt.seq)
			}
		})
	}
}

// rewrite turns a completed call into a failed one, as an attacker without the
// keys can. If all is set, it computes every hash anew.
func rewrite(seq int64, all bool) func(*sql.DB) {
	return func(d *sql.DB) {
		var body []byte
		if err := d.QueryRow("SELECT body FROM events WHERE seq = ?", seq).Scan(&body); err != nil {
			panic(err)
		}
		e := must(ledger.Decode(body))
		e.At++
		must(d.Exec("UPDATE events SET body = ? WHERE seq = ?", must(ledger.Encode(&e)), seq))
		if all {
			recompute(d)
		}
	}
}

// recompute makes nodes and the log's state fit the events.
func recompute(d *sql.DB) {
	var bodies [][]byte
	rows := must(d.Query("SELECT body FROM events ORDER BY seq"))
	for rows.Next() {
		var b []byte
		if err := rows.Scan(&b); err != nil {
			panic(err)
		}
		bodies = append(bodies, b)
	}
	must(d.Exec("DELETE FROM nodes"))
	var f ledger.Frontier
	for _, b := range bodies {
		f.Append(tlog.RecordHash(b), func(n ledger.Node) {
			if n.Level >= 8 {
				must(d.Exec("INSERT INTO nodes VALUES(?, ?)", tlog.StoredHashIndex(n.Level, n.N), n.Hash[:]))
			}
		})
	}
	must(d.Exec("UPDATE log SET size = ?, frontier = ?", f.Size, f.Bytes()))
}

func TestVerifyOfARunNamesWhatWasChangedInIt(t *testing.T) {
	from := fixture(t)
	var raw string
	d := db(t, from)
	if err := d.QueryRow("SELECT hex(id) FROM runs WHERE seq = 603").Scan(&raw); err != nil {
		t.Fatal(err)
	}
	d.Close()
	id := uuid.Must(uuid.FromBytes(must(hex.DecodeString(raw))))
	if r := verify(t, from, store.VerifyOptions{Run: id}); len(r.Problems) > 0 || r.Events != 10 {
		t.Fatalf("the fixture's run is not sound: %+v", r)
	}
	for name, tt := range map[string]struct {
		sql, table string
	}{
		"payload":    {"UPDATE events SET data = x'a0' WHERE seq = 605", "events"},
		"tag":        {"UPDATE events SET tag = 0 WHERE seq = 605", "events"},
		"body":       {"UPDATE events SET body = (SELECT body FROM events WHERE seq = 607) WHERE seq = 605", "events"},
		"blob":       {"UPDATE blobs SET data = x'00'", "blobs"},
		"counts":     {"UPDATE runs SET failed = 3", "runs"},
		"neighbour":  {"UPDATE events SET body = x'00' WHERE seq = 611", "events"}, // the proofs go through it
		"checkpoint": {"UPDATE checkpoints SET note = x'00'", "checkpoints"},
	} {
		home := forge(t, from, func(d *sql.DB) { must(d.Exec(tt.sql)) })
		if r := verify(t, home, store.VerifyOptions{Run: id}); !named(r, tt.table, 0) {
			t.Errorf("%s: problems %+v; want one in %s", name, r.Problems, tt.table)
		}
	}
}

func TestAnOlderCheckpointExposesARewrittenLedger(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	s := openWith(t, sqlite.Options{Home: a})
	begin(s)
	if err := os.CopyFS(filepath.Join(b, "keys"), os.DirFS(filepath.Join(a, "keys"))); err != nil {
		t.Fatal(err)
	}
	private(t, b)
	if err := unfinished(b); err != nil {
		t.Fatal(err)
	}
	other := openWith(t, sqlite.Options{Home: b}) // another history under the same keys
	begin(other)
	begin(other)
	note := must(s.Checkpoint(context.Background()))
	for name, st := range map[string]*sqlite.Store{"itself": s, "another history": other} {
		r := must(st.Verify(context.Background(), store.VerifyOptions{Checkpoint: note}))
		if (len(r.Problems) > 0) != (st == other) {
			t.Errorf("%s: problems %+v", name, r.Problems)
		}
	}
	begin(s)
	late := must(s.Checkpoint(context.Background()))
	begin(s)
	longer := must(s.Checkpoint(context.Background()))
	_ = late
	if r := must(other.Verify(context.Background(), store.VerifyOptions{Checkpoint: longer})); len(r.Problems) == 0 {
		t.Error("a ledger shorter than the checkpoint passed")
	}
}

func TestHistoryCannotBeRewrittenThroughSQL(t *testing.T) {
	from := fixture(t)
	d := db(t, from)
	defer d.Close()
	for _, table := range []string{"events", "blobs", "nodes", "checkpoints"} {
		for _, q := range []string{"DELETE FROM " + table, "UPDATE " + table + " SET rowid = rowid"} {
			if _, err := d.Exec(q); err == nil || !strings.Contains(err.Error(), "append-only") {
				t.Errorf("%s: %v, want it refused", q, err)
			}
		}
	}
}

func TestAProofIsCheckedWithThePublicKeyAlone(t *testing.T) {
	home := fixture(t)
	s := openWith(t, sqlite.Options{Home: home})
	for run, events := range map[ledger.Seq]int{1: 602, 603: 10, 613: 7} {
		var b bytes.Buffer
		if err := s.Prove(context.Background(), run, &b); err != nil {
			t.Fatal(err)
		}
		cp, got, err := ledger.CheckProof(b.Bytes(), string(must(os.ReadFile(filepath.Join(home, "keys", "ledger.pub")))))
		if err != nil || len(got) != events || cp.Size < int64(run)+int64(events)-1 || got[0].Kind != ledger.RunStarted {
			t.Errorf("run %d: %d events under size %d, %v; want %d", run, len(got), cp.Size, err, events)
		}
		bad := bytes.Replace(b.Bytes(), []byte(`"seq":`), []byte(`"seq":1`), 1)
		if _, _, err := ledger.CheckProof(bad, s.PublicKey()); err == nil {
			t.Errorf("run %d: a changed proof passed", run)
		}
	}
}
