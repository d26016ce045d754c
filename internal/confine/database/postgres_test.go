package database

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/racetest"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/store/postgres/postgrestest"
)

var server *postgrestest.Server

func TestMain(m *testing.M) {
	status := postgrestest.Main(m, func(s *postgrestest.Server) { server = s })
	stopMaria()
	os.Exit(status)
}

var shopOnce sync.Once

// pgShop returns the URL of the tests' database on the server, which the first test makes.
func pgShop(t testing.TB) string {
	t.Helper()
	server.Schema(t, "x") // skips the test where there is no server
	shopOnce.Do(func() {
		b, err := os.ReadFile("testdata/postgres.sql")
		if err != nil {
			t.Fatal(err)
		}
		server.Exec(t, "public", string(b))
	})
	return "postgres://remit@/postgres?host=" + url.QueryEscape(server.Socket)
}

// pgPolicy is a policy for the database on the server.
func pgPolicy(at, rest string) string {
	u := must(url.Parse(at))
	return fmt.Sprintf("network: {allow: [%q]}\ndatabases: {main: {url: %q, %s}}\n", "unix:"+u.Query().Get("host")+"/.s.PGSQL.5432", at, rest)
}

// pgDatabase is the database as a policy gives it.
func pgDatabase(t testing.TB, text string) policy.Database {
	t.Helper()
	return permitFor(t, text).Limits().Databases[0]
}

// pgStatements are those of testdata/postgres.txt: all, or without those that are refused
// before anything is decided, but for ten.
func pgStatements(t testing.TB, all bool) []string {
	t.Helper()
	var out []string
	refused := 0
	for _, line := range strings.Split(string(must(os.ReadFile("testdata/postgres.txt"))), "\n") {
		switch {
		case line != "" && line[0] != '\t':
			out = append(out, line)
		case strings.HasPrefix(line, "\trefused: ") && refused < 10:
			refused++
		case !all && (strings.HasPrefix(line, "\terror: ") || strings.HasPrefix(line, "\trefused: ")):
			out = out[:len(out)-1]
		}
	}
	return out
}

