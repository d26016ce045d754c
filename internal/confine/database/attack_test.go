package database

import (
	"database/sql"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
)

// permitFor mints a permit of policies that give the database.
func permitFor(t testing.TB, policies ...string) permit.Permit {
	t.Helper()
	var chain policy.Chain
	for _, text := range policies {
		p, err := policy.Parse("p.yaml", []byte("version: 1\n"+text))
		if err != nil {
			t.Fatal(err)
		}
		r, err := p.Bind(policy.Env{Workspace: "/w", Home: "/h", State: "/h/.remit"})
		if err != nil {
			t.Fatal(err)
		}
		chain = append(chain, r)
	}
	return permit.Mint(permit.Terms{Chain: chain, Limits: chain.Limits()})
}

func databasePolicy(file, rest string) string {
	return "databases: {main: {url: " + string(must(json.Marshal("sqlite:"+file))) + ", " + rest + "}}\n"
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// dump is all that the tables of the tests hold.
func dump(t *testing.T, file string) string {
	t.Helper()
	var out strings.Builder
	d := direct(t, file)
	defer func() { _ = d.Close() }()
	for _, table := range []string{"users", "orders", "notes", "audit", "hidden", "sqlite_master"} {
		read(t, d, "SELECT * FROM "+table, func(row []any) { out.Write(must(json.Marshal(row))) })
	}
	return out.String()
}

// TestNoStatementReachesWhatIsDenied runs all statements under a policy with a denied
// column and a table that nothing allows: none shows or changes either.
func TestNoStatementReachesWhatIsDenied(t *testing.T) {
	file := makeShopNamed(t, "shop.db")
	query := permitFor(t, databasePolicy(file, `read: ["*"], deny: ["users.password", hidden]`))
	execute := permitFor(t, databasePolicy(file, `read: ["*"], write: ["*"], deny: ["users.password", hidden]`))
	statements, err := os.ReadFile("testdata/statements.txt")
	if err != nil {
		t.Fatal(err)
	}
	was := dump(t, file)
	ran := 0
	for _, line := range strings.Split(string(statements), "\n") {
		if line == "" || line[0] == '\t' {
			continue
		}
		out, err := Open(query, "main", nil).Query(t.Context(), line, nil)
		text := string(must(json.Marshal(out)))
		if err == nil {
			ran++
		}
		if strings.Contains(text, "secret-of") || err != nil && strings.Contains(err.Error(), "secret-of") {
			t.Errorf("%s: got %s, %v", line, text, err)
		}
	}
	if is := dump(t, file); is != was {
		t.Errorf("queries changed the database from\n%s to\n%s", was, is)
	}
	if ran < 40 {
		t.Errorf("%d statements ran: the test shows too little", ran)
	}
	for _, line := range strings.Split(string(statements), "\n") {
		if line == "" || line[0] == '\t' {
			continue
		}
		out, err := Open(execute, "main", nil).Execute(t.Context(), line, nil)
		if text := string(must(json.Marshal(out))); strings.Contains(text, "secret-of") {
			t.Errorf("%s: got %s, %v", line, text, err)
		}
	}
	if is := dump(t, file); !strings.Contains(is, `["secret-of-hidden"]`) || !strings.Contains(is, `"secret-of-ada"`) || strings.Count(is, "secret-of") != strings.Count(was, "secret-of") {
		t.Errorf("statements changed or copied what is denied: %s", is)
	}
	if _, err := os.Stat("/tmp/x.db"); err == nil {
		t.Error("a statement made a file")
	}
}

func makeShopNamed(t *testing.T, name string) string {
	t.Helper()
	was := makeShop(t)
	file := filepath.Join(filepath.Dir(was), name)
	if err := os.Rename(was, file); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestEveryPolicyOfAChainMustAllow(t *testing.T) {
	file := makeShopNamed(t, "shop.db")
	outer := databasePolicy(file, `read: ["*"], write: [notes], max_rows: 1`)
	for name, c := range map[string]struct {
		inner, statement string
		ok               bool
	}{
		"narrower":           {"databases: {main: {read: [orders]}}\n", "SELECT total FROM orders", true},
		"outside of it":      {"databases: {main: {read: [orders]}}\n", "SELECT name FROM users", false},
		"no section":         {"name: x\n", "SELECT total FROM orders", false},
		"inherits":           {"rest: inherit\n", "SELECT total FROM orders", true},
		"another name":       {"databases: {other: {read: ['*']}}\n", "SELECT total FROM orders", false},
		"wider":              {"databases: {main: {read: ['*'], max_rows: 500}}\n", "SELECT x FROM hidden", true},
		"columns":            {"databases: {main: {read: ['users(id, name)']}}\n", "SELECT name FROM users", true},
		"not those columns":  {"databases: {main: {read: ['users(id, name)']}}\n", "SELECT * FROM users", false},
		"denied by schema":   {"databases: {main: {read: ['*'], deny: ['main.hidden']}}\n", "SELECT x FROM hidden", false},
		"denied whole":       {"databases: {main: {read: ['*'], deny: ['USERS']}}\n", "SELECT count(*) FROM users", false},
		"denied in a view":   {"databases: {main: {read: ['*'], deny: ['users.password']}}\n", "SELECT name FROM logins", false},
		"another file":       {databasePolicy("/elsewhere.db", "read: ['*']"), "SELECT 1", false},
		"Remit's own ledger": {databasePolicy("/h/.remit/ledger.db", "read: ['*']"), "SELECT 1", false},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := Open(permitFor(t, outer, c.inner), "main", nil).Query(t.Context(), c.statement, nil)
			if (err == nil) != c.ok {
				t.Fatalf("got %v", err)
			}
			if c.ok && len(out.Rows) != 1 {
				t.Errorf("got %d rows, want the smallest max_rows of the chain", len(out.Rows))
			}
		})
	}
}

