//go:build linux && (amd64 || arm64)

package supervisor_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/confine/sandbox/spawn"
	"github.com/remitrun/remit/internal/confine/supervisor"
)

// asChild is the variable by which the test's own program becomes a supervised one: it installs the
// filter, gives the listener away, and executes its arguments.
const asChild = "REMIT_TEST_SUPERVISED"

func TestMain(m *testing.M) {
	switch {
	case len(os.Args) == 3 && os.Getenv(asChild) != "" && strings.HasPrefix(os.Args[1], "-"): // the test's own program, supervised
		n, _ := strconv.Atoi(os.Args[2]) // 0 does as well
		switch os.Args[1] {
		case "-ops":
			carryOutOps(uint64(n))
		case "-flip":
			flip(n)
		case "-loop":
			loop(n, false)
		case "-create":
			loop(n, true)
		case "-sockets":
			socketOps(uint64(n))
		case "-flipsockets":
			flipSockets(n)
		case "-kinds":
			socketKinds()
		case "-many":
			openMany(n)
		}
	case os.Getenv(asChild) == "":
		os.Exit(m.Run())
	default:
		fmt.Fprintln(os.Stderr, becomeSupervised(os.Args[1:]))
		os.Exit(120)
	}
}

// becomeSupervised returns only with an error.
func becomeSupervised(argv []string) error {
	runtime.LockOSThread()
	if os.Geteuid() == 0 {
		if err := unix.Prctl(unix.PR_SET_SECUREBITS, secbitNoRoot, 0, 0, 0); err != nil {
			return err
		}
		head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		if err := unix.Capset(&head, &new([2]unix.CapUserData)[0]); err != nil {
			return err
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if os.Getenv(asChild) == "bare" {
		return unix.Exec(argv[0], argv, os.Environ())
	}
	fd, err := install()
	if err != nil {
		return fmt.Errorf("the filter: %w", err)
	}
	if err := unix.Sendmsg(3, []byte{1}, unix.UnixRights(fd), nil, 0); err != nil {
		return err
	}
	unix.CloseOnExec(3)
	return unix.Exec(argv[0], argv, os.Environ())
}

const secbitNoRoot = 1 // root gets no capability by executing something

func install() (int, error) {
	prog := []bpf.Instruction{bpf.LoadAbsolute{Off: 0, Size: 4}}
	rules := supervisor.Rules()
	maps.Copy(rules, supervisor.SocketRules())
	for nr, then := range rules {
		prog = append(append(prog, bpf.JumpIf{Cond: bpf.JumpEqual, Val: nr, SkipFalse: uint8(len(then))}), then...)
	}
	prog = append(prog, bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.SYS_OPENAT2, SkipFalse: 1}, bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
		bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW})
	raw, err := bpf.Assemble(prog)
	if err != nil {
		return -1, err
	}
	f := unix.SockFprog{Len: uint16(len(raw)), Filter: (*unix.SockFilter)(unsafe.Pointer(&raw[0]))}
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER|unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, uintptr(unsafe.Pointer(&f)))
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

// supervised is a command of the test that is carried out under a supervisor.
type supervised struct {
	dir    string
	decide supervisor.Decide
	mu     sync.Mutex
	denied []supervisor.Request

	namespaces bool // the command has a user and a network namespace of its own, as in a sandbox

	started func(*supervisor.Supervisor) // nil: nothing is told
}

// refused returns how many requests were refused so far.
func (s *supervised) refused() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.denied)
}

func allow(supervisor.Request) error { return nil }

// run carries out a command.
func (s *supervised) run(t testing.TB, argv ...string) (out string, code int) {
	t.Helper()
	path, err := exec.LookPath(argv[0])
	if err != nil {
		t.Skipf("%s is not installed", argv[0])
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	theirs, ours := os.NewFile(uintptr(pair[0]), "theirs"), os.NewFile(uintptr(pair[1]), "ours")
	defer ours.Close()
	cmd := exec.Command(os.Args[0], append([]string{path}, argv[1:]...)...)
	var buf bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = s.dir, &buf, &buf, []*os.File{theirs}
	cmd.Env = append(os.Environ(), asChild+"=1")
	if s.namespaces {
		cmd.SysProcAttr = namespaces()
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = theirs.Close()
	sup := s.supervise(t, ours)
	if s.started != nil {
		s.started(sup)
	}
	err = cmd.Wait()
	if sup != nil {
		sup.Stop()
	}
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	return buf.String(), cmd.ProcessState.ExitCode()
}

// supervise takes the listener.
func (s *supervised) supervise(t testing.TB, from *os.File) *supervisor.Supervisor {
	t.Helper()
	oob := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(int(from.Fd()), make([]byte, 1), oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(messages) != 1 {
		t.Errorf("the child gave no listener: %v", err)
		return nil
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		t.Fatal(err)
	}
	sp, err := spawner()
	if err != nil {
		t.Fatal(err)
	}
	sup, err := supervisor.Start(os.NewFile(uintptr(fds[0]), "listener"), supervisor.Options{
		IDs: supervisor.IDs{User: syscall.Getuid(), Group: syscall.Getgid()}, Spawner: sp, Decide: s.decide,
		Denied: func(r supervisor.Request, _ error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.denied = append(s.denied, r)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return sup
}

// spawner binds sockets for all tests. It ends with the test program.
var spawner = sync.OnceValues(spawn.Start)

func namespaces() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}}
}

// bare carries out a command without a supervisor, and without privileges.
func bare(t testing.TB, dir string, argv ...string) (out string, code int) {
	t.Helper()
	return bareIn(t, dir, nil, argv...)
}

// bareIn is bare in namespaces.
func bareIn(t testing.TB, dir string, in *syscall.SysProcAttr, argv ...string) (out string, code int) {
	t.Helper()
	path, err := exec.LookPath(argv[0])
	if err != nil {
		t.Skipf("%s is not installed", argv[0])
	}
	cmd := exec.Command(os.Args[0], append([]string{path}, argv[1:]...)...)
	cmd.Dir, cmd.Env, cmd.SysProcAttr = dir, append(os.Environ(), asChild+"=bare"), in
	b, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(b), cmd.ProcessState.ExitCode()
}
