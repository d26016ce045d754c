//go:build linux && (amd64 || arm64)

package supervisor

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// maxLinks is how many links a path may lead through, as in the kernel.
const maxLinks = 40

// call is one stopped system call while it is carried out.
type call struct {
	*Supervisor
	n      *Notification
	root   int // of the process
	of     *status
	files  statusFiles // of the thread that carries the call out
	opened []int       // descriptors that end with the call
	early  bool        // they end before the process goes on: one keeps a socket of it open

	instead *Instead // the copy that a name gets in place of the moved file
	draft   *Draft   // decides about the file that is made
	blank   bool     // the process gets an empty file

	// A process that can have no more descriptors loses nothing by an open.
	had  func() unix.Errno // empties the file, once the process has the descriptor; nil: it stays
	undo func()            // removes the file that was made, if the process does not get the descriptor; nil: none was

	approved []question
	question question // of an errAsk
}

func (c *call) end() {
	for _, fd := range c.opened {
		drop(fd)
	}
	c.opened = nil
}

// open opens a path of the supervisor's own for the length of the call.
func (c *call) open(at int, p string, flags int) (int, unix.Errno) {
	fd, err := unix.Openat(at, p, flags|unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, errnoOf(err)
	}
	c.opened = append(c.opened, fd)
	return fd, 0
}

// status reads the thread's status in /proc, once.
func (c *call) status() (*status, unix.Errno) {
	if c.of == nil {
		s, errno := c.files.of(c.n.PID)
		if errno != 0 {
			return nil, errno
		}
		c.of = &s
	}
	return c.of, 0
}

// path reads an argument that is a path.
func (c *call) path(arg int) (string, unix.Errno) {
	p, err := ReadString(int(c.n.PID), uintptr(c.n.Args[arg]))
	return p, errnoOf(err)
}

// base opens the folder that a path starts from. arg is the argument with its descriptor; -1: the
// working folder.
func (c *call) base(arg int, p string) (int, unix.Errno) {
	switch {
	case p == "":
		return -1, unix.ENOENT
	case p[0] == '/':
		return c.root, 0
	case arg >= 0 && int32(uint32(c.n.Args[arg])) != unix.AT_FDCWD:
		return c.descriptor(arg)
	}
	return c.open(unix.AT_FDCWD, procPath(c.n.PID, "cwd"), 0)
}

// descriptor opens what the descriptor in an argument stands for.
func (c *call) descriptor(arg int) (int, unix.Errno) {
	number := strconv.Itoa(int(int32(uint32(c.n.Args[arg]))))
	fd, errno := c.open(unix.AT_FDCWD, procPath(c.n.PID, "fd/"+number), 0)
	if errno != 0 {
		return -1, unix.EBADF
	}
	return fd, 0
}

// place is something that a path leads to.
type place struct {
	fd int
	st unix.Stat_t
}

func (p *place) is(kind uint32) bool { return p.st.Mode&unix.S_IFMT == kind }

// at describes an open file.
func at(fd int) (p place, errno unix.Errno) {
	p.fd = fd
	return p, errnoOf(unix.Fstat(fd, &p.st))
}

// find opens what a path leads to. Without follow, a link at its end is what it leads to.
func (c *call) find(base int, p string, follow bool) (place, unix.Errno) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_BENEATH}
	if base == c.root {
		how.Resolve = unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_IN_ROOT
	}
	if !follow {
		how.Flags |= unix.O_NOFOLLOW
	}
	fd, err := unix.Openat2(base, p, &how)
	if err == nil {
		c.opened = append(c.opened, fd)
		if to, errno := at(fd); errno != 0 || to.st.Dev != c.procDev {
			return to, errno
		}
		return c.walk(base, p, follow) // in /proc, names depend on the reader
	}
	switch errno := errnoOf(err); errno {
	case unix.EXDEV, unix.ELOOP, unix.EAGAIN:
		return c.walk(base, p, follow)
	case unix.ENOENT:
		if c.leadsToProc(base, p) {
			return c.walk(base, p, follow)
		}
		return place{}, errno
	default:
		return place{}, errno
	}
}

