package db

import (
	"database/sql"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/remitrun/remit/internal/authority/permit/permittest"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// shop is the database of the tests.
const shop = `
	CREATE TABLE users(id INTEGER PRIMARY KEY, name TEXT, password TEXT);
	CREATE TABLE orders(id INTEGER PRIMARY KEY, user INTEGER REFERENCES users(id), total REAL, day DATE);
	CREATE TABLE notes(id INTEGER PRIMARY KEY, body TEXT);
	INSERT INTO users VALUES(1, 'Ada', 'secret-of-ada');
	INSERT INTO orders VALUES(1, 1, 9.5, '2026-01-02'), (2, 1, 20, '2026-01-03'), (3, 1, 1, NULL);`

func makeShop(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "shop.db")
	d, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := d.Exec(shop); err != nil {
		t.Fatal(err)
	}
	return file
}

func world(t testing.TB) permittest.World {
	t.Helper()
	return permittest.World{Policy: `version: 1
databases:
  main: {url: "sqlite:` + makeShop(t) + `", read: [orders, users], write: [notes], deny: ["users.password"], max_rows: 2}
`}
}

func TestContract(t *testing.T) {
	w := world(t)
	q := tool.Args{"database": "main", "sql": "SELECT total FROM orders WHERE id = ?", "params": []any{json.Number("1")}}
	permittest.Tool(t, Tools(nil)[0], w, q)
	permittest.Tool(t, Tools(nil)[1], w, tool.Args{"database": "main", "sql": "INSERT INTO notes(body) VALUES('a')"})
	permittest.Tool(t, Tools(nil)[2], w, tool.Args{"database": "main"})
}

func TestQuery(t *testing.T) {
	p := world(t).Permit(t)
	res, err := permittest.Run(t.Context(), Tools(nil)[0], p, tool.Args{"database": "main", "sql": "SELECT id, total, day, x'00ff' AS b, 9007199254740993 AS n FROM orders ORDER BY id"})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"columns": []string{"id", "total", "day", "b", "n"}, "truncated": true, "rows": [][]any{
		{int64(1), 9.5, "2026-01-02T00:00:00Z", map[string]any{"base64": "AP8="}, int64(9007199254740993)},
		{int64(2), 20.0, "2026-01-03T00:00:00Z", map[string]any{"base64": "AP8="}, int64(9007199254740993)},
	}}
	if diff := cmp.Diff(want, res.Output); diff != "" {
		t.Error(diff)
	}
	notes, _ := p.Happened()
	if len(notes) != 1 || notes[0].On != "main: orders(day, id, total)" || notes[0].Effect != tool.DatabaseRead {
		t.Errorf("noted %v", notes)
	}
}

func TestParametersAreNeverText(t *testing.T) {
	p := world(t).Permit(t)
	for _, s := range []string{"' OR 1=1 --", "1; DROP TABLE notes", "\"", "\x00", "'; SELECT password FROM users; --"} {
		res, err := permittest.Run(t.Context(), Tools(nil)[0], p, tool.Args{"database": "main", "sql": "SELECT ? AS v, (SELECT count(*) FROM users WHERE name = ?) AS n", "params": []any{s, s}})
		if err != nil {
			t.Errorf("%q: %v", s, err)
			continue
		}
		if diff := cmp.Diff([][]any{{s, int64(0)}}, res.Output["rows"]); diff != "" {
			t.Errorf("%q: %s", s, diff)
		}
	}
}

func TestExecute(t *testing.T) {
	w := world(t)
	run := func(sql string) (tool.Result, error) {
		return permittest.Run(t.Context(), Tools(nil)[1], w.Permit(t), tool.Args{"database": "main", "sql": sql})
	}
	res, err := run("INSERT INTO notes(body) VALUES('a'), ('b')")
	if err != nil || res.Output["changed"] != int64(2) {
		t.Fatalf("got %v, %v", res.Output, err)
	}
	if res, err = run("UPDATE notes SET body = 'c'"); err != nil || res.Output["changed"] != int64(2) {
		t.Fatalf("got %v, %v", res.Output, err)
	}
	if _, err := run("DELETE FROM orders"); fault.CodeOf(err) != fault.HandleRefused {
		t.Errorf("a table that may only be read was changed: %v", err)
	}
}

func TestSchemaShowsWhatMayBeSeen(t *testing.T) {
	res, err := permittest.Run(t.Context(), Tools(nil)[2], world(t).Permit(t), tool.Args{"database": "main"})
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(res.Output)
	if err != nil || strings.Contains(string(b), "password") || !strings.Contains(string(b), `"name":"total"`) || !strings.Contains(string(b), `"notes"`) {
		t.Errorf("got %s, %v", b, err)
	}
}
