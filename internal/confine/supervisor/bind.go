//go:build linux && (amd64 || arm64)

package supervisor

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/confine/sandbox/spawn"
)

// binding is how a path is bound to a socket: with the text of the process, and in the folder that was decided on. A
// child with a file tree of its own does it. In this tree the folders of the text are made up, and the last of
// them is a link to the decided folder. So no process can replace a folder meanwhile.
type binding struct {
	address address
	folders []string // of the text
	root    bool     // the text begins at the root
	umask   int
}

// newBinding prepares the binding. It returns EACCES for a path with ".." whose real path is too long for an address. Such a path is bound with its
// real path, as its ".." would lead elsewhere in the made-up tree.
func newBinding(s spot, a address, umask int) (b binding, errno unix.Errno) {
	text := a.path
	dir, _ := path.Split(strings.TrimRight(text, "/"))
	if slices.Contains(strings.Split(dir, "/"), "..") {
		text = s.real + text[len(strings.TrimRight(text, "/")):]
		if len(text) >= unixMax-pathOffset {
			return b, unix.EACCES
		}
		dir, _ = path.Split(s.real)
		a.raw = append(append(slices.Clone(a.raw[:pathOffset]), text...), 0)
	}
	b = binding{address: a, root: text[0] == '/', umask: umask}
	for _, name := range strings.Split(dir, "/") {
		if name != "" && name != "." {
			b.folders = append(b.folders, name)
		}
	}
	return b, 0
}

const (
	bindStep   = "bind"
	folderFD   = 1             // of the child: the decided folder
	processes  = ".remit-proc" // the /proc of the made-up tree
	toFolder   = "/self/fd/1"  // in it
	childFlags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS
)

// make has a child bind the socket in a folder.
func (b binding) make(sp *spawn.Spawner, socket, folder int) unix.Errno {
	if sp == nil {
		return unix.EACCES
	}
	child, err := sp.Spawn(b.program(), childFlags, [3]int{socket, folder, folder})
	if err != nil {
		return unix.EAGAIN
	}
	switch exit := child.Wait(); {
	case exit.Failed == bindStep:
		return exit.Errno
	case exit.Failed != "" || exit.Lost:
		return unix.EACCES
	}
	return 0
}

// program lists the calls of the child.
func (b binding) program() *spawn.Program {
	p := spawn.NewProgram(32)
	p.Call("status", unix.SYS_DUP3, spawn.From(spawn.RegStatus), spawn.Int(spawn.StatusFD), spawn.Int(unix.O_CLOEXEC))
	p.Call("parent death", unix.SYS_PRCTL, spawn.Int(unix.PR_SET_PDEATHSIG), spawn.Int(int(unix.SIGKILL)))
	p.Call("folder", unix.SYS_DUP3, spawn.From(spawn.RegStdout), spawn.Int(folderFD), spawn.Int(unix.O_CLOEXEC))
	if len(b.folders) == 0 {
		p.Call("enter", unix.SYS_FCHDIR, spawn.Int(folderFD))
		if b.root {
			p.Call("enter", unix.SYS_CHROOT, p.Text("."))
		}
	} else {
		b.tree(p)
	}
	head := spawn.Object(p, unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3})
	p.Call("capabilities", unix.SYS_CAPSET, spawn.At(head), spawn.At(spawn.Object(p, [2]unix.CapUserData{})))
	p.Call("umask", unix.SYS_UMASK, spawn.Int(b.umask))
	p.Call(bindStep, unix.SYS_BIND, spawn.From(spawn.RegStdin), spawn.At(p.Bytes(b.address.raw)), spawn.Int(len(b.address.raw)))
	p.Fork()
	p.Call("end", unix.SYS_EXIT_GROUP, spawn.Int(0))
	return p
}

// tree makes the folders of the text, on a file system that only the child has, and enters it.
func (b binding) tree(p *spawn.Program) {
	const step = "folders of the text"
	none, here, whole := spawn.Int(0), spawn.Int(unix.AT_FDCWD), spawn.Int(unix.MOVE_MOUNT_F_EMPTY_PATH)
	fd, root := p.Reg(), p.Reg()
	for _, f := range [][2]string{{"setgroups", "deny"}, {"uid_map", fmt.Sprintf("%d %[1]d 1", os.Geteuid())}, {"gid_map", fmt.Sprintf("%d %[1]d 1", os.Getegid())}} {
		p.Save(step, fd, unix.SYS_OPENAT, here, p.Text("/proc/self/"+f[0]), spawn.Int(unix.O_WRONLY|unix.O_CLOEXEC), none)
		p.Call(step, unix.SYS_WRITE, spawn.From(fd), p.Text(f[1]), spawn.Int(len(f[1])))
	}
	p.Save(step, fd, unix.SYS_FSOPEN, p.Text("tmpfs"), spawn.Int(unix.FSOPEN_CLOEXEC))
	p.Call(step, unix.SYS_FSCONFIG, spawn.From(fd), spawn.Int(unix.FSCONFIG_CMD_CREATE), none, none, none)
	p.Save(step, root, unix.SYS_FSMOUNT, spawn.From(fd), spawn.Int(unix.FSMOUNT_CLOEXEC), none)
	p.Call(step, unix.SYS_MOVE_MOUNT, spawn.From(root), p.Text(""), here, p.Text("/"), whole)
	p.Call(step, unix.SYS_MKDIRAT, spawn.From(root), p.Text(processes), spawn.Int(0o700))
	p.Save(step, fd, unix.SYS_OPEN_TREE, here, p.Text("/proc"), spawn.Int(unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE))
	p.Call(step, unix.SYS_MOVE_MOUNT, spawn.From(fd), p.Text(""), spawn.From(root), p.Text(processes), whole)
	for i := range b.folders[1:] {
		p.Call(step, unix.SYS_MKDIRAT, spawn.From(root), p.Text(strings.Join(b.folders[:i+1], "/")), spawn.Int(0o700))
	}
	p.Call(step, unix.SYS_SYMLINKAT, p.Text("/"+processes+toFolder), spawn.From(root), p.Text(strings.Join(b.folders, "/")))
	p.Call(step, unix.SYS_FCHDIR, spawn.From(root))
	p.Call(step, unix.SYS_CHROOT, p.Text("."))
}
