//go:build linux && (amd64 || arm64)

package linux

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/sandbox/spawn"
)

const stepGuard = "watch the mounts"

// guard watches the mounts that protect files from one command, and ends the command when
// one is gone. A program of the host that replaces or removes a file detaches what any
// sandbox has mounted on its name; one that moves the file takes the mount along.
type guard struct {
	marks   []mark
	moves   *moves
	watches []int32 // in moves
	own     bool    // the mounts are on a layer of the run, which no other program changes

	file *os.File // the sandbox's list of mounts, which lasts as long as this is open
	over atomic.Bool
	done chan struct{}

	// Written by the goroutine that closes done.
	ids    map[int]string // the protecting mounts by their numbers, and where they were first
	lost   []string       // paths without their mount
	failed error
}

// mark is a protected path.
type mark struct {
	sandbox.Mount
	around sandbox.Access // of the mount that it lies in
	pin    int            // the file as it was before the command; -1: it could not be opened
	was    []byte         // its content then
	mode   os.FileMode
	known  bool // was is known
}

// maxPins bounds the open files of one command. Of further files, the watch alone tells when
// Remit's own tools replace them.
const maxPins = 256

// marksOf are the mounts of a profile that take access away in a folder of the host, and the
// paths of those that are in no folder of the host.
func marksOf(p sandbox.Profile) (list []mark, top map[string]bool) {
	top = map[string]bool{"/": true}
	last := map[string]int{} // the topmost mount of each path so far
	for i, m := range p.Mounts {
		around := aroundOf(p.Mounts, last, m.Path)
		last[m.Path] = i
		if around == nil || around.Kind != sandbox.Bind {
			top[m.Path] = true
			continue
		}
		if m.Kind == sandbox.Socket {
			continue
		}
		access := m.Access
		if m.Kind != sandbox.Bind {
			access = sandbox.NoAccess
		}
		if m.Access = access; around.Access&^access != 0 {
			list = append(list, mark{Mount: m, around: around.Access, pin: -1})
		}
	}
	return list, top
}

// aroundOf is [sandbox.Cover] in the time that the depth of the path takes.
func aroundOf(mounts []sandbox.Mount, last map[string]int, p string) (around *sandbox.Mount) {
	most := -1
	for at := p; ; at = path.Dir(at) {
		if i, ok := last[at]; ok && i > most {
			most, around = i, &mounts[i]
		}
		if at == "/" {
			return around
		}
	}
}

// guard prepares the watch of one command; nil: no mount needs it.
func (b *Box) guard(p sandbox.Profile, l *layers) (*guard, error) {
	marks, top := marksOf(p)
	g := &guard{marks: marks, own: l != nil}
	if len(g.marks) == 0 {
		return nil, nil
	}
	if g.own {
		return g, nil
	}
	g.moves = &b.moves
	if err := g.moves.add(g, waysTo(top, marks)); err != nil {
		return nil, fault.Wrap(fault.SandboxMissing, err, "moves of protected files cannot be watched: %v", err).
			ForOperator("raise fs.inotify.max_user_watches and fs.inotify.max_user_instances with sysctl")
	}
	for i := range g.marks {
		m := &g.marks[i]
		if st, err := os.Lstat(m.Path); err == nil && (st.Mode().IsRegular() || st.IsDir()) {
			m.pin, _ = wholefile.Pin(m.Path) // what this user cannot open, only the watch protects
			m.remember()
		}
		if i >= maxPins && m.pin >= 0 {
			_ = unix.Close(m.pin) // only read
			m.pin = -1
		}
	}
	return g, nil
}

// close lets go of the files.
func (g *guard) close() {
	if g == nil || g.own {
		return
	}
	g.moves.remove(g)
	for _, m := range g.marks {
		if m.pin >= 0 {
			_ = unix.Close(m.pin) // only read
		}
	}
}

// guard adds the calls that hand out the list of mounts, once it is complete.
func (b *builder) guard() {
	if list, _ := marksOf(b.p); len(list) == 0 {
		return
	}
	b.Save(stepGuard, b.fd, unix.SYS_OPENAT, cwd, b.Text("/proc/self/mountinfo"), spawn.Int(unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK), none)
	b.Hand(stepGuard, b.fd)
	b.Call(stepGuard, unix.SYS_CLOSE, spawn.From(b.fd))
}

