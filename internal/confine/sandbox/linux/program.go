//go:build linux && (amd64 || arm64)

package linux

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/confine/repository"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/sandbox/spawn"
)

// cloneFlags are the namespaces that every command gets of its own.
const cloneFlags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS

// gitFile has settings for Git that those of a repository win over.
const gitFile = "/etc/remit-gitconfig"

// The identity inside. Outside it is the person's own, or root's where Remit
// runs as root; either way without any capability.
const (
	insideID = 1000
	account  = "remit"
)

// machine are the host's abilities, found once.
type machine struct {
	landlockABI int
	pidMax      bool // a pid namespace has a pid_max of its own
	lastCap     int
	uid, gid    int
	shell       string         // of the account inside
	hard        map[int]uint64 // the limits that this process cannot raise
	links       []link
	which       []byte // which files the system's mounts stand for
	filter      []bpf.RawInstruction
}

// start is one command's process as the kernel is told.
type start struct {
	layers       *layers // of a held run
	exe          string
	argv         []string
	env          []string
	stays        bool          // the sandbox stays after a command
	shares       bool          // and commands run beside each other there
	secrets      bool          // the command has secrets in its environment
	port         uint16        // of the proxy
	tty          *unix.Winsize // of the terminal of its own that the streams are, or nil
	group        *group        // that it is counted in, or nil
	watch        bool          // the command is observed
	direct       bool          // programs that know no proxy are led to it
	ca           []byte        // a bundle of certificates for caFile, or nil
	repositories repositories  // what the survey found of them
}

// builder turns a profile into the sandbox's list of system calls.
type builder struct {
	*spawn.Program
	m    machine
	p    sandbox.Profile
	root spawn.Reg // the new root as the command will see it
	tree treeBuilder
	fd   spawn.Reg
	fs   spawn.Reg
	zero spawn.Ref // 64 bytes of it

	held  spawn.Reg // the overlay of a held run
	holds string    // the folder that it stands for, or ""
}

var (
	empty = spawn.Int(unix.AT_EMPTY_PATH)
	cwd   = spawn.Int(uint64(0xffffffffffffff9c)) // AT_FDCWD
	none  = spawn.Int(0)
)

// program is the whole start of a sandbox, in order: identity, file tree,
// privileges, filter; then the command.
func program(m machine, p sandbox.Profile, s start) *spawn.Program {
	b := &builder{Program: spawn.NewProgram(512), m: m, p: p}
	b.root, b.fd, b.fs = b.Reg(), b.Reg(), b.Reg()
	b.tree = newTreeBuilder(b)
	b.zero = b.Bytes(make([]byte, 64))
	b.surroundings()
	b.identity()
	b.newRoot()
	b.system()
	b.terminals()
	b.proc()
	mounts := p.Mounts
	for ; len(mounts) > 0 && mounts[0].System; mounts = mounts[1:] {
		b.mount(mounts[0])
	}
	b.Pause() // up to here nothing depends on the policy's rules of files, or on the command
	b.join(s.group)
	b.ownGroups()
	switch {
	case s.stays:
	case s.tty != nil:
		b.terminal(*s.tty)
	default:
		b.streams()
	}
	if p.Proxy || p.Standard || s.shares {
		b.loopback()
	}
	b.resolver(s.direct)
	if p.Proxy && !s.stays {
		b.listen(s.port)
		b.sockets()
		b.dialers()
	}
	b.trust(s.ca)
	b.layer(s.layers)
	for _, mt := range mounts {
		b.mount(mt)
	}
	b.folders(p.Dir)
	b.seal()
	b.unlayer()
	b.enter()
	b.restrict()
	switch {
	case s.shares && s.stays:
		b.share()
		return b.Program
	case s.stays:
		b.stay()
		return b.Program
	}
	b.Fork()
	b.command(s)
	return b.Program
}

// surroundings closes the spawner's descriptors.
func (b *builder) surroundings() {
	b.closeAll()
	b.Call("umask", unix.SYS_UMASK, none)
	b.Call("session", unix.SYS_SETSID)
}

// join puts the sandbox into its control group, which is still seen where the
// host has it.
func (b *builder) join(g *group) {
	for _, door := range g.doors() {
		b.writeFile(stepGroup, cwd, door, "0", unix.O_WRONLY)
	}
}

