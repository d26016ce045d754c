//go:build linux && (amd64 || arm64)

package linux_test

import (
	"context"
	"strings"
	"testing"
	"testing/fstest"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/sandbox/linux"
)

// As /proc/self/mountinfo has them on a host with systemd, and in a container of Docker.
const (
	hostMounts = "25 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n26 25 0:23 / /proc rw,nosuid - proc proc rw\n" +
		"30 26 0:29 / /proc/sys/fs/binfmt_misc rw,relatime - autofs systemd-1 rw\n31 30 0:40 / /proc/sys/fs/binfmt_misc rw - binfmt_misc none rw\n"
	dockerMounts = "400 1 0:50 / / rw - overlay overlay rw\n401 400 0:51 / /proc rw,nosuid - proc proc rw\n" +
		"402 401 0:51 /bus /proc/bus ro - proc proc rw\n403 401 0:51 /fs /proc/fs ro - proc proc rw\n404 401 0:51 /irq /proc/irq ro - proc proc rw\n" +
		"405 401 0:51 /sys /proc/sys ro - proc proc rw\n406 401 0:52 /null /proc/kcore rw - tmpfs tmpfs rw\n407 401 0:52 /null /proc/keys rw - tmpfs tmpfs rw\n"
)

func TestObstaclesAreNamed(t *testing.T) {
	for name, c := range map[string]struct {
		files   map[string]string
		refused []string
		root    bool
		want    string // names and parts of their details
	}{
		"Docker": {
			map[string]string{"self/mountinfo": dockerMounts, "self/attr/current": "docker-default (enforce)\n"},
			[]string{"unshare", "mount"}, true,
			"seccomp: unshare, mount | AppArmor: docker-default | masked /proc: /proc/bus, /proc/fs, /proc/irq, /proc/sys, and 2 more",
		},
		"Docker with SELinux": {
			map[string]string{"self/mountinfo": dockerMounts, "self/attr/current": "system_u:system_r:container_t:s0:c1,c2\x00"}, nil, true,
			"masked /proc: /proc/bus",
		},
		"Ubuntu 24.04 without the profile": {
			map[string]string{"self/mountinfo": hostMounts, "self/attr/apparmor/current": "unconfined\n", "sys/kernel/apparmor_restrict_unprivileged_userns": "1\n"}, nil, false,
			"AppArmor: ordinary users need a profile",
		},
		"Ubuntu 24.04 as root": {
			map[string]string{"self/mountinfo": hostMounts, "self/attr/apparmor/current": "unconfined\n", "sys/kernel/apparmor_restrict_unprivileged_userns": "1\n"}, nil, true,
			"unknown: no seccomp filter",
		},
		"Ubuntu 24.04 with the profile": {
			map[string]string{"self/mountinfo": hostMounts, "self/attr/apparmor/current": "remit (unconfined)\n", "sys/kernel/apparmor_restrict_unprivileged_userns": "1\n"}, nil, false,
			"unknown: no seccomp filter",
		},
		"a profile that only complains": {
			map[string]string{"self/mountinfo": hostMounts, "self/attr/apparmor/current": "remit (complain)\n"}, nil, false,
			"unknown: no seccomp filter",
		},
		"Podman with the whole /proc, whose filter refuses sethostname": {
			map[string]string{"self/mountinfo": hostMounts, "self/status": "Name:\tremit\nNoNewPrivs:\t0\nSeccomp:\t2\nSeccomp_filters:\t1\n"}, nil, false,
			"seccomp: may refuse the call",
		},
		"no filter": {
			map[string]string{"self/mountinfo": hostMounts, "self/status": "Name:\tremit\nSeccomp:\t0\n"}, nil, false,
			"unknown: no seccomp filter",
		},
		"settings": {
			map[string]string{"self/mountinfo": hostMounts, "sys/kernel/unprivileged_userns_clone": "0\n", "sys/user/max_user_namespaces": "0\n"}, nil, false,
			"setting: unprivileged_userns_clone=0 | setting: max_user_namespaces=0",
		},
		"a setting that does not concern root": {
			map[string]string{"self/mountinfo": hostMounts, "sys/kernel/unprivileged_userns_clone": "0\n"}, nil, true,
			"unknown: no seccomp filter",
		},
		"a read-only /proc": {
			map[string]string{"self/mountinfo": strings.Replace(hostMounts, "/proc rw,nosuid", "/proc ro,nosuid", 1)}, nil, false,
			"masked /proc: /proc is read-only",
		},
		"a chroot": {
			map[string]string{"self/mountinfo": "26 25 0:23 / /proc rw,nosuid - proc proc rw\n"}, nil, false,
			"chroot: no user namespace",
		},
		"no /proc at all": {nil, nil, false, "unknown: no seccomp filter"},
	} {
		t.Run(name, func(t *testing.T) {
			proc := fstest.MapFS{}
			for name, text := range c.files {
				proc[name] = &fstest.MapFile{Data: []byte(text)}
			}
			got := linux.Obstacles(proc, c.root, c.refused...)
			want := strings.Split(c.want, " | ")
			if len(got) != len(want) {
				t.Fatalf("got %+v, want %s", got, c.want)
			}
			for i, l := range got {
				name, detail, _ := strings.Cut(want[i], ": ")
				if l.Name != "in the way: "+name || !strings.Contains(l.Detail, detail) || l.Available || !l.Required || l.Hint == "" {
					t.Errorf("got %+v, want %s", l, want[i])
				}
			}
		})
	}
}

// Behind the real thing, doctor names it and nothing else.
func TestAFilterAroundRemitIsNamed(t *testing.T) {
	if apart(t, 0) {
		refuse(t, unix.SYS_UNSHARE, unix.SYS_MOUNT) // not clone3: C libraries make threads with it
		namesOnly(t, "seccomp", "refuses unshare, mount")
	}
}

func TestAMaskOverProcIsNamed(t *testing.T) {
	if unix.Getuid() != 0 {
		t.Skip("NOT TESTED: masking /proc takes root")
	}
	if apart(t, unix.CLONE_NEWNS) {
		must(t, unix.Mount("none", "/proc/fs", "tmpfs", unix.MS_RDONLY, ""))
		namesOnly(t, "masked /proc", "/proc/fs")
	}
}

func namesOnly(t *testing.T, name, detail string) {
	t.Helper()
	var got []sandbox.Layer
	for _, l := range linux.Probe(context.Background()) {
		if strings.HasPrefix(l.Name, "in the way: ") {
			got = append(got, l)
		}
		if strings.Contains(l.Hint, "remit doctor") {
			t.Errorf("%s points back to doctor: %s", l.Name, l.Hint)
		}
	}
	if len(got) != 1 || got[0].Name != "in the way: "+name || !strings.Contains(got[0].Detail, detail) {
		t.Errorf("got %+v, want %s: %s", got, name, detail)
	}
}

// refuse installs a filter in all threads of this process that answers EPERM to some calls,
// as that of a container does.
func refuse(t *testing.T, calls ...uint32) {
	t.Helper()
	code := []bpf.Instruction{bpf.LoadAbsolute{Off: 0, Size: 4}}
	for _, nr := range calls {
		code = append(code, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: nr, SkipTrue: 1}, bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)})
	}
	raw, err := bpf.Assemble(append(code, bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}))
	must(t, err)
	filter := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		filter[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	must(t, unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog))); errno != 0 {
		t.Fatal(errno)
	}
}
