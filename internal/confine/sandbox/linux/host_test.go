//go:build linux && (amd64 || arm64)

package linux_test

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// host is what attempts are after, and looks whether they got it.
type host struct {
	t       *testing.T
	w       *world
	outside string // a folder that no policy speaks of
	secret  string // in all that must not be read
	memory  []byte // of this process, with the secret
	file    *os.File
	ears    map[string]*ear
	victim  *exec.Cmd // a process that nobody may touch
	shm     int
	sem     int
	msg     int
}

// The key of System V objects and the name of a POSIX queue that the host has.
var (
	ipcKey    = 0x7e000000 + 2*os.Getpid()
	queueName = "remit-canary-" + strconv.Itoa(os.Getpid())
)

func newHost(t *testing.T, src string) *host {
	t.Helper()
	h := newHostOnly(t, src)
	h.w.sh("true") // skips where nothing can be confined; starts the spawner
	return h
}

// newHostOnly is a host that has confined nothing yet.
func newHostOnly(t *testing.T, src string) *host {
	t.Helper()
	h := &host{t: t, w: newWorld(t, src), secret: rand.Text(), ears: map[string]*ear{}}
	h.outside = filepath.Dir(h.w.dir) + "-outside"
	h.memory = []byte(strings.Repeat(h.secret, 2))
	t.Setenv("CANARY_SECRET", h.secret)
	t.Cleanup(func() { must(t, os.RemoveAll(h.outside)) })
	h.reset()
	var err error
	h.file, err = os.Open(filepath.Join(h.outside, "canary"))
	must(t, err)
	t.Cleanup(func() { must(t, h.file.Close()) })
	for name, at := range map[string][2]string{"tcp": {"tcp", "127.0.0.1:0"}, "tcp6": {"tcp", "[::1]:0"}, "udp": {"udp", "127.0.0.1:0"},
		"abstract": {"unix", "@" + h.secret[:8]}, "socket": {"unix", filepath.Join(h.w.dir, "host.sock")}, "outside": {"unix", filepath.Join(h.outside, "host.sock")}} {
		if e := listen(t, at[0], at[1]); e != nil {
			h.ears[name] = e
		}
	}
	h.objects()
	return h
}

// objects makes what the kernel keeps under a name for the host.
func (h *host) objects() {
	var err error
	h.shm, err = unix.SysvShmGet(ipcKey, 4096, unix.IPC_CREAT|0o600)
	must(h.t, err)
	sem, _, e := unix.Syscall(unix.SYS_SEMGET, uintptr(ipcKey), 1, unix.IPC_CREAT|0o600)
	msg, _, f := unix.Syscall(unix.SYS_MSGGET, uintptr(ipcKey), unix.IPC_CREAT|0o600, 0)
	queue, _, g := unix.Syscall6(unix.SYS_MQ_OPEN, cstring(queueName), unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o600, 0, 0, 0)
	if e != 0 || f != 0 || g != 0 {
		h.t.Fatalf("the host's own objects: %v, %v, %v", e, f, g)
	}
	h.sem, h.msg = int(sem), int(msg)
	h.t.Cleanup(func() {
		_, _ = unix.SysvShmCtl(h.shm, unix.IPC_RMID, nil) // what a test of its end removed is gone
		_ = call(unix.SYS_SEMCTL, uintptr(h.sem), 0, unix.IPC_RMID)
		_ = call(unix.SYS_MSGCTL, uintptr(h.msg), unix.IPC_RMID, 0)
		must(h.t, errors.Join(unix.Close(int(queue)), call(unix.SYS_MQ_UNLINK, cstring(queueName))))
	})
}

// in is the same host for a part of the test.
func (h *host) in(t *testing.T) *host {
	if h.victim == nil || dead(h.victim.Process.Pid) {
		h.start()
	}
	c, w := *h, *h.w
	w.t, c.t, c.w = t, t, &w
	return &c
}

// start starts the process that nobody may touch.
func (h *host) start() {
	h.victim = exec.Command("sleep", "100000")
	h.victim.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(h.t, h.victim.Start())
	v := h.victim
	h.t.Cleanup(func() { _ = v.Process.Kill(); _ = v.Wait() })
}

// pid stands in a probe for the number of the process that nobody may touch.
const pid = "PID"

// fill puts the number of that process, which is another one after each that
// was killed, into a probe.
func (h *host) fill(probe []string) []string {
	out := slices.Clone(probe)
	for i := range out {
		if out[i] == pid {
			out[i] = strconv.Itoa(h.victim.Process.Pid)
		}
	}
	return out
}

func (h *host) address() string { return strconv.Itoa(int(uintptr(unsafe.Pointer(&h.memory[0])))) }

