// Package files reaches files under a permit. Every operation asks the permit
// about the path as asked and about where it really is, and then acts on
// exactly that place, going through no symbolic link on the way, so that a link
// swapped in between cannot win a race. Special files are never opened. Start at [New]; [Resolve] gives a path's facts.
package files

import (
	"errors"
	"io/fs"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/repository"
)

// Caps where the policy sets none, in bytes.
const (
	DefaultReadBytes  = 5 << 20
	DefaultWriteBytes = 5 << 20
)

// Files is a call's way to files. The zero Files refuses everything.
type Files struct {
	p    permit.Permit
	env  tool.Env
	only *only // nil: whatever the policies allow

	leads *repository.Finder
}

// New makes a handle that lives as long as the permit.
func New(p permit.Permit) *Files {
	env := p.Env()
	return &Files{p: p, env: env, leads: repository.New(env.Home, env.Workspace)}
}

// Show gives a path as asked in the form that results and messages use.
func (f *Files) Show(asked string) string {
	clean, err := Clean(f.env, asked)
	if err != nil {
		return asked
	}
	return Rel(f.env, clean)
}

// ReadCap is how many bytes one call may read of one file.
func (f *Files) ReadCap() int64 { return orElse(f.p.Limits().ReadBytes, DefaultReadBytes) }

// WriteCap is how large a file may be made, in bytes.
func (f *Files) WriteCap() int64 { return orElse(f.p.Limits().WriteBytes, DefaultWriteBytes) }

func orElse(n, def int64) int64 {
	if n > 0 {
		return n
	}
	return def
}

// place is where an operation acts: a name in an open folder. Both the path as
// asked and the real one have been allowed.
type place struct {
	path    string // asked, absolute and clean
	real    string // absolute, free of links
	base    string // last name of real; "." for the root
	dir     int    // the open folder that holds base
	dirOnly bool   // asked with a trailing slash
}

func (pl *place) close() { closeFD(pl.dir) }

// how describes the use of a path by an operation.
type how struct {
	kind    tool.ActionKind
	follow  bool // act on what a final link points to, not on the link
	parents bool // make missing folders on the way
}

// errSwapped: another file took the place after it was resolved.
var errSwapped = errors.New("changed while it was being opened")

// tries bounds how often a place that keeps changing is resolved anew.
const tries = 64

// at finds, checks and opens the place of an asked path and acts there.
func (f *Files) at(h how, asked string, act func(*place) error) error {
	clean, err := Clean(f.env, asked)
	if err != nil {
		return err
	}
	if err := f.notDenied(tool.Action{Kind: h.kind, Path: clean}); err != nil {
		return err
	}
	_, leave, err := f.enter()
	if err != nil {
		return err
	}
	defer leave()
	for range tries {
		err = f.once(h, asked, clean, act)
		if !errors.Is(err, errSwapped) && !errors.Is(err, unix.ELOOP) {
			break
		}
	}
	return about(f.env, clean, err)
}

// notDenied decides an action as written, so that a denied path is not even
// looked up. One that is asked about waits for its facts, which a person's
// approval may be bound to.
func (f *Files) notDenied(a tool.Action) error {
	if f.p.Live() && f.p.Chain().DecideAction(a).Effect == policy.Ask {
		return f.only.check(a)
	}
	return f.check(a)
}

func (f *Files) once(h how, asked, clean string, act func(*place) error) error {
	real, err := f.realOf(clean, h.follow)
	if err != nil {
		return err
	}
	if err := f.check(tool.Action{Kind: h.kind, Path: clean, Real: real}); err != nil {
		return err
	}
	if h.kind != tool.FileRead {
		if err := f.heldBack(clean, real); err != nil {
			return err
		}
	}
	pl := &place{path: clean, real: real, base: path.Base(real), dirOnly: wantsDir(asked)}
	dir := path.Dir(real)
	if real == "/" || f.p.Held() != nil && real == f.env.Workspace {
		pl.base, dir = ".", real
	}
	pl.dir, err = f.openDir(dir)
	if errors.Is(err, unix.ENOENT) && h.parents {
		if err = f.makeParents(dir); err == nil {
			pl.dir, err = f.openDir(dir)
		}
	}
	if err != nil {
		return err
	}
	defer pl.close()
	return act(pl)
}

// realOf resolves all of a path, or all but its last name.
func (f *Files) realOf(clean string, follow bool) (string, error) {
	if follow || clean == "/" {
		return f.resolve(clean)
	}
	dir, err := f.resolve(path.Dir(clean))
	if err != nil {
		return "", err
	}
	real := path.Join(dir, path.Base(clean))
	return real, ofProcess(real)
}

