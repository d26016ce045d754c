package database

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/remitrun/remit/internal/base/racetest"
	"github.com/remitrun/remit/internal/base/tool"
)

// maria is the server of MariaDB for all tests of the package.
var maria struct {
	once           sync.Once
	program, share string // of the server
	dir            string
	server         *exec.Cmd
	err            error
}

// mariaServer returns the server's program and the folder of its SQL files. Both are below
// REMIT_MARIADB, where it is set: the usr folder of an unpacked server package.
func mariaServer() (program, share string, err error) {
	usr := os.Getenv("REMIT_MARIADB")
	program = usr + "/sbin/mariadbd"
	if usr == "" {
		usr, program = "/usr", "mariadbd"
	}
	if program, err = exec.LookPath(program); err != nil {
		return "", "", err
	}
	found, err := filepath.Glob(usr + "/share/m*/m*_system_tables.sql")
	if err != nil || len(found) != 1 {
		return "", "", fmt.Errorf("expected one m*_system_tables.sql below %s/share, got %v, %w", usr, found, err)
	}
	return program, filepath.Dir(found[0]), nil
}

// mariaDaemon makes a command of the server, as an ordinary user: it refuses root.
func mariaDaemon(args ...string) *exec.Cmd {
	line := append([]string{maria.program, "--no-defaults", "--lc-messages-dir=" + maria.share, "--character-sets-dir=" + maria.share + "/charsets", "--datadir=" + maria.dir + "/data", "--tmpdir=" + maria.dir, "--innodb-flush-log-at-trx-commit=0",
		"--innodb-log-file-size=4M", "--innodb-buffer-pool-size=16M", "--log-warnings=0", "--loose-innodb-doublewrite=OFF"}, args...)
	if os.Geteuid() == 0 {
		line = append([]string{"setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"}, line...)
	}
	return exec.Command(line[0], line[1:]...)
}

// startMaria starts the server and makes the tests' database.
func startMaria() error {
	var err error
	if maria.program, maria.share, err = mariaServer(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "my") // short: the path of a socket has at most 107 bytes
	if err != nil {
		return err
	}
	maria.dir = dir
	if err := errors.Join(os.Mkdir(dir+"/data", 0o777), os.Chmod(dir, 0o777), os.Chmod(dir+"/data", 0o777)); err != nil {
		return err
	}
	boot := bytes.NewBufferString("create database mysql;\nuse mysql;\n")
	for _, part := range []string{"/m*_system_tables.sql", "/m*_system_tables_data.sql"} {
		found, err := filepath.Glob(maria.share + part)
		if err != nil || len(found) != 1 {
			return fmt.Errorf("expected one %s in %s, got %v, %w", part, maria.share, found, err)
		}
		b, err := os.ReadFile(found[0])
		if err != nil {
			return err
		}
		boot.Write(b)
	}
	cmd := mariaDaemon("--bootstrap")
	cmd.Stdin = boot
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	maria.server = mariaDaemon("--socket="+dir+"/s", "--skip-networking", "--pid-file="+dir+"/pid", "--log-error="+dir+"/log", "--event-scheduler=OFF", "--character-set-server=utf8mb4")
	if err := maria.server.Start(); err != nil {
		return err
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		db, err := sql.Open("mysql", "root@unix("+dir+"/s)/")
		if err == nil {
			err = errors.Join(db.PingContext(context.Background()), db.Close())
		}
		if err == nil {
			break
		}
		if time.Now().After(end) {
			log, _ := os.ReadFile(dir + "/log")
			return fmt.Errorf("%w: %s", err, log)
		}
	}
	return mariaExec("", append([]string{"CREATE DATABASE shop", "USE shop"}, strings.Split(strings.TrimSpace(string(must(os.ReadFile("testdata/maria.sql")))), "\n")...)...)
}

func stopMaria() {
	if maria.server != nil {
		_ = maria.server.Process.Signal(os.Interrupt)
		_ = maria.server.Process.Kill() // nothing of it is kept
		_ = maria.server.Wait()
	}
	if maria.dir != "" {
		_ = os.RemoveAll(maria.dir)
	}
}

