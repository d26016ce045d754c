//go:build linux && (amd64 || arm64)

package linux

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/confine/sandbox"
)

// groups are the control groups (cgroups) that sandboxes are counted in, each
// in one of its own at a time. They are made where the system lets this process
// make some: in the memory and pids hierarchies of version 1, or in a delegated
// subtree of version 2. A group whose sandbox has ended is used again, because
// making and removing one costs more than the sandbox's joining it.
type groups struct {
	place  groupPlace
	prefix string // of the names: it tells whose they are
	half   int64  // of the machine's memory, for a command without a limit

	mu     sync.Mutex
	made   int
	idle   []*group
	closed bool
	busy   sync.WaitGroup // groups that are being emptied
}

// groupPlace is where groups can be made.
type groupPlace struct {
	version      int    // 0: nowhere
	memory, pids string // folders; "" without that controller
	why          string // the findings, for people
}

// bounds are what a group limits.
type bounds struct {
	memory int64 // bytes of all processes together, with their files in tmpfs
	pids   int   // processes and threads
}

// group is one control group, used by one sandbox at a time.
type group struct {
	of           *groups
	version      int
	bounds       bounds // as the kernel repeats them
	memory, pids string // folders
	swap         bool   // swap counts too
	once         bool   // its peak cannot be reset: it is not used again
	peak         *os.File

	before struct { // the counters when the sandbox came
		kills, full uint64
		usage       uint64 // microseconds of processor time
		bytes       int64
	}
}

// maxIdle bounds how many unused groups are kept.
const maxIdle = 8

// newGroups looks where groups can be made and removes those whose owner died.
// The groups are never nil: after an error none can be made.
func newGroups() (*groups, error) {
	place, err := findGroups()
	s := &groups{place: place, prefix: groupPrefix(os.Getpid()), half: halfMemory()}
	if err == nil && s.prefix == "" {
		err = errNoProc
		s.place = groupPlace{why: err.Error()}
	}
	for _, dir := range s.place.dirs() {
		sweepGroups(dir)
	}
	return s, err
}

var errNoProc = errors.New("/proc/self cannot be read")

func (p groupPlace) dirs() []string {
	switch {
	case p.memory == p.pids && p.memory != "":
		return []string{p.memory}
	case p.memory == "" && p.pids == "":
		return nil
	case p.memory == "":
		return []string{p.pids}
	case p.pids == "":
		return []string{p.memory}
	}
	return []string{p.memory, p.pids}
}

// groupPrefix names an owner: a process, when it began, and the pid namespace
// in which its number means something.
func groupPrefix(pid int) string {
	ns, began := pidNamespace(), startTime(pid)
	if ns == "" || began == "" {
		return ""
	}
	return fmt.Sprintf("remit-%s-%d-%s-", ns, pid, began)
}

func pidNamespace() string {
	link, err := os.Readlink("/proc/self/ns/pid") // pid:[4026531836]
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(strings.TrimPrefix(link, "pid:["), "]")
}

// startTime is when a process began, in ticks since the machine did; "": there
// is none of that number.
func startTime(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	// The name in parentheses may hold anything, also parentheses.
	if fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:])); len(fields) > 19 {
		return fields[19]
	}
	return ""
}

// sweepGroups removes the groups in a folder whose owner is dead. One that is
// not empty stays: the kernel does not remove it.
func sweepGroups(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // nothing can be made there either
	}
	for _, e := range entries {
		parts := strings.Split(e.Name(), "-")
		if len(parts) != 5 || parts[0] != "remit" || parts[1] != pidNamespace() {
			continue
		}
		pid, err := strconv.Atoi(parts[2])
		if err == nil && startTime(pid) != parts[3] {
			_ = unix.Rmdir(filepath.Join(dir, e.Name())) // somebody else may have been faster
		}
	}
}

// take gives a group with these limits, or nil and why there is none.
func (s *groups) take(want bounds) (*group, string) {
	if s.place.version == 0 {
		return nil, s.place.why
	}
	want = s.possible(want)
	s.mu.Lock()
	for i, g := range s.idle {
		if g.bounds == want {
			s.idle = append(s.idle[:i], s.idle[i+1:]...)
			s.mu.Unlock()
			return g, ""
		}
	}
	if s.closed {
		s.mu.Unlock()
		return nil, "the sandbox is closed"
	}
	s.made++
	name := s.prefix + strconv.Itoa(s.made)
	s.mu.Unlock()
	g, err := s.make(name, want)
	if err != nil {
		return nil, err.Error()
	}
	return g, ""
}

