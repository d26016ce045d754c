//go:build linux && (amd64 || arm64)

package linux

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// A large survey is kept in a file of Remit's own folder, for other processes. It saves them
// the listing of folders and nothing else: like a survey that this process remembers, it is
// compared with each folder's [stamp] before each command, so that a name made since is found.
// A file that cannot be read, or does not belong to exactly this chain, user, program, mount
// namespace and boot, is not used.

// keepFrom is the number of folders that a survey must have listed to be kept.
const keepFrom = 1000

// maxKept bounds the size of the file.
const maxKept = 64 << 20

// maxKeptFiles bounds how many are there.
const maxKeptFiles = 8

func (b *Box) keptFolder() string { return filepath.Join(b.conf.State, "surveys") }

// keptFile is where the survey for a command is kept, and the key that it must have. ok is
// false if it cannot be kept.
func (b *Box) keptFile(in *sandbox.Inputs, system []sandbox.Mount) (file string, key [sha256.Size]byte, ok bool) {
	chain, ok := in.Chain.FilesDigest()
	if !ok || b.conf.State == "" {
		return "", key, false
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	var namespace, program unix.Stat_t
	err = errors.Join(err, unix.Stat("/proc/self/ns/mnt", &namespace), unix.Stat("/proc/self/exe", &program))
	groups, gerr := os.Getgroups()
	if errors.Join(err, gerr) != nil {
		return "", key, false
	}
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "1 %x %q %d %d %v %d %d %d %d %v %q", chain, boot, os.Geteuid(), os.Getegid(), groups,
		namespace.Ino, program.Dev, program.Ino, program.Size, program.Ctim, in.State) // a hash takes everything
	for _, m := range system {
		_, _ = fmt.Fprintf(h, " %q", m.Path)
	}
	h.Sum(key[:0])
	return filepath.Join(b.keptFolder(), hex.EncodeToString(key[:16])), key, true
}

// readKept gives the folders of a kept survey; nil: there is none that can be used.
func (b *Box) readKept(in *sandbox.Inputs, system []sandbox.Mount) []*folder {
	if _, err := os.Lstat(b.keptFolder()); err != nil {
		return nil
	}
	file, key, ok := b.keptFile(in, system)
	if !ok {
		return nil
	}
	data, err := wholefile.ReadRegular(file, maxKept)
	if err != nil || len(data) < 2*sha256.Size {
		return nil
	}
	sum, body := data[:sha256.Size], data[sha256.Size:]
	if sha256.Sum256(body) != [sha256.Size]byte(sum) || [sha256.Size]byte(body) != key {
		return nil
	}
	d := decoder{rest: body[sha256.Size:]}
	trees := d.folders()
	if d.failed || len(d.rest) > 0 {
		return nil
	}
	return trees
}

// writeKept keeps a survey. It is only a saving for other processes, so that an error ends it
// without a word: the next one looks for itself.
func (b *Box) writeKept(in *sandbox.Inputs, system []sandbox.Mount, trees []*folder) {
	file, key, ok := b.keptFile(in, system)
	if !ok {
		return
	}
	body := appendFolders(key[:], trees)
	dir := filepath.Dir(file)
	if len(body) > maxKept-sha256.Size || os.MkdirAll(dir, 0o700) != nil {
		return
	}
	sum := sha256.Sum256(body)
	if wholefile.Replace(file, append(sum[:], body...)) != nil {
		return
	}
	type aged struct {
		name    string
		written int64
	}
	var all []aged
	entries, _ := os.ReadDir(dir) // as many as can be read
	for _, e := range entries {
		if fi, err := e.Info(); err == nil {
			all = append(all, aged{e.Name(), fi.ModTime().UnixNano()})
		}
	}
	slices.SortFunc(all, func(a, b aged) int { return cmp.Compare(b.written, a.written) }) // the newest first
	for _, old := range all[min(len(all), maxKeptFiles):] {
		_ = os.Remove(filepath.Join(dir, old.name)) // another process may have removed it
	}
}

// The flags of a folder in the file.
const (
	isSystem = 1 << iota
	isListed
	isAlike
	isWhole
	isStamped
)

func (f *folder) flags() (flags uint64) {
	for bit, set := range map[uint64]bool{isSystem: f.system, isListed: f.listed, isAlike: f.alike, isWhole: f.whole, isStamped: f.stamp != stamp{}} {
		if set {
			flags |= bit
		}
	}
	return flags
}

func appendFolders(b []byte, list []*folder) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, f := range list {
		b = appendName(b, f.name, f.kind)
		b = binary.AppendUvarint(b, f.flags())
		b = binary.AppendUvarint(b, f.rating.Pack())
		if s := f.stamp; s != (stamp{}) {
			b = binary.AppendVarint(b, s.changed.Sec)
			for _, n := range []uint64{uint64(s.changed.Nsec), s.ino, s.mount, uint64(s.major), uint64(s.minor)} {
				b = binary.AppendUvarint(b, n)
			}
		}
		b = binary.AppendUvarint(b, uint64(len(f.others)))
		for _, o := range f.others {
			b = appendName(b, o.name, o.kind)
		}
		b = appendFolders(b, f.folders)
	}
	return b
}

func appendName(b []byte, name string, kind sandbox.NodeKind) []byte {
	b = binary.AppendUvarint(b, uint64(len(name)))
	return append(append(b, name...), byte(kind))
}

// decoder reads what appendFolders wrote. Once something is wrong, it gives zero values.
type decoder struct {
	rest   []byte
	failed bool
}

func (d *decoder) fail() {
	d.failed, d.rest = true, nil
}

func (d *decoder) uint() uint64 {
	n, size := binary.Uvarint(d.rest)
	if size <= 0 {
		d.fail()
		return 0
	}
	d.rest = d.rest[size:]
	return n
}

func (d *decoder) int() int64 {
	n, size := binary.Varint(d.rest)
	if size <= 0 {
		d.fail()
		return 0
	}
	d.rest = d.rest[size:]
	return n
}

// count reads how many values follow, of which each takes at least one byte.
func (d *decoder) count() int {
	n := d.uint()
	if n > uint64(len(d.rest)) {
		d.fail()
		return 0
	}
	return int(n)
}

func (d *decoder) name() (string, sandbox.NodeKind) {
	n := d.count()
	if n >= len(d.rest) {
		d.fail()
		return "", 0
	}
	name, kind := string(d.rest[:n]), sandbox.NodeKind(d.rest[n])
	d.rest = d.rest[n+1:]
	return name, kind
}

func (d *decoder) folders() []*folder {
	var list []*folder
	for range d.count() {
		f := &folder{}
		f.name, f.kind = d.name()
		flags := d.uint()
		f.system, f.listed, f.alike, f.whole = flags&isSystem != 0, flags&isListed != 0, flags&isAlike != 0, flags&isWhole != 0
		f.rating = sandbox.UnpackRating(d.uint())
		if flags&isStamped != 0 {
			f.stamp.changed.Sec, f.stamp.changed.Nsec = d.int(), uint32(d.uint())
			f.stamp.ino, f.stamp.mount = d.uint(), d.uint()
			f.stamp.major, f.stamp.minor = uint32(d.uint()), uint32(d.uint())
		}
		for range d.count() {
			var o other
			o.name, o.kind = d.name()
			f.others = append(f.others, o)
		}
		f.folders = d.folders()
		if d.failed || strings.Contains(f.name, "\x00") {
			d.fail()
			return nil
		}
		list = append(list, f)
	}
	return list
}