// ownGroups makes the sandbox's control group the root of all that it sees of
// them, so that their paths on the host are not told.
func (b *builder) ownGroups() {
	b.Call("control group namespace", unix.SYS_UNSHARE, spawn.Int(unix.CLONE_NEWCGROUP))
}

func (b *builder) streams() {
	for i, r := range []spawn.Reg{spawn.RegStdin, spawn.RegStdout, spawn.RegStderr} {
		b.Call("standard streams", unix.SYS_DUP3, spawn.From(r), spawn.Int(i), none)
	}
}

func (b *builder) closeAll() {
	b.Call("close descriptors", unix.SYS_CLOSE_RANGE, spawn.Int(spawn.StatusFD+1), spawn.Int(uint32(0xffffffff)), none)
}

// writeFile writes to a file by its name at a handle. It is for files of the
// kernel and of the host. newFile makes files of the new root.
func (b *builder) writeFile(step string, at spawn.Arg, name, content string, flags int) {
	b.Save(step, b.fd, unix.SYS_OPENAT, at, b.Text(name), spawn.Int(flags|unix.O_CLOEXEC), spawn.Int(0o644))
	b.Call(step, unix.SYS_WRITE, spawn.From(b.fd), b.Text(content), spawn.Int(len(content)))
	b.Call(step, unix.SYS_CLOSE, spawn.From(b.fd))
}

func (b *builder) identity() {
	for _, f := range [][2]string{{"setgroups", "deny"}, {"uid_map", fmt.Sprintf("%d %d 1", insideID, b.m.uid)},
		{"gid_map", fmt.Sprintf("%d %d 1", insideID, b.m.gid)}} {
		b.writeFile("user namespace "+f[0], cwd, "/proc/self/"+f[0], f[1], unix.O_WRONLY)
	}
	b.Call("host name", unix.SYS_SETHOSTNAME, b.Text("sandbox"), spawn.Int(len("sandbox")))
}

// newRoot mounts an empty file system over the root. Absolute paths still mean
// the host's until pivot_root, also where a link names one: so nothing is made by
// a path that could hold a link, see treeBuilder.
func (b *builder) newRoot() {
	b.Call("private mounts", unix.SYS_MOUNT, b.Text("none"), b.Text("/"), none, spawn.Int(unix.MS_REC|unix.MS_PRIVATE), none)
	b.Save("tmpfs", b.fs, unix.SYS_FSOPEN, b.Text("tmpfs"), spawn.Int(unix.FSOPEN_CLOEXEC))
	for _, kv := range [][2]string{{"size", fmt.Sprint(b.p.Disk)}, {"nr_inodes", strconv.Itoa(sandbox.MaxFiles)}, {"mode", "0755"}} {
		b.Call("tmpfs "+kv[0], unix.SYS_FSCONFIG, spawn.From(b.fs), spawn.Int(unix.FSCONFIG_SET_STRING), b.Text(kv[0]), b.Text(kv[1]), none)
	}
	b.Call("tmpfs", unix.SYS_FSCONFIG, spawn.From(b.fs), spawn.Int(unix.FSCONFIG_CMD_CREATE), none, none, none)
	b.Save("tmpfs", b.root, unix.SYS_FSMOUNT, spawn.From(b.fs), spawn.Int(unix.FSMOUNT_CLOEXEC), spawn.Int(unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV))
	b.Call("root mount", unix.SYS_MOVE_MOUNT, spawn.From(b.root), b.Text(""), cwd, b.Text("/"), spawn.Int(unix.MOVE_MOUNT_F_EMPTY_PATH))
	b.openTree()
}

