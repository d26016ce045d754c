//go:build linux && (amd64 || arm64)

package linux

import (
	"os"
	"path"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/confine/sandbox"
)

// shownFolder is a folder of a file system.
type shownFolder struct{ device, path string }

// twice reports whether the writable folders of the machine show the same files at two places, by mounts of the machine.
func (d *decider) twice() bool {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return true
	}
	var shown []shownFolder
	for _, m := range d.mounts {
		if m.Access&sandbox.WriteOnly != 0 && d.ofMachine(m.Path) && !slices.ContainsFunc(d.mounts, func(o sandbox.Mount) bool {
			return o.Path != m.Path && sandbox.Within(m.Path, o.Path) && o.Access&sandbox.WriteOnly != 0 && d.ofMachine(o.Path)
		}) {
			shown = append(shown, shownBelow(m.Path, string(mounts))...)
		}
	}
	for i, a := range shown {
		if slices.ContainsFunc(shown[:i], func(b shownFolder) bool {
			return a.device == b.device && (sandbox.Within(a.path, b.path) || sandbox.Within(b.path, a.path))
		}) {
			return true
		}
	}
	return false
}

// asInMountinfo writes a path as the kernel does in mountinfo, see proc_pid_mountinfo(5).
var asInMountinfo = strings.NewReplacer(" ", `\040`, "\t", `\011`, "\n", `\012`, `\`, `\134`, "#", `\043`)

// shownBelow are the folders of file systems that the mounts show at and below a path.
func shownBelow(p, mounts string) (out []shownFolder) {
	p = asInMountinfo.Replace(p)
	var top shownFolder
	at := ""
	for line := range strings.Lines(mounts) {
		f := strings.Fields(line)
		if len(f) < 5 {
			continue
		}
		switch is := (shownFolder{f[2], f[3]}); {
		case sandbox.Within(p, f[4]) && len(f[4]) >= len(at): // the last of several at one place covers the others
			top, at = is, f[4]
		case sandbox.Within(f[4], p) && f[4] != p:
			out = append(out, is)
		}
	}
	return append(out, shownFolder{top.device, path.Join(top.path, strings.TrimPrefix(p, at))})
}
