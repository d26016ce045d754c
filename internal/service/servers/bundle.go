package servers

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/walk"
	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/tools/packages"
)

// Limits for a bundle: its size, and the size and number of its unpacked files.
const (
	maxBundle      = 256 << 20
	maxBundleBytes = 1 << 30
	maxBundleFiles = 50_000
)

// bundleIn is the folder of a bundle's files below that of its package.
const bundleIn = "bundle"

// bundle is an MCPB file that is about to be added.
type bundle struct {
	file     string
	digest   string // SHA-256, hexadecimal
	lock     []byte
	manifest *packages.Manifest
	folders  []string // that the person named
}

// ReadBundle reads the manifest of an MCPB or DXT file as a server of this name. Given has the
// answers that are known. Nothing is unpacked before the server is imported.
func (m *Servers) ReadBundle(ctx context.Context, file, name string, given map[string]string) (Imported, error) {
	i := Imported{Label: name}
	b := &bundle{file: file}
	var src []byte
	err := openBundle(file, func(f *os.File, size int64) (err error) {
		h := sha256.New()
		if _, err := io.Copy(h, io.NewSectionReader(f, 0, size)); err != nil {
			return err
		}
		b.digest = hex.EncodeToString(h.Sum(nil))
		r, err := zip.NewReader(f, size)
		if err != nil {
			return err
		}
		in, err := r.Open("manifest.json")
		if err != nil {
			return err
		}
		defer func() { _ = in.Close() }() // it was only read
		src, err = io.ReadAll(io.LimitReader(in, packages.MaxManifest+1))
		return err
	})
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return i, badBundle(file, err)
	}
	// Where it will be depends on its name and version, which its manifest tells.
	first, err := packages.ReadManifest(src, "/bundle", runtime.GOOS, given)
	if err != nil {
		return i, err
	}
	if b.lock, err = packages.LockBundle(first.Name, first.Version, b.digest); err != nil {
		return i, err
	}
	l, err := packages.DecodeLock(packages.Bundle, b.lock)
	if err != nil {
		return i, err
	}
	if b.manifest, err = packages.ReadManifest(src, filepath.Join(m.packageDir(l.Digest), bundleIn), runtime.GOOS, given); err != nil {
		return i, err
	}
	r := b.manifest.Recipe
	i.Server, i.bundle = Server{Name: name, Command: r.Command, Env: r.Env}, b
	known := map[string]Input{}
	for _, in := range r.Inputs {
		known[in.ID] = Input(in)
	}
	return i, i.needInputs(known)
}

func badBundle(file string, err error) error {
	if fault.CodeOf(err) != fault.Internal {
		return err
	}
	return fault.Wrap(fault.Usage, err, "the bundle %s cannot be read: %v", file, wholefile.Cause(err)).WithHint("expected an MCPB file: a zip archive with a manifest.json")
}

