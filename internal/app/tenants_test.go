package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/remitrun/remit/internal/app/apptest"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/postgres"
	"github.com/remitrun/remit/internal/record/store/postgres/postgrestest"
	"github.com/remitrun/remit/internal/service/database"
	"github.com/remitrun/remit/internal/service/home"
)

// scramServer is PostgreSQL where only the operator's role needs no password.
func scramServer(t *testing.T) *postgrestest.Server {
	t.Helper()
	dir, err := os.MkdirTemp("", "hba") // the server is another user
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	file := filepath.Join(dir, "pg_hba.conf")
	if err := os.WriteFile(file, []byte("local all remit trust\nlocal all all scram-sha-256\n"), 0o644); err != nil { //nolint:gosec // the server reads it
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // as above
		t.Fatal(err)
	}
	pg, stop, err := postgrestest.New("-c hba_file=" + file)
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip("PostgreSQL is not installed: apt-get install postgresql")
	}
	t.Cleanup(stop)
	return pg
}

// tenant is a team's service on a database of its own.
type tenant struct {
	*service
	made postgres.Tenant
}

func newTenant(t *testing.T, pg *postgrestest.Server, name string) *tenant {
	t.Helper()
	s := &service{t: t, homeDir: t.TempDir(), dir: t.TempDir()}
	s.policy = filepath.Join(s.dir, "serve.yaml")
	for file, content := range map[string]string{filepath.Join(s.dir, "clock.yaml"): script, s.policy: servePolicy} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	made, st, err := database.Tenant(t.Context(), &home.Home{Config: home.Config{Dir: s.homeDir, Database: pg.URL("public")}}, name)
	if err != nil || st.Ledger == "" || made.Trusted || strings.Contains(made.URL, made.Password) {
		t.Fatalf("%+v %+v %v", made, st, err)
	}
	s.env = []string{"REMIT_DB=" + made.URL}
	s.start()
	return &tenant{s, made}
}

// as connects as a tenant's role to a database.
func (x *tenant) as(t *testing.T, database string) (*pgx.Conn, error) {
	c, err := pgx.ParseConfig(x.made.URL)
	if err != nil {
		x.t.Fatal(err)
	}
	c.Password, c.Database = x.made.Password, database
	conn, err := pgx.ConnectConfig(t.Context(), c)
	if err == nil {
		t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	}
	return conn, err
}

// TestTenantsSeeNothingOfEachOther on one server.
func TestTenantsSeeNothingOfEachOther(t *testing.T) {
	pg := scramServer(t)
	blue, red := newTenant(t, pg, "blue"), newTenant(t, pg, "red")
	id := blue.session(blue.token, `["current_time"]`)
	blue.must(201, "POST", "/v1/sessions/"+id+"/messages", `{"content":"the blue secret"}`)
	blue.must(200, "POST", "/v1/queue/pause", "")
	queued := blue.must(202, "POST", "/v1/runs", planBody(t, "name: later\nsteps: [{tool: time.now}]\n", `,"queue":{"delay":3600}`))["run_id"].(string)

	t.Run("queued messages", func(t *testing.T) {
		run := blue.queueMessage(blue.token, id, "later", "")
		blue.must(200, "POST", "/v1/queue/resume", "")
		blue.queuedAs(run["run_id"].(string), "completed")
		if got := fmt.Sprint(blue.contents(id, "user")); got != "[the blue secret later]" {
			t.Errorf("the messages are %s", got)
		}
	})
	t.Run("API and UI", func(t *testing.T) {
		for _, path := range []string{"/v1/sessions", "/v1/runs", "/v1/queue", "/v1/audit", "/v1/agents", "/v1/approvals", "/v1/changes", "/metrics"} {
			_, _, b := red.raw("GET", path, red.token, "")
			if strings.Contains(string(b), id) || strings.Contains(string(b), queued) || strings.Contains(string(b), "Clock") {
				t.Errorf("%s tells of the other tenant: %s", path, b)
			}
			if status, _, _ := red.raw("GET", path, blue.token, ""); status != 401 {
				t.Errorf("%s with the other tenant's token: %d", path, status)
			}
		}
		if status, _ := red.ask("GET", "/v1/sessions/"+id, red.token, ""); status != 404 {
			t.Errorf("its session by ID: %d", status)
		}
		if status, _ := red.ask("POST", "/v1/queue/"+queued+"/cancel", red.token, ""); status != 404 {
			t.Errorf("its queued run by ID: %d", status)
		}
		b := red.browser()
		if res, page := b.do(http.MethodGet, "/ui/sessions", nil); res.StatusCode != 200 || strings.Contains(page, id) {
			t.Errorf("the web UI: %d", res.StatusCode)
		}
		b.s = blue.service
		if res, _ := b.do(http.MethodGet, "/ui/", nil); res.StatusCode != 401 {
			t.Errorf("a browser of the other tenant: %d", res.StatusCode)
		}
		if state := red.must(200, "GET", "/v1/queue", ""); state["paused"] != false || state["scheduled"] != 0.0 {
			t.Errorf("the other queue is paused, and this one is %v", state)
		}
	})
	t.Run("SQL", func(t *testing.T) { blue.wantNoSQL(t, red) })
	t.Run("ledgers", func(t *testing.T) { blue.wantOwnLedger(t, red, id) })
}

