//go:build linux && (amd64 || arm64)

package linux_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/racetest"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// nobody is the ordinary user that root's tests run other tests as.
const nobody = 65534

// asNobody makes a command that runs tests of this program again, as an
// ordinary user with folders of its own.
func asNobody(t *testing.T, run string) *exec.Cmd {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "rt-") // short, so that there can be sockets
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	must(t, os.Chmod(dir, 0o777))
	self, err := os.ReadFile("/proc/self/exe")
	must(t, err)
	exe := filepath.Join(dir, "sandbox.test")
	must(t, os.WriteFile(exe, self, 0o755))
	cmd := exec.Command(exe, "-test.v", "-test.run", run)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TMPDIR="+dir, "REMIT_TEST_SETUID="+setuidCopy(t, dir, 0))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	return cmd
}

// notPassed is what a test program printed, without the tests that passed, of
// which there are so many that nobody would find the others.
func notPassed(out []byte) string {
	var b strings.Builder
	for line := range strings.Lines(string(out)) {
		if t := strings.TrimSpace(line); strings.HasPrefix(t, "=== ") || strings.HasPrefix(t, "--- PASS") {
			continue
		}
		b.WriteString(line)
	}
	return b.String()
}

// Everything holds for an ordinary user as it does for root.
func TestAsAnOrdinaryUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("these tests already run as an ordinary user")
	}
	racetest.Skip(t, "the same tests again, as an ordinary user")
	run := "^Test(Escapes|KernelEscapes|AWayOut|RefusedCalls|SandboxesDo|Setuid|WhatIsReached|WhatFiles|" +
		"ASession|CommandsOfASession|TheStrongest|AllowedThingsWorkInWeaker|TheWayOut|TheProxy|EachSandbox|PrivateFolders|" +
		"Allowed|How|Bombs|True|ProbeFinds|AnObserved|Observing|ACommandOnATerminal|TerminalsInside|LowerLimits)"
	if os.Getenv("REMIT_SOAK") != "" {
		run = "^Test"
	}
	cmd := asNobody(t, run)
	cmd.Args = append(cmd.Args, "-test.skip", "^TestEveryAttemptIsTried$") // it reads the sources
	cmd.Env = append(cmd.Env, "REMIT_SOAK=")                               // of each the short way
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("as an ordinary user: %v\n%s", err, notPassed(out))
	}
	if strings.Contains(string(out), "cannot confine") {
		t.Skipf("%s", out)
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "NOT TESTED") {
			t.Logf("as an ordinary user: %s", line)
		}
	}
}

// masks are what containers put over a part of /proc.
var masks = map[string]func(t *testing.T){
	"an empty folder over the settings": func(t *testing.T) { must(t, unix.Mount("none", "/proc/sys", "tmpfs", unix.MS_RDONLY, "")) },
	"read-only settings":                func(t *testing.T) { readOnly(t, "/proc/sys") },
	"what Docker hides": func(t *testing.T) {
		for _, p := range []string{"/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list", "/proc/interrupts", "/proc/acpi", "/proc/asound", "/proc/scsi"} {
			switch st, err := os.Stat(p); {
			case err != nil: // this kernel has none
			case st.IsDir():
				must(t, unix.Mount("none", p, "tmpfs", unix.MS_RDONLY, ""))
			default:
				must(t, unix.Mount("/dev/null", p, "", unix.MS_BIND, ""))
			}
		}
		for _, p := range []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"} {
			if _, err := os.Stat(p); err == nil {
				readOnly(t, p)
			}
		}
	},
}

func readOnly(t *testing.T, p string) {
	must(t, unix.Mount(p, p, "", unix.MS_BIND|unix.MS_REC, ""))
	must(t, unix.Mount("", p, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""))
}

