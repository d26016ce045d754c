//go:build linux && (amd64 || arm64)

package linux_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/sandbox/linux"
)

// TestAServerOfASessionIsReached: servers at each loopback address, from several connections at once, by sockets of
// their own session's network alone.
func TestAServerOfASessionIsReached(t *testing.T) {
	w := newWorld(t, openPolicy)
	boxes := w.box.Sandboxes
	if list := boxes.Open(); len(list) != 0 {
		t.Errorf("before: %+v", list)
	}
	for i, at := range []string{"127.0.0.1", "0.0.0.0", "::1"} {
		port := uint16(8000 + i) //nolint:gosec // a small number
		session := fmt.Sprint("s", i)
		w.says(session, fmt.Sprintf("echo %s > /tmp/x; python3 -m http.server --bind %s --directory /tmp %d >/tmp/log 2>&1 & for n in $(seq 200); do curl -sf http://localhost:%d/x -o /dev/null && break; sleep 0.05; done; echo ok",
			session, at, port, port), "ok")
		list := boxes.Open()
		if len(list) != i+1 || list[0].ID != session || !slices.Equal(list[0].Ports, []uint16{port}) || list[0].Running != 0 || list[0].Last.IsZero() {
			t.Fatalf("the open sandboxes are %+v", list)
		}
		where := list[0].Workspace
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if got, err := get(boxes, session, where, port); err != nil || got != session+"\n" {
					t.Errorf("%s at %s: got %q, %v", session, at, got, err)
				}
			})
		}
		all.Wait()
		if _, err := get(boxes, session, where, port+100); err == nil {
			t.Error("a port without a server was reached")
		}
		if _, err := boxes.Sockets(t.Context(), session, "/elsewhere"); !errors.Is(err, fault.NotFound) {
			t.Errorf("a session of another workspace: %v", err)
		}
	}
	if got, err := get(boxes, "s0", boxes.Open()[0].Workspace, 8001); err == nil {
		t.Errorf("the server of another session was reached: %q", got)
	}
	w.says("s0", "cat /tmp/x", "s0") // the sandbox is there for further commands
	boxes.EndSession("s0")
	if _, err := boxes.Sockets(t.Context(), "s0", boxes.Open()[0].Workspace); !errors.Is(err, fault.NotFound) {
		t.Errorf("after the session: %v", err)
	}
}

// get asks a server of a session.
func get(boxes *linux.Sandboxes, session, workspace string, port uint16) (string, error) {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	sockets, err := boxes.Sockets(ctx, session, workspace)
	if err != nil {
		return "", err
	}
	conn, err := linux.DialInside(ctx, sockets, port)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /x HTTP/1.0\r\n\r\n"); err != nil {
		return "", err
	}
	r, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	return string(b), err
}

// TestASandboxThatStopsProcessesHoldsNothingUp: a program stops each new process of its sandbox. Each attempt to reach a server there
// ends, and other sessions work.
func TestASandboxThatStopsProcessesHoldsNothingUp(t *testing.T) {
	w := newWorld(t, openPolicy)
	boxes := w.box.Sandboxes
	const stops = `import os, signal
if os.fork() == 0:
    os.setsid()
    me, last = os.getpid(), os.getpid()
    while True:
        for pid in range(last + 1, last + 40):
            try: os.kill(pid, signal.SIGSTOP)
            except OSError: pass
        new = [int(p) for p in os.listdir('/proc') if p.isdigit()]
        last = max([me] + new) - 20`
	w.says("bad", "python3 -c \"$(cat <<'EOF'\n"+stops+"\nEOF\n)\" > /dev/null 2>&1; echo ok", "ok")
	where := boxes.Open()[0].Workspace
	for range 5 {
		sockets, err := boxes.Sockets(t.Context(), "bad", where)
		for _, f := range sockets {
			_ = f.Close()
		}
		if errors.Is(err, fault.NotFound) {
			break // the sandbox has ended
		}
	}
	w.says("good", "echo fine", "fine")
}
