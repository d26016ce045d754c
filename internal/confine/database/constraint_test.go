package database

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/base/fault"
)

// A write that a constraint forbids tells that it does, and no value of the row: a caller may
// write a table of which it may not read every column.
func TestAViolatedConstraintShowsNoValueOfTheRow(t *testing.T) {
	const (
		rights = `read: [coffer], write: [coffer], deny: ["coffer.secret"]`
		secret = "S3CRET-4711"
	)
	tables := []string{"DROP TABLE IF EXISTS coffer", "CREATE TABLE coffer (id integer PRIMARY KEY, code varchar(99), secret varchar(99) UNIQUE, CHECK (length(code) <= length(secret)))",
		"INSERT INTO coffer VALUES (1, 'a', '" + secret + "'), (2, 'b', 'other')"}
	for name, prepare := range map[string]func(t *testing.T) string{
		"SQLite": func(t *testing.T) string {
			file := filepath.Join(t.TempDir(), "coffer.db")
			return databasePolicy(file, rights) + create(t, direct(t, file), tables)
		},
		"PostgreSQL": func(t *testing.T) string {
			at := pgShop(t)
			server.Exec(t, "public", strings.Join(tables, ";"))
			t.Cleanup(func() { server.Exec(t, "public", "DROP TABLE coffer") })
			return pgPolicy(at, rights)
		},
		"MariaDB": func(t *testing.T) string {
			at := mariaShop(t)
			d := must(sql.Open("mysql", "root@unix("+maria.dir+"/s)/shop"))
			t.Cleanup(func() { _, _ = d.Exec("DROP TABLE coffer"); _ = d.Close() })
			return mariaPolicy(at, rights) + create(t, d, tables)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := permitFor(t, prepare(t))
			for _, s := range []string{"UPDATE coffer SET code = 'longer than the other column' WHERE id = 1", "UPDATE coffer SET id = 1 WHERE id = 2"} {
				if _, err := Open(p, "main", nil).Execute(t.Context(), s, nil); fault.CodeOf(err) != fault.ToolFailed || strings.Contains(err.Error(), secret) {
					t.Errorf("%s: got %v", s, err)
				}
			}
		})
	}
}

func create(t *testing.T, d *sql.DB, statements []string) string {
	t.Helper()
	for _, s := range statements {
		if _, err := d.Exec(s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	return ""
}