// watch begins the watch. After an error the sandbox must be ended.
func (g *guard) watch(child *spawn.Child) error {
	if g == nil {
		return nil
	}
	f := child.Take()
	if f == nil {
		return nil // the sandbox ended before; Wait tells why
	}
	raw, err := f.SyscallConn()
	if err != nil {
		_ = f.Close() // only read
		return fault.Wrap(fault.SandboxMissing, err, "the mounts of the sandbox cannot be watched: %v", err)
	}
	done := make(chan struct{})
	g.over.Store(false)
	g.moves.locked(func() { g.file, g.done, g.ids = f, done, nil })
	go func() {
		defer close(done)
		for len(g.lost) == 0 && g.failed == nil {
			_ = f.SetReadDeadline(time.Time{})
			if g.over.Load() {
				_ = raw.Control(func(fd uintptr) { g.look(int(fd)) }) // what happened just before the end
				return
			}
			err := raw.Read(func(fd uintptr) bool { g.look(int(fd)); return len(g.lost) > 0 || g.failed != nil })
			if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
				g.failed = err
			}
		}
		child.Kill()
	}()
	return nil
}

// wake has the mounts looked at.
func (g *guard) wake() {
	if f := g.file; f != nil {
		_ = f.SetReadDeadline(time.Unix(1, 0)) // it is open until stop
	}
}

// stop ends the watch once the sandbox is over, and waits for it.
func (g *guard) stop() {
	if g == nil || g.file == nil {
		return
	}
	g.over.Store(true)
	g.wake()
	<-g.done
	g.moves.locked(func() {
		_ = g.file.Close() // only read
		g.file = nil
	})
}

// look compares the mounts with the first ones.
func (g *guard) look(fd int) {
	now, err := mountsAt(fd)
	if err != nil {
		g.failed = err
		return
	}
	if g.ids == nil {
		g.begin(now)
		return
	}
	for id, at := range g.ids {
		if now[id] != at && !slices.Contains(g.lost, at) {
			g.lost = append(g.lost, at)
		}
	}
	slices.Sort(g.lost)
}

// begin notes the protecting mounts. One that is missing already is lost.
func (g *guard) begin(now map[int]string) {
	left := map[string]int{}
	for _, m := range g.marks {
		left[m.Path]++
	}
	g.ids = map[int]string{}
	for id, at := range now {
		if n, ok := left[at]; ok {
			g.ids[id], left[at] = at, n-1
		}
	}
	for at, n := range left {
		if n > 0 {
			g.lost = append(g.lost, at)
		}
	}
	slices.Sort(g.lost)
}

// mountsAt reads a list of mounts: https://docs.kernel.org/filesystems/proc.html, 3.5.
func mountsAt(fd int) (map[int]string, error) {
	var text []byte
	buf := make([]byte, 64<<10)
	for {
		n, err := unix.Pread(fd, buf, int64(len(text)))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if n == 0 {
			break
		}
		text = append(text, buf[:n]...)
	}
	out := map[int]string{}
	for line := range bytes.Lines(text) {
		f := bytes.Fields(line)
		if len(f) < 5 {
			return nil, fmt.Errorf("a line of the list of mounts has %d fields", len(f))
		}
		id, err := strconv.Atoi(string(f[0]))
		if err != nil {
			return nil, err
		}
		out[id] = mountPath(string(f[4]))
	}
	return out, nil
}

// mountPath reads a path in which some bytes are written as \040.
func mountPath(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// failure is the error for a command whose watch ended it; nil: all mounts were there.
func (g *guard) failure(p permit.Permit) error {
	switch {
	case g == nil:
		return nil
	case g.failed != nil:
		return fault.Wrap(fault.SandboxMissing, g.failed, "the command was ended: its mounts could not be watched: %v", g.failed)
	case len(g.lost) == 0:
		return nil
	}
	for _, m := range g.marks {
		if m.Path != g.lost[0] {
			continue
		}
		kind := tool.FileWrite
		if m.Access == sandbox.NoAccess && m.around&sandbox.ReadOnly != 0 {
			kind = tool.FileRead
		}
		_ = p.Check(tool.Action{Kind: kind, Path: m.Path, Real: m.Path}) // refused: it says what was violated
	}
	more := ""
	if n := len(g.lost) - 1; n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return fault.New(fault.HandleRefused, "the command was ended: another program replaced, moved or removed %q%s, which is protected from the command", g.lost[0], more).
		WithHint("run it again; programs that write the file in place do not end a command")
}

// waysTo are the protected paths and the folders of the host in which a move would take
// one of them along.
func waysTo(top map[string]bool, marks []mark) []string {
	ways := map[string]bool{}
	for _, m := range marks {
		for at := m.Path; !top[at] && !ways[at]; at = path.Dir(at) {
			ways[at] = true
		}
	}
	return slices.Collect(maps.Keys(ways))
}
