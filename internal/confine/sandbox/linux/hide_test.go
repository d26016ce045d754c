//go:build linux && (amd64 || arm64)

package linux_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/base/racetest"
)

// left is a program that leaves a process with an open file. What the next command sends to that comes into the file. The process
// hides from those that wait for it, at once or later.
const left = `python3 -c '
import os, socket, sys, time
waiter = int(sys.argv[1])
here, there = os.pipe()
if os.fork() == 0:
    os.setsid()
    s = socket.socket(socket.AF_UNIX)
    s.bind(b"\0left")
    s.listen(1)
    log = open("log", "ab", 0)
    os.write(there, b"x")
    for n in 0, 1, 2: os.close(n)
    while sys.argv[2] == "later" and os.path.exists("/proc/%d" % waiter):
        os.path.exists("over") and os.kill(waiter, 9)
        time.sleep(0.02)
    c, _ = s.accept()
    log.write(c.recv(100))
    c.send(b"x")
    time.sleep(60)
os.read(here, 1)
if sys.argv[2] == "now":
    os.kill(waiter, 9)
    time.sleep(60)
' $PPID `

// TestProcessesThatHideChangeFilesToo: a command that kills what waits for its processes leaves some that are not known.
func TestProcessesThatHideChangeFilesToo(t *testing.T) {
	racetest.Skip(t, oneByOne)
	const sends = `python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); s.connect(b"\0left"); s.send(b"secret"); s.recv(1)'`
	for _, when := range []string{"now", "later"} {
		t.Run(when, func(t *testing.T) {
			w := newWorld(t, allWritable)
			_, err := w.inSession(context.Background(), "s", "echo $PPID > waiter; "+left+when)
			must(t, err)
			w.file("over", "")
			_, err = w.inSession(context.Background(), "s", "while test -e /proc/$(cat waiter); do sleep 0.02; done")
			must(t, err)
			time.Sleep(100 * time.Millisecond) // else this command may be known as one that is still ending
			p, err := w.inSession(context.Background(), "s", sends)
			must(t, err)
			if got, err := os.ReadFile(filepath.Join(w.dir, "log")); string(got) != "secret" {
				t.Fatalf("the process that was left got %q (%v; %+v, %s)", got, err, p.Outcome, p.err)
			}
			if p.Changed != nil {
				t.Errorf("%q are told", *p.Changed)
			}
		})
	}
}

// TestKilledCommandsLeaveNoProcess: after a command whose time was over, the next one is alone.
func TestKilledCommandsLeaveNoProcess(t *testing.T) {
	w := newWorld(t, allWritable)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() {
		_, err := w.inSession(ctx, "s", "sleep 60 & touch begun; sleep 60")
		ended <- err
	}()
	for _, err := os.Stat(filepath.Join(w.dir, "begun")); err != nil; _, err = os.Stat(filepath.Join(w.dir, "begun")) {
		time.Sleep(10 * time.Millisecond)
	}
	stop()
	if err := <-ended; err == nil {
		t.Fatal("the command was not cancelled")
	}
	for {
		p, err := w.inSession(context.Background(), "s", "true")
		must(t, err)
		if p.Changed != nil { // once the kernel tells that the last process has gone
			return
		}
	}
}
