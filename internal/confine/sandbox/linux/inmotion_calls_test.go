//go:build linux && (amd64 || arm64)

package linux

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// What becomes of the system calls by which a process names a file, or changes a file that it cannot write.
var (
	// askedAbout are carried out by the supervisor.
	askedAbout = words(`open openat creat mkdir mkdirat mknod mknodat symlink symlinkat link linkat unlink unlinkat rmdir
		rename renameat renameat2 chmod fchmodat fchmodat2 fchmod chown lchown fchownat fchown utime utimes futimesat utimensat truncate
		getxattr lgetxattr listxattr llistxattr setxattr lsetxattr fsetxattr removexattr lremovexattr fremovexattr bind connect`)

	// neverThere are refused for every process of a sandbox, whatever their arguments are.
	neverThere = words(`openat2 chroot pivot_root mount umount2 open_tree open_tree_attr move_mount fsopen fsconfig fsmount fspick
		mount_setattr statmount listmount swapon swapoff acct quotactl quotactl_fd uselib name_to_handle_at open_by_handle_at
		fanotify_init fanotify_mark io_uring_setup io_uring_enter io_uring_register setxattrat removexattrat getxattrat listxattrat
		file_getattr file_setattr lookup_dcookie _sysctl nfsservctl bpf unshare setns listns clone3 ptrace process_vm_readv process_vm_writev
		pidfd_getfd process_madvise init_module finit_module delete_module kexec_load kexec_file_load memfd_secret`)

	// onlyLook tell of a file whose reading is denied: whether it is there, its kind, size, times and owner, where a link
	// leads, and when a name comes, goes or is used. The calls that run a program map the file, which cannot be opened. None of them
	// changes anything or opens a file.
	onlyLook = words(`stat lstat newfstatat statx access faccessat faccessat2 readlink readlinkat statfs chdir inotify_add_watch execve
		execveat`)

	// toPeers send to a peer. Unix sockets that could name another one cannot be made.
	toPeers = words(`sendto sendmsg sendmmsg`)

	// withoutPaths name no file. What they do with a descriptor, its open has allowed. See ioctls, fcntl and clone for what is refused of them.
	withoutPaths = words(`read write close fstat poll lseek mmap mprotect munmap brk rt_sigaction rt_sigprocmask rt_sigreturn ioctl pread64
		pwrite64 readv writev pipe select sched_yield mremap msync mincore madvise shmget shmat shmctl dup dup2 pause nanosleep getitimer
		alarm setitimer getpid sendfile socket accept recvfrom recvmsg shutdown listen getsockname getpeername socketpair setsockopt
		getsockopt clone fork vfork exit wait4 kill uname semget semop semctl shmdt msgget msgsnd msgrcv msgctl fcntl flock fsync fdatasync
		ftruncate getdents getcwd fchdir umask gettimeofday getrlimit getrusage sysinfo times getuid syslog getgid setuid setgid geteuid
		getegid setpgid getppid getpgrp setsid setreuid setregid getgroups setgroups setresuid getresuid setresgid getresgid getpgid
		setfsuid setfsgid getsid capget capset rt_sigpending rt_sigtimedwait rt_sigqueueinfo rt_sigsuspend sigaltstack personality ustat
		fstatfs sysfs getpriority setpriority sched_setparam sched_getparam sched_setscheduler sched_getscheduler sched_get_priority_max
		sched_get_priority_min sched_rr_get_interval mlock munlock mlockall munlockall vhangup modify_ldt prctl arch_prctl adjtimex
		setrlimit sync settimeofday reboot sethostname setdomainname iopl ioperm create_module get_kernel_syms query_module getpmsg putpmsg
		afs_syscall tuxcall security gettid readahead fgetxattr flistxattr tkill time futex sched_setaffinity sched_getaffinity
		set_thread_area io_setup io_destroy io_getevents io_submit io_cancel get_thread_area epoll_create epoll_ctl_old epoll_wait_old
		remap_file_pages getdents64 set_tid_address restart_syscall semtimedop fadvise64 timer_create timer_settime timer_gettime
		timer_getoverrun timer_delete clock_settime clock_gettime clock_getres clock_nanosleep exit_group epoll_wait epoll_ctl tgkill vserver
		mbind set_mempolicy get_mempolicy mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr waitid add_key request_key
		keyctl ioprio_set ioprio_get inotify_init inotify_rm_watch migrate_pages pselect6 ppoll set_robust_list get_robust_list splice tee
		sync_file_range vmsplice move_pages epoll_pwait signalfd timerfd_create eventfd fallocate timerfd_settime timerfd_gettime accept4
		signalfd4 eventfd2 epoll_create1 dup3 pipe2 inotify_init1 preadv pwritev rt_tgsigqueueinfo perf_event_open recvmmsg prlimit64
		clock_adjtime syncfs getcpu kcmp sched_setattr sched_getattr seccomp getrandom memfd_create userfaultfd membarrier mlock2
		copy_file_range preadv2 pwritev2 pkey_mprotect pkey_alloc pkey_free io_pgetevents rseq uretprobe uprobe pidfd_send_signal pidfd_open
		close_range epoll_pwait2 landlock_create_ruleset landlock_add_rule landlock_restrict_self process_mrelease futex_waitv
		set_mempolicy_home_node cachestat map_shadow_stack futex_wake futex_wait futex_requeue lsm_get_self_attr lsm_set_self_attr
		lsm_list_modules mseal rseq_slice_yield arch_specific_syscall`)
)

