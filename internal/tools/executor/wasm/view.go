package wasm

import (
	"context"
	"errors"
	"hash/fnv"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	esys "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/sys"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/files"
)

// maxOpen bounds how many files and folders a call has open at once.
const maxOpen = 128

// view is the file system of one call: the workspace as its root, with nothing in it but what the
// call mounts. Every action of the module goes through handles of the permit, by name and under its
// checks; the engine opens nothing by itself.
//
// Written data is held in memory until the file is closed or synced, and then replaces the old
// content as a whole.
type view struct {
	esys.UnimplementedFS

	ctx     context.Context //nolint:containedctx // the engine's callbacks have none
	p       permit.Permit
	files   *files.Files
	root    string // the workspace
	mounts  []mount
	open    int
	room    int64 // bytes that may still be held
	writers []*writer
	over    bool  // held data is given up
	failed  error // why something that was written could not be stored
}

// mount is one place, relative to the workspace; "" is the workspace.
type mount struct {
	name        string
	read, write bool
	folder      bool
}

// newView makes a call's file system; nil if it mounts nothing.
func newView(ctx context.Context, p permit.Permit, w places, room int64) *view {
	if len(w.list) == 0 {
		return nil
	}
	v := &view{ctx: ctx, p: p, root: w.workspace, room: room}
	var read, write []string
	for _, one := range w.list {
		m := mount{name: strings.TrimPrefix(strings.TrimPrefix(one.path, w.workspace), "/"), folder: one.folder}
		if m.read = one.action.Kind == tool.FileRead; m.read {
			read = append(read, one.path)
		} else {
			m.write = true
			write = append(write, one.path)
		}
		v.mounts = append(v.mounts, m)
	}
	v.files = files.New(p).Only(read, write)
	return v
}

// abandon releases everything that is held. A nil view holds nothing.
func (v *view) abandon() {
	if v != nil {
		v.over = true
	}
}

// lost is why something that the module wrote is not there.
func (v *view) lost() error {
	if v == nil {
		return nil
	}
	return v.failed
}

// name returns the engine's path as the view has it: clean and relative, "" for the
// root. It cannot lead out: ".." at the root is the root.
func name(p string) string { return strings.TrimPrefix(path.Clean("/"+p), "/") }

func isBelow(folder, name string) bool {
	return folder == "" || name == folder || strings.HasPrefix(name, folder+"/")
}

// covers reports whether a mount has the name, for reading or for writing.
func (v *view) covers(kind tool.ActionKind, name string) bool {
	return slices.ContainsFunc(v.mounts, func(m mount) bool {
		return isBelow(m.name, name) && (kind == tool.FileRead && m.read || kind == tool.FileWrite && m.write)
	})
}

// onTheWay reports whether the name is a folder because a mount is it or beneath it.
func (v *view) onTheWay(name string) bool {
	return name == "" || slices.ContainsFunc(v.mounts, func(m mount) bool {
		return m.name == name && m.folder || m.name != name && isBelow(name, m.name)
	})
}

// handlePath is the name as handles take it.
func (v *view) handlePath(name string) string { return path.Join(v.root, name) }

// errno returns a handle's error as the module sees it, and records a refusal.
func (v *view) errno(kind tool.ActionKind, name string, err error) esys.Errno {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, fault.NotFound):
		return esys.ENOENT
	case errors.Is(err, fault.Conflict):
		return esys.EEXIST
	case errors.Is(err, fault.ArgsInvalid):
		return esys.EINVAL
	case errors.Is(err, fault.HandleRefused):
		v.refused(kind, name, err)
		return esys.EACCES
	case errors.Is(err, fault.LimitReached):
		v.refused(kind, name, err)
	}
	return esys.EIO
}

func (v *view) refused(kind tool.ActionKind, name string, err error) {
	a := tool.Action{Kind: kind, Path: v.handlePath(name)}
	rule := "wants" // of the module: the policies would allow it
	if d := v.p.Chain().DecideAction(a); d.Effect != policy.Allow {
		rule = d.Rule.String()
	}
	v.p.Refuse(tool.Refused{Action: kind.String() + " " + strconv.Quote(files.Rel(v.p.Env(), a.Path)), Rule: rule, Reason: fault.Message(err)})
}