// openBundle has a file read that is regular and not too large.
func openBundle(file string, read func(f *os.File, size int64) error) error {
	st, err := os.Stat(file)
	if err != nil {
		return err
	}
	if !st.Mode().IsRegular() {
		return fault.New(fault.Usage, "%s is not a regular file", file)
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	if st, err = f.Stat(); err != nil {
		return err
	}
	if st.Size() > maxBundle {
		return fault.New(fault.Usage, "%s has more than %d MiB", file, maxBundle>>20)
	}
	return read(f, st.Size())
}

// take keeps the folders among the answers.
func (b *bundle) take(values map[string]string) {
	if b == nil {
		return
	}
	for _, id := range b.manifest.Folders {
		if value := values[id]; slices.Contains(b.manifest.Lists, id) {
			b.folders = append(b.folders, filepath.SplitList(value)...)
		} else if value != "" {
			b.folders = append(b.folders, value)
		}
	}
}

// several gives the words of an input with several values, if word is its place.
func (b *bundle) several(word string, values map[string]string) ([]string, bool) {
	if b == nil {
		return nil, false
	}
	for _, id := range b.manifest.Lists {
		if word == inputPlaceOf(id) {
			return filepath.SplitList(values[id]), true
		}
	}
	return nil, false
}

// keepBundle unpacks a bundle to where its files stay, and pins them for the server. The server may
// read and write the folders that the person named.
func (m *Servers) keepBundle(s *Server, b *bundle) error {
	l, err := packages.DecodeLock(packages.Bundle, b.lock)
	if err != nil {
		return err
	}
	for _, folder := range b.folders {
		dir, err := home.Workspace(folder)
		if err == nil && !filepath.IsAbs(folder) {
			err = fault.New(fault.Usage, "the folder %q is not absolute", clip.Text(folder, 200))
		}
		if err != nil {
			return err
		}
		if !slices.Contains(s.Paths, dir) {
			s.Paths = append(s.Paths, dir)
		}
	}
	p := &Package{
		Kind: packages.Bundle, Name: b.manifest.Name, Asked: b.manifest.Version, Version: b.manifest.Version, Lock: l.Digest, Count: 1,
		Program: path.Join(bundleIn, b.manifest.Program), Args: slices.Clone(s.Command),
	}
	if err := os.MkdirAll(m.packagesDir(), 0o700); err != nil {
		return badBundle(b.file, err)
	}
	err = m.Home.Locked("packages.lock", func() error {
		stale, err := filepath.Glob(filepath.Join(m.packagesDir(), ".unpack-*")) // of processes that died: the lock is held
		for _, dir := range stale {
			err = errors.Join(err, walk.Remove(dir))
		}
		if err != nil {
			return err
		}
		dir, err := os.MkdirTemp(m.packagesDir(), ".unpack-")
		if err != nil {
			return err
		}
		defer func() { _ = walk.Remove(dir) }() // the next one tries again
		if err := unpack(b, dir, maxBundleBytes); err != nil {
			return err
		}
		return m.moveFiles(filepath.Join(dir, bundleIn), b.lock, p)
	})
	s.Package = p
	return badBundleOrNil(b.file, err)
}

func badBundleOrNil(file string, err error) error {
	if err == nil {
		return nil
	}
	return badBundle(file, err)
}

// unpack copies a bundle into a folder, checks that it is the one whose manifest was read, and
// unpacks it there. Left is how many bytes its files may have.
func unpack(b *bundle, dir string, left int64) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	own, err := root.OpenFile("file", os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = own.Close() }() // it is a copy
	var size int64
	h := sha256.New()
	if err := openBundle(b.file, func(f *os.File, _ int64) error {
		size, err = io.Copy(io.MultiWriter(own, h), io.LimitReader(f, maxBundle+1))
		return err
	}); err != nil {
		return err
	}
	if hex.EncodeToString(h.Sum(nil)) != b.digest {
		return fault.New(fault.Conflict, "the bundle %s was changed while it was added", b.file).WithHint("add it again")
	}
	r, err := zip.NewReader(own, size)
	if err != nil {
		return err
	}
	if len(r.File) > maxBundleFiles {
		return fault.New(fault.Usage, "the bundle has more than %d files", maxBundleFiles)
	}
	if err := root.Mkdir(bundleIn, 0o700); err != nil {
		return err
	}
	in, err := root.OpenRoot(bundleIn)
	if err != nil {
		return err
	}
	defer in.Close()
	for _, f := range r.File {
		if err := unpackOne(in, f, f.Name == b.manifest.Program, &left); err != nil {
			return err
		}
	}
	st, err := in.Stat(b.manifest.Program)
	if err == nil && !st.Mode().IsRegular() {
		err = fault.New(fault.Usage, "its entry_point %q is not a file", clip.Text(b.manifest.Program, 60))
	}
	return err
}

// unpackOne unpacks one file or folder below root: no link, no name outside, none twice. Left is
// how many bytes all of them may still have.
func unpackOne(root *os.Root, f *zip.File, program bool, left *int64) error {
	refuse := func(why string) error {
		return fault.New(fault.Usage, "the bundle was refused: %q %s", clip.Text(f.Name, 100), why)
	}
	name := strings.TrimSuffix(f.Name, "/")
	if !filepath.IsLocal(name) || path.Clean(name) != name || strings.ContainsAny(name, "\\\x00") {
		return refuse("is not a name below the bundle")
	}
	mode := f.Mode()
	switch {
	case mode.IsDir():
		return root.MkdirAll(name, 0o700)
	case !mode.IsRegular():
		return refuse("is a link or a special file")
	}
	if dir := path.Dir(name); dir != "." {
		if err := root.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	perm := fs.FileMode(0o600)
	if program || mode&0o111 != 0 {
		perm = 0o700
	}
	out, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if errors.Is(err, fs.ErrExist) {
		return refuse("is there twice")
	}
	if err != nil {
		return err
	}
	in, err := f.Open()
	if err != nil {
		return errors.Join(err, out.Close())
	}
	n, err := io.Copy(out, io.LimitReader(in, *left+1))
	if err = errors.Join(err, in.Close(), out.Close()); err != nil {
		return err
	}
	if *left -= n; *left < 0 {
		return fault.New(fault.Usage, "the bundle is too large when it is unpacked; the limit is %d MiB", maxBundleBytes>>20)
	}
	return nil
}
