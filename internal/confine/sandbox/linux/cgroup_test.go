//go:build linux && (amd64 || arm64)

package linux_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/base/racetest"
	"github.com/remitrun/remit/internal/confine/sandbox/linux"
)

func TestWhereControlGroupsAre(t *testing.T) {
	const v1 = "30 23 0:26 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n" +
		"31 23 0:27 / /sys/fs/cgroup/cpu,pids rw - cgroup cgroup rw,cpu,pids\n32 23 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
	const container = "30 23 0:26 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
	const v2 = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n"
	tests := map[string]struct{ own, mounts, controller, want string }{
		"version 1":                   {"4:memory:/user/a\n0::/x\n", v1, "memory", "/sys/fs/cgroup/memory/user/a"},
		"two controllers in one":      {"4:cpu,pids:/b\n", v1, "pids", "/sys/fs/cgroup/cpu,pids/b"},
		"the unified one beside them": {"4:memory:/user/a\n0::/x\n", v1, "", "/sys/fs/cgroup/unified/x"},
		"not mounted":                 {"4:blkio:/user/a\n", v1, "blkio", ""},
		"a container":                 {"4:memory:/docker/abc/in\n", container, "memory", "/sys/fs/cgroup/memory/in"},
		"a container, from outside":   {"4:memory:/docker/other\n", container, "memory", "/sys/fs/cgroup/memory"},
		"version 2":                   {"0::/user.slice/s.scope\n", v2, "", "/sys/fs/cgroup/user.slice/s.scope"},
		"version 2 has no memory one": {"0::/user.slice/s.scope\n", v2, "memory", ""},
		"nothing":                     {"", "", "memory", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := linux.GroupFolder(tc.own, tc.mounts, tc.controller); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// Only groups with controllers count, and only what this user may write to.
func TestDelegatedGroups(t *testing.T) {
	tests := map[string]struct {
		controllers  map[string]string // of a folder's children
		memory, pids string
	}{
		"a user's slice":            {map[string]string{"": "memory pids", "u": "memory pids", "u/app": "cpu memory pids", "u/app/me": ""}, "u/app", "u/app"},
		"only one of them":          {map[string]string{"": "", "u": "pids", "u/app": "", "u/app/me": ""}, "", "u"},
		"none, as beside version 1": {map[string]string{"": "hugetlb", "u": "", "u/app": "", "u/app/me": ""}, "", ""},
		"an own empty one":          {map[string]string{"": "", "u": "", "u/app": "", "u/app/me": "memory"}, "u/app/me", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for dir, on := range tc.controllers {
				dir = filepath.Join(root, dir)
				must(t, os.MkdirAll(dir, 0o755))
				must(t, os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte(on+"\n"), 0o644))
				must(t, os.WriteFile(filepath.Join(dir, "cgroup.procs"), nil, 0o644))
			}
			want := func(rel string) string {
				if rel == "" {
					return ""
				}
				return filepath.Join(root, rel)
			}
			memory, pids := linux.GroupsAt(filepath.Join(root, "u/app/me"), root)
			if memory != want(tc.memory) || pids != want(tc.pids) {
				t.Errorf("got %q, %q, want %q, %q", memory, pids, tc.memory, tc.pids)
			}
		})
	}
}

// A hierarchy without controllers takes groups and limits nothing: it does not
// count, and nothing is left in it.
func TestAGroupThatLimitsNothingIsNone(t *testing.T) {
	var at string
	for line := range strings.Lines(mountsNow(t)) {
		if head, tail, ok := strings.Cut(line, " - "); ok && strings.HasPrefix(tail, "cgroup2 ") {
			at = strings.Fields(head)[4]
		}
	}
	on, err := os.ReadFile(filepath.Join(at, "cgroup.controllers"))
	if at == "" || err != nil || strings.Contains(string(on), "memory") || os.Getuid() != 0 {
		t.Skip("NOT TESTED: there is no hierarchy of version 2 without controllers that is ours")
	}
	ok, why := linux.TakeGroup(at, 1<<30, 10)
	if ok || !strings.Contains(why, "does not hold its limits") {
		t.Errorf("got %v, %q", ok, why)
	}
	left, err := filepath.Glob(filepath.Join(at, linux.GroupPrefix(os.Getpid())+"*"))
	if err != nil || len(left) != 0 {
		t.Errorf("left: %q, %v", left, err)
	}
}

// groupsOf counts the control groups of a process.
func groupsOf(t *testing.T, prefix string) int {
	t.Helper()
	n := 0
	for _, dir := range linux.GroupFolders() {
		entries, err := os.ReadDir(dir)
		must(t, err)
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), prefix) {
				n++
			}
		}
	}
	return n
}