// system makes the new files of the root: links, devices, /etc, /tmp.
func (b *builder) system() {
	for _, d := range []string{"/dev", "/etc", "/proc", "/tmp"} {
		b.folders(d)
	}
	for _, l := range b.m.links {
		b.folders(path.Dir(l.path))
		b.symlink(l.target, l.path)
	}
	for _, l := range [][2]string{{"/proc/self/fd", "/dev/fd"}, {"/proc/self/fd/0", "/dev/stdin"},
		{"/proc/self/fd/1", "/dev/stdout"}, {"/proc/self/fd/2", "/dev/stderr"}, {"/tmp", "/dev/shm"}, {"/tmp", "/var/tmp"}} {
		if b.shown(l[1]) { // a mount there must not end up behind a link
			b.folders(l[1])
			continue
		}
		b.folders(path.Dir(l[1]))
		b.symlink(l[0], l[1])
	}
	for _, dev := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		b.emptyFile("/dev/" + dev)
		b.bind("/dev/"+dev, "/dev/"+dev, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC, false)
	}
	for _, f := range [][2]string{
		{"/etc/passwd", fmt.Sprintf(account+":x:%d:%d::/tmp:%s\nnobody:x:65534:65534::/:/bin/false\n", insideID, insideID, b.m.shell)},
		{"/etc/group", fmt.Sprintf(account+":x:%d:\nnogroup:x:65534:\n", insideID)},
		{"/etc/hosts", "127.0.0.1 localhost sandbox\n::1 localhost sandbox\n"},
	} {
		b.newFile(f[0], f[1])
	}
	if b.p.Git != "" {
		b.newFile(gitFile, "[include]\n\tpath = /etc/gitconfig\n"+b.p.Git)
	}
	b.folders(sandbox.HomeAt)
	if b.p.Git != "" && !slices.ContainsFunc(b.p.Mounts, isHome) {
		b.newFile(sandbox.HomeAt+"/"+homeGit, repository.Copy(b.p.Git))
	}
	b.Call("/tmp", unix.SYS_FCHMODAT, spawn.From(b.root), b.Text("tmp"), spawn.Int(0o1777))
	b.clone("/tmp", spawn.From(b.root), "tmp", 0, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOATIME, "/tmp")
}

// shown reports whether the profile shows a folder or something in it.
func (b *builder) shown(folder string) bool {
	return sandbox.Within(b.p.Dir, folder) || slices.ContainsFunc(b.p.Mounts, func(m sandbox.Mount) bool { return sandbox.Within(m.Path, folder) })
}

func rel(p string) string { return strings.TrimPrefix(p, "/") }

// mount makes one mount of the profile.
func (b *builder) mount(m sandbox.Mount) {
	defer func() { b.tree.mounted = append(b.tree.mounted, m) }()
	switch m.Kind {
	case sandbox.Mask:
		name := maskFile
		if m.Folder {
			name = maskFolder
		}
		b.clone(fmt.Sprintf("mask %q", m.Path), spawn.From(b.tree.hidden), name, 0,
			unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV, m.Path)
	case sandbox.Hollow:
		step := fmt.Sprintf("empty %q", m.Path)
		name := b.hollow()
		b.clone(step, spawn.From(b.tree.hidden), name, 0, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV, m.Path)
		b.tree.hollows[m.Path] = name
	case sandbox.Socket:
		b.emptyFile(m.Path)
		b.clone(fmt.Sprintf("socket %q", m.Path), spawn.From(b.tree.hidden), socketName(slices.Index(listeners(b.p), m.Path)), 0,
			unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC, m.Path)
	case sandbox.Bind:
		if m.Folder {
			b.folders(m.Path)
		} else {
			b.emptyFile(m.Path)
		}
		attr := uint64(unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV)
		if m.Access&sandbox.WriteOnly == 0 {
			attr |= unix.MOUNT_ATTR_RDONLY
		}
		if b.holds != "" && m.From == "" && sandbox.Within(m.Path, b.holds) {
			b.layered(m.Path, attr)
			return
		}
		b.bind(cmp.Or(m.From, m.Path), m.Path, attr, true)
	}
}

// bind shows a file or folder of the host. Its path was link-free when it was
// decided on; if a link has come into it since, the sandbox does not start.
func (b *builder) bind(src, dst string, attr uint64, recursive bool) {
	step := fmt.Sprintf("bind %q", src)
	b.open(step, b.fs, cwd, src, unix.O_NOFOLLOW, unix.RESOLVE_NO_SYMLINKS|unix.RESOLVE_NO_MAGICLINKS)
	flags := 0
	if recursive {
		flags = unix.AT_RECURSIVE
	}
	b.clone(step, spawn.From(b.fs), "", flags|unix.AT_EMPTY_PATH, attr, dst)
	b.Call(step, unix.SYS_CLOSE, spawn.From(b.fs))
}

// clone copies a mount, restricts the copy and attaches it at path dst.
func (b *builder) clone(step string, at spawn.Arg, name string, flags int, attr uint64, dst string) {
	b.Save(step, b.fd, unix.SYS_OPEN_TREE, at, b.Text(name), spawn.Int(flags|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW))
	var clear uint64
	if attr&unix.MOUNT_ATTR_NOATIME != 0 {
		clear = unix.MOUNT_ATTR__ATIME
	}
	set := spawn.Object(b.Program, unix.MountAttr{Attr_set: attr, Attr_clr: clear})
	b.Call(step, unix.SYS_MOUNT_SETATTR, spawn.From(b.fd), b.Text(""), spawn.Int(unix.AT_EMPTY_PATH|flags&unix.AT_RECURSIVE),
		spawn.At(set), spawn.Int(unsafe.Sizeof(unix.MountAttr{})))
	b.attach(step, b.fd, dst)
	b.Call(step, unix.SYS_CLOSE, spawn.From(b.fd))
}

