//go:build linux && (amd64 || arm64)

package linux_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/sandbox/linux"
)

const sessionPolicy = openPolicy + "sandbox: {tier: session}\n"

// pidOf runs a command that tells its process ID: in a sandbox that was there
// before it goes on counting.
func (w *world) pidOf() int {
	w.t.Helper()
	out := w.sh("echo $$")
	n, err := strconv.Atoi(strings.TrimSpace(string(out.Stdout.Data)))
	must(w.t, err)
	if out.Tier != "session" {
		w.t.Errorf("tier %q", out.Tier)
	}
	return n
}

func TestCommandsOfASessionShareASandbox(t *testing.T) {
	w := newWorld(t, sessionPolicy)
	first := w.pidOf()
	for range 3 {
		if next := w.pidOf(); next <= first {
			t.Errorf("process %d, after %d: it is another sandbox", next, first)
		}
	}
	out, err := w.run(sandbox.Command{Argv: []string{"sh", "-c", "cat; echo err >&2; exit 3"}, Stdin: []byte("in")})
	if err != nil || string(out.Stdout.Data) != "in" || string(out.Stderr.Data) != "err\n" || out.ExitCode != 3 || out.Tier != "session" {
		t.Errorf("got %+v, %v", out, err)
	}
	if out.CPU <= 0 || out.PeakMemory <= 0 || out.Duration <= 0 {
		t.Errorf("usage is missing: %+v", out)
	}
}

// What makes a sandbox unfit for the next command, or another one necessary.
func TestASessionEndsWhere(t *testing.T) {
	python := func(code string) string { return "/usr/bin/python3 -c '" + code + "'" }
	tests := map[string]struct {
		between func(w *world)
		script  string
	}{
		"a file is left in /tmp":         {script: "echo token > /tmp/left"},
		"a file is left at home":         {script: "echo token > $HOME/left"},
		"a folder is renamed":            {script: "mv $HOME /tmp/token"},
		"a file came and went":           {script: "echo token > /tmp/x; rm /tmp/x"},
		"a time is set":                  {script: "touch -d @12345 /tmp"},
		"a mode is set":                  {script: "chmod 0700 $HOME"},
		"shared memory is left":          {script: "ipcmk -M 4096 >/dev/null"},
		"a semaphore is left":            {script: "ipcmk -S 1 >/dev/null"},
		"a message queue is left":        {script: "ipcmk -Q >/dev/null"},
		"the first process got slow":     {script: "renice -n 19 -p 1 >/dev/null"},
		"the first process got limits":   {script: "prlimit --pid 1 --nofile=100:100"},
		"the first process got a signal": {script: "kill -USR1 1"},
		"the first process was bound":    {script: "taskset -p 1 1 >/dev/null"},
		"it was killed from inside":      {script: python("import os,signal; os.kill(os.getpid(), signal.SIGKILL)") + " 2>/dev/null; chmod 0701 /tmp"},
		"the policy is another": {script: "true", between: func(w *world) {
			w.allow(strings.Replace(denyingPolicy+"sandbox: {tier: session}\n", "300s", "301s", 1))
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			for _, needs := range []string{"ipcmk", "renice", "prlimit", "taskset"} {
				if _, err := exec.LookPath(needs); err != nil && strings.Contains(tc.script, needs) {
					t.Skipf("NOT TESTED: %v", err)
				}
			}
			w := newWorld(t, denyingPolicy+"sandbox: {tier: session}\n")
			w.file("a.bak", "secret")
			w.pidOf()
			begun := w.pidOf()
			if out := w.sh(tc.script); out.Tier != "session" || len(out.Stderr.Data) > 0 {
				t.Fatalf("the probe did not run: %+v %s", out, out.Stderr.Data)
			}
			if tc.between != nil {
				tc.between(w)
			}
			if next := w.pidOf(); next > begun {
				t.Errorf("process %d after %d: the sandbox is the same", next, begun)
			}
			out := w.sh("cat /tmp/left $HOME/left *.bak; ls -A /tmp /tmp/token")
			if got := string(out.Stdout.Data); strings.Contains(got, "token") || strings.Contains(got, "secret") || !strings.Contains(got, "home") {
				t.Errorf("the next command finds %q", got)
			}
		})
	}
}

// A session with a way out has a proxy for each command, and stays.
func TestASessionStaysAfterTheNetworkWasUsed(t *testing.T) {
	made := 0
	w := netWorld(t, netPolicy+"sandbox: {tier: session}\n", func() *proxy { made++; return newProxy(fmt.Sprint("proxy-", made)) })
	exe, err := os.Executable()
	must(t, err)
	w.pidOf()
	shared := 0
	for range 5 {
		before := w.pidOf()
		out, err := w.run(sandbox.Command{Argv: []string{exe, "probe", "fetch", "http://service.test/x"}, Timeout: time.Minute})
		must(t, err)
		if want := fmt.Sprintf("proxy-%d answers", made); !strings.Contains(string(out.Stdout.Data), want) || len(out.Connections) != 1 {
			t.Errorf("got %q with %+v, want %q", out.Stdout.Data, out.Connections, want)
		}
		if w.pidOf() > before {
			shared++
		}
	}
	if shared == 0 { // what of the connection is still on its way out ends a sandbox now and then
		t.Error("no sandbox was used again")
	}
}

// A sandbox stays where a command did nothing to it but use it.
func TestASessionStaysAfter(t *testing.T) {
	w := newWorld(t, sessionPolicy)
	w.file("out/x", "x")
	for _, script := range []string{"ls -lA /tmp $HOME; find / -xdev 2>/dev/null >/dev/null", "echo new > out/y && rm out/y", "exit 9",
		"kill -SEGV $$", "(setsid sleep 1000 &) ; exit 0", "mkfifo out/f; rm out/f", "/usr/bin/python3 -c 'import socket; s=socket.socket(socket.AF_UNIX); s.bind(chr(0)+\"x\"); s.listen()'"} {
		before := w.pidOf()
		w.sh(script)
		if after := w.pidOf(); after <= before {
			t.Errorf("after %q it is another sandbox", script)
		}
	}
}