// leadsToProc reports whether a path that the supervisor does not find may lead through
// /proc/self, which is another folder for the process. Errors only make names in /proc unknown.
func (c *call) leadsToProc(base int, p string) bool {
	if strings.HasPrefix(p, "/proc/") || strings.HasPrefix(p, "/dev/") {
		return true
	}
	if from, errno := at(base); errno != 0 || from.st.Dev == c.procDev {
		return true
	}
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW, Resolve: unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_BENEATH}
	if base == c.root {
		how.Resolve = unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_IN_ROOT
	}
	fd, err := unix.Openat2(base, p, &how)
	drop(fd)
	return err == nil // a link whose target is not found
}

// walk resolves a path one name after the other, as the process sees the file tree.
func (c *call) walk(base int, p string, follow bool) (place, unix.Errno) {
	to, errno := at(base)
	slash := strings.HasSuffix(p, "/")
	links := 0
	for rest := strings.TrimLeft(p, "/"); errno == 0 && rest != ""; rest = strings.TrimLeft(rest, "/") {
		var name, link string
		name, rest, _ = strings.Cut(rest, "/")
		inside := strings.Trim(rest, "/") != ""
		if to, link, errno = c.step(to, name, inside || follow || slash); link == "" || errno != 0 {
			continue
		}
		if links++; links > maxLinks {
			return place{}, unix.ELOOP
		}
		if link[0] == '/' {
			to, errno = at(c.root)
		}
		slash = slash || !inside && strings.HasSuffix(link, "/")
		rest = link + "/" + rest
	}
	if errno == 0 && slash && !to.is(unix.S_IFDIR) {
		errno = unix.ENOTDIR
	}
	return to, errno
}

// step takes one name from a folder. A link that is to be followed is returned as text, with the
// folder.
func (c *call) step(from place, name string, follow bool) (to place, link string, errno unix.Errno) {
	inProc := from.st.Dev == c.procDev
	switch {
	case name == ".." && c.isRoot(from):
		return from, "", 0
	case inProc && from.st.Ino == procRoot && (name == "self" || name == "thread-self"):
		s, errno := c.status()
		if errno != 0 {
			return from, "", errno
		}
		if name == "self" {
			return from, s.tgid, 0
		}
		return from, s.tgid + "/task/" + s.tid, 0
	}
	fd, errno := c.open(from.fd, name, unix.O_NOFOLLOW)
	if errno == 0 {
		to, errno = at(fd)
	}
	if errno != 0 || !to.is(unix.S_IFLNK) || !follow {
		return to, "", errno
	}
	if inProc && from.st.Ino != procRoot {
		if jumps, errno := c.jumps(from, name); errno != 0 {
			return from, "", errno
		} else if jumps {
			if fd, errno = c.open(from.fd, name, 0); errno != 0 {
				return from, "", errno
			}
			to, errno = at(fd)
			return to, "", errno
		}
	}
	var buf [pathMax]byte
	n, err := unix.Readlinkat(fd, "", buf[:])
	switch {
	case err != nil:
		return from, "", errnoOf(err)
	case n == 0:
		return from, "", unix.ENOENT
	case n == len(buf):
		return from, "", unix.ENAMETOOLONG
	}
	return from, string(buf[:n]), 0
}

// procRoot is the inode number of the root of /proc.
const procRoot = 1

func (c *call) isRoot(p place) bool {
	r, errno := at(c.root)
	return errno == 0 && r.st.Dev == p.st.Dev && r.st.Ino == p.st.Ino
}

// jumps reports whether a link in /proc/PID leads to an open file, wherever its text points. A process
// may use its own only: the supervisor could read those of others that the process could not.
func (c *call) jumps(from place, name string) (bool, unix.Errno) {
	where, errno := c.where(from)
	if errno != 0 {
		return false, errno
	}
	jump := slices.Contains([]string{"cwd", "root", "exe"}, name) || slices.Contains([]string{"fd", "map_files", "ns"}, path.Base(where))
	if jump && !c.own(where) {
		return false, unix.EACCES
	}
	return jump, 0
}

