package changeset

import (
	"errors"
	"fmt"
	"path"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/fault"
)

// performer makes a job's steps real, one path at a time.
type performer struct {
	*job
	way   string
	first bool
	at    *parents
	left  []string // paths that somebody else has changed since, on a second go
}

func (p *performer) do(i int, act func(int, Step) error) error {
	s := p.steps[i]
	err := act(i, s)
	if err != nil && !p.first && (errors.Is(err, fault.Conflict) || errors.Is(err, unix.ENOTEMPTY)) {
		p.left = append(p.left, s.Path)
		return nil
	}
	if err != nil {
		return about(s.Path, err)
	}
	return nil
}

// goes removes what makes room for nothing or for another type.
func (p *performer) goes(i int, s Step) error {
	if s.From.Type == Nothing || s.To.Type == s.From.Type || s.From.Type != Folder && s.To.Type != Nothing && s.To.Type != Folder {
		return nil
	}
	dir, name, err := p.at.at(s.Path)
	if absent(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := statAt(dir, name); absent(err) && !p.first {
		return nil // it went before
	}
	same, err := p.isFrom(i, s, dir, name)
	if err != nil || !same {
		return err
	}
	p.tell("go")
	if s.From.Type == Folder {
		return unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
	}
	return unix.Unlinkat(dir, name, 0)
}

func absent(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}

// isFrom reports whether a path has the state that the step starts from. If it has
// neither that nor the state after the step, somebody else has changed it: an error.
func (p *performer) isFrom(i int, s Step, dir int, name string) (bool, error) {
	st, err := statAt(dir, name)
	if errors.Is(err, unix.ENOENT) {
		if s.From.Type == Nothing {
			return true, nil
		}
		if p.first {
			return false, p.moved(s)
		}
		return s.To.Type != Nothing, nil // removed before it was to be replaced
	}
	if err != nil {
		return false, err
	}
	if p.first {
		if s.From.Type != Nothing && keyOf(&st) == p.keys[i] {
			return true, nil
		}
	}
	now, _, err := nodeAt(dir, name)
	if err != nil {
		return false, err
	}
	switch {
	case p.first && now != s.From: // another name of the file may only have gone
		return false, p.moved(s)
	case p.first:
		return true, nil
	case now == s.To:
		return false, nil
	case now == s.From, now.Type == Folder && s.From.Type == Folder, now.Type == Folder && s.To.Type == Folder:
		return now.Type == s.From.Type, nil
	}
	return false, p.moved(s)
}

func (p *performer) moved(s Step) error {
	return fault.New(fault.Conflict, "%s has changed in the workspace meanwhile", quote(s.Path))
}

// comes makes folders, and renames staged files over the present ones.
func (p *performer) comes(i int, s Step) error {
	if s.To.Type == Nothing || s.To.Type == Folder && s.From.Type == Folder {
		return nil
	}
	dir, name, err := p.at.at(s.Path)
	if err != nil {
		return err
	}
	if s.To.Type == Folder {
		p.tell("mkdir")
		err := unix.Mkdirat(dir, name, 0o700)
		if errors.Is(err, unix.EEXIST) && !p.first {
			if st, serr := statAt(dir, name); serr == nil && typeOf(&st) == Folder {
				return nil
			}
		}
		return err
	}
	if !s.needsTemp() {
		return p.chmod(i, s, dir, name)
	}
	return p.rename(i, s, dir, name)
}

func (p *performer) rename(i int, s Step, dir int, name string) error {
	from := s
	if s.From.Type == Folder {
		from.From, from.To = Node{}, s.To // it has gone by now
		if _, err := statAt(dir, name); p.first && err == nil {
			return p.moved(s)
		}
	}
	if s.From.Type != Folder || !p.first {
		do, err := p.isFrom(i, from, dir, name)
		if err != nil || !do {
			return err
		}
	}
	p.tell("rename")
	temp := p.temp(i, p.way)
	err := unix.Renameat(dir, temp, dir, name)
	for at := path.Dir(s.Path); errors.Is(err, unix.ENOENT) && at != "."; { // it waits further up
		at = path.Dir(at)
		up, oerr := openBelow(p.root, at)
		if oerr != nil {
			return oerr
		}
		err = unix.Renameat(up, temp, dir, name)
		shut(up)
	}
	return err
}

// chmod changes a file's permissions in place.
func (p *performer) chmod(i int, s Step, dir int, name string) error {
	if s.From == s.To {
		return nil
	}
	do, err := p.isFrom(i, s, dir, name)
	if err != nil || !do {
		return err
	}
	p.tell("chmod")
	return chmodAt(dir, name, s.To)
}

// modes gives folders their permissions once everything in them is done.
func (p *performer) modes(_ int, s Step) error {
	if s.To.Type != Folder || s.From == s.To {
		return nil
	}
	dir, name, err := p.at.at(s.Path)
	if err != nil {
		return err
	}
	p.tell("mode")
	return chmodAt(dir, name, s.To)
}

// chmodAt changes the permissions of a file, if it is of the type.
func chmodAt(dir int, name string, to Node) error {
	fd, err := again(func() (int, error) {
		return unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return err
	}
	defer shut(fd)
	st, err := statFD(fd)
	if err != nil {
		return err
	}
	if typeOf(&st) != to.Type {
		return fmt.Errorf("it is not a %s any more", to.Type)
	}
	mask := uint32(0o1777)
	if to.Type == Folder {
		mask = 0o3777
	}
	if to.Type == Folder {
		if err := setAttrs(fd, to.Attrs); err != nil {
			return err
		}
	}
	return unix.Fchmod(fd, to.Mode&mask)
}
