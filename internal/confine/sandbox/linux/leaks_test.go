//go:build linux && (amd64 || arm64)

package linux_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/sandbox/linux"
)

// What one command leaves in its private folders, no other one finds.
func TestPrivateFoldersAreFresh(t *testing.T) { everyTier(t, openPolicy, testPrivateFolders) }

func testPrivateFolders(t *testing.T, src string) {
	w := newWorld(t, src)
	w.sh("echo token > /tmp/left; echo token > $HOME/left; echo token > /dev/shm/left")
	for range 4 { // with and without a sandbox made ahead
		if out := w.sh("cat /tmp/left $HOME/left /dev/shm/left; ls -A /tmp $HOME"); bytes.Contains(out.Stdout.Data, []byte("token")) {
			t.Errorf("found: %s", out.Stdout.Data)
		}
	}
}

// descendants are all processes below one, zombies left out.
func descendants(t *testing.T, of int) []int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	must(t, err)
	parent := map[int]int{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		_, rest, _ := strings.Cut(string(stat), ") ")
		if f := strings.Fields(rest); err == nil && len(f) > 1 && f[0] != "Z" {
			parent[pid], _ = strconv.Atoi(f[1])
		}
	}
	var out []int
	for pid := range parent {
		for up := parent[pid]; up != 0; up = parent[up] {
			if up == of {
				out = append(out, pid)
				break
			}
		}
	}
	slices.Sort(out)
	return out
}

// belongings are what a process could leave behind, or collect.
type belongings struct{ descriptors, goroutines, mounts, processes, groups int }

func (b belongings) within(a belongings) bool {
	return b.descriptors <= a.descriptors && b.goroutines <= a.goroutines && b.mounts <= a.mounts && b.processes <= a.processes && b.groups <= a.groups
}

func belongingsNow(t *testing.T) belongings {
	return belongings{descriptors(t), goroutines(), strings.Count(mountsNow(t), "\n"), len(descendants(t, os.Getpid())),
		groupsOf(t, linux.GroupPrefix(os.Getpid()))}
}

// goroutines counts those that a sandbox could leave. The threads of supervisors never end: later ones use them.
func goroutines() int {
	buf := make([]byte, 4<<20)
	return runtime.NumGoroutine() - strings.Count(string(buf[:runtime.Stack(buf, true)]), "supervisor.serveThread(")
}

// Many sandboxes, fifty at once, leave no descriptor, goroutine, process, mount
// or control group behind.
func TestNothingLeaks(t *testing.T) {
	if apart(t, 0) {
		everyTier(t, netPolicy, testNothingLeaks)
	}
}

func testNothingLeaks(t *testing.T, src string) {
	w := newWorld(t, src)
	w.sh("true")
	must(t, w.box.Close())
	rounds := 200
	if os.Getenv("REMIT_SOAK") != "" {
		rounds = 1000
	}
	before := belongingsNow(t)
	w.box = linux.New(linux.Config{})
	many(t, w, rounds, 50)
	must(t, w.box.Close())
	after := belongingsNow(t)
	for end := time.Now().Add(time.Minute); !after.within(before) && time.Now().Before(end); after = belongingsNow(t) {
		time.Sleep(10 * time.Millisecond)
	}
	if !after.within(before) {
		t.Errorf("after %d sandboxes %+v, before %+v", rounds, after, before)
	}
}

// many runs commands, so many at once.
func many(t *testing.T, w *world, rounds, atOnce int) {
	t.Helper()
	errs := make(chan error, atOnce)
	for range atOnce {
		go func() {
			for i := range rounds / atOnce {
				script := []string{"true", "sleep 1000 & exit 3", "echo x > /tmp/left", "cat /dev/zero | head -c 100000 | wc -c; kill -9 $$"}[i%4]
				if _, err := w.box.Run(context.Background(), w.p, sandbox.Command{Argv: []string{"/bin/sh", "-c", script}, Shell: true, Dir: w.dir}); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for range atOnce {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// Spares wait as children of the spawner; nothing of them outlives it.
func TestSparesEndWithTheSpawner(t *testing.T) {
	w := newWorld(t, openPolicy)
	for range 3 {
		w.sh("true")
	}
	spawners := childrenNamed(t, "remit: spawner")
	if len(spawners) != 1 {
		t.Fatalf("spawners: %v", spawners)
	}
	children := func() []int {
		b, _ := exec.Command("ps", "-o", "pid=", "--ppid", strconv.Itoa(spawners[0])).Output()
		var out []int
		for _, f := range strings.Fields(string(b)) {
			n, _ := strconv.Atoi(f)
			out = append(out, n)
		}
		return out
	}
	for end := time.Now().Add(time.Minute); len(children()) == 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no spare was made")
		}
	}
	spare := children()
	must(t, syscall.Kill(spawners[0], syscall.SIGKILL))
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		left := 0
		for _, pid := range spare {
			if syscall.Kill(pid, 0) == nil {
				left++
			}
		}
		if left == 0 {
			if out := w.sh("echo again"); string(out.Stdout.Data) != "again\n" {
				t.Errorf("after that: %+v", out)
			}
			return
		}
	}
	t.Error("a spare outlived its spawner")
}
