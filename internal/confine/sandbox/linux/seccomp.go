//go:build linux && (amd64 || arm64)

package linux

import (
	"cmp"
	"fmt"
	"slices"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Offsets in struct seccomp_data, and the actions.
const (
	offNr   = 0
	offArch = 4
	offArgs = 16

	actAllow = 0x7fff0000
	actKill  = 0x80000000
	actErrno = 0x00050000

	lastKnown = 462 // mseal: newer calls were not judged, and do not exist
)

// namespaces are clone's flags that make one.
const namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWTIME

// refused are the system calls that no confined command gets: new namespaces
// and mounts, other processes' memory, keys, kernel and clock administration,
// and large kernel interfaces with a history of holes.
var refused = []uint32{
	unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT,
	unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK,
	unix.SYS_MOUNT_SETATTR, unix.SYS_STATMOUNT, unix.SYS_LISTMOUNT,
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PIDFD_GETFD, unix.SYS_KCMP,
	unix.SYS_PROCESS_MADVISE, unix.SYS_PROCESS_MRELEASE,
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_FANOTIFY_INIT, unix.SYS_FANOTIFY_MARK,
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
	unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_REBOOT, unix.SYS_ACCT, unix.SYS_SYSLOG, unix.SYS_QUOTACTL,
	unix.SYS_QUOTACTL_FD, unix.SYS_VHANGUP, unix.SYS_LOOKUP_DCOOKIE, unix.SYS_NFSSERVCTL,
	unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_NAME_TO_HANDLE_AT,
	unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX,
	unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_MEMFD_SECRET,
	unix.SYS_MBIND, unix.SYS_SET_MEMPOLICY, unix.SYS_MIGRATE_PAGES, unix.SYS_MOVE_PAGES,
}

// setID are the mode bits that no confined command may set: on the host, where
// the file stays, they would run it as its owner.
const setID = unix.S_ISUID | unix.S_ISGID

// rule is what becomes of one system call: instructions that end in a return.
type rule struct {
	nr   uint32
	then []bpf.Instruction
}

// spans divides the numbers into runs that begin at a rule's number and are
// treated alike. A number without a rule is allowed.
func spans(rules []rule) []rule {
	allowed := []bpf.Instruction{bpf.RetConstant{Val: actAllow}}
	out := []rule{{0, allowed}}
	add := func(nr uint32, then []bpf.Instruction) {
		last := &out[len(out)-1]
		switch {
		case slices.Equal(last.then, then):
		case last.nr == nr:
			last.then = then
		default:
			out = append(out, rule{nr, then})
		}
	}
	for i, r := range rules {
		add(r.nr, r.then)
		if i+1 == len(rules) || rules[i+1].nr != r.nr+1 {
			add(r.nr+1, allowed)
		}
	}
	return out
}

// tree finds the span of the loaded number by halving: the kernel tries every
// number when the filter is installed, and some numbers at each call.
func tree(spans []rule) []bpf.Instruction {
	if len(spans) == 1 {
		return spans[0].then
	}
	half := len(spans) / 2
	low, high := tree(spans[:half]), tree(spans[half:])
	split := bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: spans[half].nr, SkipTrue: uint8(min(len(low), 255))}
	if len(low) > 255 {
		split.SkipTrue, split.SkipFalse = 0, 1
		return slices.Concat([]bpf.Instruction{split, bpf.Jump{Skip: uint32(len(low))}}, low, high)
	}
	return slices.Concat([]bpf.Instruction{split}, low, high)
}

func errno(e unix.Errno) bpf.Instruction { return bpf.RetConstant{Val: actErrno | uint32(e)} }

// arg loads the low 32 bits of an argument. The kernel reads no other bits of the compared
// arguments.
func arg(i uint32) bpf.Instruction { return bpf.LoadAbsolute{Off: offArgs + 8*i, Size: 4} }

// seccompFilter assembles the filter. A system call of another architecture
// kills; a number that is newer than the judged ones does not exist.
func seccompFilter() ([]bpf.RawInstruction, error) { return assemble(seccompRules()) }

