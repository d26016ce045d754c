package database

import (
	"bufio"
	"database/sql"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/remitrun/remit/internal/base/fault"
)

func TestValuesOfMariaDB(t *testing.T) {
	p := permitFor(t, mariaPolicy(mariaShop(t), `read: ["*"], write: [notes], max_rows: 2`))
	query := func(text string, params ...any) (Rows, error) {
		return Open(p, "main", nil).Query(t.Context(), text, params)
	}
	const list = `SELECT n, n * 9007199254740993 AS big, 9.50 AS exact, CAST(1.5 AS DOUBLE) AS f, NULL AS none, x'00ff' AS b, CAST('2026-01-02' AS DATE) AS day,
		18446744073709551615 AS most, 'ä' AS letter FROM (SELECT 1 AS n UNION SELECT 2 UNION SELECT 3) t`
	row := func(n int64, big int64) []any {
		return []any{n, big, "9.50", 1.5, nil, map[string]any{"base64": "AP8="}, "2026-01-02", "18446744073709551615", "ä"}
	}
	for _, limit := range []string{"", " LIMIT 1000"} { // with a LIMIT the server sends more than max_rows
		out, err := query(list + limit)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([][]any{row(1, 9007199254740993), row(2, 18014398509481986)}, out.Rows); diff != "" || !out.Truncated {
			t.Errorf("truncated %v: %s", out.Truncated, diff)
		}
	}
	for _, s := range []string{"' OR 1=1 --", "1; DROP TABLE notes", `"`, `\`, "?", "'; SELECT password FROM users; --", "%s {{.}} ${x}", "\xbf\x27 OR 1=1", "a\x00b", "縗' OR 1=1 #"} {
		out, err := query("SELECT hex(?) AS v, (SELECT count(*) FROM users WHERE name = ?) AS n", s, s)
		if strings.ContainsRune(s, '\ufffd') {
			if err == nil && out.Rows[0][1] != int64(0) {
				t.Errorf("%q: got %v", s, out.Rows)
			}
		} else if diff := cmp.Diff([][]any{{strings.ToUpper(fmt.Sprintf("%x", s)), int64(0)}}, out.Rows); err != nil || diff != "" {
			t.Errorf("%q: %v %s", s, err, diff)
		}
	}
	for _, params := range [][]any{nil, {"a", "b"}, {[]any{}}} {
		if _, err := query("SELECT ?", params...); fault.CodeOf(err) != fault.ArgsInvalid {
			t.Errorf("%v: got %v", params, err)
		}
	}
	if _, err := query("INSERT INTO notes(body) VALUES ('q')"); fault.CodeOf(err) != fault.ArgsInvalid {
		t.Errorf("a query changed rows: %v", err)
	}
	out, err := Open(p, "main", nil).Execute(t.Context(), "INSERT INTO notes(body) VALUES (?), (?)", []any{"v1", "v2"})
	if err != nil || out.Changed != 2 {
		t.Errorf("got %v, %v", out, err)
	}
	if _, err = Open(p, "main", nil).Execute(t.Context(), "INSERT INTO notes(body) VALUES ('v1')", nil); err == nil || !strings.Contains(err.Error(), "there is a row with that key") {
		t.Errorf("got %v", err)
	}
}

func TestSchemaOfMariaDBShowsWhatMayBeSeen(t *testing.T) {
	list, err := Open(permitFor(t, mariaPolicy(mariaShop(t), `read: ["users(id, name, password)", "sales.*", measures], write: [notes], deny: [users.password, measures.secret]`)), "main", nil).Schema(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, table := range list {
		for _, c := range table.Columns {
			got = append(got, table.Name+"."+c.Name+" "+c.Type+map[bool]string{true: " r"}[c.Read]+map[bool]string{true: " w"}[c.Write])
		}
	}
	want := []string{"measures.raw int(11) r", "notes.id int(11) w", "notes.body varchar(100) w", "users.id int(11) r", "users.name varchar(50) r",
		"sales.deals.id int(11) r", "sales.deals.amount decimal(10,2) r", "sales.deals.buyer text r"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestADenyByTheNameOfTheDatabase: the database of the URL has a name of its own.
func TestADenyByTheNameOfTheDatabase(t *testing.T) {
	at := mariaShop(t)
	for _, deny := range []string{"shop.users", "shop.users.password", "users.password", "SHOP.Users", "*.users.password"} {
		p := permitFor(t, mariaPolicy(at, `read: ["*"], deny: ["`+deny+`"]`))
		if _, err := Open(p, "main", nil).Query(t.Context(), "SELECT password FROM users", nil); fault.CodeOf(err) != fault.HandleRefused {
			t.Errorf("deny %s: got %v", deny, err)
		}
	}
}

func TestMariaDBEndsAStatementAtItsTime(t *testing.T) {
	p := permitFor(t, mariaPolicy(mariaShop(t), `read: ["*"], timeout: 400ms`))
	_, err := Open(p, "main", nil).Query(t.Context(), "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 100000) SELECT count(*) FROM t a, t b, t c", nil)
	if fault.CodeOf(err) != fault.ToolTimeout {
		t.Errorf("got %v", err)
	}
}

// TestAnAccountOfMariaDBHolds: the server refuses what the account may not do, and a table
// that the server tells too little of is refused by Remit.
func TestAnAccountOfMariaDBHolds(t *testing.T) {
	mariaShop(t)
	if err := mariaExec("shop", "CREATE USER narrow", "GRANT SELECT(id, name), INSERT, UPDATE, DELETE ON users TO narrow", "GRANT SELECT, INSERT ON notes TO narrow", "GRANT SELECT ON people TO narrow", "GRANT INSERT ON hidden TO narrow"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = mariaExec("", "DROP USER narrow") })
	p := permitFor(t, mariaPolicy(mariaURL("narrow", "shop"), `read: ["*"], write: ["*"]`))
	run := func(text string) error {
		_, err := Open(p, "main", nil).Execute(t.Context(), text, nil)
		return err
	}
	for text, want := range map[string]string{
		"SELECT name FROM users":                    "",
		"SELECT password FROM users":                "password",
		"SELECT * FROM users":                       "SELECT command denied",
		"SELECT name FROM people":                   "SHOW VIEW",
		"SELECT x FROM hidden":                      "SELECT command denied",
		"SELECT total FROM orders":                  "SELECT command denied",
		"INSERT INTO notes(body) VALUES ('n')":      "needs the right TRIGGER",
		"DELETE FROM users WHERE id = 77":           "needs the right TRIGGER",
		"UPDATE users SET name = 'n' WHERE id = 77": "needs the right TRIGGER",
	} {
		if err := run(text); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
	if err := mariaExec("shop", "GRANT TRIGGER ON shop.* TO narrow"); err != nil {
		t.Fatal(err)
	}
	if err := run("INSERT INTO notes(body) VALUES ('n')"); err != nil {
		t.Error(err)
	}
	if err := run("INSERT INTO watched VALUES (1)"); err == nil || !strings.Contains(err.Error(), "has a trigger") {
		t.Errorf("got %v", err)
	}
}

// TestMariaDBFindsItsOwnFunctionsFirst: no function of a database takes the place of one
// that statements may call, nor of a keyword that a parenthesis may follow.
func TestMariaDBFindsItsOwnFunctionsFirst(t *testing.T) {
	mariaShop(t)
	db, err := sql.Open("mysql", "root@unix("+maria.dir+"/s)/")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1)
	for _, s := range []string{"CREATE DATABASE own", "USE own", "CREATE TABLE one(a int)", "INSERT INTO one VALUES (1)"} {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	defer func() { _ = mariaExec("", "DROP DATABASE own") }()
	tried, made := 0, 0
	shown := func(call string) string { // as Remit writes the statement
		return printMaria(must(mariaShape("SELECT " + call + " FROM one")).tokens)
	}
	for _, list := range []map[string]bool{mariaFunctions(), mariaBefore()} {
		for name := range list {
			for n, parameters := range []string{"", "p0 int", "p0 int, p1 int"} {
				if _, err := db.ExecContext(t.Context(), "CREATE OR REPLACE FUNCTION `"+name+"`("+parameters+") RETURNS text RETURN 'of the database'"); err != nil {
					continue
				}
				made++
				var got sql.NullString
				call := name + " (" + []string{"", "1", "1, 1"}[n] + ")"
				if err := db.QueryRowContext(t.Context(), shown(call)).Scan(&got); err == nil && got.String == "of the database" {
					t.Errorf("%s calls a function of the database", call)
				}
				tried++
			}
		}
	}
	if made < 300 || tried < 300 {
		t.Errorf("%d functions were made: the test shows too little", made)
	}
}

// TestNoDatabaseOfTheServerIsUsed: its tables are not in the catalogue that decides.
func TestNoDatabaseOfTheServerIsUsed(t *testing.T) {
	mariaShop(t)
	for name, text := range map[string]string{"mysql": "SELECT user FROM user", "information_schema": "SELECT table_name FROM tables"} {
		p := permitFor(t, mariaPolicy(mariaURL("root", name), `read: [nothing]`))
		if out, err := Open(p, "main", nil).Query(t.Context(), text, nil); fault.CodeOf(err) != fault.HandleRefused {
			t.Errorf("%s: got %v, %v", name, out, err)
		}
	}
}

// TestSettingsOfTheServerDoNotMatter: each session has its own.
func TestSettingsOfTheServerDoNotMatter(t *testing.T) {
	at := mariaShop(t)
	if err := mariaExec("", "SET GLOBAL sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,IGNORE_SPACE,PIPES_AS_CONCAT'"); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = mariaExec("", "SET GLOBAL sql_mode = DEFAULT") }()
	out, err := Open(permitFor(t, mariaPolicy(at, `read: [users]`)), "main", nil).Query(t.Context(), `SELECT "password", 'a\'b', 1 || 0 FROM users WHERE id = 1`, nil)
	if diff := cmp.Diff([][]any{{"password", "a'b", int64(1)}}, out.Rows); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
}

// TestATableThatChangesMeanwhile: a view that is replaced after its analysis shows nothing,
// and a trigger that is made after it keeps nothing.
func TestATableThatChangesMeanwhile(t *testing.T) {
	at := mariaShop(t)
	d := permitFor(t, mariaPolicy(at, `read: ["*"]`)).Limits().Databases[0]
	d.Timeout = time.Minute
	if err := mariaExec("shop", "CREATE VIEW swapped AS SELECT name AS x FROM users", "CREATE TABLE plain(id int)"); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = mariaExec("shop", "DROP VIEW swapped", "DROP TABLE plain") }()
	for text, change := range map[string][]string{
		"SELECT x FROM swapped":        {"CREATE OR REPLACE VIEW swapped AS SELECT password AS x FROM users"},
		"INSERT INTO plain VALUES (1)": {"CREATE TRIGGER sudden BEFORE INSERT ON plain FOR EACH ROW INSERT INTO audit VALUES ('x')"},
	} {
		s, stop, err := openMaria(t.Context(), d, at, connector{check: d.Reach}, true)
		if err != nil {
			t.Fatal(err)
		}
		m, u, err := s.describe(text)
		if err != nil || len(u.refused) > 0 {
			t.Fatal(err, u.refused)
		}
		if err := mariaExec("shop", change...); err != nil {
			t.Fatal(err)
		}
		st, err := s.prepare(m, false)
		if err == nil {
			_, err = s.mariaRows(st, nil, true)
		}
		if err == nil {
			err = s.unchanged(text, u)
		}
		if err == nil || !strings.Contains(err.Error(), "were changed while") {
			t.Errorf("%s: got %v", text, err)
		}
		stop()
	}
}

// TestAStoredURLOfMariaDBIsNotShown: its password is in no error.
func TestAStoredURLOfMariaDBIsNotShown(t *testing.T) {
	at := mariaShop(t)
	p := permitFor(t, strings.SplitN(mariaPolicy(at, ""), "\n", 2)[0]+"\ndatabases: {main: {url: 'secret:shop', read: ['*']}}\n")
	if out, err := Open(p, "main", func(key string) (string, bool) { return at + "\n", key == "store:shop" }).Query(t.Context(), "SELECT 1", nil); err != nil || len(out.Rows) != 1 {
		t.Errorf("got %v, %v", out, err)
	}
	for _, text := range []string{
		"mariadb://u:geheim@10.1.2.3/db", "mariadb://u:geheim@h/db?allowAllFiles=true", "mariadb://u:geheim@h/db?sslmode=prefer", "mariadb://u:geheim@/db", "mariadb://u:geheim@h:99999/db",
		"mariadb://u:ge heim@[/db", "mariadb://u:geheim@h/db?socket=/tmp/s", "mariadb://u:geheim@/db?socket=geheim", "mysql://u:geheim@h", strings.Replace(at, "root", "geheim:geheim", 1),
	} {
		_, err := Open(p, "main", func(string) (string, bool) { return text, true }).Query(t.Context(), "SELECT 1", nil)
		if err == nil || strings.Contains(fault.Message(err)+err.Error(), "geheim") {
			t.Errorf("%q: got %v", text, err)
		}
	}
	role := permitFor(t, mariaPolicy(at, `read: ["*"]`))
	role.Limits().Databases[0].Role = "narrow"
	if _, err := Open(role, "main", nil).Query(t.Context(), "SELECT 1", nil); err == nil {
		t.Error("a role was taken")
	}
}

// A hostileServer speaks as much of MariaDB's protocol as it needs to ask for a file.
func hostileServer(t *testing.T, version string, answer []byte) (at string, asked func() []string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	var mu sync.Mutex
	var got []string
	serve := func(c net.Conn) {
		defer func() { _ = c.Close() }()
		in := bufio.NewReader(c)
		send := func(seq byte, body []byte) {
			head := binary.LittleEndian.AppendUint32(nil, uint32(len(body))) //nolint:gosec // short
			_, _ = c.Write(append(append(head[:3], seq), body...))
		}
		receive := func() (byte, []byte) {
			head := make([]byte, 4)
			if _, err := io.ReadFull(in, head); err != nil {
				return 0, nil
			}
			body := make([]byte, int(head[0])|int(head[1])<<8|int(head[2])<<16)
			_, _ = io.ReadFull(in, body)
			return head[3], body
		}
		hello := append([]byte{10}, version...)
		hello = append(hello, 0, 1, 0, 0, 0)
		hello = append(hello, "12345678\x00"...)
		hello = append(hello, 0xff, 0xf7, 45, 2, 0, 0xff, 0x81, 21)
		hello = append(append(hello, make([]byte, 10)...), "123456789012\x00mysql_native_password\x00"...)
		send(0, hello)
		seq, _ := receive()
		send(seq+1, []byte{0, 0, 0, 2, 0, 0, 0})
		for {
			seq, body := receive()
			if body == nil {
				return
			}
			mu.Lock()
			got = append(got, string(body))
			mu.Unlock()
			send(seq+1, answer)
		}
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()
	return l.Addr().String(), func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(got)
	}
}

// TestAHostileServerGetsNoFile: it asks for a file of the client instead of an answer.
func TestAHostileServerGetsNoFile(t *testing.T) {
	at, asked := hostileServer(t, "5.5.5-10.11.0-MariaDB", append([]byte{0xfb}, "/etc/passwd"...))
	p := permitFor(t, "network: {allow: ['tcp://"+at+"']}\ndatabases: {main: {url: 'mariadb://u@"+at+"/db?sslmode=disable', read: ['*']}}\n")
	if _, err := Open(p, "main", nil).Query(t.Context(), "SELECT 1", nil); err == nil {
		t.Error("the server's answer was taken")
	}
	for _, packet := range asked() {
		if strings.Contains(packet, "root:") {
			t.Errorf("the server got %q", packet)
		}
	}
	if len(asked()) == 0 {
		t.Error("the server was asked nothing: the test shows nothing")
	}
	at, asked = hostileServer(t, "5.5.5-10.11.0-MariaDB", []byte{0, 0, 0, 2, 0, 0, 0})
	secured := permitFor(t, "network: {allow: ['tcp://"+at+"']}\ndatabases: {main: {url: 'mariadb://u@"+at+"/db', read: ['*']}}\n")
	if _, err := Open(secured, "main", nil).Query(t.Context(), "SELECT 1", nil); err == nil || len(asked()) != 0 {
		t.Errorf("a server without TLS was used: %v", err)
	}
}

func FuzzMariaShape(f *testing.F) {
	for _, s := range []string{"SELECT 1", "SELECT a.b FROM `c``d` /* x */ -- y", "INSERT INTO t(a) VALUES ('\\'')", "UPDATE t SET a = (1)", "((", "SELECT -- \n 1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		m, err := mariaShape(s)
		if err != nil {
			return
		}
		text := printMaria(m.tokens)
		again, err := mariaShape(text)
		if err != nil || printMaria(again.tokens) != text || len(again.tokens) != len(m.tokens) {
			t.Errorf("%q is printed as %q, which is another statement: %v", s, text, err)
		}
	})
}
