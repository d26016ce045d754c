//go:build linux && (amd64 || arm64)

package linux_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/racetest"
	"github.com/remitrun/remit/internal/confine/sandbox/linux"
)

const denyingPolicy = `
version: 1
name: test
files:
  read:  {allow: ["**"], deny: ["**/*.bak", "private/**"]}
  write: {allow: ["out/**"], deny: ["out/keep.txt"]}
commands:
  allow: ["**", "EXE **"]
  env: [CANARY_OK, EXTRA]
  timeout: 300s
`

// Each probe must succeed without the sandbox, or it would prove nothing, and
// fail inside, where neither the secret comes out nor the host sees a change.
func TestEscapes(t *testing.T) {
	racetest.Skip(t, oneByOne)
	everyTier(t, denyingPolicy, testEscapes)
}

func testEscapes(t *testing.T, src string) {
	h := newHost(t, src)
	h.attempts(h.fileAttempts(), tierOf(src), tierOf(src) == "fresh")
}

// fileAttempts are after files, and what else has a name.
func (h *host) fileAttempts() []attempt {
	in := func(name string) string { return filepath.Join(h.w.dir, name) }
	canary, other, fresh := filepath.Join(h.outside, "canary"), filepath.Join(h.outside, "other"), filepath.Join(h.outside, "new")
	up := h.w.dir + strings.Repeat("/..", strings.Count(h.w.dir, "/")) + canary
	relative, err := filepath.Rel(in("out"), canary)
	must(h.t, err)
	self := strconv.Itoa(os.Getpid())
	list := []attempt{
		{no: 1, name: "file outside", probe: []string{"read", canary}, leaks: true},
		{no: 1, name: "file outside through ..", probe: []string{"read", up}, leaks: true},
		{no: 1, name: "file outside through repeated slashes", probe: []string{"read", strings.ReplaceAll(up, "/", "//./")}, leaks: true},
		{no: 1, name: "new file outside", probe: []string{"write", fresh}, harms: true},
		{no: 1, name: "file outside overwritten", probe: []string{"write", canary}, harms: true},
		{no: 1, name: "file outside removed", probe: []string{"remove", other}, harms: true},
		{no: 2, name: "link in the workspace", probe: []string{"read", in("link")}, leaks: true},
		{no: 2, name: "link in the workspace, written", probe: []string{"write", in("link")}, harms: true},
		{no: 3, name: "own relative link", probe: []string{"own-link", relative + " " + in("out/l1")}, leaks: true},
		{no: 3, name: "own absolute link", probe: []string{"own-link", canary + " " + in("out/l2")}, leaks: true},
		{no: 3, name: "own link to a new file", probe: []string{"own-link-write", filepath.Dir(relative) + "/new " + in("out/l3")}, harms: true},
		{no: 4, name: "name that is swapped", probe: []string{"swap", h.outside + " " + in("out")}, leaks: true},
		{no: 6, name: "through /proc/self/root", probe: []string{"read", "/proc/self/root" + canary}, leaks: true},
		{no: 6, name: "through /proc/self/cwd", probe: []string{"read", "/proc/self/cwd" + strings.Repeat("/..", 40) + canary}, leaks: true},
		{no: 6, name: "through the first process's root", probe: []string{"read", "/proc/1/root" + canary}, control: inside, leaks: true},
		{no: 6, name: "through this process's root", probe: []string{"read", "/proc/" + self + "/root" + canary}, leaks: true},
		{no: 6, name: "through an own descriptor", probe: []string{"descriptor", strings.Repeat("../", 40) + canary}, leaks: true},
		{no: 7, name: "hard link to the readable", probe: []string{"link", in("plain") + " " + in("out/hard")}, harms: true},
		{no: 7, name: "hard link to the denied", probe: []string{"link", in("a.bak") + " " + in("out/hard2")}, harms: true},
		{no: 7, name: "hard link to a file outside", probe: []string{"link", canary + " " + in("out/hard3")}, harms: true},
		{no: 10, name: "write to what is readable", probe: []string{"write", in("plain")}, harms: true},
		{no: 10, name: "create beside what is readable", probe: []string{"write", in("new")}, harms: true},
		{no: 10, name: "rename over what is readable", probe: []string{"rename", in("out/r1") + " " + in("plain")}, harms: true},
		{no: 10, name: "exchange with what is readable", probe: []string{"exchange", in("out/r2") + " " + in("plain")}, harms: true},
		{no: 10, name: "nameless file given a name", probe: []string{"tmpfile", in("new")}, harms: true},
		{no: 10, name: "write to what is denied", probe: []string{"write", in("out/keep.txt")}, harms: true},
		{no: 10, name: "rename over what is denied", probe: []string{"rename", in("out/r3") + " " + in("out/keep.txt")}, harms: true},
		{no: 10, name: "remove what is denied", probe: []string{"remove", in("out/keep.txt")}, harms: true},
		{no: 11, name: "this program overwritten", probe: []string{"overwrite-exe", "/proc/self/exe"}, control: needless, why: "TestProgramsAreNotOverwritten runs a copy"},
		{no: 11, name: "the first process's program overwritten", probe: []string{"overwrite-exe", "/proc/1/exe"}, control: needless, why: "TestProgramsAreNotOverwritten runs a copy"},
		{no: 12, name: "above the root", probe: []string{"above", canary}, leaks: true},
		{no: 13, name: "mode of the readable", probe: []string{"chmod", in("plain")}, harms: true},
		{no: 13, name: "mode of the denied", probe: []string{"chmod", in("a.bak")}, harms: true},
		{no: 13, name: "mode outside", probe: []string{"chmod", canary}, harms: true},
		{no: 13, name: "mode of a device that everybody shares", probe: []string{"chmod", "/dev/null"}, control: asRoot, instead: []string{"chmod", filepath.Join(h.outside, "null")}, harms: true},
		{no: 13, name: "time of the readable", probe: []string{"utime", in("plain")}, harms: true},
		{no: 13, name: "time outside", probe: []string{"utime", canary}, harms: true},
		{no: 13, name: "owner of the readable", probe: []string{"chown", in("plain")}, control: asRoot, harms: true},
		{no: 13, name: "attribute of the readable", probe: []string{"setxattr", in("plain")}, control: kernel, harms: true},
		{no: 13, name: "length of the readable", probe: []string{"truncate", in("plain")}, harms: true},
		{no: 14, name: "setuid file", probe: []string{"setuid", in("out/suid")}, harms: true},
		{no: 19, name: "lease on a file that others open", probe: []string{"lease", in("plain")}},
		{no: 20, name: "denied file", probe: []string{"read", in("a.bak")}, leaks: true},
		{no: 20, name: "denied file in a folder", probe: []string{"read", in("sub/b.bak")}, leaks: true},
		{no: 20, name: "file in a denied folder", probe: []string{"read", in("private/deep/c")}, leaks: true},
	}
	return append(list, h.procAttempts()...)
}

