//go:build linux && (amd64 || arm64)

package linux

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// thisMachine finds the abilities of the kernel. Others (may this user make namespaces?)
// are known after a try.
func thisMachine() (machine, error) {
	m := machine{landlockABI: landlockABI(), uid: os.Geteuid(), gid: os.Getegid(), pidMax: kernelAtLeast(6, 14), hard: hardLimits()}
	if m.landlockABI == 0 {
		return m, fault.New(fault.SandboxMissing, "the kernel has no Landlock").
			WithHint("it needs Linux 5.13 or newer with landlock in the boot parameter lsm=")
	}
	f, err := seccompFilter()
	if err != nil {
		return m, fault.Wrap(fault.Internal, err, "the seccomp filter cannot be assembled")
	}
	m.filter = f
	m.shell = shellOf(nil)
	b, err := os.ReadFile("/proc/sys/kernel/cap_last_cap")
	if err == nil {
		m.lastCap, err = strconv.Atoi(strings.TrimSpace(string(b)))
	}
	if err != nil {
		return m, fault.Wrap(fault.SandboxMissing, err, "/proc/sys/kernel/cap_last_cap cannot be read, so the capabilities to drop are unknown: %v", sandbox.RootCause(err)).
			WithHint("%s", hintFor(err, "mount /proc"))
	}
	return m, nil
}

// shellOf is the shell of the account in a sandbox with the system of an image.
func shellOf(img *sandbox.Image) string {
	if _, _, err := sandbox.Lookup(img, nil, sandbox.Bash, "/"); err == nil {
		return sandbox.Bash
	}
	return sandbox.PlainShell
}

// onceGood keeps the first result without an error.
func onceGood[T any](ask func() (T, error)) func() (T, error) {
	var mu sync.Mutex
	var known bool
	var v T
	return func() (T, error) {
		mu.Lock()
		defer mu.Unlock()
		var err error
		if !known {
			v, err = ask()
			known = err == nil
		}
		return v, err
	}
}

// kernelAtLeast compares the running kernel's version.
func kernelAtLeast(major, minor int) bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return false
	}
	parts := strings.SplitN(unix.ByteSliceToString(u.Release[:]), ".", 3)
	if len(parts) < 2 {
		return false
	}
	a, err1 := strconv.Atoi(parts[0])
	c, err2 := strconv.Atoi(strings.TrimRight(parts[1], "-+abcdefghijklmnopqrstuvwxyz"))
	return err1 == nil && err2 == nil && (a > major || a == major && c >= minor)
}

// noteOwners says where root's commands, which have none of root's privileges,
// cannot write although the policy lets them.
func noteOwners(p *sandbox.Profile) {
	if os.Geteuid() != 0 {
		return
	}
	for _, m := range p.Mounts {
		var st unix.Stat_t
		if m.System || m.From != "" || m.Kind != sandbox.Bind || m.Access&sandbox.WriteOnly == 0 || unix.Lstat(m.Path, &st) != nil || st.Uid == 0 || st.Mode&0o002 != 0 {
			continue
		}
		p.Notes = append(p.Notes, fmt.Sprintf("root's commands have no privileges and cannot write to %q, which belongs to user %d; run Remit as that user", m.Path, st.Uid))
		return
	}
}
