//go:build linux && (amd64 || arm64)

package linux

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/walk"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/sandbox/spawn"
)

// leastABI is the Landlock version below which a weaker sandbox would let files
// be truncated that cannot be written.
const leastABI = 3

// unprivileged is the user of a command that Remit starts as root where no user
// namespace can give it another one.
const unprivileged = 65534

// strength is the strongest confinement of this machine.
type strength struct {
	has     policy.Isolation
	missing error // why it is not stronger
}

// isolation decides what confines a command: the strongest that there is, if
// the policy takes that. Full isolation is only tried ahead where the
// policy would take less; otherwise the start itself shows a fault.
func (b *Box) isolation(least policy.Isolation) (policy.Isolation, error) {
	if least == policy.FullIsolation && b.conf.Lacking == 0 {
		return policy.FullIsolation, nil
	}
	b.tried.Do(func() { b.strength = b.findStrength() })
	s := b.strength
	if s.has >= least {
		return s.has, nil
	}
	return s.has, s.missing
}

// needsFull refuses a command that needs full isolation.
func needsFull(c command, has policy.Isolation) error {
	feature := ""
	switch {
	case c.image != nil:
		feature = "an image"
	case c.layers != nil:
		feature = "holding the writes of a command"
	case c.Folder != nil:
		feature = "a command with a folder of its own"
	case terminalSize(c.Stdio) != nil:
		feature = "a terminal of the command's own"
	case len(c.Services) > 0:
		feature = "a socket that Remit serves"
	case len(c.Publish) > 0:
		feature = "a published port"
	case c.Observe:
		feature = "observing a command"
	default:
		return nil
	}
	return fault.New(fault.SandboxMissing, "%s needs full isolation, and this machine has %s", feature, has).
		ForOperator("`remit doctor` names the missing parts; without a terminal, give the command's streams as pipes")
}

// findStrength tries.
func (b *Box) findStrength() strength {
	m, err := b.machine()
	if err == nil && b.conf.Lacking == 0 {
		if err = b.tryWhole(m); err == nil {
			return strength{has: policy.FullIsolation}
		}
	}
	if err == nil {
		err = fault.New(fault.SandboxMissing, "the machine is taken to be without a part of the sandbox")
	}
	if landlockABI() >= leastABI && b.conf.Lacking&NoLandlock == 0 && m.filter != nil {
		return strength{policy.LandlockIsolation, err}
	}
	return strength{policy.NoIsolation, err}
}

// tryWhole makes a whole sandbox with an empty policy.
func (b *Box) tryWhole(m machine) error {
	sp, err := b.ready()
	if err != nil {
		return err
	}
	l, err := wholeLayer(sp, m)
	if err != nil || l.Available {
		return err
	}
	return fault.New(fault.SandboxMissing, "%s", l.Detail).WithHint("%s", l.Hint)
}

// weak is a process without namespaces.
func (b *Box) weak(sp *spawn.Spawner, m machine, prof sandbox.Profile, st start) (seat, error) {
	s := seat{tier: tierFresh}
	var err error
	if m.filter, err = weakFilter(); err != nil {
		return s, fault.Wrap(fault.Internal, err, "the seccomp filter cannot be assembled")
	}
	tmp, err := newScratch(m, prof)
	if err != nil {
		return s, fault.Wrap(fault.ToolFailed, err, "a folder for the command's own files cannot be made: %v", err)
	}
	for i, kv := range st.env {
		if name, _, _ := strings.Cut(kv, "="); name == "TMPDIR" {
			st.env[i] = "TMPDIR=" + tmp
		} else if name == "HOME" {
			st.env[i] = "HOME=" + filepath.Join(tmp, "home")
		}
	}
	s.group, s.why = b.group(prof)
	st.group = s.group
	prof.Processes += processesOf(owner(m, prof))
	prog := weakProgram(m, prof, st, tmp)
	s.start = func(files [3]int) (*spawn.Child, error) { return sp.Spawn(prog, 0, files) }
	s.end = func(spawn.Exit) {
		s.group.release()
		removeScratch(tmp)
	}
	return s, nil
}

// owner is who a command without namespaces runs as.
func owner(m machine, p sandbox.Profile) int {
	if m.uid == 0 && p.Isolation == policy.LandlockIsolation {
		return unprivileged
	}
	return m.uid
}