// reset makes all files anew.
func (h *host) reset() {
	h.t.Helper()
	for name, content := range map[string]string{"a.bak": h.secret, "sub/b.bak": h.secret, "private/deep/c": h.secret, "out/keep.txt": "kept", "plain": "plain", "run": "run"} {
		p := filepath.Join(h.w.dir, name)
		must(h.t, os.MkdirAll(filepath.Dir(p), 0o755))
		_ = os.Remove(p) // so that it has no second name; it may not be there
		must(h.t, os.WriteFile(p, []byte(content), 0o644))
	}
	must(h.t, os.MkdirAll(h.outside, 0o755))
	for _, name := range []string{"canary", "other"} {
		_ = os.Remove(filepath.Join(h.outside, name))
		must(h.t, os.WriteFile(filepath.Join(h.outside, name), []byte(h.secret), 0o644))
	}
	for _, name := range []string{filepath.Join(h.w.dir, "new"), filepath.Join(h.outside, "new"), filepath.Join(h.outside, "null")} {
		_ = os.Remove(name)
	}
	entries, err := os.ReadDir(filepath.Join(h.w.dir, "out"))
	must(h.t, err)
	for _, e := range entries {
		if e.Name() != "keep.txt" {
			must(h.t, os.RemoveAll(filepath.Join(h.w.dir, "out", e.Name())))
		}
	}
	_ = os.Symlink(filepath.Join(h.outside, "canary"), filepath.Join(h.w.dir, "link")) // it may be there
	if os.Getuid() == 0 {
		must(h.t, unix.Mknod(filepath.Join(h.outside, "null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
	}
}

// state is all that the host has to lose, as it is now.
func (h *host) state() map[string]string {
	h.t.Helper()
	s := map[string]string{}
	for _, root := range []string{h.w.dir, h.outside} {
		must(h.t, filepath.WalkDir(root, func(p string, _ fs.DirEntry, err error) error {
			if err == nil {
				h.look(s, p)
			}
			return err
		}))
	}
	h.look(s, "/dev/null")
	for name, e := range h.ears {
		s["heard by "+name] = strconv.FormatInt(e.heard(h.t), 10)
	}
	s["host name"], _ = os.Hostname()
	s["a process"] = "is there"
	if h.victim != nil && dead(h.victim.Process.Pid) {
		s["a process"] = "is dead"
		_ = h.victim.Wait()
	}
	exe, err := os.Executable()
	must(h.t, err)
	st, err := os.Stat(exe)
	must(h.t, err)
	s["this program"] = fmt.Sprint(st.Size(), st.ModTime())
	for line := range strings.Lines(mountsNow(h.t)) {
		if strings.Contains(line, h.w.dir) || strings.Contains(line, h.outside) {
			s["mount "+line] = "is there"
		}
	}
	return s
}

// look notes one file. What a command may write is of interest only where it
// could harm others.
func (h *host) look(s map[string]string, p string) {
	var st unix.Stat_t
	must(h.t, unix.Lstat(p, &st))
	free := strings.HasPrefix(p, filepath.Join(h.w.dir, "out")+"/") && filepath.Base(p) != "keep.txt"
	kind := st.Mode & unix.S_IFMT
	if free && st.Mode&(unix.S_ISUID|unix.S_ISGID) == 0 && kind != unix.S_IFCHR && kind != unix.S_IFBLK && (kind != unix.S_IFREG || st.Nlink == 1) {
		return
	}
	text := fmt.Sprintf("mode %o of %d:%d", st.Mode, st.Uid, st.Gid)
	if p != filepath.Join(h.w.dir, "out") && kind != unix.S_IFCHR {
		text += fmt.Sprintf(", time %d.%09d", st.Mtim.Sec, st.Mtim.Nsec)
	}
	var names [4096]byte
	if n, err := unix.Llistxattr(p, names[:]); err == nil && n > 0 {
		text += fmt.Sprintf(", attributes %q", names[:n])
	}
	if kind == unix.S_IFREG {
		b, err := os.ReadFile(p)
		must(h.t, err)
		text += fmt.Sprintf(", %d links, content %x", st.Nlink, sha256.Sum256(b))
	}
	s[p] = text
}

// dead says whether a process has ended, waited for or not.
func dead(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(b), ") ")
	return err != nil || strings.HasPrefix(rest, "Z")
}

// ear is a listener of the host's that counts who comes.
type ear struct {
	network, addr string
	own, others   atomic.Int64
	asked         int64
}

// own begins what the ear says to itself.
const own = 1

func listen(t *testing.T, network, addr string) *ear {
	t.Helper()
	e := &ear{network: network}
	if network == "udp" {
		c, err := net.ListenPacket(network, addr)
		must(t, err)
		t.Cleanup(func() { _ = c.Close() })
		e.addr = c.LocalAddr().String()
		go func() {
			for buf := make([]byte, 100); ; {
				if _, _, err := c.ReadFrom(buf); err != nil {
					return
				}
				e.note(buf[0])
			}
		}()
		return e
	}
	l, err := net.Listen(network, addr)
	if err != nil && strings.HasPrefix(addr, "[") {
		t.Logf("NOT TESTED: %v", err)
		return nil
	}
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	e.addr = l.Addr().String()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			buf := []byte{0}
			_ = c.SetReadDeadline(time.Now().Add(time.Minute))
			_, _ = c.Read(buf) // who says nothing is another
			e.note(buf[0])
			_ = c.Close()
		}
	}()
	return e
}

func (e *ear) note(first byte) {
	if first == own {
		e.own.Add(1)
	} else {
		e.others.Add(1)
	}
}

// heard is how many others came. It comes itself, and waits to be heard: so all
// that came before has been counted.
func (e *ear) heard(t *testing.T) int64 {
	t.Helper()
	c, err := net.Dial(e.network, e.addr)
	must(t, err)
	_, err = c.Write([]byte{own})
	must(t, errors.Join(err, c.Close()))
	e.asked++
	for end := time.Now().Add(time.Minute); e.own.Load() < e.asked; time.Sleep(50 * time.Microsecond) {
		if time.Now().After(end) {
			t.Fatalf("%s %s hears nothing", e.network, e.addr)
		}
	}
	return e.others.Load()
}