// stat describes a name, following links or not.
func (v *view) stat(name string, follow bool) (sys.Stat_t, string, esys.Errno) {
	way := v.onTheWay(name)
	if !v.covers(tool.FileRead, name) {
		switch {
		case way:
			return folderStat(name), "", 0
		case v.covers(tool.FileWrite, name):
			return sys.Stat_t{}, "", esys.EACCES
		}
		return sys.Stat_t{}, "", esys.ENOENT
	}
	var i files.Info
	var target string
	var err error
	if follow {
		i, err = v.files.Stat(v.handlePath(name))
	} else {
		i, target, err = v.files.Lstat(v.handlePath(name))
	}
	if way && errors.Is(err, fault.NotFound) {
		return folderStat(name), "", 0
	}
	if err != nil {
		return sys.Stat_t{}, "", v.errno(tool.FileRead, name, err)
	}
	return statOf(name, i), target, 0
}

func statOf(name string, i files.Info) sys.Stat_t {
	at := i.ModTime.UnixNano()
	return sys.Stat_t{Ino: number(name), Mode: i.Mode, Nlink: 1, Size: i.Size, Atim: at, Mtim: at, Ctim: at}
}

func folderStat(name string) sys.Stat_t {
	return sys.Stat_t{Ino: number(name), Mode: fs.ModeDir | 0o755, Nlink: 1}
}

// number is a file's in place of its inode: the host's own say what lies elsewhere.
func number(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64() | 1
}

// Stat implements esys.FS.
func (v *view) Stat(p string) (sys.Stat_t, esys.Errno) {
	st, _, errno := v.stat(name(p), true)
	if errno == 0 && strings.HasSuffix(p, "/") && !st.Mode.IsDir() {
		return st, esys.ENOTDIR
	}
	return st, errno
}

// Lstat implements esys.FS.
func (v *view) Lstat(p string) (sys.Stat_t, esys.Errno) {
	st, _, errno := v.stat(name(p), strings.HasSuffix(p, "/"))
	return st, errno
}

// Readlink implements esys.FS.
func (v *view) Readlink(p string) (string, esys.Errno) {
	st, target, errno := v.stat(name(p), false)
	if errno == 0 && st.Mode.Type() != fs.ModeSymlink {
		return "", esys.EINVAL
	}
	return target, errno
}

// mayChange reports, as an errno, whether the name can be made, changed or removed:
// it is in what the call writes, and not one of its folders itself.
func (v *view) mayChange(name string) esys.Errno {
	switch {
	case v.onTheWay(name):
		return esys.EPERM
	case v.covers(tool.FileWrite, name):
		return 0
	case v.covers(tool.FileRead, name):
		return esys.EROFS
	}
	return esys.ENOENT
}

// Mkdir implements esys.FS.
func (v *view) Mkdir(p string, _ fs.FileMode) esys.Errno {
	n := name(p)
	if v.onTheWay(n) {
		return esys.EEXIST
	}
	if errno := v.mayChange(n); errno != 0 {
		return errno
	}
	return v.errno(tool.FileWrite, n, v.files.Mkdir(v.handlePath(n), v.first(n)))
}

// first reports whether the folder that holds the name is one that the call mounts,
// and so is there for the module even where it was not made yet.
func (v *view) first(name string) bool {
	return slices.ContainsFunc(v.mounts, func(m mount) bool { return m.write && (m.name == parent(name) || m.name == name) })
}

func parent(name string) string {
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		return name[:i]
	}
	return ""
}

// Rmdir implements esys.FS.
func (v *view) Rmdir(p string) esys.Errno {
	n := name(p)
	if errno := v.mayChange(n); errno != 0 {
		return errno
	}
	err := v.files.Remove(v.handlePath(n) + "/")
	if errors.Is(err, fault.Conflict) {
		return esys.ENOTEMPTY
	}
	return v.errno(tool.FileWrite, n, err)
}

// Unlink implements esys.FS. An empty folder is removed, too.
func (v *view) Unlink(p string) esys.Errno {
	n := name(p)
	if errno := v.mayChange(n); errno != 0 {
		return errno
	}
	err := v.files.Remove(v.handlePath(n))
	if errors.Is(err, fault.Conflict) {
		return esys.EISDIR
	}
	if err == nil {
		v.forget(n)
	}
	return v.errno(tool.FileWrite, n, err)
}

