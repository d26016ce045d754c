//go:build linux && (amd64 || arm64)

package linux_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/sandbox/linux"
)

func init() {
	// busy runs one command after another in each tier, and says how each ended.
	probes["busy"] = func(dir string) error {
		box := linux.New(linux.Config{})
		for _, tier := range tiers {
			p, err := permitFor(dir, openPolicy+tier.policy)
			if err != nil {
				return err
			}
			go func() {
				for i := 0; ; i++ {
					script := []string{"true", "(setsid sleep 1000 &); sleep 0.01", "echo x > /tmp/left; sleep 0.01 | cat"}[i%3]
					out, err := box.Run(context.Background(), p, sandbox.Command{Argv: []string{"/bin/sh", "-c", script}, Shell: true, Dir: dir})
					fmt.Println(tier.name, err == nil && out.ExitCode == 0)
				}
			}()
		}
		time.Sleep(time.Hour)
		return nil
	}
}

// busyRuntime is a runtime that runs commands, to be killed.
type busyRuntime struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines chan string
}

func busy(t *testing.T, dir string) *busyRuntime {
	t.Helper()
	r := &busyRuntime{t: t, cmd: exec.Command("/proc/self/exe", "probe", "busy", dir), lines: make(chan string, 1000)}
	out, err := r.cmd.StdoutPipe()
	must(t, err)
	must(t, r.cmd.Start())
	go func() {
		defer close(r.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			select {
			case r.lines <- s.Text():
			default: // nobody is interested just now
			}
		}
	}()
	return r
}

// works waits until commands of each tier ended well.
func (r *busyRuntime) works(when string) {
	r.t.Helper()
	for len(r.lines) > 0 {
		<-r.lines // of before
	}
	need := map[string]bool{}
	for _, tier := range tiers {
		need[tier.name+" true"] = true
	}
	end := time.After(time.Minute)
	for len(need) > 0 {
		select {
		case line, ok := <-r.lines:
			if !ok {
				r.t.Fatalf("%s: it ended", when)
			}
			delete(need, line)
		case <-end:
			r.t.Fatalf("%s: no command ends well: still missing %v", when, need)
		}
	}
}

// kill kills it, and waits until nothing is left of it.
func (r *busyRuntime) kill() {
	r.t.Helper()
	must(r.t, r.cmd.Process.Kill())
	_ = r.cmd.Wait() // killed: the status says so
	gone(r.t, "after the runtime was killed")
}

// gone waits until this process has no descendant. Orphans come to it.
func gone(t *testing.T, when string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(2 * time.Millisecond) {
		for {
			if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); pid <= 0 || err != nil {
				break
			}
		}
		left := descendants(t, os.Getpid())
		if len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			for _, pid := range left {
				line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
				t.Errorf("%s, process %d is left: %q", when, pid, line)
			}
			t.FailNow()
		}
	}
}

// However one of the processes that make and hold sandboxes dies, and whenever,
// the commands under way end with it or go on, nothing is left, and the next
// command runs.
func TestKillNineAtRandomMoments(t *testing.T) {
	if !apart(t, 0) {
		return
	}
	must(t, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
	w := newWorld(t, openPolicy)
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	before := strings.Count(mountsNow(t), "\n")
	rounds := 20
	if os.Getenv("REMIT_SOAK") != "" {
		rounds = 200
	}
	hit := map[string]int{}
	var prefixes []string // of names of their groups
	for i := range rounds {
		r := busy(t, w.dir)
		prefixes = append(prefixes, linux.GroupPrefix(r.cmd.Process.Pid))
		if i%4 != 0 { // the first of each four may be killed while it starts
			r.works("before")
		}
		time.Sleep(time.Duration(rand.Int64N(int64(40 * time.Millisecond)))) // a moment like any other
		if victim, what := r.victim(i); what != "the runtime" {
			_ = syscall.Kill(victim, syscall.SIGKILL) // a command may have ended by now
			hit[what]++
			r.works("after " + what + " was killed")
		}
		hit["the runtime"]++
		r.kill()
	}
	t.Logf("killed: %v", hit)
	if now := strings.Count(mountsNow(t), "\n"); now != before {
		t.Errorf("%d mounts, there were %d", now, before)
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	w.sh("true") // a start removes the groups of the dead
	must(t, w.box.Close())
	for _, prefix := range prefixes {
		for end := time.Now().Add(time.Minute); groupsOf(t, prefix) > 0; {
			if time.Now().After(end) {
				t.Fatalf("control groups %s are left", prefix)
			}
			next := linux.New(linux.Config{})
			w.box = next
			w.sh("true")
			must(t, next.Close())
		}
	}
}

// victim is one of the processes: in turns the runtime, its spawner, the first
// process of a sandbox, and any other one.
func (r *busyRuntime) victim(i int) (pid int, what string) {
	own := r.cmd.Process.Pid
	var spawners, first, others []int
	for _, pid := range descendants(r.t, own) {
		switch parent := parentOf(pid); {
		case parent == own:
			spawners = append(spawners, pid)
		case parentOf(parent) == own:
			first = append(first, pid)
		case parent != 0:
			others = append(others, pid)
		}
	}
	for name, list := range map[string][]int{"1 the spawner": spawners, "2 the first process of a sandbox": first, "3 a process of a command": others} {
		if int(name[0]-'0') == i%4 && len(list) > 0 {
			return list[rand.IntN(len(list))], name[2:]
		}
	}
	return own, "the runtime"
}

func parentOf(pid int) int {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(stat), ") ")
	var state string
	var parent int
	_, _ = fmt.Sscan(rest, &state, &parent) // 0: it is gone
	return parent
}