// procAttempts are after other processes by what they have a name for.
func (h *host) procAttempts() []attempt {
	self, listener := strconv.Itoa(os.Getpid()), func(name string) string { return h.ears[name].addr }
	list := []attempt{
		{no: 21, name: "this process's environment", probe: []string{"read", "/proc/" + self + "/environ"}},
		{no: 21, name: "this process's memory map", probe: []string{"read", "/proc/" + self + "/maps"}},
		{no: 21, name: "this process's arguments", probe: []string{"read", "/proc/" + self + "/cmdline"}},
		{no: 21, name: "this process's descriptors", probe: []string{"list", "/proc/" + self + "/fd"}},
		{no: 22, name: "the first process's environment", probe: []string{"read", "/proc/1/environ"}, control: inside, leaks: true},
		{no: 22, name: "the first process's descriptors", probe: []string{"reach", "/proc/1/fd"}, control: inside},
		{no: 22, name: "the first process's memory", probe: []string{"open", "/proc/1/mem"}, control: inside},
		{no: 23, name: "kernel settings", probe: []string{"read", "/proc/sys/kernel/core_pattern"}},
		{no: 23, name: "kernel settings changed", probe: []string{"user-write", "/proc/sys/kernel/hostname"}, control: insideAsRoot()},
		{no: 23, name: "namespaces allowed again", probe: []string{"openw", "/proc/sys/user/max_user_namespaces"}, control: inside},
		{no: 23, name: "the kernel's memory", probe: []string{"open", "/proc/kcore"}, control: offered},
		{no: 23, name: "the kernel's messages", probe: []string{"open", "/proc/kmsg"}, control: offered},
		{no: 23, name: "the kernel's emergency keys", probe: []string{"openw", "/proc/sysrq-trigger"}, control: offered},
		{no: 24, name: "sysfs", probe: []string{"list", "/sys/class"}},
		{no: 24, name: "who is told of devices", probe: []string{"openw", "/sys/kernel/uevent_helper"}, control: offered},
		{no: 26, name: "control groups", probe: []string{"list", "/sys/fs/cgroup"}, control: kernel},
		{no: 53, name: "inherited descriptors", probe: []string{"fds"}, control: needless, why: "TestNoDescriptorIsInherited has one to inherit"},
		{no: 55, name: "host's abstract socket", probe: []string{"unix", listener("abstract")}, harms: true},
		{no: 56, name: "host's socket in the workspace", probe: []string{"unix", listener("socket")}, harms: true},
		{no: 56, name: "host's socket outside", probe: []string{"unix", listener("outside")}, harms: true},
		{no: 62, name: "host's listener", probe: []string{"dial", listener("tcp")}, harms: true},
		{no: 62, name: "datagram", probe: []string{"datagram", listener("udp")}, harms: true},
		{no: 74, name: "variable that is not listed", probe: []string{"env", "CANARY_SECRET"}, leaks: true},
		{no: 75, name: "shadow file", probe: []string{"read", "/etc/shadow"}, control: asRoot},
	}
	if h.ears["tcp6"] != nil {
		list = append(list, attempt{no: 62, name: "host's listener of version 6", probe: []string{"dial", listener("tcp6")}, harms: true})
	}
	for _, dev := range []string{"mem", "kmsg", "kvm", "net/tun", "fuse", "loop-control", "vda", "input/event0", "snd/timer", "dri/card0"} {
		list = append(list, attempt{no: 25, name: "/dev/" + dev, probe: []string{"open", "/dev/" + dev}, control: offered})
	}
	return list
}

