//go:build linux && (amd64 || arm64)

package linux

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/sandbox/spawn"
)

// overlayOptions hold for every overlay, whoever mounts it: its notes are
// extended attributes that an ordinary user may set, and nothing in the upper
// layer can point elsewhere. It is volatile: an unmount does not wait for the
// whole disk; who keeps the upper layer syncs it, and takes the mark that the
// kernel leaves in the work folder away before it is mounted again.
var overlayOptions = [][2]string{{"userxattr", ""}, {"volatile", ""}, {"xino", "off"}, {"index", "off"}, {"metacopy", "off"}}

// Numbers of the descriptors that a program holds an overlay's folders at.
const (
	lowerFD = 61
	upperFD = 62
	workFD  = 63
)

// Overlay mounts folder upper (with work beside it on the same file system)
// over folder lower and returns the root of both together. The mount is
// attached nowhere: it lasts as long as the descriptor and files opened
// through it. The paths must be free of links.
func (b *Box) Overlay(lower, upper, work string) (int, error) {
	return b.mountOverlay(lower, upper, work)
}

// look is Overlay to look at only: nothing can be written through it, and it is
// no other overlay's concern.
func (b *Box) look(lower, upper string) (int, error) { return b.mountOverlay(lower, upper, "") }

func (b *Box) mountOverlay(lower, upper, work string) (int, error) {
	var fds []int
	defer func() {
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
	}()
	paths := [3]string{lower, upper, work}
	for _, p := range paths {
		if p == "" {
			break
		}
		fd, err := unix.Openat2(unix.AT_FDCWD, p, &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC,
			Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS})
		if err != nil {
			return -1, fault.Wrap(fault.SandboxMissing, err, "the folder %q cannot be held as a layer: %v", p, err)
		}
		fds = append(fds, fd)
	}
	root, err := overlayHere(fds)
	if errors.Is(err, unix.EPERM) {
		root, err = b.overlayThere(paths)
	}
	if err != nil {
		return -1, noOverlay(lower, upper, err)
	}
	return root, nil
}

// overlayStrings says what to mount of the folders at descriptors: two only to
// look at, or three.
func overlayStrings(fds []int) [][2]string {
	at := func(i int) string { return fmt.Sprintf("/proc/self/fd/%d", fds[i]) }
	if len(fds) == 2 {
		return [][2]string{{"lowerdir", at(1) + ":" + at(0)}, {"userxattr", ""}, {"xino", "off"}}
	}
	return append([][2]string{{"lowerdir", at(0)}, {"upperdir", at(1)}, {"workdir", at(2)}}, overlayOptions...)
}

// noOverlay explains why the layers cannot be put together.
func noOverlay(lower, upper string, err error) error {
	var coded *fault.Error
	if errors.As(err, &coded) {
		return err
	}
	return fault.Wrap(fault.SandboxMissing, err, "the changes to %q cannot be held in %q: %v", lower, upper, err).
		WithHint("both must be on file systems that overlayfs takes (ext4, xfs, btrfs or tmpfs, not overlay or a network's for REMIT_HOME), and the kernel must be 5.11 or newer with overlayfs for user namespaces")
}