// assemble makes a filter of rules.
func assemble(rules []rule) ([]bpf.RawInstruction, error) {
	head := []bpf.Instruction{bpf.LoadAbsolute{Off: offArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: auditArch, SkipTrue: 1},
		bpf.RetConstant{Val: actKill},
		bpf.LoadAbsolute{Off: offNr, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpGreaterThan, Val: lastKnown, SkipFalse: 1}, // x32 numbers too
		errno(unix.ENOSYS)}
	slices.SortFunc(rules, func(a, b rule) int { return cmp.Compare(a.nr, b.nr) })
	for i := range rules[1:] {
		if rules[i].nr == rules[i+1].nr {
			return nil, fmt.Errorf("system call %d has two rules", rules[i].nr)
		}
	}
	return bpf.Assemble(append(head, tree(spans(rules))...))
}

// seccompRules are the system calls that are not simply allowed.
func seccompRules() []rule {
	var rules []rule
	add := func(nr uint32, then ...bpf.Instruction) { rules = append(rules, rule{nr, then}) }
	add(unix.SYS_CLONE3, errno(unix.ENOSYS)) // its flags cannot be read from here; C libraries fall back to clone
	for _, nr := range append(append([]uint32{}, refused...), refusedHere...) {
		add(nr, errno(unix.EPERM))
	}
	add(unix.SYS_OPENAT2, errno(unix.ENOSYS)) // its mode cannot be read either; open and openat do the same
	allow := bpf.RetConstant{Val: actAllow}
	for nr, modeArg := range modes {
		add(nr, arg(modeArg), bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: setID, SkipFalse: 1}, errno(unix.EPERM), allow)
	}
	for nr, flagsArg := range opens {
		add(nr, arg(flagsArg), bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: unix.O_CREAT | unix.O_TMPFILE&^unix.O_DIRECTORY, SkipFalse: 3},
			arg(flagsArg+1), bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: setID, SkipFalse: 1}, errno(unix.EPERM), allow)
	}
	add(unix.SYS_CLONE, arg(0), bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: namespaces, SkipFalse: 1}, errno(unix.EPERM), allow)
	families := []bpf.Instruction{arg(0)}
	for _, fam := range []uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6} {
		families = append(families, bpf.JumpIf{Cond: bpf.JumpEqual, Val: fam, SkipFalse: 1}, allow)
	}
	refuse := errno(unix.EAFNOSUPPORT)
	add(unix.SYS_SOCKETPAIR, append(slices.Clone(families), refuse)...)
	// Programs list their network interfaces with NETLINK_ROUTE. The network is the sandbox's own, and no command may change it.
	add(unix.SYS_SOCKET, append(families, bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AF_NETLINK, SkipFalse: 3},
		arg(2), bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.NETLINK_ROUTE, SkipFalse: 1}, allow, refuse)...)
	add(unix.SYS_IOCTL, ioctls()...)
	// An open of a file with another's lease waits for the end of the lease.
	add(unix.SYS_FCNTL, arg(1), bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.F_SETLEASE, SkipFalse: 1}, errno(unix.EPERM), allow)
	add(unix.SYS_PERSONALITY, arg(0),
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0xffffffff, SkipTrue: 1}, // asks only
		errno(unix.EPERM), allow)
	return rules
}

// ioctls refuses what types for others on a terminal, and what changes a file or makes a name. For the
// latter a descriptor that reads is enough.
func ioctls() []bpf.Instruction {
	allow, refuse := bpf.RetConstant{Val: actAllow}, errno(unix.EPERM)
	out := []bpf.Instruction{arg(1)}
	for _, request := range []uint32{unix.TIOCSTI, tioclinux, unix.TIOCSETD, unix.FS_IOC_SETFLAGS, fsIocFsSetXattr, fsIocSetVersion, unix.FS_IOC_ENABLE_VERITY, unix.FS_IOC_SET_ENCRYPTION_POLICY} {
		out = append(out, bpf.JumpIf{Cond: bpf.JumpEqual, Val: request, SkipFalse: 1}, refuse)
	}
	for _, request := range []uint32{unix.FICLONE, unix.FICLONERANGE, unix.FIDEDUPERANGE} { // of all file systems
		out = append(out, bpf.JumpIf{Cond: bpf.JumpEqual, Val: request, SkipFalse: 1}, allow)
	}
	return append(out, bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: 0xff00}, bpf.JumpIf{Cond: bpf.JumpEqual, Val: btrfs, SkipFalse: 1}, refuse, allow)
}

const (
	tioclinux       = 0x541c
	fsIocFsSetXattr = 0x401c5820
	fsIocSetVersion = 0x40087602
	btrfs           = 0x9400 // the requests of Btrfs, such as to make a subvolume
)
