//go:build linux && (amd64 || arm64)

package linux

import (
	"encoding/binary"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/sandbox/spawn"
)

// What Landlock knows of files, by the ABI version that brought it.
const (
	fsRead = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	// fsWrite: devices are never made; their rights are handled and never given.
	fsWrite = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_REFER | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	fsRemove = unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE
	fsABI1   = 1<<13 - 1
	fsFile   = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
)

type landlockAttr struct{ FS, Net, Scoped uint64 }

// landlockHandled is all that an ABI version can restrict, and how long the
// attribute is that says so.
func landlockHandled(abi int) (a landlockAttr, size uintptr) {
	a.FS, size = fsABI1, 8
	if abi >= 2 {
		a.FS |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if abi >= 3 {
		a.FS |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if abi >= 5 {
		a.FS |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	if abi >= 6 {
		a.Scoped, size = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET|unix.LANDLOCK_SCOPE_SIGNAL, 24
	}
	return a, size
}

// ruleset makes an empty set of rules.
func (b *builder) ruleset() spawn.Reg {
	handled, size := landlockHandled(b.m.landlockABI)
	return b.Save("Landlock", b.Reg(), unix.SYS_LANDLOCK_CREATE_RULESET, spawn.At(spawn.Object(b.Program, handled)), spawn.Int(size), none)
}

// rule allows an access to a file, or to a folder with its content. A link that was put on
// the way since the path was decided on fails the start.
func (b *builder) rule(rs spawn.Reg, path string, access uint64, folder bool) {
	b.open("Landlock", b.fd, cwd, path, 0, unix.RESOLVE_NO_SYMLINKS|unix.RESOLVE_NO_MAGICLINKS)
	b.allow(rs, access, folder)
}

// allow adds the rule for what b.fd names, and closes it.
func (b *builder) allow(rs spawn.Reg, access uint64, folder bool) {
	if !folder {
		access &= fsFile
	}
	handled, _ := landlockHandled(b.m.landlockABI)
	attr := make([]byte, 16) // packed: 8 bytes of access, 4 of descriptor
	binary.NativeEndian.PutUint64(attr, access&handled.FS)
	at := b.Bytes(attr)
	b.Poke(at+8, b.fd)
	b.Call("Landlock", unix.SYS_LANDLOCK_ADD_RULE, spawn.From(rs), spawn.Int(unix.LANDLOCK_RULE_PATH_BENEATH), spawn.At(at), none)
	b.Call("Landlock", unix.SYS_CLOSE, spawn.From(b.fd))
}

// rights is the access to a mount in Landlock's terms.
func rights(m sandbox.Mount) uint64 {
	var access uint64
	if m.Access&sandbox.ReadOnly != 0 {
		access |= fsRead
	}
	if m.Access&sandbox.WriteOnly != 0 {
		access |= fsWrite
	}
	if m.Keeps {
		access &^= fsRemove
	}
	return access
}

// landlock makes the rules. The mounts already say the same; this is the second
// wall, and the only one between reading and writing where both could be had.
func (b *builder) landlock() spawn.Reg {
	rs := b.ruleset()
	rule := func(path string, access uint64, folder bool) { b.rule(rs, path, access, folder) }
	tmp := uint64(fsRead | fsWrite)
	if slices.ContainsFunc(b.p.Mounts, func(m sandbox.Mount) bool { return m.Keeps && sandbox.Within(m.Path, "/tmp") }) {
		tmp &^= fsRemove // rights in /tmp would hold in that folder, too
		rule(sandbox.HomeAt, fsRemove, true)
	}
	rule("/tmp", tmp, true)
	rule("/proc", unix.LANDLOCK_ACCESS_FS_READ_FILE|unix.LANDLOCK_ACCESS_FS_READ_DIR, true)
	rule("/etc", fsRead, true)
	rule("/dev", unix.LANDLOCK_ACCESS_FS_READ_FILE|unix.LANDLOCK_ACCESS_FS_WRITE_FILE|unix.LANDLOCK_ACCESS_FS_READ_DIR|unix.LANDLOCK_ACCESS_FS_IOCTL_DEV, true)
	if !slices.ContainsFunc(b.p.Mounts, func(m sandbox.Mount) bool { return m.Access == sandbox.WriteOnly }) {
		rule("/", unix.LANDLOCK_ACCESS_FS_READ_DIR, true)
	}
	for _, m := range b.p.Mounts {
		if m.Kind != sandbox.Bind || m.Link || m.System && sandbox.Within(m.Path, "/etc") {
			continue
		}
		rule(m.Path, rights(m), m.Folder)
	}
	for _, dir := range b.p.Removable {
		rule(dir, fsRemove, true)
	}
	return rs
}

// landlockABI asks the kernel for its version; 0: there is none.
func landlockABI() int {
	v, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if e != 0 {
		return 0
	}
	return int(v)
}