// Rename implements esys.FS.
func (v *view) Rename(from, to string) esys.Errno {
	a, b := name(from), name(to)
	for _, n := range []string{a, b} {
		if errno := v.mayChange(n); errno != 0 {
			return errno
		}
	}
	if !v.covers(tool.FileRead, a) {
		return esys.EACCES // moved data can be read where it arrives
	}
	if errno := v.settle(a); errno != 0 {
		return errno
	}
	err := v.files.Rename(v.ctx, v.handlePath(a), v.handlePath(b), true, v.first(b))
	if err == nil {
		v.forget(b)
		v.moved(a, b)
	}
	return v.errno(tool.FileWrite, a, err)
}

// settle stores the held content of a name and of everything beneath it.
func (v *view) settle(name string) esys.Errno {
	for _, w := range v.writers {
		if isBelow(name, w.name) {
			if errno := w.store(); errno != 0 {
				return errno
			}
		}
	}
	return 0
}

// forget releases the held content of a removed file.
func (v *view) forget(name string) {
	for _, w := range v.writers {
		if w.name == name {
			w.gone = true
		}
	}
}

func (v *view) moved(from, to string) {
	for _, w := range v.writers {
		if !w.gone && isBelow(from, w.name) {
			w.name = to + strings.TrimPrefix(w.name, from)
		}
	}
}

// Chmod implements esys.FS: permissions stay as they are.
func (v *view) Chmod(string, fs.FileMode) esys.Errno { return esys.ENOTSUP }

// Link implements esys.FS: a second name could be in a place with other rules.
func (v *view) Link(string, string) esys.Errno { return esys.EPERM }

// Symlink implements esys.FS: where a link leads is not for a module to say.
func (v *view) Symlink(string, string) esys.Errno { return esys.EPERM }

// Utimens implements esys.FS: times are those of what happened.
func (v *view) Utimens(string, int64, int64) esys.Errno { return esys.ENOTSUP }

const writing = esys.O_RDWR | esys.O_WRONLY | esys.O_CREAT | esys.O_TRUNC | esys.O_APPEND

// OpenFile implements esys.FS.
func (v *view) OpenFile(p string, flag esys.Oflag, _ fs.FileMode) (esys.File, esys.Errno) {
	n := name(p)
	if v.open >= maxOpen && n != "" {
		return nil, esys.EAGAIN
	}
	if flag&writing != 0 {
		return v.openWriter(n, flag)
	}
	st, _, errno := v.stat(n, flag&esys.O_NOFOLLOW == 0)
	switch {
	case errno != 0 && n == "":
		st = folderStat(n) // the root is always there
	case errno != 0:
		return nil, errno
	case st.Mode.Type() == fs.ModeSymlink:
		return nil, esys.ELOOP
	}
	if st.Mode.IsDir() {
		v.open++
		return &folder{v: v, name: n, st: st}, 0
	}
	if flag&esys.O_DIRECTORY != 0 || strings.HasSuffix(p, "/") {
		return nil, esys.ENOTDIR
	}
	file, err := v.files.Open(v.handlePath(n))
	if err != nil {
		return nil, v.errno(tool.FileRead, n, err)
	}
	v.open++
	return &reading{v: v, name: n, file: file, st: statOf(n, file.Info), most: v.files.ReadCap()}, 0
}

// list returns the entries of a folder.
func (v *view) list(n string) ([]esys.Dirent, esys.Errno) {
	var out []esys.Dirent
	seen := map[string]bool{}
	add := func(base string, kind fs.FileMode) {
		if !seen[base] {
			seen[base] = true
			out = append(out, esys.Dirent{Ino: number(path.Join(n, base)), Name: base, Type: kind})
		}
	}
	if v.covers(tool.FileRead, n) {
		l, err := v.files.ReadDir(v.ctx, v.handlePath(n))
		if err != nil && (!v.onTheWay(n) || !errors.Is(err, fault.NotFound)) {
			return nil, v.errno(tool.FileRead, n, err)
		}
		for _, e := range l.Entries {
			add(e.Name, e.Mode.Type())
		}
	}
	for _, m := range v.mounts {
		if m.name == n || !isBelow(n, m.name) {
			continue
		}
		rest := strings.TrimPrefix(strings.TrimPrefix(m.name, n), "/")
		base, _, deeper := strings.Cut(rest, "/")
		if deeper || m.folder {
			add(base, fs.ModeDir)
		} else if st, _, errno := v.stat(m.name, false); errno == 0 {
			add(base, st.Mode.Type())
		}
	}
	slices.SortFunc(out, func(a, b esys.Dirent) int { return strings.Compare(a.Name, b.Name) })
	return out, 0
}
