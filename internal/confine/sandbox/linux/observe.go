//go:build linux && (amd64 || arm64)

package linux

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/supervisor"
)

// A command is observed by its supervisor, which is told of each system call that names a path. Calls that
// only look at a path stop for that alone, and the kernel goes on with them. The command can
// change such a name between the look and the call: the result is advice for writing a policy.

const (
	actNotify = 0x7fc00000

	// maxSeen and maxSeenBytes bound the different paths that are remembered.
	maxSeen      = 20000
	maxSeenBytes = 16 << 20
)

// named is how a system call names a path.
type named struct {
	use   sandbox.Use
	at    int  // the argument with the folder that the path is relative to; -1: the working folder
	path  int  // the argument with the path
	flags int  // of open: the argument with the flags; else -1
	link  bool // the last component is taken as it is
	named bool // the name itself is made, moved or removed
	mkdir bool // it becomes a folder
}

// observer records the path names that one command uses.
type observer struct {
	mu      sync.Mutex
	root    int // the sandbox's root; -1 until it is known
	seen    map[seenKey]*sandbox.Touch
	bytes   int
	calls   int
	dropped int
}

func newObserver() *observer { return &observer{root: -1, seen: map[seenKey]*sandbox.Touch{}} }

type seenKey struct {
	use  sandbox.Use
	path string
}

// tell is told of each call before it is carried out.
func (o *observer) tell(n *supervisor.Notification) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, a := range o.look(n) {
		o.note(a)
	}
}

// used returns the seen paths, once the command is over.
func (o *observer) used(prof sandbox.Profile, d *decider) ([]sandbox.Touch, int) {
	if o == nil {
		return nil, 0
	}
	if o.root >= 0 {
		_ = unix.Close(o.root) // it was only looked through
	}
	small, _ := system(nil, nil, false)
	out := make([]sandbox.Touch, 0, len(o.seen))
	for _, a := range o.seen {
		a.Shown = shown(prof, small, cmp.Or(a.Real, a.Path))
		if a.Shown == "files" && a.Exists && d.refuses(a.Use, cmp.Or(a.Real, a.Path)) {
			a.Shown = "mask"
		}
		out = append(out, *a)
	}
	slices.SortFunc(out, func(x, y sandbox.Touch) int {
		return strings.Compare(x.Path+string(rune(x.Use)), y.Path+string(rune(y.Use)))
	})
	return out, o.dropped
}

// shown says what of the sandbox a path leads to.
func shown(prof sandbox.Profile, small []sandbox.Mount, p string) string {
	_, over := sandbox.Cover(prof.Mounts, p)
	switch {
	case over == nil && (sandbox.Within(p, "/tmp") || sandbox.Within(p, "/dev") || sandbox.Within(p, "/proc") || sandbox.Within(p, "/etc") || sandbox.Within(p, "/"+hiddenFolder)):
		return "own"
	case over == nil:
		return ""
	case over.Kind == sandbox.Mask:
		return "mask"
	case over.Kind == sandbox.Hollow:
		return ""
	case !over.System:
		return "files"
	}
	if _, m := sandbox.Cover(small, p); m != nil {
		return "system"
	}
	return "standard"
}

func (o *observer) note(a sandbox.Touch) {
	key := seenKey{a.Use, a.Path}
	if was := o.seen[key]; was != nil {
		was.Count++
		if a.Exists && !was.Exists {
			was.Exists, was.Real, was.Folder = true, a.Real, a.Folder
		}
		was.Named = was.Named || a.Named
		return
	}
	if o.bytes += len(a.Path) + len(a.Real); len(o.seen) >= maxSeen || o.bytes > maxSeenBytes {
		o.dropped++
		return
	}
	a.Count = 1
	o.seen[key] = &a
}

// look reads the call of a stopped process. An unreadable one, by a bad pointer or of a process
// that is gone, has no effect.
func (o *observer) look(n *supervisor.Notification) []sandbox.Touch {
	var out []sandbox.Touch
	for _, how := range observed[uint32(n.Nr)] {
		if a, ok := o.lookAt(n, how); ok {
			out = append(out, a)
		}
	}
	return out
}

