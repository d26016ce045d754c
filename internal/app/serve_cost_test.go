package app_test

import (
	"bufio"
	"encoding/binary"
	"io"
	"math"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/remitrun/remit/internal/record/store/postgres/postgrestest"
)

// wire passes connections on to PostgreSQL, and counts what the clients send.
type wire struct {
	trips      atomic.Int64 // messages after which the client waits for an answer
	statements atomic.Int64
}

// listen listens in a folder and passes everything on to the server.
func (w *wire) listen(t *testing.T, dir string, pg *postgrestest.Server) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(dir, ".s.PGSQL.5432")) //nolint:noctx // it is local
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
			to, err := net.Dial("unix", filepath.Join(pg.Socket, ".s.PGSQL.5432")) //nolint:noctx // it is local
			if err != nil {
				_ = from.Close()
				continue
			}
			go func() { _, _ = io.Copy(from, to); _ = from.Close() }()
			go func() { w.pass(bufio.NewReader(from), to); _ = to.Close() }()
		}
	}()
}

// pass passes the messages of a client on: the first one has no type.
func (w *wire) pass(from *bufio.Reader, to io.Writer) {
	for head := 4; ; head = 5 {
		b, err := from.Peek(head)
		if err != nil {
			return
		}
		size := int64(binary.BigEndian.Uint32(b[head-4:])) + int64(head) - 4
		if head == 5 {
			switch b[0] {
			case 'Q':
				w.trips.Add(1)
				w.statements.Add(1)
			case 'S':
				w.trips.Add(1)
			case 'E':
				w.statements.Add(1)
			}
		}
		if _, err := io.CopyN(to, from, size); err != nil {
			return
		}
	}
}

// TestACallTakesFewMessagesOfPostgreSQL bounds what one call over HTTP sends to PostgreSQL. The bounds
// may be lowered, and not raised.
func TestACallTakesFewMessagesOfPostgreSQL(t *testing.T) {
	const calls, mostTrips, mostStatements = 60, 24, 30
	pg, stop, err := postgrestest.New("")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip("PostgreSQL is not installed: apt-get install postgresql")
	}
	t.Cleanup(stop)
	dir, err := os.MkdirTemp("", "wire") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	pg.Schema(t, "calls")
	var w wire
	w.listen(t, dir, pg)
	s := newServiceWith(t, []string{"REMIT_DB=" + pg.Via(dir, "calls")})
	trips, statements := int64(math.MaxInt64), int64(math.MaxInt64)
	for range calls { // the fewest: the service's background work adds to some
		t0, s0 := w.trips.Load(), w.statements.Load()
		s.must(200, "POST", "/v1/tools/time.now/invoke", "{}")
		trips, statements = min(trips, w.trips.Load()-t0), min(statements, w.statements.Load()-s0)
	}
	if trips > mostTrips || statements > mostStatements {
		t.Errorf("a call takes %d round trips and %d statements; at most %d and %d are allowed", trips, statements, mostTrips, mostStatements)
	}
}