// TestANarrowingPolicyOpensNoFile: the holder of a grant could else narrow it to any file.
func TestANarrowingPolicyOpensNoFile(t *testing.T) {
	file := makeShopNamed(t, "shop.db")
	named := databasePolicy(file, "read: ['*']")
	for name, c := range map[string]struct {
		chain []string
		ok    bool
	}{
		"the first says where": {[]string{named, "databases: {main: {read: ['*']}}\n"}, true},
		"both":                 {[]string{named, named}, true},
		"only the second":      {[]string{"databases: {main: {read: ['*']}}\n", named}, false},
		"only the third":       {[]string{"databases: {main: {read: ['*']}}\n", "rest: inherit\n", named}, false},
		"another database":     {[]string{"databases: {other: {read: ['*']}}\n", named}, false},
		"none before":          {[]string{"databases: {}\n", named}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Open(permitFor(t, c.chain...), "main", nil).Query(t.Context(), "SELECT id FROM users", nil); (err == nil) != c.ok {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestFilesThatAreNoDatabase(t *testing.T) {
	file := makeShopNamed(t, "shop.db")
	dir := filepath.Dir(file)
	link := filepath.Join(dir, "link.db")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	text := filepath.Join(dir, "text.db")
	if err := os.WriteFile(text, []byte(strings.Repeat("not a database ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		file string
		code fault.Code
	}{
		"a link": {link, fault.HandleRefused}, "text": {text, fault.ToolFailed}, "a folder": {dir, fault.HandleRefused},
		"nothing": {filepath.Join(dir, "none.db"), fault.NotFound},
	} {
		_, err := Open(permitFor(t, databasePolicy(c.file, "read: ['*'], write: ['*']")), "main", nil).Execute(t.Context(), "INSERT INTO notes(body) VALUES('x')", nil)
		if fault.CodeOf(err) != c.code || strings.Contains(fault.Message(err), dir) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "none.db")); err == nil {
		t.Error("a missing database was made")
	}
}

func TestAStatementEndsAtItsTime(t *testing.T) {
	file := makeShopNamed(t, "shop.db")
	p := permitFor(t, databasePolicy(file, "read: ['*'], timeout: 50ms"))
	_, err := Open(p, "main", nil).Query(t.Context(), "WITH RECURSIVE t(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM t) SELECT count(*) FROM t", nil)
	if fault.CodeOf(err) != fault.ToolTimeout {
		t.Errorf("got %v", err)
	}
}

func TestALogThatIsWrittenAhead(t *testing.T) {
	file := makeShopNamed(t, "shop.db")
	d, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, s := range []string{"PRAGMA journal_mode = WAL", "INSERT INTO notes(body) VALUES('new')"} {
		if _, err := d.Exec(s); err != nil {
			t.Fatal(err)
		}
	}
	out, err := Open(permitFor(t, databasePolicy(file, "read: [notes]")), "main", nil).Query(t.Context(), "SELECT body FROM notes", nil)
	if err != nil || len(out.Rows) != 1 {
		t.Errorf("got %v, %v", out, err)
	}
}

func TestAnEndedPermitOpensNothing(t *testing.T) {
	p := permitFor(t, databasePolicy(makeShopNamed(t, "shop.db"), "read: ['*']"))
	p.End()
	if _, err := Open(p, "main", nil).Query(t.Context(), "SELECT 1", nil); fault.CodeOf(err) != fault.HandleRefused {
		t.Errorf("got %v", err)
	}
	if _, err := Open(permit.Permit{}, "main", nil).Query(t.Context(), "SELECT 1", nil); fault.CodeOf(err) != fault.HandleRefused {
		t.Errorf("got %v", err)
	}
}

func FuzzOneStatement(f *testing.F) {
	for _, s := range []string{"SELECT 1", "SELECT ';'", "SELECT 1;--", "SELECT /*", "SELECT \"a\"\"b\"", "SELECT [", "WITH t AS (SELECT 1) SELECT 1; SELECT 2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) { _ = oneStatement(s) })
}
