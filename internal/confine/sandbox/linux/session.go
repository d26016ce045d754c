//go:build linux && (amd64 || arm64)

package linux

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/sandbox/spawn"
)

// Tiers, as an [Outcome] names them.
const (
	tierFresh   = "fresh"
	tierSession = "session"
	tierAgent   = "agent"
)

// sessions are sandboxes that stay after their command, for the next one that
// has the very same profile. Each runs one command at a time.
type sessions struct {
	mu     sync.Mutex
	closed bool
	idle   []*session
	timer  *time.Timer
	ending sync.WaitGroup
}

// session is one sandbox that stays.
type session struct {
	standing
	chain policy.Chain // stays in memory, so that the key means no other one
	key   string
	by    *spawn.Spawner
	ready chan struct{} // closed once its group counts from nothing again; nil: it does
}

// maxSessions bounds how many wait, sessionTime how long.
const (
	maxSessions = 4
	sessionTime = 15 * time.Second

	// sessionTries is how many sandboxes that turn out to be stale one command
	// tries; then it gets one of its own.
	sessionTries = 3
	staleTries   = 8
)

// stays reports whether a command may be run in a sandbox that stays: the
// policy says so, and nothing of the sandbox is the command's own.
func stays(chain policy.Chain, c command) bool {
	return chain.SessionTier() && c.Stdio == nil && c.layers == nil && c.Folder == nil && !c.Long && !c.Observe
}

// sessionKey identifies all inputs of a sandbox: the profile, the policies (who) and the files of its
// mounts. false: a file is gone, and the sandbox would not start.
func sessionKey(m machine, who string, p sandbox.Profile) (key string, ok bool) {
	b := make([]byte, 0, 4096)
	num := func(list ...int64) {
		for _, n := range list {
			b = binary.AppendVarint(b, n)
		}
	}
	text := func(s string) {
		num(int64(len(s)))
		b = append(b, s...)
	}
	text(who)
	text(p.Image)
	text(p.Git)
	if _, over := sandbox.Cover(p.Mounts, p.Dir); over == nil || over.Kind != sandbox.Bind {
		text(p.Dir) // a folder that is made for it
	}
	flags := int64(0)
	for i, on := range []bool{p.Proxy, p.Standard} {
		if on {
			flags |= 1 << i
		}
	}
	num(flags, p.Memory, p.Together, p.Disk, int64(p.Processes), p.FileSize, int64(p.CPU), int64(p.OpenFiles), int64(len(p.Mounts)))
	for _, l := range m.links {
		text(l.path)
		text(l.target)
	}
	b = append(b, m.which...)
	for _, mt := range p.Mounts {
		text(mt.Path)
		num(int64(mt.Kind), int64(mt.Access))
		if mt.System {
			continue // m.which says which file it is
		}
		if b, ok = identify(b, cmp.Or(mt.From, mt.Path)); !ok {
			return "", false
		}
	}
	return string(b), true
}

// sameChain names a chain itself, which must stay in memory.
func sameChain(chain policy.Chain) string {
	var b []byte
	for _, r := range chain {
		b = binary.AppendVarint(b, int64(uintptr(unsafe.Pointer(r))))
	}
	return string(b)
}

// authorityOf names the authority of a chain's policies: their texts, and the places that these mean.
func authorityOf(chain policy.Chain) string {
	var b strings.Builder
	for _, r := range chain {
		fmt.Fprintf(&b, "%q %x %q %q\n", r.Policy().File(), r.Policy().Digest(), r.Policy().Name(), fmt.Sprintf("%q", r.Env()))
	}
	return b.String()
}

// identify adds numbers that distinguish a file from any other one that is or was at its path.
func identify(b []byte, path string) ([]byte, bool) {
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_INO|unix.STATX_TYPE|unix.STATX_BTIME|unix.STATX_MNT_ID, &st); err != nil {
		return b, false
	}
	for _, n := range []int64{int64(st.Mode & unix.S_IFMT), int64(st.Dev_major), int64(st.Dev_minor), int64(st.Ino), st.Btime.Sec, int64(st.Btime.Nsec), int64(st.Mnt_id)} {
		b = binary.AppendVarint(b, n)
	}
	return b, true
}

