package database

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

func TestValuesOfPostgres(t *testing.T) {
	p := permitFor(t, pgPolicy(pgShop(t), `read: ["*"], write: [notes], max_rows: 2`))
	out, err := Open(p, "main", nil).Query(t.Context(), `SELECT n, n::bigint * 9007199254740993 AS big, 9.50::numeric AS exact, 1.5::float8 AS f, n = 1 AS t, NULL AS none,
		'\x00ff'::bytea AS b, date '2026-01-02' AS day, 'NaN'::float8 AS nan, '{a,b}'::text[] AS list, '{"k":1}'::jsonb AS j FROM generate_series(1, 5) AS n`, nil)
	if err != nil {
		t.Fatal(err)
	}
	row := func(n int64, big int64) []any {
		return []any{n, big, "9.50", 1.5, n == 1, nil, map[string]any{"base64": "AP8="}, "2026-01-02", nil, "{a,b}", `{"k": 1}`}
	}
	if diff := cmp.Diff([][]any{row(1, 9007199254740993), row(2, 18014398509481986)}, out.Rows); diff != "" || !out.Truncated {
		t.Errorf("truncated %v: %s", out.Truncated, diff)
	}
	notes, _ := p.Happened()
	if len(notes) != 0 {
		t.Errorf("noted %v", notes)
	}
	for _, s := range []string{"' OR 1=1 --", "1; DROP TABLE notes", `"`, `\`, "$1", "'; SELECT password FROM users; --", "%s {{.}} ${x}"} {
		out, err := Open(p, "main", nil).Query(t.Context(), "SELECT $1 AS v, (SELECT count(*) FROM users WHERE name = $1) AS n", []any{s})
		if diff := cmp.Diff([][]any{{s, int64(0)}}, out.Rows); err != nil || diff != "" {
			t.Errorf("%q: %v %s", s, err, diff)
		}
	}
	for _, params := range [][]any{nil, {"a", "b"}, {"a\x00"}, {[]any{}}} {
		if _, err := Open(p, "main", nil).Query(t.Context(), "SELECT $1::text", params); fault.CodeOf(err) != fault.ArgsInvalid {
			t.Errorf("%v: got %v", params, err)
		}
	}
	if _, err := Open(p, "main", nil).Query(t.Context(), "INSERT INTO notes(body) VALUES ('q')", nil); fault.CodeOf(err) != fault.ArgsInvalid {
		t.Errorf("a query changed rows: %v", err)
	}
}

func TestSchemaOfPostgresShowsWhatMayBeSeen(t *testing.T) {
	list, err := Open(permitFor(t, pgPolicy(pgShop(t), `read: ["users(id, name, password)", "sales.*", measures], write: [notes], deny: [users.password, measures.secret]`)), "main", nil).Schema(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, table := range list {
		for _, c := range table.Columns {
			got = append(got, table.Name+"."+c.Name+" "+c.Type+map[bool]string{true: " r"}[c.Read]+map[bool]string{true: " w"}[c.Write])
		}
	}
	want := []string{"measures.raw integer r", "notes.id integer w", "notes.body text w", "users.id integer r", "users.name text r", "sales.deals.id integer r", "sales.deals.amount numeric r", "sales.deals.buyer text r"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestPostgresEndsAStatementAtItsTime(t *testing.T) {
	p := permitFor(t, pgPolicy(pgShop(t), `read: ["*"], timeout: 300ms`))
	_, err := Open(p, "main", nil).Query(t.Context(), "SELECT count(*) FROM generate_series(1, 100000000000)", nil)
	if fault.CodeOf(err) != fault.ToolTimeout {
		t.Errorf("got %v", err)
	}
}

// TestARoleOfPostgresHolds: the server itself refuses what the role may not do, also where
// the policy allows it, and a statement cannot leave the role.
func TestARoleOfPostgresHolds(t *testing.T) {
	at := pgShop(t)
	p := permitFor(t, pgPolicy(at, `read: ["*"], write: ["*"], role: narrow`))
	if out, err := Open(p, "main", nil).Query(t.Context(), "SELECT name, current_user FROM users", nil); err != nil || out.Rows[0][1] != "narrow" {
		t.Errorf("got %v, %v", out, err)
	}
	for _, s := range []string{"SELECT password FROM users", "SELECT x FROM hidden"} {
		if _, err := Open(p, "main", nil).Query(t.Context(), s, nil); err == nil || !strings.Contains(err.Error(), "permission denied for table") {
			t.Errorf("%s: got %v", s, err)
		}
	}
	if _, err := Open(p, "main", nil).Execute(t.Context(), "DELETE FROM notes", nil); err == nil || !strings.Contains(err.Error(), "permission denied for table") {
		t.Errorf("got %v", err)
	}
}

// TestOnlyTheFirstPolicySaysWhichServer: the holder of a grant could else narrow it to any
// server, any secret and any role.
func TestOnlyTheFirstPolicySaysWhichServer(t *testing.T) {
	at := pgShop(t)
	named, open := pgPolicy(at, `read: ["*"], role: postgres_reader`), pgPolicy(at, `read: ["*"]`)
	rest := strings.SplitN(open, "\n", 2)[0] + "\n"
	for name, c := range map[string]struct {
		chain []string
		ok    bool
	}{
		"the first":                  {[]string{named, rest + "databases: {main: {read: ['*']}}\n"}, true},
		"both":                       {[]string{named, named}, true},
		"repeated without the role":  {[]string{named, open}, true},
		"only the second":            {[]string{rest + "databases: {main: {read: ['*']}}\n", open}, false},
		"another role":               {[]string{open, named}, false},
		"a secret behind a file":     {[]string{rest + "databases: {main: {url: 'sqlite:x.db', read: ['*']}}\n", rest + "databases: {main: {url: 'secret:prod', read: ['*']}}\n"}, false},
		"a network that is narrower": {[]string{open, "network: {allow: [a.example]}\ndatabases: {main: {read: ['*']}}\n"}, false},
		"no network":                 {[]string{strings.SplitN(open, "\n", 2)[1]}, false},
		"asks for the socket":        {[]string{strings.Replace(open, "allow", "ask", 1)}, false},
		"a denied column":            {[]string{named, rest + "databases: {main: {read: ['*'], deny: ['users.id']}}\n"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := Open(permitFor(t, c.chain...), "main", func(string) (string, bool) { return at, true }).Query(t.Context(), "SELECT id, current_user FROM users", nil)
			if (err == nil) != c.ok {
				t.Fatalf("got %v", err)
			}
			if c.ok && out.Rows[0][1] != "postgres_reader" {
				t.Errorf("got %v", out.Rows)
			}
		})
	}
}

// TestAStoredURLIsNotShown: its password is in no error.
func TestAStoredURLIsNotShown(t *testing.T) {
	at := pgShop(t)
	socket := strings.SplitN(pgPolicy(at, ""), "\n", 2)[0] + "\n"
	p := permitFor(t, socket+"databases: {main: {url: 'secret:shop', read: ['*']}}\n")
	listener, err := net.Listen("tcp", "127.0.0.1:0") // it takes connections and answers nothing
	if err != nil {
		t.Fatal(err)
	}
	dead := listener.Addr().String()
	_ = listener.Close()
	wrong := permitFor(t, "network: {allow: ['tcp://"+dead+"']}\ndatabases: {main: {url: 'secret:shop', read: ['*']}}\n")
	if out, err := Open(p, "main", func(key string) (string, bool) { return at, key == "store:shop" }).Query(t.Context(), "SELECT 1", nil); err != nil || len(out.Rows) != 1 {
		t.Errorf("got %v, %v", out, err)
	}
	for _, text := range []string{
		"", "x", "postgres://u:geheim@" + dead + "/db", "postgres://u:geheim@" + dead + "/db?sslmode=disable", "postgres://u:geheim@10.1.2.3/db",
		"postgres://u:geheim@" + dead + "/db?options=-c%20role=x", "postgres://u:geheim@" + dead + "/db?sslmode=prefer", "postgres://u:geheim@/db", "postgres://u:geheim@h:99999/db",
		"mysql://u:geheim@h/db", "postgres://u:ge heim@[/db", "postgres://u:geheim@h/db?host=/tmp", "postgres://u:geheim@/db?host=geheim",
	} {
		_, err := Open(wrong, "main", func(string) (string, bool) { return text, text != "" }).Query(t.Context(), "SELECT 1", nil)
		if err == nil || strings.Contains(fault.Message(err)+err.Error(), "geheim") {
			t.Errorf("%q: got %v", text, err)
		}
	}
}

// TestAStoredHostIsNotTold: what network refuses is decided before a name is looked up, and
// the error does not name the server.
func TestAStoredHostIsNotTold(t *testing.T) {
	for _, at := range []string{"postgres://u:geheim@hidden-host.invalid/db", "postgres://u:geheim@10.1.2.3:6543/db", "postgres://u@/db?host=/hidden-host"} {
		asked := 0
		d := policy.Database{Name: "main", Server: "secret:shop"}
		deny := func(a tool.Action) error {
			asked++
			if len(a.Addrs) > 0 {
				t.Errorf("%s was looked up before the name was allowed", at)
			}
			return fault.New(fault.HandleRefused, "%s: denied", a)
		}
		_, _, err := openServer(t.Context(), d, at, connector{nil, deny}, false)
		if err == nil || asked != 1 || !strings.Contains(err.Error(), `"main" is not allowed by network`) {
			t.Fatalf("%s: asked %d times: %v", at, asked, err)
		}
		for _, part := range []string{"hidden-host", "10.1.2.3", "6543"} {
			if strings.Contains(err.Error(), part) {
				t.Errorf("the error names the server: %v", err)
			}
		}
	}
}

// TestTreesAreNotInTheServersLog: the role may set what is logged. Errors still are.
func TestTreesAreNotInTheServersLog(t *testing.T) {
	p := permitFor(t, pgPolicy(pgShop(t), `read: ["*"]`))
	name := filepath.Join(server.Socket, "log")
	was := len(must(os.ReadFile(name)))
	if _, err := Open(p, "main", nil).Query(t.Context(), "SELECT name FROM users WHERE 1 / (id - id) = 1", nil); err == nil {
		t.Fatal("a division by zero has a result")
	}
	log := string(must(os.ReadFile(name))[was:])
	if strings.Contains(log, "parse tree") || !strings.Contains(log, "division by zero") {
		t.Errorf("the log: %.2000s", log)
	}
}

// TestPrintedTrees: what is not printed as PostgreSQL prints it is refused, and never
// another table.
func TestPrintedTrees(t *testing.T) {
	newer := newTree() // PostgreSQL 16 and later print what is asked of tables as nodes of their own
	err := newer.read(`({QUERY :commandType 1 :rtable ({RANGETBLENTRY :alias <> :eref {ALIAS :aliasname users :colnames ("id" "a\ b\)")} :rtekind 0 :relid 16385 :inh true :perminfoindex 1}) :rteperminfos ({RTEPERMISSIONINFO :relid 16385 :inh true :requiredPerms 2 :checkAsUser 0 :selectedCols (b 8 10) :insertedCols (b) :updatedCols (b)})})`)
	want := []pgUse{{relation: 16385, required: pgSelect, selected: []int{1, 3}}}
	if diff := cmp.Diff(want, newer.tables, cmp.AllowUnexported(pgUse{})); err != nil || diff != "" || newer.unknown != "" {
		t.Errorf("%v %q %s", err, newer.unknown, diff)
	}
	for _, text := range []string{
		"{", "}", "(", ")", "{QUERY", "{QUERY :a", "{QUERY a}", "{QUERY :relid x}", "{QUERY :relid 1 :relid 2}", "{RANGETBLENTRY :relid 1 :requiredPerms 2}",
		"{RANGETBLENTRY :relid 0 :requiredPerms 2 :selectedCols (b) :insertedCols (b) :updatedCols (b)}", "{RTEPERMISSIONINFO :relid 1}", "{X :funcid -1}", "{X :funcid 99999999999}",
		"{ALIAS :aliasname\n" + strings.Repeat("x", 78) + "\n:relid 1}", "{ALIAS :aliasname\nx\\\n{RANGETBLENTRY :relid 1}}", strings.Repeat("(", 3000),
	} {
		if err := newTree().read(text); err == nil {
			t.Errorf("%.60q was read", text)
		}
	}
}

func FuzzPrintedTrees(f *testing.F) {
	f.Add("{QUERY :commandType 1 :x (b 1) :y {CONST :constvalue 4 [ 1 0 0 0 ]}}")
	f.Fuzz(func(_ *testing.T, s string) {
		t := newTree()
		_ = t.read(s)
	})
}
