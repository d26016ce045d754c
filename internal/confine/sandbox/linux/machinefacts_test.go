//go:build linux && (amd64 || arm64)

package linux_test

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/confine/sandbox"
)

// TestMachineFactsAreThere: what programs ask about the machine is the same inside, and ps shows the sandbox's processes only.
func TestMachineFactsAreThere(t *testing.T) {
	w := newWorld(t, standardPolicy)
	outside := func(script string) string {
		t.Helper()
		b, err := exec.Command("/bin/sh", "-c", script).Output()
		must(t, err)
		return strings.TrimSpace(string(b))
	}
	for name, tc := range map[string]struct{ needs, script, want string }{
		"nproc":      {"nproc", "nproc", ""},
		"getconf":    {"getconf", "getconf _NPROCESSORS_CONF; getconf _NPROCESSORS_ONLN", ""},
		"cpuinfo":    {"grep", "grep -c ^processor /proc/cpuinfo", ""},
		"version":    {"cat", "cat /proc/version /proc/sys/kernel/osrelease", ""},
		"free":       {"free", "free | awk '/^Mem/ {print $2}'", ""},
		"uptime":     {"uptime", "uptime -s >/dev/null && cut -d. -f1 /proc/loadavg | grep -c .", ""},
		"lscpu":      {"lscpu", "lscpu -p=CPU,CORE,SOCKET", ""},
		"node":       {"node", `node -p 'os=require("os");[os.cpus().length,os.cpus()[0].model,os.totalmem(),os.loadavg().length,os.uptime()>0]'`, ""},
		"java":       {"java", `printf 'class P{public static void main(String[] a){System.out.println(Runtime.getRuntime().availableProcessors());}}' > P.java && java P.java`, ""},
		"python":     {"python3", `/usr/bin/python3 -c 'import os;print(os.cpu_count(), os.getloadavg()!=None)'`, ""},
		"ps":         {"ps", "sleep 60 & for i in $(seq 200); do ps -eo args= | grep '^[s]leep 60$' && break; sleep 0.05; done", "sleep 60"},
		"ps outside": {"ps", "ps -eo args= | grep -c linux.[t]est", "0"},
		"top":        {"top", "top -bn1 | grep -c ^top", "1"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath(tc.needs); err != nil {
				t.Skipf("NOT TESTED: %v", err)
			}
			if tc.want == "" {
				t.Chdir(t.TempDir())
				tc.want = outside(tc.script)
			}
			if out := w.sh(tc.script); strings.TrimSpace(string(out.Stdout.Data)) != tc.want {
				t.Errorf("got %q, want %q\n%s", out.Stdout.Data, tc.want, out.Stderr.Data)
			}
		})
	}
}

func init() {
	// each file of a list is read, written, and given another mode; what succeeded is printed.
	probes["kernel-files"] = func(list string) error {
		f, err := os.Open(list)
		if err != nil {
			return err
		}
		for lines := bufio.NewScanner(f); lines.Scan(); {
			p := lines.Text()
			for act, errno := range map[string]error{"read": openAs(p, unix.O_RDONLY), "write": openAs(p, unix.O_WRONLY), "mode": unix.Chmod(p, 0o666),
				"owner": unix.Chown(p, os.Getuid(), os.Getgid()), "length": unix.Truncate(p, 0), "remove": unix.Unlink(p)} {
				if errno == nil {
					fmt.Println(act, p)
				}
			}
		}
		return f.Close()
	}
}

func openAs(p string, flags int) error {
	fd, err := unix.Open(p, flags|unix.O_NONBLOCK, 0)
	if err == nil {
		err = unix.Close(fd)
	}
	return err
}

// TestOnlyFactsOfTheKernelAreRead: of all files of /proc and /sys, apart from those of processes, only known ones of /proc can be
// read, and of the processors' what the kernel lets everybody read. None can be changed.
func TestOnlyFactsOfTheKernelAreRead(t *testing.T) {
	facts := strings.Fields("cgroups cpuinfo filesystems loadavg meminfo stat uptime version vmstat")
	w := newWorld(t, openPolicy)
	var all []string
	for _, root := range []string{"/proc", "/sys/devices/system", "/sys/kernel", "/sys/class"} {
		must(t, filepath.WalkDir(root, func(p string, e fs.DirEntry, err error) error {
			_, process := strconv.Atoi(filepath.Base(p))
			switch {
			case errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrNotExist):
				return fs.SkipDir
			case err != nil:
				return err
			case e.Type()&fs.ModeSymlink != 0, p == "/proc/sysrq-trigger": // a write that is not refused could stop the machine
			case filepath.Dir(p) == "/proc" && process == nil:
				return fs.SkipDir
			case !e.IsDir():
				all = append(all, p)
			}
			return nil
		}))
	}
	if len(all) < 100 {
		t.Fatalf("only %d files are known", len(all))
	}
	w.file("list", strings.Join(all, "\n"))
	exe, err := os.Executable()
	must(t, err)
	out, err := w.run(sandbox.Command{Argv: []string{exe, "probe", "kernel-files", "list"}, Timeout: 5 * time.Minute})
	must(t, err)
	lines := strings.Split(strings.TrimSpace(string(out.Stdout.Data)), "\n")
	if lines[len(lines)-1] != "SUCCEEDED" {
		t.Fatalf("%s\n%s", out.Stdout.Data, out.Stderr.Data)
	}
	read := 0
	for _, line := range lines[:len(lines)-1] {
		act, p, _ := strings.Cut(line, " ")
		st, err := os.Stat(p)
		must(t, err)
		name, inProc := strings.CutPrefix(p, "/proc/")
		setting, isSetting := strings.CutPrefix(name, "sys/")
		switch {
		case act != "read":
			t.Errorf("%s: %s", act, p)
		case inProc && (slices.Contains(facts, name) || isSetting && !strings.Contains(setting, "core_pattern") && st.Mode()&0o004 != 0):
			read++
		case strings.HasPrefix(p, "/sys/devices/system/cpu/"), strings.HasPrefix(p, "/sys/devices/system/node/"):
			if st.Mode()&0o004 == 0 {
				t.Errorf("read: %s, mode %s", p, st.Mode())
			}
		default:
			t.Errorf("read: %s", p)
		}
	}
	if read < len(facts) || read > 60 {
		t.Errorf("%d files of /proc were read", read)
	}
}