func TestAKilledSessionIsReplaced(t *testing.T) {
	w := newWorld(t, sessionPolicy)
	w.pidOf()
	out, err := w.run(sandbox.Command{Argv: []string{"sleep", "1000"}, Timeout: 100 * time.Millisecond})
	if err != nil || !out.TimedOut || out.Tier != "session" {
		t.Errorf("got %+v, %v", out, err)
	}
	w.pidOf()
	for range 2 { // while it waits: each first process is a child of the spawner
		for _, sp := range childrenNamed(t, "remit: spawner") {
			list, _ := exec.Command("ps", "-o", "pid=", "--ppid", strconv.Itoa(sp)).Output()
			for _, f := range strings.Fields(string(list)) {
				pid, _ := strconv.Atoi(f)
				_ = syscall.Kill(pid, syscall.SIGKILL)
				for end := time.Now().Add(time.Minute); syscall.Kill(pid, 0) == nil && time.Now().Before(end); {
					time.Sleep(time.Millisecond)
				}
			}
		}
		if out := w.sh("echo again"); string(out.Stdout.Data) != "again\n" {
			t.Errorf("after that: %+v", out)
		}
	}
}

func TestSessionsAreForOneCommandAtATime(t *testing.T) {
	w := newWorld(t, sessionPolicy)
	w.pidOf()
	done := make(chan error, 8)
	for i := range cap(done) {
		go func() {
			out, err := w.box.Run(context.Background(), w.p, sandbox.Command{Argv: []string{"sh", "-c", "ls -d /proc/[0-9]* | wc -l; sleep 0.1"}, Dir: w.dir})
			// its own: the first process, the shell, ls and wc
			if got := strings.TrimSpace(string(out.Stdout.Data)); err == nil && got != "4" && got != "3" {
				err = fmt.Errorf("command %d sees %s processes", i, got)
			}
			done <- err
		}()
	}
	for range cap(done) {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestAProgramThatCannotStartHarmsNoOtherOne(t *testing.T) {
	w := newWorld(t, sessionPolicy)
	bad := w.file("out/bad", "#!/nowhere/interpreter\n")
	must(t, os.Chmod(bad, 0o755))
	w.allow(strings.Replace(sessionPolicy, `"EXE **"`, `"./out/bad"`, 1))
	w.pidOf()
	if _, err := w.box.Run(context.Background(), w.p, sandbox.Command{Argv: []string{"./out/bad"}, Dir: w.dir}); err == nil || !strings.Contains(err.Error(), "cannot be executed") {
		t.Errorf("got %v", err)
	}
	w.pidOf()
}

// A sandbox that waits for a command dies with Remit, however that ends.
func TestKillingTheRuntimeEndsItsSessions(t *testing.T) {
	w := newWorld(t, sessionPolicy)
	w.pidOf()
	cmd := exec.Command(os.Args[0], "probe", "session-parent", w.dir)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	line := make([]byte, 6)
	if _, err := io.ReadFull(out, line); err != nil || string(line) != "ready\n" {
		t.Fatalf("got %q, %v", line, err)
	}
	below := func(pid int) (list []int) {
		b, _ := exec.Command("ps", "-o", "pid=", "--ppid", strconv.Itoa(pid)).Output()
		for _, f := range strings.Fields(string(b)) {
			n, _ := strconv.Atoi(f)
			list = append(list, n)
		}
		return list
	}
	spawners := below(cmd.Process.Pid)
	if len(spawners) != 1 {
		t.Fatalf("its children: %v", spawners)
	}
	waiting := below(spawners[0])
	if len(waiting) == 0 {
		t.Fatal("no sandbox waits")
	}
	must(t, cmd.Process.Kill())
	_ = cmd.Wait() // killed: the status says so
	for _, pid := range append(waiting, spawners...) {
		for end := time.Now().Add(time.Minute); syscall.Kill(pid, 0) == nil; time.Sleep(2 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("process %d outlived Remit", pid)
			}
		}
	}
}

func init() {
	probes["session-parent"] = func(dir string) error {
		box := linux.New(linux.Config{})
		p, err := permitFor(dir, sessionPolicy)
		if err == nil {
			_, err = box.Run(context.Background(), p, sandbox.Command{Argv: []string{"true"}, Dir: dir})
		}
		if err != nil {
			return err
		}
		fmt.Println("ready")
		time.Sleep(time.Minute)
		return nil
	}
}

// Hundreds of commands, some of which leave something, leave nothing.
func TestManySessionsLeaveNothing(t *testing.T) {
	w := newWorld(t, sessionPolicy)
	w.pidOf()
	rounds := 60
	if os.Getenv("REMIT_SOAK") != "" {
		rounds = 1000
	}
	done := make(chan error, 4)
	for range cap(done) {
		go func() {
			for i := range rounds / cap(done) {
				script := []string{"true", "ls /tmp; echo x > /tmp/left", "exit 1", "sleep 1000 &"}[i%4]
				out, err := w.box.Run(context.Background(), w.p, sandbox.Command{Argv: []string{"/bin/sh", "-c", script}, Shell: true, Dir: w.dir})
				if err == nil && i%4 == 1 && strings.Contains(string(out.Stdout.Data), "left") {
					err = fmt.Errorf("/tmp has %q", out.Stdout.Data)
				}
				if err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range cap(done) {
		must(t, <-done)
	}
}
