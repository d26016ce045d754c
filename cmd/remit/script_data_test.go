package main

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"filippo.io/age"
	"github.com/rogpeppe/go-internal/testscript"
	_ "modernc.org/sqlite" // scripts alter the ledger behind Remit's back
)

// newest VAR sets a variable to the ID of the newest run.
func newest(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: newest VAR")
	}
	ts.Check(ts.Exec("remit", "runs", "--json", "--limit", "1"))
	ts.Setenv(args[0], field(ts, parse(ts, ts.ReadFile("stdout")), "items.0.run_id"))
}

// take VAR PATH keeps one value of the JSON that was printed in a variable.
func take(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: take VAR PATH")
	}
	got := field(ts, parse(ts, ts.ReadFile("stdout")), args[1])
	if got == "" {
		ts.Fatalf("there is no %s", args[1])
	}
	ts.Setenv(args[0], got)
}

// waiting VAR waits until a question waits for its answer, and keeps the newest
// one's ID.
func waiting(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: waiting VAR")
	}
	for range 600 {
		ts.Check(ts.Exec("remit", "approvals", "--json"))
		if id := field(ts, parse(ts, ts.ReadFile("stdout")), "items.0.id"); id != "" && id != ts.Getenv(args[0]) {
			ts.Setenv(args[0], id)
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	ts.Fatalf("no question came")
}

// json PATH WANT compares one value of the JSON that was printed, as
// steps.0.error.code. Objects and lists are written as JSON, "keys" after a
// path lists an object's keys, "len" counts, a line end is \n,
// and an absent value is "".
func jsonIs(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: json PATH WANT")
	}
	got := field(ts, parse(ts, ts.ReadFile("stdout")), args[0])
	if (got == args[1]) == neg {
		ts.Fatalf("%s is %q, want %q", args[0], got, args[1])
	}
}

func parse(ts *testscript.TestScript, text string) any {
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		ts.Fatalf("what was printed is not JSON: %v", err)
	}
	return v
}

func field(ts *testscript.TestScript, v any, path string) string {
	for _, name := range strings.Split(path, ".") {
		switch x := v.(type) {
		case map[string]any:
			if name == "keys" {
				v = strings.Join(sortedKeys(x), " ")
				continue
			}
			v = x[name]
		case []any:
			i, err := strconv.Atoi(name)
			switch {
			case name == "len":
				v = len(x)
			case err != nil || i >= len(x):
				return ""
			default:
				v = x[i]
			}
		default:
			return ""
		}
	}
	switch x := v.(type) {
	case nil:
		return ""
	case string:
		return strings.ReplaceAll(x, "\n", `\n`)
	case int, bool, float64:
		return fmt.Sprint(x)
	}
	b, err := json.Marshal(v)
	ts.Check(err)
	return string(b)
}

func sortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }

// What differs from run to run, and what stands in its place. The order counts.
var normals = []struct {
	re *regexp.Regexp
	by string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`), "RUN"},
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}`), "RUN"},
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`), "LEDGER"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z| UTC)?`), "TIME"},
	{regexp.MustCompile(`(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [ \d]\d \d\d:\d\d:\d\d`), "TIME"},
	{regexp.MustCompile(`sha256:[0-9a-f]{64}`), "sha256:HASH"},
	{regexp.MustCompile(`\b[0-9a-f]{64}\b`), "HASH"},
	{regexp.MustCompile(`root [0-9A-Za-z+/]{43}=`), "root ROOT"},
	{regexp.MustCompile(`up to event \d+`), "up to event N"},
	{regexp.MustCompile(`\b\d+(\.\d+)? (µs|ms|s)\b`), "TOOK"},
	{regexp.MustCompile(`"(duration_ms|cpu_ms|total_duration_ms|peak_memory_bytes|CREATED|VALIDATING|EXECUTING|PROCESSING|LOGGING|ENDED)": ?[0-9.]+`), `"$1":0`},
	{regexp.MustCompile(` +TOOK [▇·]{20}`), "  TOOK  BAR"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "SERVER"},
	{regexp.MustCompile(` +\n`), "\n"},
}