// proc mounts a read-only /proc: with processes only, unless the supervisor decides which other files can be opened. Limits
// of the namespaces are written through a second one that only the old root has.
func (b *builder) proc() {
	full := b.procMount("", 0)
	// Attached to the host's tree, it goes when that does: one costly unmount less.
	b.Call("/proc", unix.SYS_MOVE_MOUNT, spawn.From(full), b.Text(""), cwd, b.Text("/proc"), spawn.Int(unix.MOVE_MOUNT_F_EMPTY_PATH))
	b.writeFile("limit of user namespaces", spawn.From(full), "sys/user/max_user_namespaces", "0", unix.O_WRONLY)
	if b.m.pidMax { // before Linux 6.14 this would be the host's own limit
		b.writeFile("limit of processes", spawn.From(full), "sys/kernel/pid_max", fmt.Sprint(pidMax(b.p)), unix.O_WRONLY)
	}
	// No closed connection lingers, so that none is left to the next command.
	b.writeFile("limit of closed connections", spawn.From(full), "sys/net/ipv4/tcp_max_tw_buckets", "0", unix.O_WRONLY)
	b.Call("/proc", unix.SYS_CLOSE, spawn.From(full))
	subset := "subset"
	if b.p.Supervised {
		subset = ""
	}
	own := b.procMount(subset, unix.MOUNT_ATTR_RDONLY)
	b.attach("/proc", own, "/proc")
	b.Call("/proc", unix.SYS_CLOSE, spawn.From(own))
}

// procMount makes a /proc, all of it or with processes only.
func (b *builder) procMount(subset string, attr int) spawn.Reg {
	b.Save("/proc mount", b.fs, unix.SYS_FSOPEN, b.Text("proc"), spawn.Int(unix.FSOPEN_CLOEXEC))
	if subset != "" {
		b.Call("/proc mount with subset=pid", unix.SYS_FSCONFIG, spawn.From(b.fs), spawn.Int(unix.FSCONFIG_SET_STRING), b.Text(subset), b.Text("pid"), none)
	}
	b.Call("/proc mount", unix.SYS_FSCONFIG, spawn.From(b.fs), spawn.Int(unix.FSCONFIG_CMD_CREATE), none, none, none)
	r := b.Save("/proc mount", b.Reg(), unix.SYS_FSMOUNT, spawn.From(b.fs), spawn.Int(unix.FSMOUNT_CLOEXEC),
		spawn.Int(attr|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC))
	b.Call("/proc mount", unix.SYS_CLOSE, spawn.From(b.fs))
	return r
}

