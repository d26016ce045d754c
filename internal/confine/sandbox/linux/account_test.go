//go:build linux && (amd64 || arm64)

package linux_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// A command that is killed has used its processor time all the same: that of
// processes that live, of ended ones, and none of an earlier command.
func TestKillingKeepsTheProcessorTime(t *testing.T) { everyTier(t, openPolicy, testKilledTime) }

func testKilledTime(t *testing.T, src string) {
	w := newWorld(t, src)
	const burn = "import time\nwhile time.process_time() < "
	if out := w.sh("python3 -c '" + burn + "1: pass'"); out.ExitCode != 0 || out.CPU < time.Second {
		t.Fatalf("it took %v, exit %d: %s", out.CPU, out.ExitCode, out.Stderr.Data)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := filepath.Join(w.dir, "out/done")
	go func() {
		for tick := time.NewTicker(5 * time.Millisecond); ctx.Err() == nil; <-tick.C {
			if _, err := os.Stat(done); err == nil {
				cancel()
			}
		}
	}()
	script := "python3 -c '" + burn + "0.3: pass'\npython3 -c '" + burn + "0.3: pass\nopen(\"out/done\", \"w\")\ntime.sleep(1000)' & wait"
	out, err := w.box.Run(ctx, w.p, sandbox.Command{Argv: []string{"/bin/sh", "-c", script}, Dir: w.dir, Shell: true})
	if !errors.Is(err, fault.ToolCancelled) {
		t.Fatalf("it ended with %v, exit %d: %s", err, out.ExitCode, out.Stderr.Data)
	}
	if out.CPU < 550*time.Millisecond || out.CPU > 1500*time.Millisecond {
		t.Errorf("two processes took 300ms each, and the outcome says %v", out.CPU)
	}
}

// Many processes that reach the memory limit together are told about, also where
// the command itself goes on.
func TestBombsOfManyProcessesAreNamed(t *testing.T) {
	everyTier(t, strings.Replace(openPolicy, "timeout: 300s", "timeout: 300s\n  memory: 128MiB", 1), func(t *testing.T, src string) {
		w := newWorld(t, src)
		if memory := w.sh("true").Limits["memory"]; !strings.Contains(memory, "of all together,") {
			t.Skipf("NOT TESTED: no control group: %s", memory) // nothing would end the processes
		}
		out := w.sh(`exec python3 -c '
import os, signal
children = []
for i in range(4):
    pid = os.fork()
    if pid == 0:
        x = b"x" * 60000000
        signal.pause()
    children.append(pid)
gone, _ = os.wait() # all of them do not fit
for pid in children:
    if pid != gone:
        os.kill(pid, signal.SIGKILL)
'`)
		if !strings.HasPrefix(out.Limit, "memory limit 128 MiB reached") {
			t.Errorf("limit %q, exit %d, signal %q, %s", out.Limit, out.ExitCode, out.Signal, out.Stderr.Data)
		}
		if err := out.Failure("it", "the policy"); (err == nil) != (out.ExitCode == 0) {
			t.Errorf("exit %d is %v", out.ExitCode, err)
		}
	})
}

// Which control group a command is in tells paths of the host.
func TestNothingLeaksOfControlGroups(t *testing.T) { everyTier(t, openPolicy, testGroupNames) }

func testGroupNames(t *testing.T, src string) {
	out := newWorld(t, src).sh("cat /proc/self/cgroup /proc/1/cgroup")
	for line := range strings.Lines(string(out.Stdout.Data)) {
		if !strings.HasSuffix(line, ":/\n") {
			t.Errorf("it shows %q", line)
		}
	}
	if out.ExitCode != 0 {
		t.Errorf("exit %d: %s", out.ExitCode, out.Stderr.Data)
	}
}