func (o *observer) lookAt(n *supervisor.Notification, how named) (sandbox.Touch, bool) {
	name, err := supervisor.ReadString(int(n.PID), uintptr(n.Args[how.path]))
	o.calls++
	if err != nil {
		// A bad pointer is the command's own; the command itself is started by who
		// cannot always be read. All else is something that stays unseen.
		if o.calls > 1 && !errors.Is(err, unix.EFAULT) && !errors.Is(err, unix.ESRCH) {
			o.dropped++
		}
		return sandbox.Touch{}, false
	}
	if name == "" {
		return sandbox.Touch{}, false // it is about a descriptor
	}
	if !strings.HasPrefix(name, "/") {
		base, ok := o.base(int(n.PID), how, n)
		if !ok {
			o.dropped++
			return sandbox.Touch{}, false
		}
		name = base + "/" + name
	}
	a := sandbox.Touch{Use: how.use, Path: path.Clean(name), Named: how.named}
	if how.flags >= 0 {
		a.Use = opened(n.Args[how.flags])
		how.link = n.Args[how.flags]&unix.O_NOFOLLOW != 0
	}
	if o.root < 0 {
		var err error
		if o.root, err = unix.Open(fmt.Sprintf("/proc/%d/root", n.PID), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
			o.root = -1
			return a, true
		}
	}
	o.resolve(&a, name, how.link)
	a.Named = a.Named || a.Use == sandbox.Wrote && !a.Exists
	a.Folder = a.Folder || how.mkdir
	return a, true
}

// opened is the use of a path by an open with these flags.
func opened(flags uint64) sandbox.Use {
	switch {
	case flags&unix.O_PATH != 0:
		return sandbox.Looked
	case flags&unix.O_ACCMODE != unix.O_RDONLY, flags&(unix.O_CREAT|unix.O_TRUNC) != 0:
		return sandbox.Wrote
	}
	return sandbox.Read
}

// base is the folder that a relative path starts from, inside the sandbox.
func (o *observer) base(pid int, how named, n *supervisor.Notification) (string, bool) {
	link := fmt.Sprintf("/proc/%d/cwd", pid)
	if how.at >= 0 {
		if fd := int32(uint32(n.Args[how.at])); fd != unix.AT_FDCWD {
			link = fmt.Sprintf("/proc/%d/fd/%d", pid, fd)
		}
	}
	dir, err := os.Readlink(link)
	return dir, err == nil && filepath.IsAbs(dir)
}

// resolve finds what a path leads to, by the sandbox's own file tree. Nothing is
// opened: an O_PATH descriptor has no effect on what it stands for.
func (o *observer) resolve(a *sandbox.Touch, name string, link bool) {
	flags := uint64(unix.O_PATH | unix.O_CLOEXEC)
	if link {
		flags |= unix.O_NOFOLLOW
	}
	how := unix.OpenHow{Flags: flags, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	fd, err := unix.Openat2(o.root, name, &how)
	if err == nil {
		defer func() { _ = unix.Close(fd) }() // only looked at
		var st unix.Stat_t
		a.Exists = true
		a.Folder = unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR
		a.Real = whereIs(fd)
		return
	}
	how.Flags = unix.O_PATH | unix.O_CLOEXEC | unix.O_DIRECTORY
	if fd, err = unix.Openat2(o.root, path.Dir(strings.TrimRight(name, "/")), &how); err == nil {
		defer func() { _ = unix.Close(fd) }() // only looked at
		if dir := whereIs(fd); dir != "" {
			a.Real = path.Join(dir, path.Base(name))
		}
	}
}

// whereIs is the path of a descriptor of the sandbox's tree, in that tree.
func whereIs(fd int) string {
	p, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil || !filepath.IsAbs(p) {
		return ""
	}
	return p
}