// overlayHere mounts with this process's own privileges.
func overlayHere(fds []int) (root int, err error) {
	fs, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer func() { _ = unix.Close(fs) }()
	for _, o := range overlayStrings(fds) {
		set := func() error { return unix.FsconfigSetString(fs, o[0], o[1]) }
		if o[1] == "" {
			set = func() error { return unix.FsconfigSetFlag(fs, o[0]) }
		}
		if err := set(); err != nil {
			return -1, fmt.Errorf("option %s: %w%s", o[0], err, said(fs))
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, fmt.Errorf("overlay: %w%s", err, said(fs))
	}
	return unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
}

// said is what the kernel tells of a failed mount.
func said(fs int) string {
	buf := make([]byte, 1024)
	n, err := unix.Read(fs, buf)
	if err != nil || n < 3 {
		return ""
	}
	return " (" + strings.TrimSpace(string(buf[2:n])) + ")"
}

// overlayThere has the spawner mount in a user namespace of its own and hand
// the mount back: an ordinary user may do no more.
func (b *Box) overlayThere(paths [3]string) (int, error) {
	sp, err := b.ready()
	if err != nil {
		return -1, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer func() { _, _ = unix.Close(pair[0]), unix.Close(pair[1]) }()
	child, err := sp.Spawn(overlayProgram(os.Geteuid(), os.Getegid(), paths), unix.CLONE_NEWUSER|unix.CLONE_NEWNS|unix.CLONE_NEWUTS, [3]int{pair[1], pair[1], pair[1]})
	if err != nil {
		return -1, notStarted(err)
	}
	exit := child.Wait()
	if exit.Failed != "" {
		return -1, fmt.Errorf("%s: %w", exit.Failed, exit.Errno)
	}
	oob := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(pair[0], make([]byte, 1), oob, unix.MSG_CMSG_CLOEXEC|unix.MSG_DONTWAIT)
	if err != nil {
		return -1, err
	}
	msgs, err := unix.ParseSocketControlMessage(oob[:n])
	if err == nil && len(msgs) == 1 {
		var got []int
		if got, err = unix.ParseUnixRights(&msgs[0]); err == nil && len(got) == 1 {
			return got[0], nil
		}
	}
	return -1, errors.Join(errors.New("the mount was not handed over"), err)
}

// overlayProgram mounts an overlay and sends its root over standard input.
func overlayProgram(uid, gid int, paths [3]string) *spawn.Program {
	b := &builder{Program: spawn.NewProgram(64), m: machine{uid: uid, gid: gid}}
	b.fd, b.fs = b.Reg(), b.Reg()
	b.Call("status", unix.SYS_DUP3, spawn.From(spawn.RegStatus), spawn.Int(spawn.StatusFD), spawn.Int(unix.O_CLOEXEC))
	b.Call("parent death", unix.SYS_PRCTL, spawn.Int(unix.PR_SET_PDEATHSIG), spawn.Int(int(unix.SIGKILL)))
	b.identity()
	root := b.overlay(paths)
	msg := b.handOver(root)
	b.Call("hand over the overlay", unix.SYS_SENDMSG, spawn.From(spawn.RegStdin), spawn.At(msg), none)
	b.Fork()
	b.Call("end", unix.SYS_EXIT_GROUP, none)
	return b.Program
}

// handOver lays out a message of one byte with the descriptor beside it.
func (b *builder) handOver(fd spawn.Reg) spawn.Ref {
	oob := unix.UnixRights(0)
	at := b.Bytes(oob)
	b.Poke(at+spawn.Ref(unix.CmsgLen(0)), fd)
	body := b.Bytes([]byte{0})
	vec := spawn.Object(b.Program, unix.Iovec{Len: 1})
	b.Pointer(vec, body)
	h := unix.Msghdr{Iovlen: 1, Controllen: uint64(len(oob))}
	msg := spawn.Object(b.Program, h)
	b.Pointer(msg+spawn.Ref(unsafe.Offsetof(h.Iov)), vec)
	b.Pointer(msg+spawn.Ref(unsafe.Offsetof(h.Control)), at)
	return msg
}

// overlay mounts lower, upper and work folder, detached, and gives the register
// that holds the root.
func (b *builder) overlay(paths [3]string) spawn.Reg {
	fds := []int{lowerFD, upperFD, workFD}
	if paths[2] == "" {
		fds = fds[:2]
	}
	for i, fd := range fds {
		step := fmt.Sprintf("bind %q", paths[i])
		b.open(step, b.fs, cwd, paths[i], unix.O_DIRECTORY, unix.RESOLVE_NO_SYMLINKS|unix.RESOLVE_NO_MAGICLINKS)
		b.Call(step, unix.SYS_DUP3, spawn.From(b.fs), spawn.Int(fd), spawn.Int(unix.O_CLOEXEC))
		b.Call(step, unix.SYS_CLOSE, spawn.From(b.fs))
	}
	b.Save("overlay", b.fs, unix.SYS_FSOPEN, b.Text("overlay"), spawn.Int(unix.FSOPEN_CLOEXEC))
	for _, o := range overlayStrings(fds) {
		if o[1] == "" {
			b.Call("overlay "+o[0], unix.SYS_FSCONFIG, spawn.From(b.fs), spawn.Int(unix.FSCONFIG_SET_FLAG), b.Text(o[0]), none, none)
			continue
		}
		b.Call("overlay "+o[0], unix.SYS_FSCONFIG, spawn.From(b.fs), spawn.Int(unix.FSCONFIG_SET_STRING), b.Text(o[0]), b.Text(o[1]), none)
	}
	b.Call("overlay", unix.SYS_FSCONFIG, spawn.From(b.fs), spawn.Int(unix.FSCONFIG_CMD_CREATE), none, none, none)
	root := b.Save("overlay", b.Reg(), unix.SYS_FSMOUNT, spawn.From(b.fs), spawn.Int(unix.FSMOUNT_CLOEXEC), spawn.Int(unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV))
	b.Call("overlay", unix.SYS_CLOSE, spawn.From(b.fs))
	return root
}