// systems remembers for a moment which files of the system exist.
type systems struct {
	mu   sync.Mutex
	last map[string]foundSystem
}

type foundSystem struct {
	at     time.Time
	mounts []sandbox.Mount
	links  []link
	which  []byte // which files the mounts stand for
}

// systemTime is the time for which the system's files are taken as unchanged.
const systemTime = time.Second

// find is [system], with which files its mounts stand for.
func (s *systems) find(img *sandbox.Image, path []string, standard bool) foundSystem {
	key := strings.Join(path, ":")
	if img != nil {
		key += ":" + img.Root + ":" + strings.Join(img.Tops, ":")
	}
	if standard {
		key += ":standard"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f, ok := s.last[key]
	if now := time.Now(); !ok || now.Sub(f.at) > systemTime {
		f = foundSystem{at: now}
		f.mounts, f.links = system(img, path, standard)
		for _, m := range f.mounts {
			f.which, _ = identify(f.which, cmp.Or(m.From, m.Path)) // one that has just gone fails the start
		}
		if s.last == nil || len(s.last) > 16 {
			s.last = map[string]foundSystem{}
		}
		s.last[key] = f
	}
	return f
}

// take gives a session that fits, or nil.
func (s *sessions) take(sp *spawn.Spawner, key string) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	var fits *session
	s.idle = slices.DeleteFunc(s.idle, func(one *session) bool {
		switch {
		case one.by != sp:
			s.drop(one)
			return true
		case fits == nil && one.key == key:
			fits = one
			return true
		}
		return false
	})
	return fits
}

// put keeps a session for the next command.
func (s *sessions) put(one *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		s.drop(one)
		return
	}
	if len(s.idle) >= maxSessions {
		s.drop(s.idle[0])
		s.idle = slices.Delete(s.idle, 0, 1)
	}
	if one.group != nil {
		s.recount(one)
	}
	s.idle = append(s.idle, one)
	if s.timer == nil {
		s.timer = time.AfterFunc(sessionTime, s.expire)
	}
	s.timer.Reset(sessionTime)
}

// recount lets a session's group count anew, in the background.
func (s *sessions) recount(one *session) {
	one.ready = make(chan struct{})
	s.ending.Add(1)
	go func() {
		defer s.ending.Done()
		defer close(one.ready)
		one.group.start()
	}()
}

// again replaces a session in which a command left something, in the background.
func (s *sessions) again(old *session, open func() (*session, error)) {
	s.end(old)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.idle) >= maxSessions {
		return
	}
	s.ending.Add(1)
	go func() {
		defer s.ending.Done()
		if one, err := open(); err == nil { // else the next command makes one, and reports the error
			s.put(one)
		}
	}()
}

// end ends a session that is not kept.
func (s *sessions) end(one *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(one)
}

// drop ends a session in the background. It is called with the lock held.
func (s *sessions) drop(one *session) {
	s.ending.Add(1)
	go func() {
		defer s.ending.Done()
		if one.ready != nil {
			<-one.ready
		}
		one.end()
	}()
}

// expire ends sessions without a command for a while.
func (s *sessions) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.idle {
		s.drop(one)
	}
	s.idle = nil
}

// close ends all sessions and waits for running commands.
func (s *sessions) close() {
	s.mu.Lock()
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
	}
	for _, one := range s.idle {
		s.drop(one)
	}
	s.idle = nil
	s.mu.Unlock()
	s.ending.Wait()
}

// sessionCommand is the part of one command in a session.
func sessionCommand(m machine, p sandbox.Profile, s start) *spawn.Program {
	b := &builder{Program: spawn.NewProgram(64), m: m, p: p}
	b.fd = b.Reg()
	b.zero = b.Bytes(make([]byte, 64))
	if p.Proxy {
		b.listen(s.port)
	}
	b.Fork()
	b.streams()
	b.closeAll()
	b.command(s)
	return b.Program
}