// A denied name is denied where it is; so that it cannot be carried out of the
// rule, the folders around it stay where they are.
func TestFoldersAroundWhatIsDeniedStay(t *testing.T) {
	racetest.Skip(t, oneByOne)
	everyTier(t, denyingPolicy, testFoldersAround)
}

func testFoldersAround(t *testing.T, src string) {
	w := newWorld(t, src)
	w.allow(strings.NewReplacer(`"out/**"`, `"**"`, `"private/**"`, `"private/**", "a/b/secret"`).Replace(src))
	w.file("a/b/secret", "secret")
	w.file(".git/hooks/pre-commit", "true")
	for _, script := range []string{
		"mv a a2", "mv a/b b", "mv a/b/secret s", "mv .git g", "mv .git/hooks h", "rm -rf .git/hooks",
		"mkdir g2; mv .git old; mv -T g2 .git", "ln a/b/secret s",
		"exec perl -e 'syscall(316, -100, $ARGV[0], -100, $ARGV[1], 2)' .git out", // renameat2 with RENAME_EXCHANGE
	} {
		_ = w.sh(script)
		for name, want := range map[string]string{"a/b/secret": "secret", ".git/hooks/pre-commit": "true"} {
			if b, err := os.ReadFile(filepath.Join(w.dir, name)); err != nil || string(b) != want {
				t.Fatalf("after %q, %s holds %q, %v", script, name, b, err)
			}
		}
	}
	if out := w.sh("echo new > .git/index.lock && mv .git/index.lock .git/index && mv a/b/x a/b/y 2>/dev/null; mkdir a/n && mv a/n a/m && rmdir a/m"); out.ExitCode != 0 {
		t.Errorf("what is allowed in there fails: %s", out.Stderr.Data)
	}
}

