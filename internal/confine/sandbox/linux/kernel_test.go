//go:build linux && (amd64 || arm64)

package linux_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/racetest"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

func TestKernelEscapes(t *testing.T) {
	racetest.Skip(t, oneByOne)
	everyTier(t, denyingPolicy, testKernelEscapes)
}

func testKernelEscapes(t *testing.T, src string) {
	h := newHost(t, src)
	h.attempts(h.kernelAttempts(), tierOf(src), tierOf(src) == "fresh")
}

// kernelAttempts ask the kernel for what no command may have. Most of them would
// change nothing that the host can see: there, that the same call succeeds
// outside is what gives the answer inside its meaning.
func (h *host) kernelAttempts() []attempt {
	key, self := strconv.Itoa(ipcKey), strconv.Itoa(os.Getpid())
	out := h.w.dir + "/out"
	return append([]attempt{
		{no: 25, name: "device node", probe: []string{"mknod", out + "/dev"}, control: asRoot, harms: true},
		{no: 9, name: "whiteout", probe: []string{"whiteout", out + "/white"}, harms: true},
		{no: 35, name: "user namespace", probe: []string{"userns"}},
		{no: 35, name: "user namespace by unshare", probe: []string{"unshare-user"}, control: needless, why: "a process with threads is refused anywhere; the call is one of TestRefusedCalls"},
		{no: 35, name: "mount namespace", probe: []string{"unshare-mounts"}, control: inside},
		{no: 35, name: "network namespace", probe: []string{"unshare-network"}, control: inside},
		{no: 35, name: "user namespace by clone3", probe: []string{"clone3"}},
		{no: 35, name: "another's namespace", probe: []string{"setns"}, control: inside},
		{no: 36, name: "mount", probe: []string{"mount", h.w.dir}, control: inside},
		{no: 36, name: "bind mount", probe: []string{"bind", h.w.dir}, control: inside},
		{no: 10, name: "root made writable", probe: []string{"remount"}, control: inside},
		{no: 36, name: "new mount", probe: []string{"fsopen"}, control: inside},
		{no: 36, name: "mount as a descriptor", probe: []string{"open_tree"}},
		{no: 36, name: "unmount", probe: []string{"umount"}, control: inside},
		{no: 36, name: "another root", probe: []string{"chroot", "/tmp"}, control: inside},
		{no: 36, name: "another root mount", probe: []string{"pivot", "/tmp"}, control: needless, why: "what the call needs of its folder is made by no test; it is one of TestRefusedCalls"},
		{no: 26, name: "control groups mounted", probe: []string{"cgroupfs", h.w.dir}, control: inside},
		{no: 40, name: "bpf", probe: []string{"bpf"}, control: asRoot},
		{no: 40, name: "performance counters", probe: []string{"perf"}, control: asRoot},
		{no: 40, name: "userfaultfd", probe: []string{"userfaultfd"}, control: kernel},
		{no: 40, name: "file handle", probe: []string{"handle", "/"}},
		{no: 38, name: "io_uring", probe: []string{"io_uring"}, control: kernel},
		{no: 39, name: "keyring", probe: []string{"keyctl"}},
		{no: 39, name: "key", probe: []string{"add_key"}},
		{no: 27, name: "own child traced", probe: []string{"ptrace"}},
		{no: 27, name: "process traced", probe: []string{"attach", pid}},
		{no: 27, name: "memory of this process by a call", probe: []string{"vm_readv", self + " " + h.address()}, leaks: true},
		{no: 27, name: "memory of this process as a file", probe: []string{"memory-of", self + " " + h.address()}, leaks: true},
		{no: 27, name: "descriptor of this process", probe: []string{"fd-of", fmt.Sprint(self, " ", h.file.Fd())}, leaks: true},
		{no: 27, name: "own descriptor by a call", probe: []string{"pidfd_getfd"}},
		{no: 27, name: "process compared", probe: []string{"kcmp", pid}, control: kernel},
		{no: 28, name: "signal to this process", probe: []string{"kill", self}},
		{no: 28, name: "signal", probe: []string{"signal", pid}, harms: true},
		{no: 28, name: "signal by descriptor", probe: []string{"signal-pidfd", pid}, harms: true},
		{no: 28, name: "signal to all", probe: []string{"signal-all"}, control: needless, blind: true, why: "it would hit everybody; that the victim is seen to die is shown by the others"},
		{no: 28, name: "signal by the kernel", probe: []string{"owner", pid}, harms: true},
		{no: 28, name: "another's limits", probe: []string{"limits", pid}},
		{no: 23, name: "host name", probe: []string{"sethostname"}, control: inside},
		{no: 80, name: "clock", probe: []string{"settime"}},
		{no: 41, name: "priority", probe: []string{"nice"}, control: asRoot},
		{no: 41, name: "real-time scheduling", probe: []string{"realtime"}, control: asRoot},
		{no: 41, name: "real-time disk access", probe: []string{"ioprio"}, control: asRoot},
		{no: 41, name: "personality", probe: []string{"personality"}},
		{no: 37, name: "system call that is newer than the filter", probe: []string{"getattr"}, control: kernel},
		{no: 14, name: "new privileges", probe: []string{"new-privileges"}},
		{no: 14, name: "capabilities", probe: []string{"capabilities"}},
		{no: 49, name: "core dump", probe: []string{"dumpable"}, control: coreControl(), why: "the limit of whoever tests is zero itself"},
		{no: 58, name: "typing for others, without a terminal", probe: []string{"inject"}, control: needless, why: "TestTypingForOthers has one"},
		{no: 58, name: "typing for others, in a wide number", probe: []string{"inject-wide"}, control: needless, why: "TestTypingForOthers has one"},
		{no: 60, name: "shared memory", probe: []string{"shm", key}},
		{no: 60, name: "semaphore", probe: []string{"sem", key}},
		{no: 60, name: "message queue", probe: []string{"msg", key}},
		{no: 60, name: "message queue by name", probe: []string{"mq", queueName}},
		{no: 61, name: "other families of sockets", probe: []string{"families"}},
		{no: 61, name: "netlink sockets", probe: []string{"netlink"}},
		{no: 61, name: "vsock socket", probe: []string{"socket", strconv.Itoa(unix.AF_VSOCK)}, control: kernel},
		{no: 61, name: "packet socket", probe: []string{"socket", strconv.Itoa(unix.AF_PACKET)}, control: inside},
		{no: 61, name: "crypto socket", probe: []string{"socket", strconv.Itoa(unix.AF_ALG)}, control: kernel},
		{no: 62, name: "raw socket", probe: []string{"raw"}, control: inside},
		{no: 62, name: "raw socket of version 6", probe: []string{"raw6"}, control: inside},
	}, otherTables...)
}