// processesOf counts the processes of a user, threads included: without a user
// namespace the kernel counts all of them together.
func processesOf(uid int) int {
	n := 0
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0
	}
	for _, dir := range dirs {
		var st unix.Stat_t
		if unix.Stat(dir, &st) == nil && int(st.Uid) == uid {
			list, _ := os.ReadDir(filepath.Join(dir, "task")) // of one that has just ended
			n += max(1, len(list))
		}
	}
	return n
}

// weakLimits says of the limits what holds without namespaces.
func weakLimits(out map[string]string, m machine, p sandbox.Profile) {
	out["disk"] = "not enforced without full isolation"
	out["processes"] = fmt.Sprintf("%d more than the user had (rlimit)", p.Processes)
	if owner(m, p) == 0 {
		out["processes"] = "not enforced: the command runs as root"
	}
}

// newScratch makes the folder that stands for /tmp and HOME.
func newScratch(m machine, p sandbox.Profile) (string, error) {
	dir, err := os.MkdirTemp("", "remit-tmp-")
	if err != nil {
		return "", err
	}
	dir, err = filepath.EvalSymlinks(dir)
	if err == nil {
		err = os.Mkdir(filepath.Join(dir, "home"), 0o700)
	}
	for _, d := range []string{filepath.Join(dir, "home"), dir} {
		if err == nil && m.uid == 0 && p.Isolation == policy.LandlockIsolation {
			err = os.Chown(d, unprivileged, unprivileged)
		}
	}
	if err != nil {
		_ = os.RemoveAll(dir) // the remaining folders are empty
	}
	return dir, err
}

// removeScratch removes it with all that is in it, also folders that the command
// has closed.
func removeScratch(dir string) { _ = walk.Remove(dir) } // the system clears its temporary folder

// weakProgram is the start of a command without namespaces. The first process
// only waits, so that it can be found what descends from it.
func weakProgram(m machine, p sandbox.Profile, s start, tmp string) *spawn.Program {
	b := &builder{Program: spawn.NewProgram(256), m: m, p: p}
	b.fd = b.Reg()
	b.zero = b.Bytes(make([]byte, 64))
	b.surroundings()
	b.Pause()
	b.join(s.group)
	b.Call("descendants", unix.SYS_PRCTL, spawn.Int(unix.PR_SET_CHILD_SUBREAPER), spawn.Int(1), none, none, none)
	b.Fork()
	b.streams()
	b.closeAll()
	if m.uid == 0 && p.Isolation == policy.LandlockIsolation {
		for c := 0; c <= m.lastCap; c++ {
			b.Call("capabilities", unix.SYS_PRCTL, spawn.Int(unix.PR_CAPBSET_DROP), spawn.Int(c), none, none, none)
		}
		b.Call("user", unix.SYS_SETGROUPS, none, none)
		b.Call("user", unix.SYS_SETRESGID, spawn.Int(unprivileged), spawn.Int(unprivileged), spawn.Int(unprivileged))
		b.Call("user", unix.SYS_SETRESUID, spawn.Int(unprivileged), spawn.Int(unprivileged), spawn.Int(unprivileged))
	}
	b.Call("parent death", unix.SYS_PRCTL, spawn.Int(unix.PR_SET_PDEATHSIG), spawn.Int(int(unix.SIGKILL)))
	b.Call("no new privileges", unix.SYS_PRCTL, spawn.Int(unix.PR_SET_NO_NEW_PRIVS), spawn.Int(1), none, none, none)
	b.Call("umask", unix.SYS_UMASK, spawn.Int(0o022))
	if p.Isolation == policy.LandlockIsolation {
		rs := b.weakLandlock(tmp)
		b.Call("Landlock", unix.SYS_LANDLOCK_RESTRICT_SELF, spawn.From(rs), none)
		b.Call("Landlock", unix.SYS_CLOSE, spawn.From(rs))
		b.seccomp()
	}
	b.command(s)
	return b.Program
}