// mariaExec runs statements as the server's superuser.
func mariaExec(database string, lines ...string) error {
	db, err := sql.Open("mysql", "root@unix("+maria.dir+"/s)/"+database)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1)
	for _, l := range lines {
		if _, err := db.ExecContext(context.Background(), l); err != nil {
			return fmt.Errorf("%s: %w", l, err)
		}
	}
	return nil
}

// mariaShop returns the URL of the tests' database, which the first test makes.
func mariaShop(t testing.TB) string {
	t.Helper()
	maria.once.Do(func() { maria.err = startMaria() })
	if errors.Is(maria.err, exec.ErrNotFound) && os.Getenv("CI") == "" {
		t.Skip("MariaDB is not installed: apt-get install mariadb-server-core")
	}
	if maria.err != nil {
		t.Fatal(maria.err)
	}
	return mariaURL("root", "shop")
}

func mariaURL(user, name string) string {
	return "mariadb://" + user + "@/" + name + "?socket=" + url.QueryEscape(maria.dir+"/s")
}

// mariaPolicy is a policy for a database on the server.
func mariaPolicy(at, rest string) string {
	u := must(url.Parse(at))
	return fmt.Sprintf("network: {allow: [%q]}\ndatabases: {main: {url: %q, %s}}\n", "unix:"+u.Query().Get("socket"), at, rest)
}

func mariaStatements(t testing.TB, all bool) (out []string) {
	t.Helper()
	for _, line := range strings.Split(string(must(os.ReadFile("testdata/maria.txt"))), "\n") {
		switch {
		case line != "" && line[0] != '\t':
			out = append(out, line)
		case !all && (strings.HasPrefix(line, "\terror: ") || strings.HasPrefix(line, "\trefused: ")):
			out = out[:len(out)-1]
		}
	}
	return out
}

