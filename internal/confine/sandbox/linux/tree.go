//go:build linux && (amd64 || arm64)

package linux

import (
	"fmt"
	"path"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/sandbox/spawn"
)

// treeBuilder makes the files and folders of the new root. All of them are made
// through own, a copy of the root's mount that is attached nowhere: nothing of
// the host is ever mounted in it, and no link in it is followed. So no path can
// make or change anything on the host.
type treeBuilder struct {
	own    spawn.Reg // the copy
	hidden spawn.Reg // the folder that masks and emptied folders come from
	dir    spawn.Reg // handle of the folder or file in use

	made    map[string]bool   // paths in own
	mounted []sandbox.Mount   // the profile's mounts so far
	hollows map[string]string // which folder in hidden an emptied path stands for
}

// The folder that masks come from, and the names in it. It has no permission in
// the end.
const (
	hiddenFolder = ".remit"
	maskFile     = "file"
	maskFolder   = "folder"
)

// Resolving a path without links. In own, no mount is crossed either.
const (
	noLinks = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS
	ownOnly = noLinks | unix.RESOLVE_NO_XDEV
)

func newTreeBuilder(b *builder) treeBuilder {
	return treeBuilder{own: b.Reg(), hidden: b.Reg(), dir: b.Reg(), made: map[string]bool{".": true}, hollows: map[string]string{}}
}

// openTree takes the handles. The root is attached, and empty.
func (b *builder) openTree() {
	const step = "new root"
	b.Save(step, b.tree.own, unix.SYS_OPEN_TREE, spawn.From(b.root), b.Text(""),
		spawn.Int(unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH))
	b.makeFolders(hiddenFolder + "/" + maskFolder)
	b.makeFile(hiddenFolder + "/" + maskFile)
	b.open(step, b.tree.hidden, spawn.From(b.root), hiddenFolder, unix.O_DIRECTORY, noLinks)
}

// hollow makes an empty folder in the hidden one and gives its name.
func (b *builder) hollow() string {
	name := strconv.Itoa(b.Len())
	b.makeFolders(hiddenFolder + "/" + name)
	return name
}

// place is where in own a path of the sandbox is made. "" says that a file or
// folder of the host, or a mask, is mounted over it.
func (t treeBuilder) place(p string) string {
	_, over := sandbox.Cover(t.mounted, p)
	switch {
	case over == nil:
		return path.Join(".", rel(p))
	case over.Kind == sandbox.Hollow:
		return path.Join(hiddenFolder, t.hollows[over.Path], strings.TrimPrefix(p, over.Path))
	}
	return ""
}

// folders makes a folder of the sandbox and its parents. Where one is there, or
// the host's is shown, it stays.
func (b *builder) folders(p string) {
	if at := b.tree.place(p); at != "" {
		b.makeFolders(at)
	}
}

// emptyFile makes a file of the sandbox in the same way.
func (b *builder) emptyFile(p string) {
	if at := b.tree.place(p); at != "" {
		b.makeFolders(path.Dir(at))
		b.makeFile(at)
	}
}

// symlink makes a link, unless there is something already.
func (b *builder) symlink(target, p string) {
	at, step := b.tree.place(p), fmt.Sprintf("link %q", p)
	b.makeFolders(path.Dir(at))
	b.inOwn(step, at, func(dir, name spawn.Arg) {
		b.Pass(step, unix.EEXIST, unix.SYS_SYMLINKAT, b.Text(target), dir, name)
	})
}

// newFile makes a file that must not be there yet.
func (b *builder) newFile(p, content string) {
	at, step := b.tree.place(p), fmt.Sprintf("file %q", p)
	b.makeFolders(path.Dir(at))
	b.inOwn(step, at, func(dir, name spawn.Arg) {
		b.Save(step, b.fd, unix.SYS_OPENAT, dir, name, spawn.Int(unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC), spawn.Int(0o644))
	})
	b.Call(step, unix.SYS_WRITE, spawn.From(b.fd), b.Text(content), spawn.Int(len(content)))
	b.Call(step, unix.SYS_CLOSE, spawn.From(b.fd))
}

func (b *builder) makeFolders(at string) {
	if b.tree.made[at] {
		return
	}
	b.makeFolders(path.Dir(at))
	b.tree.made[at] = true
	step := fmt.Sprintf("folder %q", "/"+at)
	b.inOwn(step, at, func(dir, name spawn.Arg) {
		b.Pass(step, unix.EEXIST, unix.SYS_MKDIRAT, dir, name, spawn.Int(0o755))
	})
}

func (b *builder) makeFile(at string) {
	step := fmt.Sprintf("file %q", "/"+at)
	b.inOwn(step, at, func(dir, name spawn.Arg) {
		b.Pass(step, unix.EEXIST, unix.SYS_MKNODAT, dir, name, spawn.Int(unix.S_IFREG), none)
	})
}

// inOwn adds the calls that make something with a handle of the folder in own
// that it belongs in.
func (b *builder) inOwn(step, at string, do func(dir, name spawn.Arg)) {
	b.open(step, b.tree.dir, spawn.From(b.tree.own), path.Dir(at), unix.O_DIRECTORY, ownOnly)
	do(spawn.From(b.tree.dir), b.Text(path.Base(at)))
	b.Call(step, unix.SYS_CLOSE, spawn.From(b.tree.dir))
}

// beneath adds calls that use a handle of what the sandbox shows at a path.
func (b *builder) beneath(step, p string, do func(at spawn.Arg)) {
	b.open(step, b.tree.dir, spawn.From(b.root), path.Join(".", rel(p)), unix.O_NOFOLLOW, noLinks)
	do(spawn.From(b.tree.dir))
	b.Call(step, unix.SYS_CLOSE, spawn.From(b.tree.dir))
}

// attach mounts what a register holds over a path of the sandbox.
func (b *builder) attach(step string, mount spawn.Reg, p string) {
	b.beneath(step, p, func(at spawn.Arg) {
		b.Call(step, unix.SYS_MOVE_MOUNT, spawn.From(mount), b.Text(""), at, b.Text(""),
			spawn.Int(unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH))
	})
}

// open opens a path at a handle, only to name it.
func (b *builder) open(step string, to spawn.Reg, dir spawn.Arg, name string, flags, resolve uint64) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | flags, Resolve: resolve}
	at := spawn.Object(b.Program, how)
	b.Save(step, to, unix.SYS_OPENAT2, dir, b.Text(name), spawn.At(at), spawn.Int(unsafe.Sizeof(how)))
}
