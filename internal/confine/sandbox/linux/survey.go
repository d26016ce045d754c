//go:build linux && (amd64 || arm64)

package linux

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// maxSurveyPath bounds the depth: what is deeper could not be mounted over,
// since a path has at most 4096 bytes.
const maxSurveyPath = 3500

// settleTime is longer than the unit in which any file system of [dated] counts
// time: a folder that changes twice within one unit keeps its change time.
const settleTime = 2 * time.Second

// survey finds the names below some roots that the policies tell from the names
// around them, without following links. Folders of the system are shown as they
// are, so it does not look into them.
type survey struct {
	names  *sandbox.Names
	layers *layers
	system map[string]bool // folders of the system
	keep   []string        // paths that stay in the survey, with the folders around them
	count  sandbox.Count
	listed int // folders that were listed

	changed map[string]bool // by path: it, or a folder in it, differs from the survey before; nil: not compared
	anew    int             // folders around the present one that are listed anew

	since time.Time       // when the change times that it relies on had settled
	dated map[uint64]bool // by device: whether its change times can be relied on
}

// folder is what a survey found in one folder. It is immutable.
type folder struct {
	name    string // the last part of its path; of a root, the whole path
	kind    sandbox.NodeKind
	stamp   stamp // the zero stamp: the folder must be listed again
	rating  sandbox.Rating
	system  bool
	listed  bool // folders and others are all that may differ
	alike   bool // nothing tells the folder and what is in it from the names around it
	whole   bool // all its names are shown, because some differ
	folders []*folder
	others  []other
}

// other is a name that is not a folder's and differs from the names around it.
type other struct {
	name string
	kind sandbox.NodeKind
}

// stamp identifies a folder and the state of its list of names: the kernel renews
// the change time with every name that comes or goes, and nobody can set it.
type stamp struct {
	changed      unix.StatxTimestamp
	ino, mount   uint64
	major, minor uint32
}

// stampOf looks at a folder; the zero stamp: it is not there, or not a folder.
func stampOf(at string) stamp {
	var s unix.Statx_t
	const mask = unix.STATX_TYPE | unix.STATX_INO | unix.STATX_CTIME | unix.STATX_MNT_ID
	if unix.Statx(unix.AT_FDCWD, at, unix.AT_SYMLINK_NOFOLLOW, mask, &s) != nil || s.Mode&unix.S_IFMT != unix.S_IFDIR {
		return stamp{}
	}
	return stamp{s.Ctime, s.Ino, s.Mnt_id, s.Dev_major, s.Dev_minor}
}

// unchanged reports whether a folder has had the same names since f was made.
func (f *folder) unchanged(at string) bool {
	return f != nil && f.stamp != stamp{} && f.stamp == stampOf(at)
}

// child is the folder of a name in f, nil if f does not know it.
func (f *folder) child(name string) *folder {
	if f == nil {
		return nil
	}
	return search(f.folders, name)
}

func search(sorted []*folder, name string) *folder {
	i, ok := slices.BinarySearchFunc(sorted, name, func(f *folder, name string) int { return strings.Compare(f.name, name) })
	if !ok {
		return nil
	}
	return sorted[i]
}

// covers reports whether a path is looked at with what is below a root. The
// machine's /tmp is only by a root in it: else it is the command's own.
func covers(root, p string) bool {
	return sandbox.Within(p, root) && (!sandbox.Within(p, "/tmp") || sandbox.Within(root, "/tmp"))
}