func needGroups(t *testing.T) {
	t.Helper()
	if len(linux.GroupFolders()) == 0 {
		t.Skip("NOT TESTED: this user may make no control groups here")
	}
}

const buffers = `hold() { { head -c 40000000 /dev/zero; sleep 2; } | tail -c 40000000 | wc -c; }; `

// What each process may have does not add up.
func TestAWholeCommandIsBounded(t *testing.T) {
	racetest.Skip(t, oneByOne)
	needGroups(t)
	tests := map[string]struct{ limit, script, want string }{
		"one process below the limit": {"memory: 80MiB", buffers + "test $(hold) = 40000000", ""},
		"many processes":              {"memory: 80MiB", buffers + "hold & hold & hold & test $(hold) = 40000000 && wait && false", "memory limit 80 MiB reached"},
		"memory that is no process's": {"memory: 80MiB", `exec python3 -c '
import os
fds=[os.memfd_create("x") for _ in range(4)]
for f in fds:
  for i in range(40): os.write(f, b"x"*1000000)
os._exit(1)'`, "memory limit 80 MiB reached"},
		"processes": {"processes: 20", "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22; do sleep 3 & done", "process limit 20 reached"},
		"threads count": {"processes: 20", `exec python3 -c '
import threading,time
for i in range(30): threading.Thread(target=time.sleep,args=(1,),daemon=True).start()'`, "process limit 20 reached"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath("python3"); err != nil && strings.Contains(tc.script, "python3") {
				t.Skipf("NOT TESTED: %v", err)
			}
			w := newWorld(t, openPolicy+"  "+tc.limit+"\n")
			out := w.sh(tc.script)
			if out.Limit != tc.want || (out.ExitCode == 0) != (tc.want == "") {
				t.Errorf("got exit %d, limit %q, want %q\n%s\n%v", out.ExitCode, out.Limit, tc.want, out.Stderr.Data, out.Limits)
			}
		})
	}
}

func TestPeakMemoryIsThatOfAllProcesses(t *testing.T) {
	racetest.Skip(t, oneByOne)
	needGroups(t)
	w := newWorld(t, openPolicy)
	for range 2 { // also where a group is used again
		if out := w.sh(buffers + "hold & hold & hold & wait"); out.PeakMemory < 110e6 || out.PeakMemory > 400e6 {
			t.Errorf("three processes of 40 MB had %d bytes", out.PeakMemory)
		}
		if out := w.sh("true"); out.PeakMemory > 30e6 {
			t.Errorf("true had %d bytes", out.PeakMemory)
		}
	}
}

func TestNoControlGroupStays(t *testing.T) {
	needGroups(t)
	mine := linux.GroupPrefix(os.Getpid())
	w := newWorld(t, openPolicy)
	before := groupsOf(t, mine) // of boxes of other tests
	box := linux.New(linux.Config{Getenv: os.LookupEnv})
	w.box = box
	for range 5 {
		w.sh("true")
	}
	if groupsOf(t, mine) <= before {
		t.Error("while it runs there is none")
	}
	must(t, box.Close())
	if n := groupsOf(t, mine); n != before {
		t.Errorf("%d groups were there before, %d are left", before, n)
	}
}

func TestGroupsOfADeadRuntimeAreRemoved(t *testing.T) {
	needGroups(t)
	w := newWorld(t, openPolicy)
	w.sh("true")
	tok := token()
	cmd := exec.Command(os.Args[0], "probe", "parent", w.dir+" "+tok)
	must(t, cmd.Start())
	theirs := linux.GroupPrefix(cmd.Process.Pid)
	until := func(what string, ok func() bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal(what)
			}
		}
	}
	until("the command is in no group", func() bool { return survivors(t, tok) >= 2 && groupsOf(t, theirs) > 0 })
	other := linux.New(linux.Config{Getenv: os.LookupEnv})
	w.box = other
	w.sh("true")
	must(t, other.Close())
	if groupsOf(t, theirs) == 0 {
		t.Error("a living runtime's groups were removed")
	}
	must(t, cmd.Process.Kill())
	_ = cmd.Wait() // killed: the status says so
	until("the command did not end", func() bool { return survivors(t, tok) == 0 })
	until("groups are left", func() bool { // a start sweeps what is empty by then
		next := linux.New(linux.Config{Getenv: os.LookupEnv})
		w.box = next
		w.sh("true")
		must(t, next.Close())
		return groupsOf(t, theirs) == 0
	})
}