func words(s string) []string { return strings.Fields(s) }

// numbers are the system calls of this architecture, by their names.
func numbers(t *testing.T) map[string]uint32 {
	t.Helper()
	dir, err := exec.Command("go", "list", "-f", "{{.Dir}}", "golang.org/x/sys/unix").Output()
	if err != nil {
		t.Skipf("NOT TESTED: the list of system calls is not found: %v", err)
	}
	b, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "zsysnum_linux_"+runtime.GOARCH+".go"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]uint32{}
	for _, m := range regexp.MustCompile(`\sSYS_(\w+)\s*=\s*(\d+)`).FindAllStringSubmatch(string(b), -1) {
		n, err := strconv.Atoi(m[2])
		if err != nil {
			t.Fatal(err)
		}
		out[strings.ToLower(m[1])] = uint32(n)
	}
	if len(out) < 300 {
		t.Fatalf("%d system calls", len(out))
	}
	return out
}

// answers runs a filter with each combination of a few arguments.
func answers(t *testing.T, raw []bpf.RawInstruction, nr uint32) (out []uint32) {
	t.Helper()
	prog, all := bpf.Disassemble(raw)
	vm, err := bpf.NewVM(prog)
	if err != nil || !all {
		t.Fatalf("the filter cannot be read back: %v", err)
	}
	interesting := []uint32{0, 1, 2, 3, unix.O_CREAT | 0o4755, unix.O_PATH, unix.CLONE_NEWUSER, unix.TIOCSTI, 0xffffffff}
	for _, v := range interesting {
		for _, w := range interesting {
			data := make([]byte, 64) // the simulated machine loads big-endian words
			binary.BigEndian.PutUint32(data[offNr:], nr)
			binary.BigEndian.PutUint32(data[offArch:], auditArch)
			for i := range 6 {
				binary.BigEndian.PutUint32(data[offArgs+8*i:], []uint32{v, w}[i%2])
			}
			got, err := vm.Run(data)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, uint32(got))
		}
	}
	return out
}

// TestEachCallThatNamesAFile: every system call that there is has one list, and the two filters do what the list says.
func TestEachCallThatNamesAFile(t *testing.T) {
	first, err := seccompFilter()
	if err != nil {
		t.Fatal(err)
	}
	lists := map[string][]string{"asked": askedAbout, "refused": neverThere, "looks": onlyLook, "peers": toPeers, "without": withoutPaths}
	for name, nr := range numbers(t) {
		var in []string
		for list, names := range lists {
			if slices.Contains(names, name) {
				in = append(in, list)
			}
		}
		if len(in) != 1 {
			t.Errorf("%s (%d) is in the lists %v, want one", name, nr, in)
			continue
		}
		refused, asked, allowed := 0, 0, 0
		second := answers(t, supervisedFilter(), nr)
		for i, a := range answers(t, first, nr) {
			switch {
			case a != actAllow:
				refused++
			case second[i] == unix.SECCOMP_RET_USER_NOTIF:
				asked++
			default:
				allowed++
			}
		}
		opened := name == "open" || name == "openat" // with O_PATH nothing is opened
		switch in[0] {
		case "asked":
			if asked == 0 || allowed > 0 != opened {
				t.Errorf("%s: asked %d, allowed %d, refused %d", name, asked, allowed, refused)
			}
		case "refused":
			if asked+allowed > 0 {
				t.Errorf("%s: asked %d, allowed %d, refused %d", name, asked, allowed, refused)
			}
		case "looks", "peers":
			if asked+refused > 0 {
				t.Errorf("%s: asked %d, allowed %d, refused %d", name, asked, allowed, refused)
			}
		default:
			if asked > 0 {
				t.Errorf("%s: asked %d", name, asked)
			}
		}
	}
}
