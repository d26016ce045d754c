//go:build linux && (amd64 || arm64)

package linux

import (
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// defaults are the limits of a command for which no policy sets any.
var defaults = sandbox.WithDefaults(policy.Limits{})

// firstPids are the numbers of a pid namespace that the kernel gives out only
// once: after the last number it goes on behind these.
const firstPids = 300

// pidMax is the pid_max that leaves a command its processes also after it had
// many: as many numbers as it may have processes come round again, and one for
// the sandbox's first process. Until then it may have more at once.
func pidMax(p sandbox.Profile) int { return firstPids + max(1, p.Processes) + 1 }

// rlimits are the kernel's limits of each process of a command.
func rlimits(p sandbox.Profile) map[int]uint64 {
	return map[int]uint64{unix.RLIMIT_CORE: 0, unix.RLIMIT_NOFILE: uint64(p.OpenFiles), unix.RLIMIT_FSIZE: uint64(p.FileSize),
		unix.RLIMIT_DATA: uint64(p.Memory), unix.RLIMIT_NPROC: uint64(p.Processes) + 1, unix.RLIMIT_MEMLOCK: 8 << 20,
		unix.RLIMIT_MSGQUEUE: 0, unix.RLIMIT_RTPRIO: 0, unix.RLIMIT_NICE: 0}
}

// hardLimits are the limits of this process itself, which it cannot raise for others.
func hardLimits() map[int]uint64 {
	out := map[int]uint64{}
	for res := range rlimits(sandbox.Profile{}) {
		out[res] = hardLimit(res)
	}
	out[unix.RLIMIT_CPU] = hardLimit(unix.RLIMIT_CPU)
	return out
}

func hardLimit(res int) uint64 {
	var lim unix.Rlimit
	if unix.Prlimit(0, res, nil, &lim) != nil {
		return unix.RLIM_INFINITY // then the kernel refuses too large a value
	}
	return lim.Max
}

// most is a limit that this process may set.
func (m machine) most(res int, v uint64) uint64 {
	if hard, ok := m.hard[res]; ok {
		return min(v, hard)
	}
	return v
}

// limits says how each limit of a profile is enforced on this machine. Where
// there is no control group, why says the reason.
func limits(m machine, p sandbox.Profile, g *group, why string) map[string]string {
	out := map[string]string{
		"memory":     size(int64(m.most(unix.RLIMIT_DATA, uint64(p.Memory)))) + " of data in each process (rlimit)",
		"disk":       size(p.Disk) + " in the private folders (tmpfs)",
		"file_size":  size(int64(m.most(unix.RLIMIT_FSIZE, uint64(p.FileSize)))) + " in one file (rlimit)",
		"open_files": fmt.Sprintf("%d in each process (rlimit)", m.most(unix.RLIMIT_NOFILE, uint64(p.OpenFiles))),
		"processes":  fmt.Sprintf("%d (rlimit of the user namespace)", p.Processes),
	}
	if m.uid == 0 { // the kernel does not count root's processes
		out["processes"] = "not enforced: Remit runs as root on a kernel before 6.14"
		if m.pidMax {
			out["processes"] = fmt.Sprintf("%d, or up to %d until as many have been started (pid_max of the pid namespace)", p.Processes, pidMax(p)-1)
		}
	}
	if p.Isolation != policy.FullIsolation {
		weakLimits(out, m, p)
	}
	g.limits(out, why)
	if p.CPU > 0 {
		out["cpu"] = p.CPU.Round(time.Second).String() + " of each process (rlimit)"
	}
	return out
}

// limits says what a control group adds.
func (g *group) limits(out map[string]string, why string) {
	if g == nil {
		out["memory"] += "; not of all together: " + why
		return
	}
	if g.bounds.memory > 0 {
		swap := ", swap apart"
		if g.swap {
			swap = ""
		}
		out["memory"] += fmt.Sprintf("; %s of all together, private files included (cgroup v%d%s)", size(g.bounds.memory), g.version, swap)
	}
	if g.bounds.pids > 0 {
		out["processes"] = fmt.Sprintf("%d (cgroup v%d)", g.bounds.pids-ownPids, g.version)
	}
}

// limitLayers tells the same for `remit doctor`.
func limitLayers(m machine) []sandbox.Layer {
	s, _ := newGroups() // the groups have the reason
	defer s.close()
	return []sandbox.Layer{s.layer(), s.processLayer(m), s.memoryLayer(),
		{Name: "cpu limit", Available: true, Detail: "RLIMIT_CPU of each process, and the time limit of the command"},
		{Name: "disk limit", Available: true, Detail: "the size of the private folders (tmpfs) and RLIMIT_FSIZE; folders of the workspace have no quota"},
	}
}

// layer makes a group and says what it holds.
func (s *groups) layer() sandbox.Layer {
	l := sandbox.Layer{Name: "cgroups", Hint: "delegate control groups with the memory and pids controllers to this user, as `systemd-run --user --scope` does"}
	g, why := s.take(bounds{memory: defaults.Memory, pids: defaults.Processes})
	if g == nil {
		l.Detail = "not in use: " + why
		return l
	}
	l.Available, l.Hint = true, ""
	var holds []string
	if g.bounds.memory > 0 {
		holds = append(holds, "memory")
	}
	if g.bounds.pids > 0 {
		holds = append(holds, "processes")
	}
	l.Detail = fmt.Sprintf("tried: version %d limits the %s of a whole command", g.version, strings.Join(holds, " and the "))
	g.release()
	return l
}

// processLayer says how the number of processes is bounded.
func (s *groups) processLayer(m machine) sandbox.Layer {
	l := sandbox.Layer{Name: "process limit", Available: true}
	switch {
	case s.place.pids != "":
		l.Detail = "a control group for each command"
	case m.uid != 0:
		l.Detail = "RLIMIT_NPROC of the sandbox's own user namespace"
	case m.pidMax:
		l.Detail = "as root: pid_max of the sandbox, which bounds only after 300 processes"
	default:
		l.Available, l.Hint = false, "run Remit as an ordinary user"
		l.Detail = "as root the kernel counts no processes, and before Linux 6.14 a sandbox has no pid_max of its own"
	}
	return l
}

// memoryLayer says how memory is bounded.
func (s *groups) memoryLayer() sandbox.Layer {
	if s.place.memory != "" {
		return sandbox.Layer{Name: "memory limit", Available: true, Detail: "RLIMIT_DATA of each process, and one control group for all of them and the private folders"}
	}
	return sandbox.Layer{Name: "memory limit", Available: true, Detail: "RLIMIT_DATA of each process, and the size of /tmp",
		Hint: "memory outside of process data (memfd, shared memory, pipes) and the sum of all processes are limited only by a control group"}
}

// halfMemory is half of the machine's memory, in bytes: the limit of all processes of a
// command together where the policy has none.
func halfMemory() int64 {
	var s unix.Sysinfo_t
	if unix.Sysinfo(&s) != nil {
		return defaults.Memory
	}
	return max(defaults.Memory, int64(s.Totalram)*int64(s.Unit)/2)
}