// coreControl: whoever has no core dumps cannot show that others have none.
func coreControl() control {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &l); err != nil || l.Max < 1<<20 {
		return needless
	}
	return outside
}

// dangerous are system calls that take nothing from the arguments that the test
// gives them, wherever they are allowed; inside, the filter must not even let
// them look.
var dangerous = map[string]int{
	"unshare": unix.SYS_UNSHARE, "setns": unix.SYS_SETNS, "mount": unix.SYS_MOUNT, "umount2": unix.SYS_UMOUNT2, "pivot_root": unix.SYS_PIVOT_ROOT,
	"chroot": unix.SYS_CHROOT, "open_tree": unix.SYS_OPEN_TREE, "move_mount": unix.SYS_MOVE_MOUNT, "fsopen": unix.SYS_FSOPEN,
	"fsconfig": unix.SYS_FSCONFIG, "fsmount": unix.SYS_FSMOUNT, "fspick": unix.SYS_FSPICK, "mount_setattr": unix.SYS_MOUNT_SETATTR,
	"statmount": unix.SYS_STATMOUNT, "listmount": unix.SYS_LISTMOUNT, "ptrace": unix.SYS_PTRACE, "process_vm_readv": unix.SYS_PROCESS_VM_READV,
	"process_vm_writev": unix.SYS_PROCESS_VM_WRITEV, "pidfd_getfd": unix.SYS_PIDFD_GETFD, "kcmp": unix.SYS_KCMP,
	"process_madvise": unix.SYS_PROCESS_MADVISE, "process_mrelease": unix.SYS_PROCESS_MRELEASE, "keyctl": unix.SYS_KEYCTL,
	"add_key": unix.SYS_ADD_KEY, "request_key": unix.SYS_REQUEST_KEY, "bpf": unix.SYS_BPF, "perf_event_open": unix.SYS_PERF_EVENT_OPEN,
	"userfaultfd": unix.SYS_USERFAULTFD, "fanotify_init": unix.SYS_FANOTIFY_INIT, "fanotify_mark": unix.SYS_FANOTIFY_MARK,
	"io_uring_setup": unix.SYS_IO_URING_SETUP, "io_uring_enter": unix.SYS_IO_URING_ENTER, "io_uring_register": unix.SYS_IO_URING_REGISTER,
	"kexec_load": unix.SYS_KEXEC_LOAD, "kexec_file_load": unix.SYS_KEXEC_FILE_LOAD, "init_module": unix.SYS_INIT_MODULE,
	"finit_module": unix.SYS_FINIT_MODULE, "delete_module": unix.SYS_DELETE_MODULE, "swapon": unix.SYS_SWAPON, "swapoff": unix.SYS_SWAPOFF,
	"reboot": unix.SYS_REBOOT, "acct": unix.SYS_ACCT, "syslog": unix.SYS_SYSLOG, "quotactl": unix.SYS_QUOTACTL, "quotactl_fd": unix.SYS_QUOTACTL_FD,
	"open_by_handle_at": unix.SYS_OPEN_BY_HANDLE_AT, "name_to_handle_at": unix.SYS_NAME_TO_HANDLE_AT, "settimeofday": unix.SYS_SETTIMEOFDAY,
	"clock_settime": unix.SYS_CLOCK_SETTIME, "clock_adjtime": unix.SYS_CLOCK_ADJTIME, "adjtimex": unix.SYS_ADJTIMEX,
	"sethostname": unix.SYS_SETHOSTNAME, "setdomainname": unix.SYS_SETDOMAINNAME, "memfd_secret": unix.SYS_MEMFD_SECRET,
	"mbind": unix.SYS_MBIND, "set_mempolicy": unix.SYS_SET_MEMPOLICY, "migrate_pages": unix.SYS_MIGRATE_PAGES, "move_pages": unix.SYS_MOVE_PAGES,
	"clone3": unix.SYS_CLONE3,
}