// TestStatementsOfPostgres compares what statements use with testdata/postgres.txt, and
// with what the server refuses to roles that lack one column or table each.
func TestStatementsOfPostgres(t *testing.T) {
	racetest.Skip(t, "one goroutine parses")
	const golden = "testdata/postgres.txt"
	d := pgDatabase(t, pgPolicy(pgShop(t), `read: ["*"]`))
	o := newOracle(t)
	d.Timeout = 10 * time.Minute // of all statements together
	s, stop, err := openServer(t.Context(), d, d.Server, connector{check: d.Reach}, false)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	var b strings.Builder
	for _, line := range pgStatements(t, true) {
		b.WriteString(line + "\n")
		if _, err := s.conn.Exec(t.Context(), "SAVEPOINT a").ReadAll(); err != nil {
			t.Fatal(err)
		}
		_, u, err := s.describe(line)
		if _, err := s.conn.Exec(t.Context(), "ROLLBACK TO a; DEALLOCATE ALL").ReadAll(); err != nil {
			t.Fatal(err)
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
	if o.refused < 80 || o.allowed < 1000 {
		t.Errorf("the server refused %d times and allowed %d times: the test shows too little", o.refused, o.allowed)
	}
}

func pgDescribed(u uses, err error) (out []string) {
	if err != nil {
		return []string{"error: " + fault.Message(err)}
	}
	for _, r := range u.refused {
		return []string{"refused: " + r.Refused}
	}
	for _, part := range []struct {
		word string
		list []tool.TableUse
	}{{"reads", u.read}, {"writes", u.written}} {
		var names []string
		for _, use := range part.list {
			names = append(names, use.String())
		}
		slices.Sort(names)
		if len(names) > 0 {
			out = append(out, part.word+" "+strings.Join(names, " "))
		}
	}
	if len(out) == 0 {
		out = []string{"uses no table"}
	}
	return out
}

// oracle asks the server itself: each of its roles may do all but one thing.
type oracle struct {
	server           *serverVersion
	conn             *pgx.Conn
	lacks            map[string]lack // by role
	refused, allowed int
}

type lack struct {
	kind          tool.ActionKind
	table, column string
}

func newOracle(t *testing.T) *oracle {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), server.URL("public"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	o := &oracle{server: newServerVersion(t, "PostgreSQL", conn.PgConn().ParameterStatus("server_version")), conn: conn, lacks: map[string]lack{}}
	columns := map[string][]string{"users": {"id", "name", "password", "born"}, "orders": {"id", `"user"`, "total", "day", "tags", "data"}, "notes": {"id", "body"}, "hidden": {"x"}, "sales.deals": {"id", "amount", "buyer"}}
	watched := []string{"users.name", "users.password", `orders."user"`, "orders.total", "notes.body", "hidden.x", "sales.deals.amount"}
	var b strings.Builder
	for table, names := range columns {
		for i, name := range names {
			if !slices.Contains(watched, table+"."+name) {
				continue
			}
			for _, k := range []tool.ActionKind{tool.TableRead, tool.TableWrite} {
				role := fmt.Sprintf("o%d", len(o.lacks))
				o.lacks[role] = lack{k, table, strings.Trim(name, `"`)}
				others := strings.Join(slices.Delete(slices.Clone(names), i, i+1), ", ")
				fmt.Fprintf(&b, "CREATE ROLE %[1]s; GRANT ALL ON SCHEMA public, sales TO %[1]s; GRANT ALL ON ALL TABLES IN SCHEMA public, sales TO %[1]s; GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO %[1]s;\n", role)
				priv := map[tool.ActionKind][]string{tool.TableRead: {"SELECT"}, tool.TableWrite: {"UPDATE"}}[k]
				for _, p := range priv {
					fmt.Fprintf(&b, "REVOKE %s ON %s FROM %s;\n", p, table, role)
					if others != "" {
						fmt.Fprintf(&b, "GRANT %s(%s) ON %s TO %s;\n", p, others, table, role)
					}
				}
			}
		}
	}
	if _, err := conn.Exec(t.Context(), b.String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for role := range o.lacks {
			if _, err := conn.Exec(context.Background(), "DROP OWNED BY "+role+"; DROP ROLE "+role); err != nil {
				t.Error(err)
			}
		}
	})
	return o
}

// compare has each role explain a statement, which checks privileges and runs nothing.
func (o *oracle) compare(t *testing.T, statement string, u uses) {
	t.Helper()
	through := false
	for _, use := range slices.Concat(u.read, u.written) { // views and rules use tables as their owner
		if use.Table == "guarded" { // row security holds for the roles, and not for who owns the table
			return
		}
		through = through || slices.Contains([]string{"people", "logins", "nested", "guarded", "ruled", "audit"}, use.Table)
	}
	changes := len(u.written) > 0
	for role, l := range o.lacks {
		list := u.read
		if l.kind == tool.TableWrite {
			list = u.written
		}
		names := func(t tool.TableUse) bool {
			table := strings.TrimPrefix(t.Schema+"."+t.Table, "public.")
			return table == l.table && (t.Column == l.column || t.Column == "*" || t.Column == "" && table == "hidden") // which has one column
		}
		named := slices.ContainsFunc(list, names)
		_, err := o.conn.Exec(t.Context(), "BEGIN; SET LOCAL ROLE "+role+"; EXPLAIN (COSTS OFF) "+placeholders(statement)+"\n; ROLLBACK", pgx.QueryExecModeSimpleProtocol)
		if err != nil {
			_, _ = o.conn.Exec(t.Context(), "ROLLBACK")
		}
		denied := err != nil && strings.Contains(err.Error(), "permission denied for table")
		switch {
		case err != nil && !denied && !strings.Contains(err.Error(), "permission denied"):
			return // it cannot be explained as a text
		case denied:
			o.refused++
		default:
			o.allowed++
		}
		if denied && !named {
			o.server.stricter("%s: the server refuses it without %v, which is not among its uses %v", statement, l, pgDescribed(u, nil))
		}
		if named && !denied && !through && !changes {
			t.Errorf("%s: the server allows it without %v, which is among its uses %v", statement, l, pgDescribed(u, nil))
		}
	}
}

func placeholders(s string) string {
	return strings.TrimSuffix(strings.NewReplacer("$1::int", "1", "id = $1", "id = 1", "$1", "'a'", "$2", "'b'").Replace(s), ";")
}

// pgDump is all that the tests' tables hold.
func pgDump(t *testing.T) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), server.URL("public"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	var out strings.Builder
	for _, table := range []string{"users", "orders", "notes", "audit", "hidden", "measures", "events", "sales.deals", "watched", "ruled"} {
		rows, err := conn.Query(t.Context(), "SELECT row_to_json(t)::text FROM "+table+" t ORDER BY 1")
		if err != nil {
			t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		out.WriteString(table + ": " + strings.Join(lines, " ") + "\n")
	}
	return out.String()
}

// TestNoStatementReachesWhatIsDeniedInPostgres runs all statements as the server's superuser
// under a policy with a denied column and table: none shows or changes either.
func TestNoStatementReachesWhatIsDeniedInPostgres(t *testing.T) {
	at := pgShop(t)
	rest := `read: ["*", "sales.*"], deny: [users.password, hidden, measures.secret]`
	query, execute := permitFor(t, pgPolicy(at, rest)), permitFor(t, pgPolicy(at, rest+`, write: ["*"]`))
	was, ran := pgDump(t), 0
	for _, line := range pgStatements(t, false) {
		out, err := Open(query, "main", nil).Query(t.Context(), line, pgParams(line))
		if err == nil {
			ran++
		}
		if text := string(must(json.Marshal(out))); strings.Contains(text, "secret-of") || strings.Contains(text, "777123777") || strings.Contains(text, "1554247554") || err != nil && strings.Contains(err.Error(), "secret-of") {
			t.Errorf("%s: got %s, %v", line, text, err)
		}
	}
	if is := pgDump(t); is != was {
		t.Errorf("queries changed the database from\n%s to\n%s", was, is)
	}
	if ran < 60 {
		t.Errorf("%d statements ran: the test shows too little", ran)
	}
	changed := 0
	for _, line := range pgStatements(t, false) {
		if strings.HasPrefix(line, "SELECT ") && !strings.Contains(line, ";") {
			continue // it ran above
		}
		out, err := Open(execute, "main", nil).Execute(t.Context(), line, pgParams(line))
		if err == nil && out.Changed > 0 {
			changed++
		}
		if text := string(must(json.Marshal(out))); strings.Contains(text, "secret-of") || err != nil && strings.Contains(err.Error(), "secret-of") {
			t.Errorf("%s: got %s, %v", line, text, err)
		}
	}
	if is := pgDump(t); strings.Count(is, "secret-of") != strings.Count(was, "secret-of") || !strings.Contains(is, `{"x":"secret-of-hidden"}`) || !strings.Contains(is, `"password":"secret-of-ada"`) {
		t.Errorf("statements changed or copied what is denied: %s", is)
	}
	if changed < 6 {
		t.Errorf("%d statements changed rows: the test shows too little", changed)
	}
}

// pgParams are values for the parameters of a statement.
func pgParams(statement string) []any {
	switch {
	case strings.Contains(statement, "$2"):
		return []any{int64(1), "Ada"}
	case strings.Contains(statement, "$1"):
		return []any{"1"}
	}
	return nil
}