// unmoved checks, right before an effect, that the folder is still where it
// was allowed, and that the permit still allows it.
func (f *Files) unmoved(kind tool.ActionKind, pl *place) error {
	if err := f.check(tool.Action{Kind: kind, Path: pl.path, Real: pl.real}); err != nil {
		return err
	}
	was, err := statFD(pl.dir, "")
	if err != nil {
		return err
	}
	dir := path.Dir(pl.real)
	if pl.base == "." {
		dir = pl.real
	}
	fd, err := f.openDir(dir)
	if err != nil {
		return errSwapped
	}
	defer closeFD(fd)
	is, err := statFD(fd, "")
	if err != nil || is.dev != was.dev || is.ino != was.ino {
		return errSwapped
	}
	return nil
}

func wantsDir(asked string) bool {
	return strings.HasSuffix(asked, "/") || strings.HasSuffix(asked, "/.")
}

// makeParents makes the missing folders of a real path whose last name a rule
// allows to be written. That implies the folders on the way, except folders that
// a deny entry names.
func (f *Files) makeParents(real string) error {
	missing := []string{}
	for dir := real; dir != "/"; dir = path.Dir(dir) {
		fd, err := f.openDir(dir)
		if err == nil {
			closeFD(fd)
			break
		}
		if !errors.Is(err, unix.ENOENT) {
			return err
		}
		missing = append(missing, dir)
	}
	for i := len(missing) - 1; i >= 0; i-- {
		if err := f.makeParent(missing[i]); err != nil {
			return err
		}
	}
	return nil
}

func (f *Files) makeParent(real string) error {
	a := tool.Action{Kind: tool.FileWrite, Path: real, Real: real}
	if !f.p.Live() {
		return f.p.Check(a)
	}
	if err := f.only.check(a); err != nil {
		return err
	}
	if f.leads.Lead(real) != "" { // the name of the folder counts by itself
		if err := f.check(a); err != nil {
			return err
		}
	}
	for _, r := range f.p.Chain().DecideAction(a).Refusals {
		if r.Effect == policy.Deny && (r.Rule == nil || r.Rule.Pattern != "") {
			return fault.New(fault.HandleRefused, "the folder %s cannot be made: %s", quote(Rel(f.env, real)), r.Reason)
		}
	}
	fd, err := f.openDir(path.Dir(real))
	if err != nil {
		return err
	}
	defer closeFD(fd)
	err = f.keeping(real, fd, path.Base(real), func() error { return unix.Mkdirat(fd, path.Base(real), 0o777) })
	if err == nil {
		f.note(tool.FSWrite, real, 0)
	} else if errors.Is(err, unix.EEXIST) {
		err = nil
	}
	return err
}

func (f *Files) note(e tool.Effect, path string, n int64) {
	f.p.Note(tool.Happened{Effect: e, On: Rel(f.env, path), Bytes: n})
}

// about turns an error of the system into one that names the path as asked and
// nothing else.
func about(env tool.Env, clean string, err error) error {
	var coded *fault.Error
	if err == nil || errors.As(err, &coded) {
		return err
	}
	name := quote(Rel(env, clean))
	switch {
	case errors.Is(err, errMagic):
		return fault.New(fault.HandleRefused, "%s is refused: it leads through the process file system", name)
	case errors.Is(err, errLoop):
		return fault.New(fault.ToolFailed, "%s cannot be opened: its symbolic links form a loop, or lead to a path that is too long", name)
	case errors.Is(err, errRound):
		return fault.New(fault.HandleRefused, "%s is refused: a symbolic link on the way leaves the workspace and comes back", name).
			WithHint("a link that is relative and stays inside can be followed")
	case errors.Is(err, errSwapped), errors.Is(err, unix.ELOOP):
		return fault.New(fault.HandleRefused, "%s is refused: it keeps changing while it is being opened", name)
	case errors.Is(err, fs.ErrNotExist):
		return fault.New(fault.NotFound, "%s does not exist", name)
	case notDir(err):
		return fault.New(fault.NotFound, "%s does not exist: a part of its path is not a folder", name)
	case errors.Is(err, fs.ErrExist):
		return fault.New(fault.Conflict, "%s exists already", name)
	case errors.Is(err, fs.ErrPermission):
		return fault.Wrap(fault.ToolFailed, err, "the operating system does not permit this on %s", name)
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return fault.Wrap(fault.ToolFailed, err, "no space is left for %s", name)
	case errors.Is(err, unix.EROFS):
		return fault.Wrap(fault.ToolFailed, err, "%s is on a file system that cannot be written", name)
	case errors.Is(err, unix.ENAMETOOLONG):
		return fault.Wrap(fault.ArgsInvalid, err, "the path %s is too long", name)
	}
	return fault.Wrap(fault.ToolFailed, err, "the operating system failed on %s", name)
}
