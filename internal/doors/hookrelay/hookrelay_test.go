package hookrelay_test

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/doors/hookrelay"
	"github.com/remitrun/remit/internal/doors/hookwire"
)

// serve starts a relay on a socket of the test's own.
func serve(t *testing.T, r hookrelay.Relay) (at string, stop func()) {
	t.Helper()
	at = filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", at)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- r.Serve(l) }()
	closed := false
	stop = func() {
		if closed {
			return
		}
		closed = true
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		<-ended
	}
	t.Cleanup(stop)
	return at, stop
}

func echo(_ context.Context, e hookwire.Request) hookwire.Answer {
	return hookwire.Answer{Out: append([]byte(e.Args[0]+": "), e.Event...), Err: []byte("e"), Status: 2}
}

func TestEventsAreAnswered(t *testing.T) {
	at, _ := serve(t, hookrelay.Relay{Answer: echo, Max: 1000, Time: time.Minute})
	for range 40 { // more than are answered at the same time
		a, err := hookrelay.Forward(t.Context(), at, hookwire.Request{Args: []string{"claude"}, Event: []byte("\x00{}")})
		if err != nil || string(a.Out) != "claude: \x00{}" || string(a.Err) != "e" || a.Status != 2 {
			t.Fatalf("%+v, %v", a, err)
		}
	}
}

// What is not an event, or too large, gets no answer, and the next one does.
func TestJunkIsNotAnswered(t *testing.T) {
	at, _ := serve(t, hookrelay.Relay{Answer: echo, Max: 100, Time: time.Minute})
	conn, err := net.Dial("unix", at)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte("{}{}")); err != nil {
		t.Fatal(err)
	}
	if err := conn.(*net.UnixConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(conn); string(b) != hookwire.Greeting {
		t.Errorf("%q, %v", b, err)
	}
	if a, err := hookrelay.Forward(t.Context(), at, hookwire.Request{Event: []byte(strings.Repeat("x", 2000))}); err == nil {
		t.Errorf("an event above the limit was answered: %+v", a)
	}
	if _, err := hookrelay.Forward(t.Context(), at, hookwire.Request{Args: []string{"a"}}); err != nil {
		t.Error(err)
	}
}

// A relay without a way to run scripts, as the one of a confined agent, answers none.
func TestScriptsAreRefused(t *testing.T) {
	at, _ := serve(t, hookrelay.Relay{Answer: echo, Max: 1000, Time: time.Minute})
	for _, files := range [][]int{nil, {0, 1, 2, 0}} {
		b, err := hookwire.Request{Shell: true, Args: []string{"-c", "true"}, Dir: "/"}.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: at, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := conn.WriteMsgUnix(b, unix.UnixRights(files...), nil); err != nil {
			t.Fatal(err)
		}
		if err := conn.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(conn); string(b) != hookwire.Greeting {
			t.Errorf("%q, %v", b, err)
		}
		_ = conn.Close()
	}
}

// A client that resets its connection, as one does that is killed before it reads, ends nothing but its call.
func TestAResetEndsOneCall(t *testing.T) {
	at, _ := serve(t, hookrelay.Relay{Answer: echo, Max: 1000, Time: time.Minute, Shell: func(*net.UnixConn, hookwire.Request, []int) {}})
	for range 20 {
		conn, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err == nil {
			err = unix.Connect(conn, &unix.SockaddrUnix{Name: at})
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := unix.Recvfrom(conn, make([]byte, 1), unix.MSG_PEEK); err != nil { // the greeting is there, and unread
			t.Error(err)
		}
		_ = unix.Close(conn)
		if a, err := hookrelay.Forward(t.Context(), at, hookwire.Request{Args: []string{"a"}}); err != nil || a.Status != 2 {
			t.Errorf("%+v, %v", a, err)
		}
	}
}

// A process that has as many files open as it may goes on as soon as it has fewer.
func TestTooManyFilesEndNoRelay(t *testing.T) {
	at, _ := serve(t, hookrelay.Relay{Answer: echo, Max: 1000, Time: time.Minute})
	conn, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(conn)
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 64, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	var fill []int
	for {
		fd, err := unix.Dup(0)
		if err != nil {
			break
		}
		fill = append(fill, fd)
	}
	err = unix.Connect(conn, &unix.SockaddrUnix{Name: at})
	time.Sleep(30 * time.Millisecond) // it tries to accept
	for _, fd := range fill {
		_ = unix.Close(fd)
	}
	if err := errors.Join(err, unix.Setrlimit(unix.RLIMIT_NOFILE, &before)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := unix.Recvfrom(conn, make([]byte, 1), 0); err != nil {
		t.Error(err)
	}
	if a, err := hookrelay.Forward(t.Context(), at, hookwire.Request{Args: []string{"a"}}); err != nil || a.Status != 2 {
		t.Errorf("%+v, %v", a, err)
	}
}

// The end of the relay cuts what is connected, answered or not, and waits for it.
func TestServeEndsWithItsListener(t *testing.T) {
	asked, cancelled := make(chan struct{}), make(chan struct{})
	at, stop := serve(t, hookrelay.Relay{Max: 100, Time: time.Hour, Answer: func(ctx context.Context, _ hookwire.Request) hookwire.Answer {
		close(asked)
		<-ctx.Done()
		close(cancelled)
		return hookwire.Answer{}
	}})
	idle, err := net.Dial("unix", at)
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() {
		_, err := hookrelay.Forward(context.Background(), at, hookwire.Request{})
		failed <- err
	}()
	<-asked
	stop()
	<-cancelled
	if err := <-failed; err == nil {
		t.Error("an answer came after the end")
	}
	if b, err := io.ReadAll(idle); string(b) != hookwire.Greeting { // it ends
		t.Errorf("%q, %v", b, err)
	}
}

func TestNoRelayIsAnError(t *testing.T) {
	if _, err := hookrelay.Forward(t.Context(), filepath.Join(t.TempDir(), "none"), hookwire.Request{}); err == nil || hookrelay.Present() {
		t.Error(err)
	}
}