// seal makes the made-up parts of the tree read-only.
func (b *builder) seal() {
	for _, name := range []string{maskFile, maskFolder, "."} {
		b.Call("masks", unix.SYS_FCHMODAT, spawn.From(b.tree.hidden), b.Text(name), none)
	}
	set := spawn.Object(b.Program, unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
	size := spawn.Int(unsafe.Sizeof(unix.MountAttr{}))
	for _, m := range b.p.Mounts {
		if m.Kind == sandbox.Hollow {
			b.beneath("seal", m.Path, func(at spawn.Arg) {
				b.Call("seal", unix.SYS_MOUNT_SETATTR, at, b.Text(""), empty, spawn.At(set), size)
			})
		}
	}
	b.Call("seal", unix.SYS_MOUNT_SETATTR, spawn.From(b.root), b.Text(""), empty, spawn.At(set), size)
}

// enter leaves the host's file tree behind.
func (b *builder) enter() {
	b.Call("enter", unix.SYS_FCHDIR, spawn.From(b.root))
	b.Call("pivot_root", unix.SYS_PIVOT_ROOT, b.Text("."), b.Text("."))
	b.Call("detach the old root", unix.SYS_UMOUNT2, b.Text("."), spawn.Int(unix.MNT_DETACH))
	b.Call("enter", unix.SYS_CHDIR, b.Text("/"))
	b.closeAll()
}

// restrict gives up every privilege; the filter comes last because nothing of
// the above would pass it.
func (b *builder) restrict() {
	ruleset := b.landlock()
	for c := 0; c <= b.m.lastCap; c++ {
		b.Call("capabilities", unix.SYS_PRCTL, spawn.Int(unix.PR_CAPBSET_DROP), spawn.Int(c), none, none, none)
	}
	b.Call("capabilities", unix.SYS_PRCTL, spawn.Int(unix.PR_CAP_AMBIENT), spawn.Int(unix.PR_CAP_AMBIENT_CLEAR_ALL), none, none, none)
	const securebits = 0b1110_1111 // no root, no setuid fix-up, no ambient, all locked; keep-caps off and locked
	b.Call("capabilities", unix.SYS_PRCTL, spawn.Int(unix.PR_SET_SECUREBITS), spawn.Int(securebits), none, none, none)
	hdr := spawn.Object(b.Program, unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3})
	b.Call("capabilities", unix.SYS_CAPSET, spawn.At(hdr), spawn.At(spawn.Object(b.Program, [2]unix.CapUserData{})))
	b.Call("no new privileges", unix.SYS_PRCTL, spawn.Int(unix.PR_SET_NO_NEW_PRIVS), spawn.Int(1), none, none, none)
	b.Call("Landlock", unix.SYS_LANDLOCK_RESTRICT_SELF, spawn.From(ruleset), none)
	b.Call("not dumpable", unix.SYS_PRCTL, spawn.Int(unix.PR_SET_DUMPABLE), none, none, none, none)
	b.endWithParent()
	b.Call("umask", unix.SYS_UMASK, spawn.Int(0o022))
	b.closeAll()
	b.seccomp()
}

// seccomp installs the filter.
func (b *builder) seccomp() {
	prog := b.Bytes(unsafe.Slice((*byte)(unsafe.Pointer(&b.m.filter[0])), len(b.m.filter)*int(unsafe.Sizeof(b.m.filter[0]))))
	fprog := spawn.Object(b.Program, struct {
		Len uint64 // the length in its first two bytes, on little-endian machines
		Ptr uint64
	}{uint64(len(b.m.filter)), 0})
	b.Pointer(fprog+8, prog)
	b.Call("seccomp", unix.SYS_SECCOMP, spawn.Int(unix.SECCOMP_SET_MODE_FILTER), none, spawn.At(fprog))
}

// endWithParent has the kernel kill this process when its parent ends.
func (b *builder) endWithParent() {
	b.Call("parent death", unix.SYS_PRCTL, spawn.Int(unix.PR_SET_PDEATHSIG), spawn.Int(int(unix.SIGKILL)))
}

// command is the process of the command itself.
func (b *builder) command(s start) {
	b.Call("session", unix.SYS_SETSID)
	b.Call("signals", unix.SYS_RT_SIGPROCMASK, spawn.Int(2), spawn.At(b.zero), none, spawn.Int(8)) // SIG_SETMASK: the spawner blocked all
	for res, v := range rlimits(b.p) {
		v = b.m.most(res, v)
		lim := spawn.Object(b.Program, unix.Rlimit{Cur: v, Max: v})
		b.Call("resource limits", unix.SYS_PRLIMIT64, none, spawn.Int(res), spawn.At(lim), none)
	}
	if s.tty != nil {
		b.Call("terminal", unix.SYS_IOCTL, none, spawn.Int(unix.TIOCSCTTY), none)
	}
	if b.p.CPU > 0 { // the soft limit can be caught, the hard one a second later kills
		secs := uint64((b.p.CPU + time.Second - 1) / time.Second)
		lim := unix.Rlimit{Cur: b.m.most(unix.RLIMIT_CPU, secs), Max: b.m.most(unix.RLIMIT_CPU, secs+1)}
		b.Call("resource limits", unix.SYS_PRLIMIT64, none, spawn.Int(unix.RLIMIT_CPU), spawn.At(spawn.Object(b.Program, lim)), none)
	}
	b.Call(stepDir, unix.SYS_CHDIR, b.Text(b.p.Dir))
	b.supervise(s.watch)
	b.Call(stepExec, unix.SYS_EXECVE, b.Text(s.exe), spawn.At(b.Strings(s.argv)), spawn.At(b.Strings(s.env)))
}

const (
	stepDir   = "enter the working folder"
	stepExec  = "execute the command"
	stepGroup = "join the control group"
)
