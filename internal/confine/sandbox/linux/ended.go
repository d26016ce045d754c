//go:build linux && (amd64 || arm64)

package linux

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/sandbox/spawn"
)

// judge reads the wait status.
func (r run) judge(out *sandbox.Outcome, exit spawn.Exit) {
	out.ExitCode = -1
	ws := unix.WaitStatus(exit.Status)
	switch {
	case out.TimedOut:
		out.Signal, out.Limit = "SIGKILL", fmt.Sprintf("time limit %v reached", r.limit)
		if r.seat.group.killed() > 0 {
			out.Limit += ", and before it the " + r.seat.group.hit()
		}
		return
	case !exit.Known:
		out.Signal, out.Limit = "SIGKILL", r.seat.group.hit()
		return
	case ws.Exited():
		out.ExitCode = ws.ExitStatus()
	case ws.Signaled():
		out.Signal = unix.SignalName(ws.Signal())
	}
	if out.ExitCode != 0 {
		if out.Limit = r.seat.group.hit(); out.Limit != "" {
			return
		}
	}
	switch {
	case out.ExitCode == 0 && r.seat.group.killed() > 0:
		out.Limit = fmt.Sprintf("%s: the kernel killed some of the command's processes", r.seat.group.hit())
	case out.Signal == "SIGXFSZ":
		out.Limit = fmt.Sprintf("file size limit %s reached", size(r.prof.FileSize))
	case r.prof.CPU > 0 && (out.Signal == "SIGXCPU" || out.Signal == "SIGKILL" && out.CPU >= r.prof.CPU):
		out.Limit = fmt.Sprintf("processor time limit %s reached", r.prof.CPU)
	case out.ExitCode != 0 && out.PeakMemory >= r.prof.Memory/10*9:
		out.Limit = fmt.Sprintf("memory limit %s reached", size(r.prof.Memory))
	}
}

func size(n int64) string {
	if n >= 1<<20 && n%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d bytes", n)
}

// startFailed is the error for a sandbox that did not get as far as the command.
func startFailed(e spawn.Exit, c sandbox.Command) error {
	switch {
	case e.Failed == stepExec && e.Errno == unix.E2BIG:
		return fault.Wrap(fault.ArgsInvalid, e.Errno, "the arguments are longer than the system takes").WithHint("pass them on stdin or in a file")
	case e.Failed == stepExec:
		return fault.Wrap(fault.ToolFailed, e.Errno, "%q cannot be executed in the sandbox: %v", c.Argv[0], e.Errno).
			WithHint("the program, or the interpreter that its first line names, may lie where the policy shows nothing")
	case e.Failed == stepSupervise:
		return fault.Wrap(fault.SandboxMissing, e.Errno, "this machine cannot ask the policy about each path that the command uses: %v", e.Errno).
			WithHint("it needs seccomp's user notification (Linux 5.19), which a container's or another tracer's filter may hold back")
	case e.Failed == "overlay" && e.Errno == unix.EINVAL:
		return fault.Wrap(fault.SandboxMissing, e.Errno, "the writes of a run cannot be held in this workspace: the kernel refuses to lay anything over it").
			WithHint("other file systems may be mounted inside it: unmount them, or take a workspace without")
	case e.Failed == stepDir:
		return fault.Wrap(fault.HandleRefused, e.Errno, "the working folder %q cannot be entered under the policy: %v", c.Dir, e.Errno)
	case slices.ContainsFunc([]string{"bind ", "mask ", "empty ", "file ", "folder "}, func(p string) bool { return strings.HasPrefix(e.Failed, p) }):
		return fault.Wrap(fault.ToolFailed, e.Errno, "the sandbox's file tree could not be made: %s: %v", e.Failed, e.Errno).
			WithHint("files may have changed meanwhile: run it again")
	}
	hint := hintFor(e.Errno, "`remit doctor` shows which confinement this machine supports")
	if strings.HasPrefix(e.Failed, "/proc mount") && e.Errno == unix.EPERM {
		hint = "something is mounted over parts of /proc here, as in most containers: show it whole (docker run --security-opt systempaths=unconfined)"
	}
	return fault.Wrap(fault.SandboxMissing, e.Errno, "the kernel refused a part of the sandbox: %s: %v", e.Failed, e.Errno).ForOperator("%s", hint)
}

func notStarted(err error) error {
	var e unix.Errno
	if hint := hintFor(err, ""); errors.As(err, &e) && hint != "" && e != unix.ENOSPC && e != unix.EAGAIN {
		return fault.Wrap(fault.SandboxMissing, err, "the sandbox could not be started: %v", e).WithHint("%s", hint)
	}
	if errors.As(err, &e) {
		hint := map[unix.Errno]string{
			unix.EPERM:  "`remit doctor` names what is in the way: seccomp, AppArmor or a setting",
			unix.ENOSPC: "raise user.max_user_namespaces and its neighbours",
			unix.EUSERS: "too deep inside other user namespaces",
			unix.EAGAIN: "the limit of processes of this user is reached",
			unix.EINVAL: "the kernel was built without one of the namespaces",
		}[e]
		return fault.Wrap(fault.SandboxMissing, err, "the kernel refuses new namespaces: %v", e).WithHint("%s", hint)
	}
	return fault.Wrap(fault.SandboxMissing, err, "the sandbox could not be started: %v", err).WithHint("%s", hintFor(err, "run it again"))
}

// hintFor returns the hint for an error by which the machine has no room left, and otherwise
// the given hint.
func hintFor(err error, other string) string {
	for e, hint := range map[unix.Errno]string{
		unix.EMFILE: "this process may open no more files: raise its limit (ulimit -n)",
		unix.ENFILE: "the machine has too many open files: raise fs.file-max",
		unix.ENOMEM: "the machine or Remit's control group is out of memory",
		unix.EAGAIN: "this user may start no more processes: raise the limit (ulimit -u)",
		unix.ENOSPC: "something is full: a disk, or one of the limits below /proc/sys/user",
	} {
		if errors.Is(err, e) {
			return hint
		}
	}
	return other
}