// look surveys the roots that are there. What has not changed since the survey
// before is taken over.
func (s *survey) look(ctx context.Context, roots []string, before []*folder) ([]*folder, error) {
	s.dated = map[uint64]bool{}
	s.compare(before)
	slices.Sort(roots)
	var out []*folder
	for _, r := range roots {
		real, err := s.layers.real(r)
		if err != nil || slices.ContainsFunc(out, func(f *folder) bool { return covers(f.name, real) }) {
			continue // what is not there needs no mount
		}
		st, err := os.Lstat(s.layers.At(real))
		if err != nil {
			continue
		}
		out = slices.DeleteFunc(out, func(f *folder) bool { return covers(real, f.name) })
		out = append(out, &folder{name: real, kind: sandbox.KindOf(st.Mode().Type()), listed: true})
	}
	for i, f := range out {
		if f.kind != sandbox.FolderNode {
			continue
		}
		var err error
		if out[i], err = s.folder(ctx, f.name, f.name, nil, search(before, f.name)); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(out, func(a, b *folder) int { return strings.Compare(a.name, b.name) })
	return out, nil
}

// folder surveys one folder at path p. in is the folder around it; nil: it is a root.
func (s *survey) folder(ctx context.Context, name, p string, in, before *folder) (*folder, error) {
	if ctx.Err() != nil {
		return nil, cancelled(ctx)
	}
	if s.same(p, before) {
		return before, nil
	}
	at := s.layers.At(p)
	if before.unchanged(at) {
		return s.again(ctx, p, in, before)
	}
	f := &folder{name: name, kind: sandbox.FolderNode, system: s.system[p], stamp: s.stamp(at)}
	if f.system || len(p) > maxSurveyPath || p == "/proc" || p == "/sys" || p == "/dev" || in != nil && p == "/tmp" {
		return f, nil
	}
	entries, ok, err := s.read(ctx, p, at)
	if err != nil || !ok {
		return f, err
	}
	s.listed++
	f.listed, f.rating = true, s.names.Rate(p, in == nil)
	s.anew++
	defer func() { s.anew-- }()
	for _, e := range entries {
		if kind := sandbox.KindOf(e.Type()); kind != sandbox.FolderNode {
			f.others = append(f.others, other{e.Name(), kind})
			continue
		}
		sub, err := s.folder(ctx, e.Name(), path.Join(p, e.Name()), f, before.child(e.Name()))
		if err != nil {
			return nil, err
		}
		f.folders = append(f.folders, sub)
	}
	s.reduce(f, p)
	slices.SortFunc(f.folders, func(a, b *folder) int { return strings.Compare(a.name, b.name) })
	f.alike = s.alike(f, p, in)
	return f, nil
}

// again surveys the folders in a folder that has not changed itself.
func (s *survey) again(ctx context.Context, p string, in, before *folder) (*folder, error) {
	var now []*folder // nil: as before
	for i, b := range before.folders {
		sub, err := s.folder(ctx, b.name, path.Join(p, b.name), before, b)
		if err != nil {
			return nil, err
		}
		if sub != b && now == nil {
			now = slices.Clone(before.folders)
		}
		if now != nil {
			now[i] = sub
		}
	}
	if now == nil {
		return before, nil
	}
	f := *before
	f.folders = now
	f.alike = s.alike(&f, p, in)
	return &f, nil
}

// reduce leaves out the names in a folder that are like those around them.
func (s *survey) reduce(f *folder, p string) {
	differ := slices.ContainsFunc(f.folders, func(sub *folder) bool { return !sub.alike })
	var stay []string // names in p
	for _, k := range s.keep {
		if path.Dir(k) == p {
			stay = append(stay, path.Base(k))
		}
	}
	kept := f.others[:0:0]
	for _, o := range f.others {
		if !s.names.Alike(p, o.name, o.kind, f.rating) || sandbox.OfRepository(p, o.name) || slices.Contains(stay, o.name) {
			kept = append(kept, o)
		}
	}
	if s.names.Together && (differ || len(kept) > 0) {
		f.whole = true // there each name needs a rule of its own
		return
	}
	f.others = kept
}

// alike reports whether nothing tells a folder and what is in it from the names
// around it.
func (s *survey) alike(f *folder, p string, in *folder) bool {
	return in != nil && f.listed && f.rating.Like(in.rating) && len(f.others) == 0 && !sandbox.OfRepository(path.Dir(p), f.name) &&
		!slices.ContainsFunc(f.folders, func(sub *folder) bool { return !sub.alike }) &&
		!slices.ContainsFunc(s.keep, func(k string) bool { return sandbox.Within(k, p) })
}

// read lists the folder p, and counts its names. ok is false if the command
// could not enter it: then nothing can be mounted in it either.
func (s *survey) read(ctx context.Context, p, at string) (entries []fs.DirEntry, ok bool, err error) {
	if !enterable(at) {
		return nil, false, nil
	}
	f, err := openPlain(at, at == p)
	if err != nil {
		return nil, false, nil
	}
	defer func() { _ = f.Close() }() // it was only read
	entries, err = s.count.List(ctx, p, f)
	var coded *fault.Error
	if err != nil && !errors.As(err, &coded) {
		return nil, false, nil
	}
	return entries, err == nil, err
}

// openPlain opens a folder, and through no link on the way if plain says so: a command that
// runs at the same time may replace folders by links. An old kernel tells only of the last name.
func openPlain(at string, plain bool) (*os.File, error) {
	how := unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC}
	if plain {
		how.Resolve = unix.RESOLVE_NO_SYMLINKS
	}
	for {
		switch fd, err := unix.Openat2(unix.AT_FDCWD, at, &how); {
		case err == nil:
			return os.NewFile(uintptr(fd), at), nil
		case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM):
			return os.OpenFile(at, int(how.Flags), 0)
		case !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN):
			return nil, err
		}
	}
}