// weakLandlock makes the rules for the machine's own file tree.
func (b *builder) weakLandlock(tmp string) spawn.Reg {
	rs := b.ruleset()
	if tmp != "" {
		b.rule(rs, tmp, fsRead|fsWrite, true)
	}
	b.open("Landlock", b.fd, cwd, "/proc/self", 0, 0) // a link, by which each process finds itself
	b.allow(rs, unix.LANDLOCK_ACCESS_FS_READ_FILE|unix.LANDLOCK_ACCESS_FS_READ_DIR, true)
	for _, dev := range []string{"null", "zero", "full", "random", "urandom"} {
		b.rule(rs, "/dev/"+dev, unix.LANDLOCK_ACCESS_FS_READ_FILE|unix.LANDLOCK_ACCESS_FS_WRITE_FILE, false)
	}
	for _, m := range b.p.Mounts {
		b.rule(rs, m.Path, rights(m), m.Folder)
	}
	for _, dir := range b.p.Removable {
		b.rule(rs, dir, fsRemove, true)
	}
	return rs
}

// weakFilter assembles the filter for a command without namespaces: nothing of
// a socket but connected pairs, no attribute of any file, no System V or POSIX
// objects of the machine's, and no other process's priority, limits or
// processors. Landlock does not check such calls, so none may happen.
func weakFilter() ([]bpf.RawInstruction, error) {
	allow := bpf.RetConstant{Val: actAllow}
	self := func(argument uint32) []bpf.Instruction { // 0 is the caller itself
		return []bpf.Instruction{arg(argument), bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: 1}, errno(unix.EPERM), allow}
	}
	rules := slices.DeleteFunc(seccompRules(), func(r rule) bool {
		_, mode := modes[r.nr]
		return mode && !slices.Contains(makes, r.nr) || slices.Contains([]uint32{unix.SYS_SOCKET, unix.SYS_SOCKETPAIR}, r.nr)
	})
	for _, nr := range slices.Concat(attributes, attributesHere, objects) {
		rules = append(rules, rule{nr, []bpf.Instruction{errno(unix.EPERM)}})
	}
	return assemble(append(rules,
		rule{unix.SYS_SOCKET, []bpf.Instruction{errno(unix.EAFNOSUPPORT)}},
		rule{unix.SYS_SOCKETPAIR, []bpf.Instruction{arg(0), bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AF_UNIX, SkipFalse: 4},
			arg(1), bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: 0xf}, // the rest are flags
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.SOCK_STREAM, SkipTrue: 2},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.SOCK_SEQPACKET, SkipTrue: 1}, // a datagram socket can be sent from to any name
			errno(unix.EAFNOSUPPORT), allow}},
		rule{unix.SYS_PRLIMIT64, self(0)}, rule{unix.SYS_SCHED_SETSCHEDULER, self(0)}, rule{unix.SYS_SCHED_SETPARAM, self(0)},
		rule{unix.SYS_SCHED_SETATTR, self(0)}, rule{unix.SYS_SCHED_SETAFFINITY, self(0)},
		rule{unix.SYS_SETPRIORITY, []bpf.Instruction{arg(0), bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.PRIO_PROCESS, SkipFalse: 2},
			arg(1), bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: 1}, errno(unix.EPERM), allow}},
	))
}

// makes are calls with a mode that make files, which Landlock looks at.
var makes = append([]uint32{unix.SYS_MKNODAT}, makesHere...)

// attributes are the calls that change a file's attributes, and not its content.
var attributes = []uint32{unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT, unix.SYS_UTIMENSAT,
	unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR,
	unix.SYS_INOTIFY_ADD_WATCH, unix.SYS_IOPRIO_SET}

// objects are the calls that reach what all processes of a user share.
var objects = []uint32{unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_SEMGET, unix.SYS_SEMCTL, unix.SYS_SEMOP, unix.SYS_SEMTIMEDOP,
	unix.SYS_MSGGET, unix.SYS_MSGCTL, unix.SYS_MSGSND, unix.SYS_MSGRCV, unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK}

// wholeLayer tries a whole sandbox with an empty policy.
func wholeLayer(sp *spawn.Spawner, m machine) (sandbox.Layer, error) {
	mounts, links := system(nil, sandbox.WithDefaults(policy.Limits{}).Path, false)
	m.links = links
	prof, err := sandbox.Compile(sandbox.Inputs{System: mounts, Dir: "/tmp"})
	if err != nil {
		return sandbox.Layer{}, fmt.Errorf("whole sandbox: %w", err)
	}
	l := tryLayer(sp, "whole sandbox", cloneFlags, program(m, prof, start{exe: "/bin/true", argv: []string{"true"}, env: nil}))
	if q := tryLayer(sp, l.Name, cloneFlags, questions()); l.Available && !q.Available {
		l = q
	}
	return l, nil
}