func TestDeepFoldersHideAndHarmNothing(t *testing.T) {
	racetest.Skip(t, oneByOne)
	w := newWorld(t, openPolicy)
	for _, n := range []int{255, 200, 100, 9} {
		name := strings.Repeat("d", n)
		at, err := unix.Open(filepath.Join(w.dir, "out"), unix.O_PATH, 0)
		must(t, err)
		for range 8000 / n { // deeper than a path can say
			must(t, unix.Mkdirat(at, name, 0o755))
			next, err := unix.Openat(at, name, unix.O_PATH, 0)
			must(t, errors.Join(err, unix.Close(at)))
			at = next
		}
		must(t, unix.Close(at))
		if out := w.sh("echo hi"); string(out.Stdout.Data) != "hi\n" {
			t.Errorf("got %q, %s", out.Stdout.Data, out.Stderr.Data)
		}
		must(t, exec.Command("rm", "-rf", filepath.Join(w.dir, "out", name)).Run())
	}
}

func TestStateFolderBehindALinkIsOutOfSight(t *testing.T) {
	w := newWorld(t, openPolicy)
	w.file("state/remit.db", "secret")
	link := filepath.Join(t.TempDir(), "state")
	must(t, os.Symlink(filepath.Join(w.dir, "state"), link))
	w.box = linux.New(linux.Config{State: link})
	t.Cleanup(func() { must(t, w.box.Close()) })
	if out := w.sh("cat state/remit.db; ls state"); len(out.Stdout.Data) != 0 {
		t.Errorf("it shows %q", out.Stdout.Data)
	}
}

func TestAllowedThingsWork(t *testing.T) { everyTier(t, denyingPolicy, testAllowedThings) }

func testAllowedThings(t *testing.T, src string) {
	w := newWorld(t, src)
	w.file("plain", "plain text")
	w.file("sub/deep/x", "x")
	t.Setenv("CANARY_OK", "passed")
	tests := map[string]struct{ script, want string }{
		"a file can be read":           {"cat plain sub/deep/x", "plain textx"},
		"a listed variable is there":   {"echo $CANARY_OK", "passed\n"},
		"a file can be written":        {"echo hi > out/new && cat out/new", "hi\n"},
		"a folder can be made":         {"mkdir out/d && echo hi > out/d/f && mv out/d/f out/g && cat out/g", "hi\n"},
		"scratch space is there":       {"echo hi > $TMPDIR/x && cat /tmp/x", "hi\n"},
		"the identity is made up":      {"id -un", "remit\n"},
		"the first root is a folder":   {"ls -d /etc", "/etc\n"},
		"devices work":                 {"head -c 4 /dev/zero | od -An -tx1; echo x > /dev/null", " 00 00 00 00\n"},
		"the shell sees its own group": {"test $$ -ne 1 && echo yes", "yes\n"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := &world{t: t, dir: w.dir, box: w.box, p: w.p}
			out := w.sh(tc.script)
			if string(out.Stdout.Data) != tc.want || out.ExitCode != 0 {
				t.Errorf("got %q, exit %d, stderr %q, want %q", out.Stdout.Data, out.ExitCode, out.Stderr.Data, tc.want)
			}
		})
	}
	if b, err := os.ReadFile(filepath.Join(w.dir, "out/new")); err != nil || string(b) != "hi\n" {
		t.Errorf("on the host the written file holds %q, %v", b, err)
	}
}