// wantNoSQL tries with another tenant's role what SQL can do.
func (x *tenant) wantNoSQL(t *testing.T, red *tenant) {
	if _, err := red.as(t, x.made.Database); err == nil || !strings.Contains(err.Error(), "permission denied for database") {
		t.Errorf("connecting to the other database: %v", err)
	}
	c, err := pgx.ParseConfig(x.made.URL)
	if err != nil {
		t.Fatal(err)
	}
	c.Password = red.made.Password
	if _, err := pgx.ConnectConfig(t.Context(), c); err == nil || !strings.Contains(err.Error(), "password authentication failed") {
		t.Errorf("as the other role: %v", err)
	}
	own, err := red.as(t, red.made.Database)
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []string{
		"SET ROLE " + x.made.Role, "SET SESSION AUTHORIZATION " + x.made.Role, "CREATE ROLE x", "CREATE DATABASE x", "ALTER ROLE " + x.made.Role + " PASSWORD 'x'",
		"DROP DATABASE " + x.made.Database, "GRANT CONNECT ON DATABASE " + x.made.Database + " TO " + red.made.Role, "SELECT pg_database_size('" + x.made.Database + "')",
		"SELECT * FROM " + x.made.Database + ".public.events", "COPY (SELECT 1) TO '/tmp/x'", "SELECT pg_read_file('PG_VERSION')", "SELECT pg_ls_dir('.')",
		"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '" + x.made.Role + "'", "SELECT rolpassword FROM pg_authid", "CREATE EXTENSION dblink",
	} {
		if _, err := own.Exec(t.Context(), q); err == nil {
			t.Errorf("the other role may: %s", q)
		}
	}
	var seen int
	if err := own.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE datname = $1 AND query <> '<insufficient privilege>'", x.made.Database).Scan(&seen); err != nil || seen > 0 {
		t.Errorf("it sees %d statements of the other tenant, %v", seen, err)
	}
	// Locks and notifications are of a database.
	theirs, err := x.as(t, x.made.Database)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []*pgx.Conn{own, theirs} {
		var got bool
		if err := c.QueryRow(t.Context(), "SELECT pg_try_advisory_lock(1382902132, hashtext('public'))").Scan(&got); err != nil || !got {
			t.Errorf("a lock of one tenant is held by the other: %v", err)
		}
		if _, err := c.Exec(t.Context(), "LISTEN remit"); err != nil {
			t.Fatal(err)
		}
	}
	for _, q := range []string{"NOTIFY remit, 'to blue'"} {
		if _, err := own.Exec(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := theirs.Exec(t.Context(), "NOTIFY remit, 'own'"); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 40*time.Second)
	defer stop()
	if n, err := theirs.WaitForNotification(ctx); err != nil || n.Payload != "own" {
		t.Errorf("it is notified of %v, %v", n, err)
	}
	if strings.Join(x.made.Open, " ") != "postgres template1" {
		t.Errorf("the operator is told that the role reaches %v", x.made.Open)
	}
}

// wantOwnLedger compares the ledgers, their checkpoints, their keys and their backups.
func (x *tenant) wantOwnLedger(t *testing.T, red *tenant, id string) {
	x.stop()
	red.stop()
	open := func(h, url string) (*postgres.Store, error) {
		return postgres.Open(t.Context(), postgres.Options{Home: h, URL: url})
	}
	if s, err := open(red.homeDir, x.made.URL); fault.CodeOf(err) != fault.StoreMissing {
		t.Errorf("with the keys of one tenant the other's ledger opens: %v %v", s, err)
	}
	mine, err := open(x.homeDir, x.made.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = mine.Close() }()
	others, err := open(red.homeDir, red.made.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = others.Close() }()
	note, err := mine.Checkpoint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	origin := regexp.MustCompile(`^remit\.local/[0-9a-f-]+`)
	theirs, err := others.Checkpoint(t.Context())
	if err != nil || origin.FindString(string(note)) == "" || origin.FindString(string(note)) == origin.FindString(string(theirs)) {
		t.Errorf("the origins are %q and %q, %v", note, theirs, err)
	}
	if rep, err := others.Verify(t.Context(), store.VerifyOptions{Checkpoint: note}); err == nil && rep.OK {
		t.Error("a checkpoint of one tenant holds for the other")
	}
	for e, err := range others.Events(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if b, err := json.Marshal(e); err != nil || strings.Contains(string(b), id) {
			t.Errorf("the other ledger has %s, %v", b, err)
		}
	}
	if _, _, err := database.Tenant(t.Context(), &home.Home{Config: home.Config{Dir: red.homeDir, Database: x.made.URL}}, "green"); fault.CodeOf(err) != fault.Conflict {
		t.Errorf("a tenant in the home of another: %v", err)
	}
	out, err := apptest.New(t, red.homeDir, "REMIT_DB="+red.made.URL).Backups.Write(t.Context(), filepath.Join(t.TempDir(), "red.backup"), "")
	if err != nil || out.Events == 0 || out.Keys || !strings.HasPrefix(string(theirs), out.Origin) {
		t.Errorf("the backup of one tenant is %+v, %v", out, err)
	}
}
