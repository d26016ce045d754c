package changeset

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

type devT = uint64

// mountOf tells which mount a name in an open folder is on, 0 where the kernel
// does not say (before Linux 5.8).
func mountOf(dir int, name string) uint64 {
	var st unix.Statx_t
	err := unix.Statx(dir, name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_MNT_ID, &st)
	if err != nil || st.Mask&unix.STATX_MNT_ID == 0 {
		return 0
	}
	return st.Mnt_id
}

// mountsBelow lists the mounts inside a folder, by
// https://docs.kernel.org/filesystems/proc.html#proc-pid-mountinfo-information-about-mounts.
func mountsBelow(folder string) (out []string) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil // the review looks again, mount by mount
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 5 {
			continue
		}
		if at := unescaped(f[4]); at != folder && within(at, folder) {
			out = append(out, at)
		}
	}
	return out
}

// unescaped reads a path in which some bytes are written as \040.
func unescaped(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// bootID names the time since the machine was started, "" where it is not told.
func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