// possible returns the limits that a group can enforce: whole pages, and none
// without its controller.
func (s *groups) possible(b bounds) bounds {
	if b.memory == 0 {
		b.memory = s.half
	}
	b.memory -= b.memory % int64(os.Getpagesize())
	if s.place.memory == "" {
		b.memory = 0
	}
	if s.place.pids == "" {
		b.pids = 0
	}
	return b
}

// make makes a group and sets its limits. A limit that the kernel does not
// repeat is not held, and the group does not claim it.
func (s *groups) make(name string, want bounds) (*group, error) {
	g := &group{of: s, version: s.place.version}
	for _, dir := range s.place.dirs() {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			g.remove()
			return nil, fmt.Errorf("no control group can be made: %w", sandbox.RootCause(err))
		}
		if dir == s.place.memory {
			g.memory = filepath.Join(dir, name)
		}
		if dir == s.place.pids {
			g.pids = filepath.Join(dir, name)
		}
	}
	if want.memory > 0 {
		g.setMemory(want.memory)
	}
	if want.pids > 0 && set(g.pids, "pids.max", int64(want.pids)) {
		g.bounds.pids = want.pids
	}
	if g.bounds != want {
		got := g.bounds
		g.remove()
		return nil, fmt.Errorf("a control group does not hold its limits: of %d bytes and %d processes it repeats %d and %d",
			want.memory, want.pids, got.memory, got.pids)
	}
	g.start()
	return g, nil
}

func (g *group) setMemory(n int64) {
	limit, swap, most := "memory.max", "memory.swap.max", int64(0)
	if g.version == 1 {
		limit, swap, most = "memory.limit_in_bytes", "memory.memsw.limit_in_bytes", n
	}
	if set(g.memory, limit, n) {
		g.bounds.memory = n
	}
	g.swap = set(g.memory, swap, most)
	if g.version == 2 {
		_ = os.WriteFile(filepath.Join(g.memory, "memory.oom.group"), []byte("1"), 0) // before Linux 4.19 one process is killed, not all
	}
}

// set writes a number and reports whether it reads back.
func set(dir, name string, n int64) bool {
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file, strconv.AppendInt(nil, n, 10), 0); err != nil {
		return false
	}
	return number(file) == n
}

// number reads a file that holds one number; -1: it holds none.
func number(file string) int64 {
	b, err := readSmall(file)
	if err != nil {
		return -1
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// counter reads one line of a file of names and numbers.
func counter(dir, file, name string) uint64 {
	if dir == "" {
		return 0
	}
	b, err := readSmall(filepath.Join(dir, file))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), name+" "); ok {
			n, err := strconv.ParseUint(v, 10, 64)
			if err != nil {
				return 0
			}
			return n
		}
	}
	return 0
}

// start notes the counters that a sandbox begins with.
func (g *group) start() {
	g.before.kills, g.before.full = g.kills(), counter(g.pids, "pids.events", "max")
	g.before.bytes, g.before.usage = 0, g.usage()
	switch {
	case g.memory == "":
	case g.version == 1:
		_ = os.WriteFile(filepath.Join(g.memory, "memory.max_usage_in_bytes"), []byte("0"), 0) // else the peak is that of an earlier one, too high
		g.before.bytes = max(0, number(filepath.Join(g.memory, "memory.usage_in_bytes")))
	default:
		g.startPeak()
	}
}

// sharedView is the group as one of its commands sees it: with the limits that are reached from now on.
func (g *group) sharedView() *group {
	if g == nil {
		return nil
	}
	own := *g
	own.before.kills, own.before.full, own.before.usage = g.kills(), counter(g.pids, "pids.events", "max"), g.usage()
	return &own
}

// startPeak opens the peak of version 2, which is reset for who holds it open.
func (g *group) startPeak() {
	if g.peak == nil {
		if f, err := os.OpenFile(filepath.Join(g.memory, "memory.peak"), os.O_RDWR, 0); err == nil {
			g.peak = f
		}
	}
	if g.peak == nil {
		return
	}
	if _, err := g.peak.WriteString("reset\n"); err != nil { // before Linux 6.12
		g.once = true
		return
	}
	g.before.bytes = max(0, number(filepath.Join(g.memory, "memory.current")))
}

func (g *group) kills() uint64 {
	if g.version == 1 {
		return counter(g.memory, "memory.oom_control", "oom_kill")
	}
	return counter(g.memory, "memory.events", "oom_kill")
}

