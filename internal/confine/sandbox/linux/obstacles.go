//go:build linux && (amd64 || arm64)

package linux

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/confine/sandbox"
)

// surroundings are the facts that tell why the system around Remit refuses a sandbox.
type surroundings struct {
	proc    fs.FS    // /proc
	refused []string // system calls that a seccomp filter refuses
	root    bool     // the user is root: limits on ordinary users do not apply
}

func theseSurroundings() surroundings {
	return surroundings{proc: os.DirFS("/proc"), refused: filteredCalls(), root: os.Geteuid() == 0}
}

// obstacles names the restrictions that keep this process from making a sandbox: what a
// container, a service manager or the distribution has set. Call it once a layer has failed.
func (s surroundings) obstacles() []sandbox.Layer {
	var out []sandbox.Layer
	add := func(name, hint, format string, args ...any) {
		out = append(out, sandbox.Layer{Name: "in the way: " + name, Required: true, Detail: fmt.Sprintf(format, args...), Hint: hint})
	}
	const otherFilter = "docker run --security-opt seccomp=unconfined, or a profile that also allows these calls; for a systemd unit, drop RestrictNamespaces and SystemCallFilter"
	if len(s.refused) > 0 {
		add("seccomp", otherFilter, "a filter around this process refuses %s", strings.Join(s.refused, ", "))
	}
	switch profile, mode := s.appArmor(); {
	case mode == "enforce":
		add("AppArmor", "docker run --security-opt apparmor=unconfined, or a profile with the rules userns and mount", "this process is confined by the profile %q", profile)
	case mode == "" && !s.root && s.setting("sys/kernel/apparmor_restrict_unprivileged_userns") == "1":
		add("AppArmor", "load the profile that Remit's packages install: apparmor_parser -r /etc/apparmor.d/remit; it names /usr/bin/remit",
			"kernel.apparmor_restrict_unprivileged_userns: user namespaces of ordinary users need a profile that allows them")
	}
	if over := s.masks(); len(over) > 0 {
		add("masked /proc", "docker run --security-opt systempaths=unconfined, podman run --security-opt unmask=ALL, or procMount: Unmasked in Kubernetes",
			"the kernel gives no new /proc where parts of the present one are hidden: %s", strings.Join(over, ", "))
	}
	if !s.root && s.setting("sys/kernel/unprivileged_userns_clone") == "0" {
		add("setting", "sysctl kernel.unprivileged_userns_clone=1", "kernel.unprivileged_userns_clone=0 switches off user namespaces of ordinary users")
	}
	if s.setting("sys/user/max_user_namespaces") == "0" {
		add("setting", "raise it with sysctl", "user.max_user_namespaces=0 allows no user namespace")
	}
	if at := s.mountPoints(); len(at) > 0 && !slices.ContainsFunc(at, func(m mountPoint) bool { return m.path == "/" }) {
		add("chroot", "enter the folder by pivot_root, as containers do", "the kernel gives no user namespace in a chroot")
	}
	if len(out) == 0 && strings.Contains(s.setting("self/status"), "\nSeccomp:\t2") {
		add("seccomp", otherFilter, "a filter is around this process; it may refuse the call that the failed layer names")
	}
	if len(out) == 0 {
		add("unknown", "the system's log may name it", "no seccomp filter, AppArmor profile, mask over /proc or setting was found that explains the missing layers")
	}
	return out
}

// filteredCalls returns the system calls that a seccomp filter refuses. Each is made with
// arguments that the kernel rejects by itself, before it looks at privileges.
func filteredCalls() []string {
	var out []string
	threads, err := os.ReadDir("/proc/self/task")
	if err == nil && len(threads) > 1 && isFiltered(unix.Unshare(unix.CLONE_NEWUSER)) { // EINVAL for a process with threads
		out = append(out, "unshare")
	}
	if _, _, errno := unix.RawSyscall6(unix.SYS_MOUNT, 0, 0, 0, 0, 0, 0); isFiltered(errno) { // EFAULT without a target
		out = append(out, "mount")
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION); errno == unix.EPERM {
		out = append(out, "landlock_create_ruleset")
	}
	return out
}

func isFiltered(err error) bool {
	return errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENOSYS)
}

// setting reads a file of /proc; "" if there is none.
func (s surroundings) setting(name string) string {
	b, err := fs.ReadFile(s.proc, name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// appArmor returns the profile of this process and its mode. Both are empty if none applies.
func (s surroundings) appArmor() (profile, mode string) {
	label := s.setting("self/attr/apparmor/current")
	if label == "" {
		label = s.setting("self/attr/current") // of another security module, it has no mode
	}
	profile, mode, ok := strings.Cut(strings.Trim(label, "\x00"), " (")
	if !ok || !strings.HasSuffix(mode, ")") {
		return "", ""
	}
	return profile, strings.TrimSuffix(mode, ")")
}

// mountPoint is one line of mountinfo.
type mountPoint struct{ path, options string }

func (s surroundings) mountPoints() []mountPoint {
	var out []mountPoint
	for line := range strings.Lines(s.setting("self/mountinfo")) {
		if f := strings.Fields(line); len(f) > 5 {
			out = append(out, mountPoint{f[4], f[5]})
		}
	}
	return out
}

// maxMasks bounds how many masks are listed.
const maxMasks = 4

// masks returns the mounts over parts of /proc. The folder of binfmt_misc does not
// count: it is made to be mounted over.
func (s surroundings) masks() []string {
	var out []string
	more := 0
	for _, m := range s.mountPoints() {
		switch {
		case m.path == "/proc" && slices.Contains(strings.Split(m.options, ","), "ro"):
			out = append(out, "/proc is read-only")
		case !strings.HasPrefix(m.path, "/proc/") || path.Base(m.path) == "binfmt_misc" || slices.Contains(out, m.path):
		case len(out) == maxMasks:
			more++
		default:
			out = append(out, m.path)
		}
	}
	if more > 0 {
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	return out
}
