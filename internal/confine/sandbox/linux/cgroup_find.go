//go:build linux && (amd64 || arm64)

package linux

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/confine/sandbox"
)

// findGroups finds where this process may make control groups. An error is one
// that may pass.
func findGroups() (groupPlace, error) {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return groupPlace{why: errNoProc.Error()}, err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return groupPlace{why: errNoProc.Error()}, err
	}
	return findGroupsIn(string(own), string(mounts)), nil
}

// findGroupsIn reads the formats of /proc/PID/cgroup and /proc/PID/mountinfo,
// see cgroups(7) and proc_pid_mountinfo(5).
func findGroupsIn(own, mounts string) groupPlace {
	memory, pids := groupFolder(own, mounts, "memory"), groupFolder(own, mounts, "pids")
	if memory != "" || pids != "" {
		return placeV1(memory, pids)
	}
	if dir := groupFolder(own, mounts, ""); dir != "" {
		root, _ := groupMount(mounts, "")
		return placeV2(dir, root)
	}
	return groupPlace{why: "no control groups are mounted"}
}

func placeV1(memory, pids string) groupPlace {
	p := groupPlace{version: 1, memory: memory, pids: pids}
	for _, dir := range []*string{&p.memory, &p.pids} {
		if *dir != "" && !writable(*dir) {
			p.why = fmt.Sprintf("version 1, and %q is not writable for this user", *dir)
			*dir = ""
		}
	}
	if p.memory == "" && p.pids == "" {
		p.version = 0
	}
	return p
}

// placeV2 goes up from the own group to the first one in which groups with
// controllers can be made. The own one is that only where it holds no process,
// so it is mostly one of those above.
func placeV2(own, root string) groupPlace {
	p := groupPlace{why: "version 2, and no controller is delegated to this user"}
	for dir := own; sandbox.Within(dir, root); dir = filepath.Dir(dir) {
		on, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
		if err != nil {
			break
		}
		names := strings.Fields(string(on))
		memory, pids := slices.Contains(names, "memory"), slices.Contains(names, "pids")
		if !memory && !pids {
			continue
		}
		if !writable(dir) || !writable(filepath.Join(dir, "cgroup.procs")) {
			break // further up it is not ours either
		}
		p = groupPlace{version: 2}
		if memory {
			p.memory = dir
		}
		if pids {
			p.pids = dir
		}
		return p
	}
	return p
}

// groupFolder is the folder of this process's group in the hierarchy of a
// controller; "" names the one of version 2.
func groupFolder(own, mounts, controller string) string {
	at, root := groupMount(mounts, controller)
	if at == "" {
		return ""
	}
	for line := range strings.Lines(own) { // 4:memory:/a/b
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 || controller == "" && parts[0] != "0" ||
			!slices.Contains(strings.Split(parts[1], ","), controller) {
			continue
		}
		dir := filepath.Clean(parts[2])
		if root != "/" { // a part of the hierarchy is mounted, as in containers
			if !sandbox.Within(dir, root) {
				return at
			}
			dir = strings.TrimPrefix(dir, root)
		}
		return filepath.Join(at, dir)
	}
	return ""
}

// groupMount is where a hierarchy is mounted, and what part of it.
func groupMount(mounts, controller string) (at, root string) {
	for line := range strings.Lines(mounts) { // 30 23 0:26 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory
		head, tail, ok := strings.Cut(line, " - ")
		fields, super := strings.Fields(head), strings.Fields(tail)
		if !ok || len(fields) < 5 || len(super) < 3 {
			continue
		}
		v1 := super[0] == "cgroup" && controller != "" && slices.Contains(strings.Split(super[2], ","), controller)
		if v1 || super[0] == "cgroup2" && controller == "" {
			return fields[4], fields[3]
		}
	}
	return "", ""
}