// Where /proc is masked, as in containers, the kernel gives no new one: then
// nothing is run, in no tier and for no user, and the error says so; or, where
// the policy names it, with less, which is told.
func TestAMaskedProcRunsNothing(t *testing.T) {
	racetest.Skip(t, oneByOne)
	if os.Getuid() != 0 {
		t.Skip("NOT TESTED: masking /proc takes root")
	}
	newWorld(t, openPolicy).sh("true") // not masked, it runs
	for name := range masks {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command("/proc/self/exe", "-test.v", "-test.run", "^TestBehindAMask$")
			cmd.Env = append(os.Environ(), "REMIT_TEST_MASK="+name)
			cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
			out, err := cmd.CombinedOutput()
			if err != nil || !bytes.Contains(out, []byte("--- PASS: TestBehindAMask")) || bytes.Contains(out, []byte("--- SKIP")) {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// TestBehindAMask is run by the test above, behind a mask.
func TestBehindAMask(t *testing.T) {
	name := os.Getenv("REMIT_TEST_MASK")
	if name == "" {
		return
	}
	if os.Getuid() == 0 {
		masks[name](t)
	}
	for _, tier := range tiers {
		t.Run(tier.name, func(t *testing.T) { behindAMask(t, denyingPolicy+tier.policy) })
	}
	if name == "what Docker hides" || os.Getenv("REMIT_SOAK") != "" {
		t.Run("weaker", weakerBehindAMask)
	}
	if os.Getuid() == 0 {
		out, err := asNobody(t, "^TestBehindAMask$").CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte("--- PASS: TestBehindAMask")) {
			t.Errorf("as an ordinary user: %v\n%s", err, out)
		}
	}
}

func behindAMask(t *testing.T, src string) {
	h := newHostOnly(t, src).in(t)
	_, err := h.w.box.Run(context.Background(), h.w.p, sandbox.Command{Argv: []string{"touch", "out/ran"}, Dir: h.w.dir})
	if _, serr := os.Stat(h.w.dir + "/out/ran"); serr == nil || err == nil || !strings.Contains(err.Error(), fault.SandboxMissing.Error()) {
		t.Fatalf("it ran: %v, %v", serr == nil, err)
	}
	all := append(h.fileAttempts(), h.kernelAttempts()...)
	if os.Getenv("REMIT_SOAK") == "" {
		all = slices.DeleteFunc(all, func(a attempt) bool { return !a.leaks && !a.harms }) // the others too have one way in
	}
	h.refused(all)
}

// weakerBehindAMask: Landlock needs no /proc of its own, and keeps what it says.
func weakerBehindAMask(t *testing.T) {
	h := newHostOnly(t, denyingPolicy)
	h.w = weaker(t, denyingPolicy, "landlock", 0)
	h.reset()
	out, err := h.w.run(sandbox.Command{Argv: []string{"true"}})
	must(t, err)
	if out.Isolation != "landlock" || !strings.Contains(strings.Join(out.Notes, "\n"), "weaker") {
		t.Errorf("got isolation %q, notes %q", out.Isolation, out.Notes)
	}
	kept := []int{1, 2, 3, 4, 7, 10, 13, 14, 20, 27, 38, 39, 55, 56, 60, 61, 62, 74, 75}
	h.attempts(slices.DeleteFunc(append(h.fileAttempts(), h.kernelAttempts()...), func(a attempt) bool {
		return !slices.Contains(kept, a.no) || a.name == "capabilities"
	}), out.Tier, false)
}

// What a session lets in is what a fresh sandbox does, also for a command that
// comes after a hundred others.
func TestASessionIsAsTightAfterAHundredCommands(t *testing.T) {
	racetest.Skip(t, oneByOne)
	h := newHost(t, denyingPolicy+tiers[1].policy)
	for i := range 100 {
		out, err := h.w.run(sandbox.Command{Argv: []string{"echo", strconv.Itoa(i)}})
		if err != nil || string(out.Stdout.Data) != fmt.Sprintln(i) {
			t.Fatalf("got %q, %v", out.Stdout.Data, err)
		}
	}
	h.attempts(slices.DeleteFunc(h.fileAttempts(), func(a attempt) bool { return !a.leaks && !a.harms }), "session", false)
}
