//go:build linux && (amd64 || arm64)

package linux

import "os"

// GroupFolder is where this process's control group of a controller is.
func GroupFolder(own, mounts, controller string) string { return groupFolder(own, mounts, controller) }

// GroupsAt says in which folder of version 2 groups with memory and process
// limits would be made.
func GroupsAt(own, root string) (memory, pids string) {
	p := placeV2(own, root)
	return p.memory, p.pids
}

// GroupFolders are where groups are made on this machine.
func GroupFolders() []string {
	place, _ := findGroups() // without an answer there are none
	return place.dirs()
}

// GroupPrefix begins the names of a process's groups.
func GroupPrefix(pid int) string { return groupPrefix(pid) }

// TakeGroup makes a group in one folder of version 2, and says why not.
func TakeGroup(dir string, memory int64, pids int) (ok bool, why string) {
	s := &groups{place: groupPlace{version: 2, memory: dir, pids: dir}, prefix: groupPrefix(os.Getpid())}
	defer s.close()
	g, why := s.take(bounds{memory: memory, pids: pids})
	g.release()
	return g != nil, why
}
