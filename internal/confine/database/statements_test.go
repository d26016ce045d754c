package database

import (
	"database/sql"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// makeShop makes the database of the tests.
func makeShop(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	schema, err := os.ReadFile("testdata/shop.sql")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "shop ?#%.db")
	d := direct(t, file)
	if _, err := d.Exec(string(schema)); err != nil {
		t.Fatal(err)
	}
	return file
}

// direct opens a database as its owner does.
func direct(t testing.TB, file string) *sql.DB {
	t.Helper()
	d, err := sql.Open("sqlite", "file:"+strings.NewReplacer("?", "%3f", "#", "%23", "%", "%25").Replace(file))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	d.SetMaxOpenConns(1)
	return d
}

// TestStatements compares what statements use with testdata/statements.txt: each line is
// followed by its reads and writes, or why it is refused.
func TestStatements(t *testing.T) {
	const golden = "testdata/statements.txt"
	file := makeShop(t)
	was, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	statements := 0
	for _, line := range strings.Split(strings.TrimSpace(string(was)), "\n") {
		if strings.HasPrefix(line, "\t") {
			continue
		}
		statements++
		b.WriteString(line + "\n")
		for _, l := range lookBoth(t, file, line) {
			b.WriteString("\t" + l + "\n")
		}
	}
	if os.Getenv("UPDATE_STATEMENTS") != "" {
		if err := os.WriteFile(golden, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(string(was), b.String()); diff != "" {
		t.Errorf("of %d statements:\n%s", statements, diff)
	}
}

// lookBoth describes what a statement reads and writes, and compares it with the tables
// and indexes that SQLite's byte code opens.
func lookBoth(t *testing.T, file, statement string) []string {
	t.Helper()
	var out []string
	all := map[string]bool{}
	for _, k := range []tool.ActionKind{tool.TableRead, tool.TableWrite} {
		a := tool.Action{Kind: k, Database: "main", SQL: statement}
		if err := Look(t.Context(), []policy.Database{{Name: "main", File: file}}, nil, &a); err != nil {
			return []string{"error: " + fault.Message(err)}
		}
		var uses []string
		for _, u := range a.Uses {
			if u.Refused != "" {
				return []string{"refused: " + u.Refused}
			}
			all[strings.ToLower(u.Table)] = true
			uses = append(uses, u.String())
		}
		slices.Sort(uses)
		if len(uses) > 0 {
			out = append(out, map[tool.ActionKind]string{tool.TableRead: "reads ", tool.TableWrite: "writes "}[k]+strings.Join(uses, " "))
		}
	}
	for _, table := range opened(t, file, statement) {
		if !all[table] {
			t.Errorf("%s: the byte code opens %s, which is not among its uses %v", statement, table, out)
		}
	}
	if len(out) == 0 {
		out = []string{"uses no table"}
	}
	return out
}

// opened lists the tables whose pages the byte code of a statement opens.
func opened(t *testing.T, file, statement string) []string {
	t.Helper()
	d := direct(t, file)
	defer func() { _ = d.Close() }()
	if _, err := d.Exec("PRAGMA foreign_keys = ON"); err != nil {
		t.Fatal(err)
	}
	pages := map[int64]string{}
	read(t, d, "SELECT rootpage, lower(tbl_name) FROM sqlite_schema WHERE rootpage > 0", func(row []any) { pages[row[0].(int64)] = row[1].(string) })
	var out []string
	read(t, d, "EXPLAIN "+statement, func(row []any) {
		page, _ := row[3].(int64) // p2
		if op := row[1].(string); (op == "OpenRead" || op == "OpenWrite" || op == "ReopenIdx") && pages[page] != "" {
			out = append(out, pages[page])
		}
	})
	return out
}

// read calls f with each row of a query.
func read(t *testing.T, d *sql.DB, query string, f func(row []any)) {
	t.Helper()
	var args []any
	if strings.Contains(query, "?1") {
		args = []any{nil, sql.Named("day", nil)}
	}
	rows, err := d.QueryContext(t.Context(), query, args...)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer func() { _ = rows.Close() }()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		row, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range row {
			into[i] = &row[i]
		}
		if err := rows.Scan(into...); err != nil {
			t.Fatal(err)
		}
		f(row)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
}
