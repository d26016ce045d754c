// Package postgrestest runs PostgreSQL for tests: one server for a whole test binary, in a
// temporary folder, reached by a socket only.
package postgrestest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
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

	"github.com/jackc/pgx/v5"
)

// Server is a running server.
type Server struct {
	Socket string // folder of the socket
	data   string
	bin    string
	more   string   // options besides the usual ones
	enter  []string // the command that enters the mount namespace of its disk; empty: it has none of its own
	made   sync.Map // schemas that exist
}

// Main runs a package's tests with a server, given to use before. Without PostgreSQL the
// tests find no server, and Schema skips them.
func Main(m *testing.M, use func(*Server)) (status int) {
	s, err := start()
	if err != nil {
		fmt.Fprintln(os.Stderr, "PostgreSQL:", err)
		if os.Getenv("CI") != "" && !errors.Is(err, errMissing) {
			return 1
		}
	}
	use(s)
	defer func() {
		if s != nil {
			s.stop()
		}
	}()
	return m.Run()
}

// options are the server's. It need not survive a loss of power; a crash it does survive. Its
// schemas are many and short-lived: compiled queries and statistics cost more than they save.
const options = "-c fsync=off -c full_page_writes=off -c listen_addresses= -c max_connections=200 -c shared_buffers=64MB -c jit=off -c autovacuum=off -c unix_socket_directories="

// New starts a server with further options, for programs that are no tests. stop ends it.
func New(options string) (s *Server, stop func(), err error) {
	if s, err = startWith(options); err != nil {
		return nil, nil, err
	}
	return s, s.stop, nil
}

// Start starts a server that ends with the test. It skips the test where PostgreSQL is not
// installed; in CI that is a failure.
func Start(t testing.TB) *Server {
	t.Helper()
	s, err := start()
	if errors.Is(err, errMissing) && os.Getenv("CI") == "" {
		t.Skip("PostgreSQL is not installed: apt-get install postgresql")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	return s
}

var errMissing = errors.New("initdb was not found; install the package postgresql")

// find returns the folder of the newest server's programs.
func find() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil {
		return "", err
	}
	if p, err := exec.LookPath("initdb"); err == nil {
		found = append([]string{p}, found...)
	}
	if len(found) == 0 {
		return "", errMissing
	}
	real, err := filepath.EvalSymlinks(slices.Max(found)) // the other programs are beside it
	return filepath.Dir(real), err
}

// command makes a command of a program beside the server, as an ordinary user: the server
// refuses root.
func (s *Server) command(name string, args ...string) *exec.Cmd {
	line := slices.Clone(s.enter)
	if os.Geteuid() == 0 {
		line = append(line, "setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups")
	}
	line = append(append(line, filepath.Join(s.bin, name)), args...)
	return exec.Command(line[0], line[1:]...)
}

func start() (*Server, error) { return startWith("") }

func startWith(options string) (*Server, error) {
	bin, err := find()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "pg") // short: the path of a socket has at most 107 bytes
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		return nil, err
	}
	s := &Server{Socket: dir, data: filepath.Join(dir, "data"), bin: bin, more: options}
	if err := s.begin(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

// begin makes the server's data and starts it.
func (s *Server) begin() error {
	c := s.command("initdb", "-D", s.data, "-U", "remit", "-A", "trust", "-E", "UTF8", "--no-sync")
	c.Dir, c.Env = s.Socket, append(os.Environ(), "LC_ALL=C.UTF-8")
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	return s.Restart()
}

// Stop stops the server in one of the modes of pg_ctl; "immediate" is a crash.
func (s *Server) Stop(mode string) error {
	return s.command("pg_ctl", "-D", s.data, "-w", "-m", mode, "stop").Run()
}

// Restart starts a server that was stopped.
func (s *Server) Restart() error {
	c := s.command("pg_ctl", "-D", s.data, "-w", "-l", filepath.Join(s.Socket, "log"),
		"-o", options+s.Socket+" "+s.more, "start")
	c.Dir = s.Socket
	return c.Run()
}

func (s *Server) stop() {
	_ = s.Stop("immediate") // its folder is removed
	_ = os.RemoveAll(s.Socket)
}

// URL returns the URL of a schema, which need not exist.
func (s *Server) URL(schema string) string { return urlAt(s.Socket, schema) }

// Via returns the URL of a schema that Schema made for a name, for a socket in another
// folder, whose listener passes everything on to the server.
func (s *Server) Via(socket, name string) string { return urlAt(socket, schemaOf(name)) }

func urlAt(socket, schema string) string {
	q := url.Values{"host": {socket}, "user": {"remit"}, "search_path": {schema}}
	return "postgres:///postgres?" + q.Encode()
}

// Schema makes a schema of its own for a name, such as a home folder, the first time it is
// asked for, and returns its URL. It skips the test where PostgreSQL is not installed; in
// CI that is a failure.
func (s *Server) Schema(t testing.TB, name string) string {
	t.Helper()
	if s == nil {
		if os.Getenv("CI") != "" {
			t.Fatal("PostgreSQL is not installed")
		}
		t.Skip("PostgreSQL is not installed: apt-get install postgresql")
	}
	schema := schemaOf(name)
	if _, known := s.made.LoadOrStore(schema, true); !known {
		s.Exec(t, "public", "CREATE SCHEMA "+schema)
	}
	return s.URL(schema)
}

// Exec carries out statements in a schema.
func (s *Server) Exec(t testing.TB, schema, statements string) {
	t.Helper()
	ctx := context.Background()
	c, err := pgx.Connect(ctx, s.URL(schema))
	if err == nil {
		_, err = c.Exec(ctx, statements)
		err = errors.Join(err, c.Close(ctx))
	}
	if err != nil {
		t.Fatalf("%s: %v", strings.SplitN(statements, "\n", 2)[0], err)
	}
}

// Standby starts a server that copies this one, until the end of the test.
func (s *Server) Standby(t testing.TB) *Server {
	t.Helper()
	b, stop, err := s.Copy()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return b
}

// Copy is Standby for programs that are no tests. stop ends the copy.
func (s *Server) Copy() (b *Server, stop func(), err error) {
	dir, err := os.MkdirTemp("", "pg")
	if err == nil {
		err = os.Chmod(dir, 0o777)
	}
	if err != nil {
		return nil, nil, err
	}
	b = &Server{Socket: dir, data: filepath.Join(dir, "data"), bin: s.bin, more: s.more}
	out, err := b.command("pg_basebackup", "-h", s.Socket, "-U", "remit", "-D", b.data, "-R", "-c", "fast", "--no-sync").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("pg_basebackup: %w: %s", err, out)
	} else {
		err = b.Restart()
	}
	if err != nil {
		b.stop()
		return nil, nil, err
	}
	return b, b.stop, nil
}

// Promote makes a standby the primary server.
func (s *Server) Promote() error {
	return s.command("pg_ctl", "-D", s.data, "-w", "promote").Run()
}

// Made returns the URL of a schema that Schema made for a name, also on a copy.
func (s *Server) Made(name string) string { return s.URL(schemaOf(name)) }

func schemaOf(name string) string {
	sum := sha256.Sum256([]byte(name))
	return "t" + hex.EncodeToString(sum[:8])
}

// Count returns the number that a query gives.
func (s *Server) Count(t testing.TB, url, query string) (n int) {
	t.Helper()
	ctx := context.Background()
	c, err := pgx.Connect(ctx, url)
	if err == nil {
		err = errors.Join(c.QueryRow(ctx, query).Scan(&n), c.Close(ctx))
	}
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}
