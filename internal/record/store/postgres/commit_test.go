package postgres_test

import (
	"bytes"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/postgres"
)

// cutter is a way to the server that loses an answer to COMMIT when it is told to, and the
// connection with it.
type cutter struct {
	arm  atomic.Int32
	told bool // the answer itself arrives, and nothing after it
}

// url starts the way, and returns its URL.
func (c *cutter) url(t *testing.T, to string) string { return wayTo(t, to, c.carry) }

// wayTo makes a socket whose connections are carried to the server, and returns its URL.
func wayTo(t *testing.T, to string, carry func(net.Conn)) string {
	t.Helper()
	dir := t.TempDir()
	l, err := net.Listen("unix", filepath.Join(dir, ".s.PGSQL.5432"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			go carry(from)
		}
	}()
	return strings.Replace(to, "host="+strings.ReplaceAll(server.Socket, "/", "%2F"), "host="+strings.ReplaceAll(dir, "/", "%2F"), 1)
}

var commit = []byte("COMMIT\x00")

func (c *cutter) carry(from net.Conn) {
	defer from.Close()
	to, err := net.Dial("unix", filepath.Join(server.Socket, ".s.PGSQL.5432"))
	if err != nil {
		return
	}
	defer to.Close()
	go func() {
		_, _ = io.Copy(to, from)
		_ = to.Close()
	}()
	buf := make([]byte, 1<<16)
	for {
		n, err := to.Read(buf)
		if err != nil {
			return
		}
		if at := bytes.Index(buf[:n], commit); at >= 0 && c.arm.Add(-1) == 0 {
			if c.told {
				_, _ = from.Write(buf[:at+len(commit)])
			}
			return
		}
		if _, err := from.Write(buf[:n]); err != nil {
			return
		}
	}
}

// TestALostAnswerToACommitIsSettled: the change of a grant was committed, and the connection
// ended before the answer. The caller is told the truth, and nothing is done twice.
func TestALostAnswerToACommitIsSettled(t *testing.T) {
	home, c := t.TempDir(), &cutter{}
	direct := server.Schema(t, home)
	s := must(postgres.Open(t.Context(), postgres.Options{Home: home, URL: c.url(t, direct), Lease: time.Hour}))
	for range 5 {
		before := server.Count(t, direct, "SELECT total::int FROM tail")
		g := store.GrantRecord{ID: uuid.New(), Holder: "user:ann", Issued: time.Now()}
		c.arm.Store(1)
		if err := s.PutGrant(t.Context(), g); err != nil {
			t.Errorf("a committed change failed: %v", err)
		}
		if c.arm.Load() > 0 {
			t.Fatal("no answer was lost: the test shows nothing")
		}
		if got := must(s.Grant(t.Context(), g.ID.String())); got.ID != g.ID {
			t.Errorf("the grant is %+v", got)
		}
		if n := server.Count(t, direct, "SELECT total::int FROM tail"); n != before+1 {
			t.Errorf("%d events, want %d", n, before+1)
		}
	}
	if r := must(s.Verify(t.Context(), store.VerifyOptions{})); !r.OK {
		t.Errorf("%+v", r.Problems)
	}
	must(0, s.Close())
}

// TestALostAnswerToACallIsSettled: the message of a lone durable call was committed, and the
// connection ended before its answer, or before it was said to be durable.
func TestALostAnswerToACallIsSettled(t *testing.T) {
	for _, told := range []bool{false, true} {
		home, c := t.TempDir(), &cutter{told: told}
		direct := server.Schema(t, home)
		s := must(postgres.Open(t.Context(), postgres.Options{Home: home, URL: c.url(t, direct), Lease: time.Hour}))
		run := begin(s, nil)
		for n := range 2 {
			before := server.Count(t, direct, "SELECT total::int FROM tail")
			intent, outcome := call(run, n+1)
			c.arm.Store(1)
			if _, err := s.Append(t.Context(), intent); err != nil {
				t.Errorf("a committed intent failed: %v", err)
			}
			if c.arm.Load() > 0 {
				t.Fatal("no answer was lost: the test shows nothing")
			}
			must(s.Append(t.Context(), outcome))
			if n := server.Count(t, direct, "SELECT total::int FROM tail"); n != before+2 {
				t.Errorf("%d events, want %d", n, before+2)
			}
		}
		if r := must(s.Verify(t.Context(), store.VerifyOptions{})); !r.OK {
			t.Errorf("%+v", r.Problems)
		}
		must(0, s.Close())
	}
}

// snap is a way to the server that ends a connection at a message of the node, before the server gets
// it or before the node gets the answer.
type snap struct {
	answer bool
	left   atomic.Int64
}

func (s *snap) arm(n int64)   { s.left.Store(n) }
func (s *snap) snapped() bool { return s.left.Load() <= 0 }

func (s *snap) url(t *testing.T, to string) string { return wayTo(t, to, s.carry) }

func (s *snap) carry(from net.Conn) {
	defer from.Close()
	to, err := net.Dial("unix", filepath.Join(server.Socket, ".s.PGSQL.5432"))
	if err != nil {
		return
	}
	defer to.Close()
	var cut atomic.Bool
	go func() {
		defer to.Close()
		defer from.Close()
		buf := make([]byte, 1<<16)
		for {
			n, err := from.Read(buf)
			if err != nil {
				return
			}
			if s.left.Add(-1) == 0 {
				if !s.answer {
					return
				}
				cut.Store(true)
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
	}()
	buf := make([]byte, 1<<16)
	for {
		n, err := to.Read(buf)
		if err != nil || cut.Load() {
			return
		}
		if _, err := from.Write(buf[:n]); err != nil {
			return
		}
	}
}