// columns finds the spaces between two columns, whose width depends on what
// stood in them.
var columns = regexp.MustCompile(`(\S) {2,}`)

// normal stdout|stderr|FILE OUT writes a text without what differs from run to
// run, for comparison with a file of the script.
func normal(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: normal stdout|stderr|FILE OUT")
	}
	text := strings.NewReplacer(ts.Getenv("WORK"), "WORK", ts.Getenv("PERSON"), "PERSON").Replace(ts.ReadFile(args[0]))
	for _, n := range normals {
		text = n.re.ReplaceAllString(text, n.by)
	}
	text = columns.ReplaceAllString(text, "$1  ")
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(text), 0o600))
}

// sql STATEMENT... changes the script's ledger behind Remit's back. The
// triggers that keep it append-only are taken away first.
func sqlDo(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: sql STATEMENT...")
	}
	withLedger(ts, func(db *sql.DB) {
		for _, stmt := range args {
			res, err := db.Exec(stmt)
			ts.Check(err)
			if n, err := res.RowsAffected(); err == nil && n == 0 && !strings.HasPrefix(stmt, "PRAGMA") {
				ts.Fatalf("no row was changed by %s", stmt)
			}
		}
	})
}

// tableDo makes or changes a SQLite database of the script: table FILE STATEMENT...
func tableDo(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: table FILE STATEMENT...")
	}
	db, err := sql.Open("sqlite", ts.MkAbs(args[0]))
	ts.Check(err)
	defer func() { ts.Check(db.Close()) }()
	for _, stmt := range args[1:] {
		_, err := db.Exec(stmt)
		ts.Check(err)
	}
}

func withLedger(ts *testscript.TestScript, fn func(db *sql.DB)) {
	db, err := sql.Open("sqlite", filepath.Join(ts.Getenv("REMIT_HOME"), "remit.db"))
	ts.Check(err)
	defer func() { ts.Check(db.Close()) }()
	db.SetMaxOpenConns(1)
	triggers := map[string]string{}
	rows, err := db.Query("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
	ts.Check(err)
	for rows.Next() {
		var name, text string
		ts.Check(rows.Scan(&name, &text))
		triggers[name] = text
	}
	ts.Check(errors.Join(rows.Err(), rows.Close()))
	for name := range triggers {
		_, err := db.Exec("DROP TRIGGER " + name)
		ts.Check(err)
	}
	fn(db)
	for _, text := range triggers { // a whole schema, so that only the change is found
		_, err := db.Exec(text)
		ts.Check(err)
	}
}

// tamper COLUMN OLD NEW replaces bytes of the same length in a column of the
// events, wherever they stand.
func tamper(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 || len(args[1]) != len(args[2]) {
		ts.Fatalf("usage: tamper body|data OLD NEW, both of one length")
	}
	withLedger(ts, func(db *sql.DB) {
		col := args[0]
		rows, err := db.Query("SELECT seq, " + col + " FROM events WHERE " + col + " IS NOT NULL")
		ts.Check(err)
		changed := map[int64][]byte{}
		for rows.Next() {
			var seq int64
			var b []byte
			ts.Check(rows.Scan(&seq, &b))
			if strings.Contains(string(b), args[1]) {
				changed[seq] = []byte(strings.ReplaceAll(string(b), args[1], args[2]))
			}
		}
		ts.Check(errors.Join(rows.Err(), rows.Close()))
		if len(changed) == 0 {
			ts.Fatalf("no event's %s holds %q", col, args[1])
		}
		for seq, b := range changed {
			_, err := db.Exec("UPDATE events SET "+col+" = ? WHERE seq = ?", b, seq)
			ts.Check(err)
		}
	})
}

// ageKey FILE VAR makes an age identity, and keeps its recipient in a variable.
func ageKey(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: agekey FILE VAR")
	}
	id, err := age.GenerateX25519Identity()
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(id.String()+"\n"), 0o600))
	ts.Setenv(args[1], id.Recipient().String())
}