// own reports whether a path in /proc is of the process itself.
func (c *call) own(where string) bool {
	s, errno := c.status()
	if errno != 0 {
		return false
	}
	pid, _, _ := strings.Cut(strings.TrimPrefix(where, "/proc/"), "/")
	return pid == s.tgid
}

// public are the files of /proc/PID that all processes may read, also when the supervisor could
// read more than the process. The folder fd is only listed: jumps refuses to open its links.
var public = []string{"cgroup", "cmdline", "comm", "fd", "schedstat", "stat", "statm", "status", "task"}

// machineFacts are the readable files of /proc outside of the folders of processes: facts about the processor, the memory and
// the kernel, which nproc, free, ps and the runtimes of languages need. None names a process outside of the sandbox.
var machineFacts = strings.Fields(`cgroups cpuinfo filesystems loadavg meminfo stat uptime version vmstat
	sys/crypto/fips_enabled
	sys/fs/file-max sys/fs/inotify/max_queued_events sys/fs/inotify/max_user_instances sys/fs/inotify/max_user_watches
	sys/fs/nr_open sys/fs/pipe-max-size
	sys/kernel/cap_last_cap sys/kernel/hostname sys/kernel/ngroups_max sys/kernel/osrelease sys/kernel/ostype sys/kernel/pid_max
	sys/kernel/random/uuid sys/kernel/sem sys/kernel/shmall sys/kernel/shmmax sys/kernel/shmmni sys/kernel/threads-max
	sys/kernel/version
	sys/net/core/somaxconn sys/net/ipv4/ip_local_port_range sys/net/ipv6/conf/all/disable_ipv6
	sys/vm/max_map_count sys/vm/overcommit_memory sys/vm/overcommit_ratio`)

// readable reports whether a process may open a file of /proc for reading. The supervisor itself could read more than the
// process, as its user outside of the sandbox.
func (c *call) readable(where string) bool {
	if where == "/proc" || c.own(where) {
		return true
	}
	p := strings.TrimPrefix(where, "/proc/")
	names := strings.Split(p, "/")
	if !digits(names[0]) {
		return slices.Contains(machineFacts, p)
	}
	for _, name := range names[1:] {
		if !digits(name) && !slices.Contains(public, name) || name == "fd" && names[0] == "1" { // the first process is Remit's own
			return false
		}
	}
	return true
}

// spot is a name in a folder.
type spot struct {
	dir  int
	name string // with a slash at its end where the path has one
	real string
}

// spot finds the folder of the last name of a path.
func (c *call) spot(base int, p string) (s spot, errno unix.Errno) {
	short := strings.TrimRight(p, "/")
	dir, name := path.Split(short)
	if short == "" {
		dir, name = "/", "/"
	}
	to, errno := c.find(base, dir+".", true) // the dot asks whether it is a folder that may be entered
	if errno != 0 {
		return s, errno
	}
	s.dir, s.name = to.fd, name
	if len(short) < len(p) && short != "" {
		s.name += "/"
	}
	errno = c.locate(&s)
	return s, errno
}

// locate finds where the folder of a name is now.
func (c *call) locate(s *spot) unix.Errno {
	dir, errno := at(s.dir)
	if errno != 0 {
		return errno
	}
	where, errno := c.where(dir)
	s.real = path.Join(where, strings.TrimRight(s.name, "/"))
	return errno
}

// where is the path of a place in the process's file tree. A folder that another program moved out of the tree
// has none: the kernel then says the root.
func (c *call) where(p place) (string, unix.Errno) {
	where, errno := c.whereIs(p.fd)
	if errno == 0 && strings.TrimSuffix(where, deleted) == "/" && !c.isRoot(p) {
		return "", unix.EACCES
	}
	return where, errno
}

// special reports whether the last name of a path is none that can be made, moved or removed. The
// kernel then has an error for each attempt.
func (s *spot) special() bool {
	name := strings.TrimRight(s.name, "/")
	return name == "." || name == ".." || name == ""
}
