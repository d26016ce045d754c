package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/postgres"
	"github.com/remitrun/remit/internal/record/store/postgres/postgrestest"
)

// asUser makes a command of a program as an ordinary user: some programs refuse root.
func asUser(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	line := append([]string{name}, args...)
	if os.Geteuid() == 0 {
		line = append([]string{"setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"}, line...)
	}
	c := exec.Command(line[0], line[1:]...)
	c.Stderr = os.Stderr
	return c
}

// running starts a program until the end of the test.
func running(t *testing.T, c *exec.Cmd) {
	t.Helper()
	c.Stderr = nil
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait() // it was killed
	})
}

// found skips the test where a program is missing; in CI that is a failure.
func found(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	if os.Getenv("CI") != "" {
		t.Fatal(err)
	}
	t.Skip(err)
	return ""
}

// bouncer starts a PgBouncer before a server, and returns the folder of its socket.
func bouncer(t *testing.T, mode string, size int) string {
	t.Helper()
	program := found(t, "pgbouncer")
	if server == nil {
		t.Skip("PostgreSQL is not installed")
	}
	dir, err := os.MkdirTemp("", "pgb")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil { //nolint:gosec // another user's program writes there
		t.Fatal(err)
	}
	ini := filepath.Join(dir, "pgbouncer.ini")
	text := fmt.Sprintf("[databases]\npostgres = host=%s dbname=postgres user=remit\n[pgbouncer]\nlisten_port = 5432\nlisten_addr =\nunix_socket_dir = %s\nauth_type = any\npool_mode = %s\ndefault_pool_size = %d\nquery_wait_timeout = 60\n",
		server.Socket, dir, mode, size)
	if err := os.WriteFile(ini, []byte(text), 0o644); err != nil { //nolint:gosec // as above
		t.Fatal(err)
	}
	running(t, asUser(t, program, ini))
	for {
		c, err := net.Dial("unix", filepath.Join(dir, ".s.PGSQL.5432")) //nolint:noctx // it fails at once
		if err == nil {
			_ = c.Close()
			return dir
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// TestAPoolerOfSessionsIsUsed: the ledger works through PgBouncer in session mode, with the settings
// of its sessions.
func TestAPoolerOfSessionsIsUsed(t *testing.T) {
	dir, home, ctx := bouncer(t, "session", 20), t.TempDir(), t.Context()
	server.Schema(t, home)
	o := postgres.Options{Home: home, URL: server.Via(dir, home), Lease: time.Hour}
	for range 2 { // the second uses sessions of the first one
		s := must(postgres.Open(ctx, o))
		intent, outcome := call(begin(s, nil), 1)
		must(s.Append(ctx, intent))
		must(s.Append(ctx, outcome))
		if r := must(s.Verify(ctx, store.VerifyOptions{})); !r.OK {
			t.Errorf("%+v", r.Problems)
		}
		const set = "SELECT count(DISTINCT application_name) FROM pg_stat_activity WHERE application_name = 'remit'"
		if n := server.Count(t, server.URL("public"), set); n != 1 {
			t.Errorf("%d sessions of this name", n)
		}
		must(0, s.Close())
	}
	if n := server.Count(t, server.Made(home), "SELECT count(*) FROM runs"); n != 2 {
		t.Errorf("%d runs in its schema", n)
	}
}

// TestAPoolerOfTransactionsIsRefused, also while other clients use it, and before it makes a table.
func TestAPoolerOfTransactionsIsRefused(t *testing.T) {
	for mode, want := range map[string]string{"transaction": "each transaction another session", "statement": "cannot be used"} {
		dir, home, ctx := bouncer(t, mode, 20), t.TempDir(), t.Context()
		server.Schema(t, home)
		busy, stop := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			c, err := pgx.Connect(busy, "postgres:///postgres?host="+url.QueryEscape(dir)+"&user=remit&default_query_exec_mode=exec")
			for err == nil {
				_, err = c.Exec(busy, "SELECT pg_sleep(0.001)")
			}
		}()
		for _, readOnly := range []bool{false, true} {
			_, err := postgres.Open(ctx, postgres.Options{Home: home, URL: server.Via(dir, home), ReadOnly: readOnly})
			if !readOnly && (!errors.Is(err, fault.StoreFailed) || !strings.Contains(err.Error(), want)) || err == nil {
				t.Errorf("%s, read only %v: %v", mode, readOnly, err)
			}
		}
		stop()
		<-done
		if n := server.Count(t, server.Made(home), "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()"); n != 0 {
			t.Errorf("%s: %d tables were made", mode, n)
		}
	}
}

// usedAmongSeveral: a URL names a standby first, and then its server, which waits for it.
func usedAmongSeveral(t *testing.T, o postgres.Options, primary, standby *postgrestest.Server) {
	t.Helper()
	both := strings.Replace(o.URL, url.QueryEscape(primary.Socket), url.QueryEscape(standby.Socket+","+primary.Socket), 1)
	o.URL = both
	if _, err := postgres.Open(t.Context(), o); !errors.Is(err, fault.StoreReadOnly) {
		t.Errorf("a standby is used: %v", err)
	}
	for _, attrs := range []string{"read-write", "primary"} {
		o.URL = both + "&target_session_attrs=" + attrs
		s := must(postgres.Open(t.Context(), o))
		intent, _ := call(begin(s, nil), 1)
		must(s.Append(t.Context(), intent))
		if r := must(s.Verify(t.Context(), store.VerifyOptions{})); !r.OK {
			t.Errorf("%s: %+v", attrs, r.Problems)
		}
		must(0, s.Close())
	}
}

// usedWithArchiver opens a ledger while pg_receivewal copies the log. Such a copy is not a standby.
func usedWithArchiver(t *testing.T, o postgres.Options, primary *postgrestest.Server) {
	t.Helper()
	dir := filepath.Join(primary.Socket, "archive")
	if err := errors.Join(os.Mkdir(dir, 0o777), os.Chmod(dir, 0o777)); err != nil { //nolint:gosec // another user's program writes there
		t.Fatal(err)
	}
	receive := asUser(t, found(t, "pg_receivewal"), "-h", primary.Socket, "-U", "remit", "-D", dir, "--no-loop", "--status-interval=1")
	if err := receive.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = receive.Wait() }() // it was killed
	defer receive.Process.Kill()
	for primary.Count(t, primary.URL("public"), "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND write_lsn IS NOT NULL") == 0 {
		time.Sleep(10 * time.Millisecond)
	}
	s := must(postgres.Open(t.Context(), o))
	begin(s, nil)
	must(0, s.Close())
}
