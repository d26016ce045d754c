//go:build linux && (amd64 || arm64)

package linux

import (
	"errors"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/supervisor"
)

// changes are the names of the machine's files that a command was about to change. Whether it could, the files tell.
type changes struct {
	names  map[string]supervisor.Act
	files  map[supervisor.FileID]bool // that it could write to, or gave a name, and that have a name
	beyond bool                       // there may be more
}

// maxChanges bounds the names that are kept of one command, and the files.
const maxChanges = 2000

// ofMachine reports whether a path is one of the machine's that is not read-only.
func (d *decider) ofMachine(p string) bool {
	_, over := sandbox.Cover(d.mounts, p)
	return over != nil && !over.System && over.From == "" && over.Kind != sandbox.Hollow
}

// note keeps the name of a request, if it is one of the machine's files.
func (d *decider) note(r supervisor.Request) {
	if r.Act&^supervisor.Read == 0 || !d.ofMachine(r.Path) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if r.Act&supervisor.Connect != 0 {
		d.uses.beyond = d.uses.beyond || !r.Own // another program can write what comes through it to files
		return
	}
	if d.uses.names == nil {
		d.uses.names = map[string]supervisor.Act{}
	}
	if _, had := d.uses.names[r.Path]; !had && len(d.uses.names) >= maxChanges {
		d.uses.beyond = true
		return
	}
	d.uses.names[r.Path] |= r.Act
}

// changed keeps a file that the command can write to, or that it gave a name. By that, a file is found that another program gives
// another name meanwhile, or that had one before.
func (d *decider) changed(p string, file int) {
	if !d.ofMachine(p) {
		return
	}
	id, st, err := supervisor.Identify(file, "")
	d.mu.Lock()
	defer d.mu.Unlock()
	switch kind := st.Mode & unix.S_IFMT; {
	case err != nil, len(d.uses.files) >= maxChanges, kind == unix.S_IFDIR: // with all that is in it
		d.uses.beyond = true
	case kind == unix.S_IFIFO: // another program can write what comes through it to files
		d.uses.beyond = true
	case kind == unix.S_IFREG:
		if d.uses.files == nil {
			d.uses.files = map[supervisor.FileID]bool{}
		}
		d.uses.files[id] = true
	}
}

// gone forgets a file without a name.
func (d *decider) gone(file int) {
	id, _, err := supervisor.Identify(file, "")
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil {
		delete(d.uses.files, id)
	}
}

// keep copies the files that an allowed request is about to change, so that it can be undone. Folders of package managers
// and version control are only named: these make their files again, or have an undo of their own.
func (d *decider) keep(r supervisor.Request) {
	connects := r.Act&(supervisor.Connect|supervisor.Create) == supervisor.Connect
	if d.kept == nil || r.Act&^supervisor.Read == 0 || connects || !d.ofMachine(r.Path) || d.isOver() {
		return
	}
	done := make(chan struct{})
	go func() { // the caller's thread has no privileges and the umask of a command
		defer close(done)
		folder, from := d.madeAgain(r.Path), d.madeAgain(r.From)
		switch {
		case r.From != "" && (folder == "" || from == ""):
			d.kept.KeepMoved(r.From, r.Path)
		case folder == "":
			d.kept.Keep(r.Path)
		}
		for _, f := range []string{folder, from} {
			if f != "" {
				d.kept.LeaveOut(f)
			}
		}
	}()
	<-done
}

// madeAgain returns the folder of a package manager or of version control that a path is, or is in; "": none.
func (d *decider) madeAgain(p string) string {
	at := 0
	if sandbox.Within(p, d.top) {
		at = len(d.top)
	}
	for name := ""; at < len(p); at += len(name) + 1 {
		name, _, _ = strings.Cut(p[at:], "/")
		if slices.Contains(d.again, name) {
			return p[:at+len(name)]
		}
	}
	return ""
}

// changed returns the files that the command may have changed; nil: that is not known, as its sandbox had processes of
// another command, it moved a folder, a file has two paths, or another program moved something or
// may have been sent data.
func (s *supervised) changed(r run, made []sandbox.Connection) *[]string {
	in := r.seat
	if s == nil || in.tier != tierFresh && in.tier != tierAgent || in.alone != nil && !in.alone() || reachesOthers(r.prof, made) {
		return nil
	}
	d := s.decider
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.uses.beyond {
		return nil
	}
	list, found := []string{}, map[supervisor.FileID]bool{}
	for name := range d.uses.names {
		switch id, st, err := supervisor.Identify(unix.AT_FDCWD, name); {
		case errors.Is(err, unix.ENOENT) && d.uses.leaves(name), err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG:
		case err != nil, st.Nlink > 1:
			return nil
		default:
			list, found[id] = append(list, name), true
		}
	}
	for id := range d.uses.files {
		if !found[id] {
			return nil
		}
	}
	if len(list) > 0 && d.twice() {
		return nil
	}
	slices.Sort(list)
	return &list
}

// reachesOthers reports whether a program of this machine or its networks, which may have the same folders, may have been sent data.
func reachesOthers(prof sandbox.Profile, made []sandbox.Connection) bool {
	return len(prof.Publish) > 0 || len(made) > maxChanges || slices.ContainsFunc(made, func(c sandbox.Connection) bool {
		return !target.Public(c.Addr) && (!c.Refused() || c.Addr.IsValid() || c.Out > 0)
	})
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