func cancelled(ctx context.Context) error {
	return fault.Wrap(fault.ToolCancelled, ctx.Err(), "cancelled before the command started")
}

// enterable reports whether a command may list a folder and use what is in it. As
// root, a command is root without the privilege to pass over modes.
func enterable(folder string) bool {
	if os.Geteuid() != 0 {
		return unix.Access(folder, unix.R_OK|unix.X_OK) == nil
	}
	var st unix.Stat_t
	if unix.Stat(folder, &st) != nil {
		return false
	}
	shift := 0 // of the bits that hold for everybody else
	switch {
	case st.Uid == 0:
		shift = 6
	case st.Gid == 0:
		shift = 3
	}
	return st.Mode>>shift&0o5 == 0o5
}

// dated are the file systems that this kernel alone changes, and that date each
// change of a folder, by the number that statfs gives.
var dated = []int64{unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.F2FS_SUPER_MAGIC, unix.OVERLAYFS_SUPER_MAGIC}

// stamp is the stamp by which a later survey can tell that a folder has not
// changed; the zero stamp: it could not tell.
func (s *survey) stamp(at string) stamp {
	st := stampOf(at)
	if s.layers != nil || st == (stamp{}) || !time.Unix(st.changed.Sec, int64(st.changed.Nsec)).Before(s.since) {
		return stamp{}
	}
	dev := uint64(st.major)<<32 | uint64(st.minor)
	ok, known := s.dated[dev]
	if !known {
		var fs unix.Statfs_t
		ok = unix.Statfs(at, &fs) == nil && slices.Contains(dated, fs.Type)
		s.dated[dev] = ok
	}
	if !ok {
		return stamp{}
	}
	return st
}

// node gives what a survey found as the nodes of a profile.
func (f *folder) node(p string) *sandbox.Node {
	n := &sandbox.Node{Path: p, Kind: f.kind, Complete: f.listed && f.kind == sandbox.FolderNode, System: f.system}
	for _, sub := range f.folders {
		if f.whole || !sub.alike {
			n.Children = append(n.Children, sub.node(path.Join(p, sub.name)))
		}
	}
	for _, o := range f.others {
		n.Children = append(n.Children, &sandbox.Node{Path: path.Join(p, o.name), Kind: o.kind})
	}
	slices.SortFunc(n.Children, func(a, b *sandbox.Node) int { return strings.Compare(a.Path, b.Path) })
	return n
}