// most is the most memory that the sandbox had at once; 0: it is not known.
// Pages that an earlier one left in the page cache do not count.
func (g *group) most() int64 {
	switch {
	case g == nil || g.memory == "":
		return 0
	case g.version == 1:
		return max(0, number(filepath.Join(g.memory, "memory.max_usage_in_bytes"))-g.before.bytes)
	case g.peak == nil:
		return 0
	}
	var b [32]byte
	n, err := g.peak.ReadAt(b[:], 0)
	if n == 0 && err != nil {
		return 0
	}
	v, err := strconv.ParseInt(strings.TrimSpace(string(b[:n])), 10, 64)
	if err != nil {
		return 0
	}
	return max(0, v-g.before.bytes)
}

// hit says which limit the sandbox ran into, for people; "": none.
func (g *group) hit() string {
	switch {
	case g == nil:
	case g.killed() > 0:
		return fmt.Sprintf("memory limit %s reached", size(g.bounds.memory))
	case g.bounds.pids > 0 && counter(g.pids, "pids.events", "max") > g.before.full:
		return fmt.Sprintf("process limit %d reached", g.bounds.pids-ownPids)
	}
	return ""
}

// killed is how many processes of the sandbox the kernel killed because all of
// them together reached the memory limit.
func (g *group) killed() uint64 {
	if g == nil || g.bounds.memory == 0 {
		return 0
	}
	now := g.kills()
	return now - min(g.before.kills, now)
}

// cpu is the processor time of the sandbox, where the group counts it; else 0.
func (g *group) cpu() time.Duration {
	if g == nil || g.version != 2 {
		return 0
	}
	now := g.usage()
	return time.Duration(now-min(g.before.usage, now)) * time.Microsecond
}

func (g *group) usage() uint64 { return counter(g.folder(), "cpu.stat", "usage_usec") }

// folder is one that lists the group's processes: the same are in all of them.
func (g *group) folder() string { return cmp.Or(g.memory, g.pids) }

// ownPids are the sandbox's own processes in its group.
const ownPids = 1

// doors are the files that a process writes 0 to in order to join. In version 1
// a single thread moves itself without the lock that all the machine's forks
// take, for which the kernel would wait for many milliseconds.
func (g *group) doors() []string {
	switch {
	case g == nil:
		return nil
	case g.version == 2:
		return []string{filepath.Join(g.folder(), "cgroup.procs")}
	}
	var out []string
	for _, dir := range []string{g.memory, g.pids} {
		if dir != "" {
			out = append(out, filepath.Join(dir, "tasks"))
		}
	}
	return out
}

// release gives a group back once it is empty, in the background.
func (g *group) release() {
	if g == nil {
		return
	}
	s := g.of
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy.Add(1)
	go func() {
		defer s.busy.Done()
		empty := g.await()
		if empty && !g.once {
			g.start()
		}
		s.mu.Lock()
		if empty && !g.once && !s.closed && len(s.idle) < maxIdle {
			s.idle = append(s.idle, g)
			g = nil
		}
		s.mu.Unlock()
		g.remove()
	}()
}

// emptyTime is how long the last processes of a sandbox may take to go.
const emptyTime = 2 * time.Second

// await waits until no process is in the group.
func (g *group) await() bool {
	for end, pause := time.Now().Add(emptyTime), time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		time.Sleep(pause) // the first process takes about that long to end
		if g.empty() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}

// empty reports whether no process is in the group.
func (g *group) empty() bool {
	b, err := readSmall(filepath.Join(g.folder(), "cgroup.procs"))
	return err == nil && len(b) == 0
}

// remove takes the group away. One that is not empty stays until somebody
// sweeps.
func (g *group) remove() {
	if g == nil {
		return
	}
	if g.peak != nil {
		_ = g.peak.Close() // only read from
	}
	for _, dir := range []string{g.memory, g.pids} {
		for range 50 {
			if dir == "" || !errors.Is(unix.Rmdir(dir), unix.EBUSY) {
				break
			}
			time.Sleep(time.Millisecond) // the last process is on its way out
		}
	}
}

// close removes every group. The sandboxes must have ended.
func (s *groups) close() {
	if s == nil {
		return
	}
	s.mu.Lock()
	s.closed = true
	idle := s.idle
	s.idle = nil
	s.mu.Unlock()
	for _, g := range idle {
		g.remove()
	}
	s.busy.Wait()
}

// writable reports whether this process may write to a file or make something
// in a folder.
func writable(file string) bool { return unix.Access(file, unix.W_OK) == nil }