// Outside, the kernel looks at the arguments and finds them wrong; inside it
// says that there is no such call, or that it is not allowed.
func TestRefusedCalls(t *testing.T) {
	racetest.Skip(t, oneByOne)
	everyTier(t, openPolicy, testRefusedCalls)
}

func testRefusedCalls(t *testing.T, src string) {
	w := newWorld(t, src)
	exe, err := os.Executable()
	must(t, err)
	var list []string
	for _, nr := range dangerous {
		list = append(list, strconv.Itoa(nr))
	}
	answers := func(out string) map[int]unix.Errno {
		m := map[int]unix.Errno{}
		for line := range strings.Lines(out) {
			var nr, e int
			if n, _ := fmt.Sscanf(line, "%d %d", &nr, &e); n == 2 {
				m[nr] = unix.Errno(e)
			}
		}
		if len(m) != len(list) {
			t.Fatalf("%d answers: %s", len(m), out)
		}
		return m
	}
	said, err := w.run(sandbox.Command{Argv: []string{exe, "probe", "numbers", strings.Join(list, " ")}, Timeout: time.Minute})
	must(t, err)
	in := answers(string(said.Stdout.Data))
	_, all := try(t, outside, []string{"numbers", strings.Join(list, " ")})
	out := answers(all)
	var same []string
	for name, nr := range dangerous {
		refused := func(e unix.Errno) bool { return e == unix.EPERM || e == unix.ENOSYS }
		if !refused(in[nr]) {
			t.Errorf("%s: in the sandbox: %v", name, in[nr])
		}
		if refused(out[nr]) {
			same = append(same, name)
		}
	}
	if len(same) > 0 {
		t.Logf("NO CONTROL: outside, the kernel refuses to this user or does not have: %q", same)
	}
	if os.Getuid() == 0 && len(same) > 10 {
		t.Errorf("the test shows little: %d calls are refused to root outside: %q", len(same), same)
	}
}