// Numbers of the kernel's that x/sys does not have.
const (
	shmInfo       = 14
	semInfo       = 19
	msgInfo       = 12
	coarseTick    = 10 * time.Millisecond
	numRlimits    = 16
	schedAttrSize = 56
)

// share adds what the first process of a shared sandbox looks at before each command.
func (b *builder) share() {
	b.Share(1024)
	b.lookAtLimits()
	b.Around()
}

// lookAtLimits looks at what the commands inherit from the first process, and other processes can change.
func (b *builder) lookAtLimits() {
	at := b.Seen
	for res := range numRlimits {
		b.Call("look", unix.SYS_PRLIMIT64, none, spawn.Int(res), none, spawn.At(at(16)))
	}
	b.Call("look", unix.SYS_SCHED_GETATTR, none, spawn.At(at(schedAttrSize)), spawn.Int(schedAttrSize), none)
	b.Call("look", unix.SYS_SCHED_GETAFFINITY, none, spawn.Int(256), spawn.At(at(256)))
	prio := b.Save("look", b.Reg(), unix.SYS_IOPRIO_GET, spawn.Int(1), none)
	b.Poke(at(8), prio)
}

// stay adds the checks of the first process between two commands. Everything that a
// command could leave is either gone with its processes, or found here; see
// docs/RATIONALE.md for the list.
func (b *builder) stay() {
	at := b.Seen
	mounts := b.Save("look", b.Reg(), unix.SYS_OPENAT, cwd, b.Text("/proc/self/mountinfo"), spawn.Int(unix.O_RDONLY|unix.O_CLOEXEC), none)
	sockets := b.Save("look", b.Reg(), unix.SYS_OPENAT, cwd, b.Text("/proc/self/net/sockstat"), spawn.Int(unix.O_RDONLY|unix.O_CLOEXEC), none)
	if !kernelAtLeast(6, 13) { // file times go by ticks: new files must be older than one
		b.Call("look", unix.SYS_NANOSLEEP, spawn.At(spawn.Object(b.Program, unix.NsecToTimespec(int64(coarseTick)))), none)
	}
	child := spawn.Object(b.Program, uint64(1)<<(unix.SIGCHLD-1))
	b.Stay(2048)
	names := []string{"/tmp", "/dev/pts", "/dev/pts/ptmx"}
	if _, over := sandbox.Cover(b.p.Mounts, sandbox.HomeAt); over == nil { // a kept home is for the next command, too
		names = append(names, sandbox.HomeAt)
	}
	for _, name := range names {
		b.Call("look", unix.SYS_STATX, cwd, b.Text(name), spawn.Int(unix.AT_SYMLINK_NOFOLLOW), spawn.Int(unix.STATX_BASIC_STATS), spawn.At(at(256)))
	}
	b.Call("look", unix.SYS_STATFS, b.Text("/tmp"), spawn.At(at(120)))
	b.Pass("look", unix.ENOSYS, unix.SYS_SHMCTL, none, spawn.Int(shmInfo), spawn.At(at(48)))
	b.Pass("look", unix.ENOSYS, unix.SYS_SEMCTL, none, none, spawn.Int(semInfo), spawn.At(at(40)))
	b.Pass("look", unix.ENOSYS, unix.SYS_MSGCTL, none, spawn.Int(msgInfo), spawn.At(at(32)))
	b.lookAtLimits()
	b.Try("look", unix.SYS_RT_SIGTIMEDWAIT, spawn.At(child), none, spawn.At(b.zero), spawn.Int(8))
	b.Call("look", unix.SYS_RT_SIGPENDING, spawn.At(at(8)), spawn.Int(8))
	b.Around()
	poll := at(8) // struct pollfd
	b.Put(poll, binary.NativeEndian.AppendUint32(nil, 0))
	b.Put(poll+4, binary.NativeEndian.AppendUint16(nil, unix.POLLPRI))
	b.Poke(poll, mounts)
	b.Call("look", unix.SYS_PPOLL, spawn.At(poll), spawn.Int(1), spawn.At(b.zero), none, spawn.Int(8))
	b.Call("look", unix.SYS_PREAD64, spawn.From(sockets), spawn.At(at(16)), spawn.Int(16), none)
}
