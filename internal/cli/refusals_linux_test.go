package cli_test

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/cli"
)

// Nothing is written between what a program draws on its terminal: what it was
// refused is told when it has ended, each once, and is in the log.
func TestExecWritesNothingOverAFullScreenProgram(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skipf("NOT TESTED: %v", err)
	}
	const script = `printf 'FIRST'
at=${http_proxy#http://}
auth=$(printf %s "${at%@*}" | base64 -w0)
for i in 1 2; do
  exec 3<>/dev/tcp/127.0.0.1/${at##*:}
  printf 'GET http://evil.example/x HTTP/1.1\r\nHost: evil.example\r\nProxy-Authorization: Basic %s\r\nConnection: close\r\n\r\n' "$auth" >&3
  read -r line <&3
  while read -r rest <&3; do :; done
done
printf 'SECOND'
`
	r := newRemit(t)
	if status, _, _ := r.exec("", "true"); status != 0 {
		t.Fatal(status)
	}
	mine, theirs := openTerminal(t)
	done := make(chan int, 1)
	go func() {
		done <- r.main(cli.Streams{In: theirs, Out: theirs, Err: theirs},
			"exec", "-p", filepath.Join(r.dir, "..", "p.yaml"), "-w", r.dir, "--", "bash", "-c", script)
	}()
	must(t, mine.SetReadDeadline(time.Now().Add(time.Minute)))
	screen := ""
	for buf := make([]byte, 4096); !strings.Contains(screen, "remit show "); {
		n, err := mine.Read(buf)
		screen += string(buf[:n])
		if err != nil {
			t.Fatalf("%v: %q", err, screen)
		}
	}
	go func() { _, _ = io.Copy(io.Discard, mine) }() // what is still printed must not block it
	if status := <-done; status != 0 {
		t.Errorf("status %d", status)
	}
	if err := theirs.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
	must(t, mine.Close())
	program, after, ok := strings.Cut(screen, "SECOND")
	if !ok || !strings.HasSuffix(program, "FIRST") {
		t.Errorf("something was written over the program: %q", screen)
	}
	if strings.Count(after, "✗ refused") != 1 || !strings.Contains(after, "✗ refused 2 times GET http://evil.example/x (the policy has no section network") ||
		!strings.Contains(after, `network: {allow: ["GET http://evil.example/x"]} would allow it`) || !strings.Contains(after, "2 connections, 2 refused") {
		t.Errorf("afterwards: %q", after)
	}
	if log, err := os.ReadFile(filepath.Join(r.home, "logs", "security.log")); err != nil || !strings.Contains(string(log), "evil.example") {
		t.Errorf("the log: %q, %v", log, err)
	}
}
