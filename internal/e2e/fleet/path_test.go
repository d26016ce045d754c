package fleet_test

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// daemon is a program of the system on the way between clients, nodes and the database.
type daemon struct {
	t    *testing.T
	argv []string
	with *os.File // a listening socket; nil: none
	cmd  *exec.Cmd
}

func (h *daemon) start() {
	h.t.Helper()
	h.cmd = exec.Command(h.argv[0], h.argv[1:]...)
	if h.with != nil {
		h.cmd.ExtraFiles = []*os.File{h.with}
	}
	if err := h.cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
}

func (h *daemon) kill() {
	_ = h.cmd.Process.Kill() // it may have ended
	_ = h.cmd.Wait()
}

// found looks a program up that Debian keeps where only root looks.
func found(t *testing.T, name string) string {
	t.Helper()
	for _, path := range []string{name, "/usr/sbin/" + name} {
		if p, err := exec.LookPath(path); err == nil {
			return p
		}
	}
	t.Logf("LEFT OUT: no %s: apt-get install %s", name, name)
	return ""
}

// newBalancer starts HAProxy before nodes, and gives its URL; "": it is not installed.
func newBalancer(t *testing.T, nodes []*wire) string {
	t.Helper()
	bin := found(t, "haproxy")
	if bin == "" {
		return ""
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }() // the program has a copy
	file, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	var text strings.Builder
	text.WriteString(`defaults
  mode http
  timeout connect 1s
  timeout client 60s
  timeout server 60s
  option redispatch
  retries 2
frontend all
  bind fd@3
  default_backend nodes
backend nodes
  balance roundrobin
  option httpchk
  http-check send meth GET uri /readyz ver HTTP/1.1 hdr Host ` + publicHost + "\n")
	for i, w := range nodes {
		fmt.Fprintf(&text, "  server node%d %s check inter 250ms fall 2 rise 1\n", i, w.addr)
	}
	config := filepath.Join(t.TempDir(), "haproxy.cfg")
	if err := os.WriteFile(config, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	h := &daemon{t: t, argv: []string{bin, "-db", "-q", "-f", config}, with: file}
	h.start()
	t.Cleanup(h.kill)
	return "http://" + l.Addr().String()
}

// newPool starts PgBouncer in session mode before the PostgreSQL server at a socket. socket is the folder
// of its own socket. It is nil where the program is not installed.
func newPool(t *testing.T, server string) (p *daemon, socket string) {
	t.Helper()
	bin := found(t, "pgbouncer")
	if bin == "" {
		return nil, ""
	}
	dir, err := os.MkdirTemp("", "pool") // short: the path of a socket has at most 107 bytes
	if err == nil {
		err = os.Chmod(dir, 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // an empty folder that stays does no harm
	config := filepath.Join(dir, "pgbouncer.ini")
	text := fmt.Sprintf(`[databases]
postgres = host=%s port=5432 user=remit
[pgbouncer]
pool_mode = session
auth_type = any
listen_port = 5432
unix_socket_dir = %s
unix_socket_mode = 0777
default_pool_size = 100
max_client_conn = 400
server_login_retry = 0.2
logfile = %s/log
`, server, dir, dir)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil { //nolint:gosec // another user's program reads it
		t.Fatal(err)
	}
	p = &daemon{t: t, argv: []string{bin, "-q", config}}
	if os.Geteuid() == 0 {
		p.argv = append([]string{"setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"}, p.argv...)
	}
	p.start()
	t.Cleanup(func() { p.kill() })
	return p, dir
}

// schemaIn is the schema that the URL of a database names.
func schemaIn(t *testing.T, database string) string {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	schema, _, _ := strings.Cut(u.Query().Get("search_path"), ",")
	return schema
}

// shadowed lets the functions of clockSchema stand before those of PostgreSQL, for a URL that names a
// schema. A schema that is not there does not matter.
func shadowed(database string) string {
	before, after, _ := strings.Cut(database, "search_path=")
	schema, rest, _ := strings.Cut(after, "&")
	return before + "search_path=" + url.QueryEscape(schema+","+clockSchema(schema)+",pg_catalog") + "&" + rest
}

// clockSchema is the schema of a clock that stands before that of PostgreSQL. That of the ledger may
// have no foreign functions.
func clockSchema(schema string) string { return schema + "_clock" }
