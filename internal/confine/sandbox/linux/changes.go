//go:build linux && (amd64 || arm64)

package linux

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"syscall"

	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/supervisor"
)

// changes are the names of the machine's files that a command was about to change. Whether it could, the files tell.
type changes struct {
	names  map[string]supervisor.Act
	beyond bool // there were more
}

// maxChanges bounds the names that are kept of one command.
const maxChanges = 2000

// note keeps the name of a request, if it is one of the machine's files.
func (d *decider) note(r supervisor.Request) {
	if r.Act&^supervisor.Read == 0 || r.Act&supervisor.Connect != 0 {
		return
	}
	if _, over := sandbox.Cover(d.mounts, r.Path); over == nil || over.System || over.From != "" || over.Kind == sandbox.Hollow {
		return // the sandbox's own, or read-only
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.uses.names == nil {
		d.uses.names = map[string]supervisor.Act{}
	}
	if _, had := d.uses.names[r.Path]; !had && len(d.uses.names) >= maxChanges {
		d.uses.beyond = true
		return
	}
	d.uses.names[r.Path] |= r.Act
}

// changed returns the files that the command may have changed; nil: that is not known, as its sandbox had processes of
// another command, it moved a folder, or another program moved something.
func (s *supervised) changed(in seat) *[]string {
	if s == nil || in.tier != tierFresh && in.tier != tierAgent || in.alone != nil && !in.alone() {
		return nil
	}
	d := s.decider
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.uses.beyond {
		return nil
	}
	list := []string{}
	for name, acts := range d.uses.names {
		switch st, err := os.Lstat(name); {
		case errors.Is(err, fs.ErrNotExist) && d.uses.leaves(name), err == nil && st.Mode().Type()&^fs.ModeDir != 0:
		case err != nil, st.IsDir() && acts&supervisor.Moved != 0, links(st) > 1 && !st.IsDir():
			return nil
		case !st.IsDir():
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return &list
}

// leaves reports whether the command was about to remove or move a name, or a folder around it.
func (c *changes) leaves(name string) bool {
	for ; name != "/"; name = path.Dir(name) {
		if c.names[name]&supervisor.Remove != 0 {
			return true
		}
	}
	return false
}

// links is the number of names of a file.
func links(st os.FileInfo) uint64 {
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		return uint64(sys.Nlink) //nolint:unconvert // it has another type on arm64
	}
	return 2
}