// TestStatementsOfMariaDB compares what statements use with testdata/maria.txt, and with
// what the server refuses to accounts that lack one column each.
func TestStatementsOfMariaDB(t *testing.T) {
	racetest.Skip(t, "one goroutine parses")
	const golden = "testdata/maria.txt"
	at := mariaShop(t)
	d := permitFor(t, mariaPolicy(at, `read: ["*"]`)).Limits().Databases[0]
	d.Timeout = 10 * time.Minute // of all statements together
	o := newMariaOracle(t)
	s, stop, err := openMaria(t.Context(), d, at, connector{check: d.Reach}, true)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	o.server = newServerVersion(t, "MariaDB", must(s.texts("SELECT VERSION()"))[0][0])
	var b strings.Builder
	for _, line := range mariaStatements(t, true) {
		b.WriteString(line + "\n")
		m, u, err := s.describe(line)
		if err == nil && len(u.refused) == 0 {
			var st *sql.Stmt
			if st, err = s.prepare(m, false); err == nil {
				_ = st.Close()
			}
		}
		for _, l := range pgDescribed(u, err) {
			b.WriteString("\t" + l + "\n")
		}
		if err == nil && len(u.refused) == 0 {
			o.compare(t, line, u)
		}
	}
	if os.Getenv("UPDATE_STATEMENTS") != "" {
		if err := os.WriteFile(golden, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o.server.compare(string(must(os.ReadFile(golden))), b.String())
	if len(o.wide) > 60 { // four statements, for some accounts each
		t.Errorf("the uses are wider than what the server asks for:\n%s", strings.Join(o.wide, "\n"))
	}
	if o.refused < 150 || o.allowed < 1000 {
		t.Errorf("the server refused %d times and allowed %d times: the test shows too little", o.refused, o.allowed)
	}
}

// mariaOracle asks the server itself: each of its accounts may do all but one thing.
type mariaOracle struct {
	server           *serverVersion
	accounts         map[string]*sql.DB
	lacks            map[string]lack
	refused, allowed int
	wide             []string // statements whose uses are more than the server asks for
}

func newMariaOracle(t *testing.T) *mariaOracle {
	t.Helper()
	o := &mariaOracle{accounts: map[string]*sql.DB{}, lacks: map[string]lack{}}
	columns := map[string][]string{"users": {"id", "name", "password", "born"}, "orders": {"id", "user", "total", "day", "data"}, "notes": {"id", "body"}, "hidden": {"x"}, "deals": {"id", "amount", "buyer"}}
	watched := []string{"users.id", "users.name", "users.password", "users.born", "orders.user", "orders.total", "orders.day", "notes.body", "notes.id", "hidden.x", "deals.amount"}
	var lines []string
	for table, names := range columns {
		for _, name := range names {
			if !slices.Contains(watched, table+"."+name) {
				continue
			}
			for _, k := range []tool.ActionKind{tool.TableRead, tool.TableWrite} {
				user := fmt.Sprintf("o%d", len(o.lacks))
				o.lacks[user] = lack{k, table, name}
				lines = append(lines, "CREATE USER "+user)
				for other, names := range columns {
					in := "shop." + other
					if other == "deals" {
						in = "sales.deals"
					}
					verbs := []string{"SELECT", "INSERT", "UPDATE", "DELETE"}
					if other == table { // DELETE cannot be granted by column
						lines = append(lines, "GRANT DELETE ON "+in+" TO "+user)
						for _, v := range verbs[:3] {
							rest := slices.Clone(names)
							if (v == "SELECT") == (k == tool.TableRead) {
								rest = slices.DeleteFunc(rest, func(n string) bool { return n == name })
							}
							if len(rest) > 0 {
								lines = append(lines, "GRANT "+v+"("+strings.Join(rest, ", ")+") ON "+in+" TO "+user)
							}
						}
						continue
					}
					lines = append(lines, "GRANT "+strings.Join(verbs, ", ")+" ON "+in+" TO "+user)
				}
				for _, other := range []string{"audit", "measures", "copies", "kept", "people", "logins", "nested", "quoted", "Cased", "cased", "`odd name (x`", "`größe`"} {
					lines = append(lines, "GRANT SELECT, INSERT, UPDATE, DELETE ON shop."+other+" TO "+user)
				}
			}
		}
	}
	if err := mariaExec("shop", lines...); err != nil {
		t.Fatal(err)
	}
	for user := range o.lacks {
		db, err := sql.Open("mysql", user+"@unix("+maria.dir+"/s)/shop")
		if err != nil {
			t.Fatal(err)
		}
		o.accounts[user] = db
		t.Cleanup(func() {
			_ = db.Close()
			if err := mariaExec("", "DROP USER "+user); err != nil {
				t.Error(err)
			}
		})
	}
	return o
}

// compare has each account prepare a statement, which checks privileges and runs nothing.
func (o *mariaOracle) compare(t *testing.T, statement string, u uses) {
	t.Helper()
	through := slices.ContainsFunc(u.read, func(use tool.TableUse) bool { // views use tables as who defined them
		return slices.Contains([]string{"people", "logins", "nested", "quoted"}, use.Table)
	})
	for user, l := range o.lacks {
		list := u.read
		if l.kind == tool.TableWrite {
			list = u.written
		}
		named := slices.ContainsFunc(list, func(use tool.TableUse) bool {
			return use.Table == l.table && (use.Column == l.column || use.Column == "*" || use.Column == "" && l.table == "hidden") // which has one column
		})
		st, err := o.accounts[user].PrepareContext(t.Context(), printMaria(must(mariaShape(statement)).tokens))
		if err == nil {
			_ = st.Close()
		}
		var e *mysql.MySQLError
		denied := errors.As(err, &e) && (e.Number == 1142 || e.Number == 1143)
		switch {
		case err != nil && !denied:
			t.Errorf("%s: the server cannot prepare it without %v: %v", statement, l, err)
		case denied:
			o.refused++
		default:
			o.allowed++
		}
		if denied && !named && !mariaReadsWhatItInserts(statement, u, l) {
			o.server.stricter("%s: the server refuses it without %v, which is not among its uses %v", statement, l, pgDescribed(u, nil))
		}
		if named && !denied && !through && len(u.written) == 0 {
			o.wide = append(o.wide, statement)
		}
	}
}

// mariaReadsWhatItInserts reports whether a right is one that MariaDB requires since 10.11.18
// without need: INSERT … RETURNING requires SELECT on the columns that it sets, too. The
// statement returns none of them, so they are not among its uses.
func mariaReadsWhatItInserts(statement string, u uses, l lack) bool {
	return l.kind == tool.TableRead && strings.HasPrefix(statement, "INSERT ") && strings.Contains(statement, " RETURNING ") &&
		slices.ContainsFunc(u.written, func(use tool.TableUse) bool { return use.Table == l.table })
}

// mariaDump is all that the tests' tables hold.
func mariaDump(t *testing.T) string {
	t.Helper()
	db, err := sql.Open("mysql", "root@unix("+maria.dir+"/s)/shop")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	var out strings.Builder
	for _, table := range []string{"users", "orders", "notes", "audit", "hidden", "measures", "copies", "kept", "watched", "sales.deals"} {
		rows, err := db.QueryContext(t.Context(), "SELECT * FROM "+table+" ORDER BY 1")
		if err != nil {
			t.Fatal(err)
		}
		columns := must(rows.Columns())
		for rows.Next() {
			row, into := make([]sql.NullString, len(columns)), make([]any, len(columns))
			for i := range row {
				into[i] = &row[i]
			}
			if err := rows.Scan(into...); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&out, "%s: %v\n", table, row)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

// TestNoStatementReachesWhatIsDeniedInMariaDB runs all statements as the server's superuser
// under a policy with a denied column and table: none shows or changes either.
func TestNoStatementReachesWhatIsDeniedInMariaDB(t *testing.T) {
	at := mariaShop(t)
	rest := `read: ["*", "sales.*"], deny: [users.password, hidden, measures.secret, copies.secret]`
	query, execute := permitFor(t, mariaPolicy(at, rest)), permitFor(t, mariaPolicy(at, rest+`, write: ["*"]`))
	was, ran, changed := mariaDump(t), 0, 0
	params := func(line string) []any { return []any{int64(1), "Ada"}[:min(2, strings.Count(line, "?"))] }
	for _, line := range mariaStatements(t, false) {
		out, err := Open(query, "main", nil).Query(t.Context(), line, params(line))
		if err == nil {
			ran++
		}
		if text := string(must(json.Marshal(out))); strings.Contains(text, "secret-of") || strings.Contains(text, "777123777") || strings.Contains(text, "1554247554") || err != nil && strings.Contains(err.Error(), "secret-of") {
			t.Errorf("%s: got %s, %v", line, text, err)
		}
	}
	if is := mariaDump(t); is != was {
		t.Errorf("queries changed the database from\n%s to\n%s", was, is)
	}
	for _, line := range mariaStatements(t, false) {
		if strings.HasPrefix(line, "SELECT ") {
			continue // it ran above
		}
		out, err := Open(execute, "main", nil).Execute(t.Context(), line, params(line))
		if err == nil && out.Changed > 0 {
			changed++
		}
		if text := string(must(json.Marshal(out))); strings.Contains(text, "secret-of") || err != nil && strings.Contains(err.Error(), "secret-of") {
			t.Errorf("%s: got %s, %v", line, text, err)
		}
	}
	if is := mariaDump(t); strings.Count(is, "secret-of") != strings.Count(was, "secret-of") || strings.Count(is, "777123777") != strings.Count(was, "777123777") {
		t.Errorf("statements changed or copied what is denied: %s", is)
	}
	if ran < 60 || changed < 8 {
		t.Errorf("%d queries ran and %d statements changed rows: the test shows too little", ran, changed)
	}
}
