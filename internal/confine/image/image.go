// Package image unpacks container images, so that commands can run with an image's
// programs and libraries in the place of the machine's. No container engine runs them: the
// files of an image are the system of Remit's own sandbox.
//
// Start at [Unpack].
package image

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/walk"
)

// Bounds of one unpacked image.
const (
	maxBytes = 64 << 30
	maxFiles = 5_000_000
)

// Image is the description that an image has of itself.
type Image struct {
	// ID is the digest of the image's configuration, "sha256:" and 64 hexadecimal digits:
	// what container engines list as IMAGE ID. It commits to every layer, and stays the same
	// when an image is saved and loaded.
	ID string
	// Manifest is the digest of its manifest: what registries pin an image by. It differs
	// between copies that are compressed in another way; "" for an archive without one.
	Manifest string
	OS, Arch string   // as "linux", "amd64"
	Env      []string // NAME=VALUE
	Size     int64    // bytes of the unpacked files
	Files    int
}

// Unpack reads an image from an OCI layout (a folder), or from an archive as `docker save`
// and `podman save` write it, verifies every digest, and unpacks its files into the new
// folder to. On an error, the folder may hold a part.
//
// The layers are applied as the OCI image specification says, "Representing Changes". Owners,
// devices and extended attributes are left out, and so are the bits that change the user.
func Unpack(from, to string) (Image, error) {
	src, err := openSource(from)
	if err == nil {
		defer src.close()
	}
	var d description
	if err == nil {
		d, err = describe(src)
	}
	if err != nil {
		return Image{}, fault.Wrap(fault.Usage, err, "%q is no image: %v", from, err).
			WithHint("name a file that `podman save -o FILE IMAGE` or `docker save -o FILE IMAGE` wrote, or the folder of an OCI layout")
	}
	one, err := unpack(src, d, to)
	if err != nil {
		return Image{}, fault.Wrap(fault.ToolFailed, err, "the image in %q cannot be unpacked: %v", from, err)
	}
	return one, nil
}

func unpack(src source, d description, to string) (Image, error) {
	if err := os.Mkdir(to, 0o700); err != nil {
		return Image{}, err
	}
	root, err := os.OpenRoot(to)
	if err != nil {
		return Image{}, err
	}
	defer func() { _ = root.Close() }() // all files written through it are closed
	u := unpacker{root: root}
	for i, name := range d.layers {
		if err := u.layer(src, name, d.config.RootFS.DiffIDs[i]); err != nil {
			return Image{}, fmt.Errorf("layer %d: %w", i+1, err)
		}
	}
	if err := u.close(); err != nil {
		return Image{}, err
	}
	return Image{ID: d.id, Manifest: d.manifest, OS: d.config.OS, Arch: d.config.Architecture, Env: d.config.Config.Env, Size: u.bytes, Files: u.files}, nil
}

// unpacker applies layers, one over the other. Every name goes through root, which no link
// leads out of.
type unpacker struct {
	root  *os.Root
	bytes int64
	files int
	modes map[string]fs.FileMode // of folders, set in the end: earlier, they could make a folder read-only
}

// layer applies one layer, and compares its digest.
func (u *unpacker) layer(src source, name, want string) error {
	f, err := src.open(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read
	plain, err := decompressed(f)
	if err != nil {
		return err
	}
	defer plain.Close()
	sum := newDigest()
	in := io.TeeReader(plain, sum)
	here := map[string]bool{} // what this layer made: its own whiteouts do not remove it
	for r := tar.NewReader(in); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if err := u.entry(h, r, here); err != nil {
			return fmt.Errorf("%q: %w", h.Name, err)
		}
	}
	if _, err := io.Copy(io.Discard, in); err != nil { // the padding counts, too
		return err
	}
	if got := sum.String(); got != want {
		return fmt.Errorf("its content has the digest %s, and the configuration says %s", got, want)
	}
	return nil
}

// The names that remove what layers below made.
const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
)

func (u *unpacker) entry(h *tar.Header, r io.Reader, here map[string]bool) error {
	name := path.Clean(strings.TrimPrefix(path.Clean("/"+h.Name), "/")) // "..", too, ends at the root
	dir, base := path.Split(name)
	dir = path.Clean(dir)
	switch {
	case name == ".":
		return nil
	case base == opaque:
		return u.empty(dir, here)
	case strings.HasPrefix(base, whiteout):
		return u.remove(path.Join(dir, strings.TrimPrefix(base, whiteout)))
	}
	if u.files++; u.files > maxFiles {
		return fmt.Errorf("the image has more than %d files", maxFiles)
	}
	for at := name; at != "."; at = path.Dir(at) {
		here[at] = true
	}
	if err := u.root.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return u.put(h, name, r)
}

// empty removes what layers below put into a folder.
func (u *unpacker) empty(dir string, here map[string]bool) error {
	f, err := u.root.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read
	names, err := walk.Names(context.Background(), f, &walk.Budget{Names: maxFiles, Bytes: walk.Most().Bytes})
	for _, name := range names {
		if at := path.Join(dir, name); err == nil && !here[at] {
			err = u.remove(at)
		}
	}
	return err
}

// remove removes a name with all that is in it.
func (u *unpacker) remove(at string) error {
	dir, err := u.root.OpenRoot(path.Dir(at))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }() // only used
	return walk.RemoveIn(dir, path.Base(at))
}

// put makes one name. A folder that is there stays, everything else is replaced.
func (u *unpacker) put(h *tar.Header, name string, r io.Reader) error {
	mode := fs.FileMode(h.Mode) & fs.ModePerm
	st, err := u.root.Lstat(name)
	there := err == nil
	if h.Typeflag == tar.TypeDir {
		if u.modes == nil {
			u.modes = map[string]fs.FileMode{}
		}
		u.modes[name] = mode | 0o500
		if there && st.IsDir() {
			return nil
		}
	}
	if there {
		if err := u.remove(name); err != nil {
			return err
		}
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return u.root.Mkdir(name, 0o755)
	case tar.TypeReg:
		return u.file(h, name, mode|0o400, r)
	case tar.TypeSymlink:
		return u.root.Symlink(h.Linkname, name) // inside, it means a path of the image
	case tar.TypeLink:
		return u.root.Link(strings.TrimPrefix(path.Clean("/"+h.Linkname), "/"), name)
	}
	return nil // devices and pipes: the sandbox has its own
}

func (u *unpacker) file(h *tar.Header, name string, mode fs.FileMode, r io.Reader) error {
	if u.bytes += h.Size; u.bytes > maxBytes {
		return fmt.Errorf("the image has more than %d GiB", maxBytes>>30)
	}
	w, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, r)
	return errors.Join(err, w.Chmod(mode), w.Close())
}

// close gives the folders that are left their modes, the innermost first.
func (u *unpacker) close() error {
	names := make([]string, 0, len(u.modes))
	for n := range u.modes {
		names = append(names, n)
	}
	slices.Sort(names)
	slices.Reverse(names)
	for _, n := range names {
		st, err := u.root.Lstat(n)
		if err != nil || !st.IsDir() {
			continue // a layer above removed it
		}
		if err := u.root.Chmod(n, u.modes[n]); err != nil {
			return err
		}
	}
	return nil
}

// Remove removes the folder of an unpacked image, also where its folders are read-only.
func Remove(dir string) error { return walk.Remove(dir) }
