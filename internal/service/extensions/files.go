package extensions

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/walk"
	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/tools/extension"
)

// readExtensionSource reads the files of an extension: a folder, or a zip archive.
// It also gives the bytes of the archive, nil for a folder.
func readExtensionSource(path string) (files []extension.File, archive []byte, err error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, nil, fault.Wrap(fault.Usage, err, "%q cannot be read: %v", path, wholefile.Cause(err)).WithHint("expected the folder of an extension, or a zip archive of one, such as ./my-extension")
	}
	if st.IsDir() {
		files, err = readExtensionFolder(path, "")
		return files, nil, err
	}
	archive, err = wholefile.ReadRegular(path, extension.MaxArchive)
	if err != nil {
		return nil, nil, fault.Wrap(fault.Usage, err, "%q cannot be read: %v", path, wholefile.Cause(err)).WithHint("expected the folder of an extension, or a zip archive of one, such as ./my-extension")
	}
	files, err = extension.Unzip(archive)
	return files, archive, err
}

// readExtensionFolder reads a folder's files, except the contents of the folder named besides. A
// kind of file that no extension has is an error that names it. Nothing is followed out of the
// folder.
func readExtensionFolder(folder, besides string) ([]extension.File, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, fault.Wrap(fault.ExtensionInvalid, err, "the folder %q cannot be read: %v", folder, wholefile.Cause(err))
	}
	defer func() { _ = root.Close() }() // only read
	if _, err := root.Lstat(extension.ManifestFile); errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.ExtensionInvalid, "%q is not an extension: it has no %s", folder, extension.ManifestFile).WithHint("name the folder that holds %s", extension.ManifestFile)
	}
	var entries extension.Entries
	var out []extension.File
	var failed error
	w := walk.Walk{Top: folder, Names: extension.MaxFiles + 1, Sort: walk.Most()}
	w.Visit = func(in *walk.Folder, name string, kind fs.FileMode) (enter bool, err error) {
		switch name = in.At(name); {
		case besides != "" && name == besides && kind.IsDir():
			return false, nil
		case kind.IsDir():
			return true, entries.Folder(name)
		}
		f, err := readExtensionFile(root, name, &entries)
		out = append(out, f)
		return false, err
	}
	w.Skipped = func(at string, why error) {
		if failed = fault.Wrap(fault.ExtensionInvalid, why, "%q cannot be read: %v", at, wholefile.Cause(why)); errors.Is(why, walk.ErrMany) {
			failed = fault.New(fault.ExtensionUnsafe, "it has more than %d files", extension.MaxFiles)
		}
	}
	err = w.Down(context.Background(), root)
	return out, cmp.Or(err, failed)
}

func readExtensionFile(root *os.Root, name string, entries *extension.Entries) (extension.File, error) {
	info, err := root.Lstat(name)
	switch {
	case err != nil:
		return extension.File{}, fault.Wrap(fault.ExtensionInvalid, err, "%q cannot be read: %v", name, wholefile.Cause(err))
	case info.Mode()&fs.ModeSymlink != 0:
		return extension.File{}, extension.Unsafe(name, "it is a link")
	case !info.Mode().IsRegular():
		return extension.File{}, extension.Unsafe(name, "it is neither a file nor a folder")
	case info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0:
		return extension.File{}, extension.Unsafe(name, "its mode %s gives it more than files have", info.Mode())
	}
	if err := entries.File(name, info.Size()); err != nil {
		return extension.File{}, err
	}
	f, err := root.Open(name)
	if err != nil {
		return extension.File{}, fault.Wrap(fault.ExtensionInvalid, err, "%q cannot be read: %v", name, wholefile.Cause(err))
	}
	data, err := io.ReadAll(io.LimitReader(f, info.Size()+1))
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil && int64(len(data)) != info.Size() {
		err = errors.New("it changed while it was read")
	}
	if err != nil {
		return extension.File{}, fault.Wrap(fault.ExtensionInvalid, err, "%q cannot be read: %v", name, wholefile.Cause(err))
	}
	return extension.File{Name: name, Data: data}, nil
}

// stageExtension writes an extension's files, and its empty work folder, to a new folder beside
// Remit's home: no confined process ever sees the contents of the home, and a plan that runs at
// installation works here. It has no links in its path.
func (x *Extensions) stageExtension(p *extension.Package) (dir string, err error) {
	beside := x.stageFolder()
	if err = os.MkdirAll(beside, 0o700); err == nil {
		dir, err = os.MkdirTemp(beside, p.Manifest.ID+"-*")
	}
	if err == nil {
		err = os.Chmod(dir, 0o755) // confined programs have other users; nobody gets this far from outside
	}
	for _, f := range p.Files {
		if err == nil {
			err = writeStaged(filepath.Join(dir, filepath.FromSlash(f.Name)), f)
		}
	}
	if err == nil {
		err = os.Mkdir(filepath.Join(dir, extension.WorkFolder), 0o755)
	}
	if err != nil {
		if dir != "" {
			err = errors.Join(err, walk.Remove(dir))
		}
		return "", fault.Wrap(fault.StoreFailed, err, "the extension cannot be written to %s: %v", beside, wholefile.Cause(err))
	}
	return dir, nil
}

func (x *Extensions) stageFolder() string { return home.RealPath(x.Home.Dir) + "-ext" }

func writeStaged(file string, f extension.File) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	mode := fs.FileMode(0o644)
	if f.Executable() {
		mode = 0o755
	}
	out, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = out.Write(f.Data)
	return errors.Join(err, out.Chmod(mode), out.Sync(), out.Close())
}

// oldPrefix begins the name of an extension's folder while another takes its place.
const oldPrefix = ".old-"

// swapExtension puts a staged extension in its place. In an update the contents of the work folder
// stay, except for files that the new one's plan put there.
func (x *Extensions) swapExtension(id, staged string, update bool) error {
	root := x.extensionRoot(id)
	old := filepath.Join(filepath.Dir(root), oldPrefix+id)
	_, err := os.Lstat(root)
	there := err == nil
	if there && update {
		if err := keepWork(filepath.Join(root, extension.WorkFolder), filepath.Join(staged, extension.WorkFolder)); err != nil {
			return err
		}
	}
	if there {
		if err := os.Rename(root, old); err != nil {
			return err
		}
	}
	if err := os.Rename(staged, root); err != nil {
		if there {
			err = errors.Join(err, os.Rename(old, root))
		}
		return err
	}
	return nil
}

// keepWork moves the contents of a work folder to another, where the name is free.
func keepWork(from, to string) error {
	f, err := os.Open(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read
	names, err := walk.Names(context.Background(), f, walk.Most())
	if err != nil {
		return err
	}
	for _, name := range names {
		target := filepath.Join(to, name)
		if _, err := os.Lstat(target); err == nil {
			continue
		}
		if err := os.Rename(filepath.Join(from, name), target); err != nil {
			return err
		}
	}
	return nil
}

// mendExtensions completes or undoes an installation that was interrupted: the old folder is
// put back unless the new one matches the list. A folder that is not listed is ignored, and
// replaced when its ID is installed. The lock is held.
func (x *Extensions) mendExtensions(list []Extension) error {
	folder := filepath.Join(home.RealPath(x.Home.Dir), extensionsFolder)
	entries, err := os.ReadDir(folder)
	if err != nil {
		return fault.Wrap(fault.StoreFailed, err, "%s cannot be read: %v", folder, wholefile.Cause(err))
	}
	for _, d := range entries {
		id, old := strings.CutPrefix(d.Name(), oldPrefix)
		path := filepath.Join(folder, d.Name())
		e, listed := home.Entry(list, id)
		switch {
		case old && listed:
			if _, lerr := x.loadExtension(e); lerr == nil {
				err = errors.Join(err, walk.Remove(path))
				continue
			}
			root := filepath.Join(folder, id)
			err = errors.Join(err, keepWork(filepath.Join(root, extension.WorkFolder), filepath.Join(path, extension.WorkFolder)), walk.Remove(root), os.Rename(path, root))
		case old:
			err = errors.Join(err, walk.Remove(path))
		}
	}
	if err != nil {
		return fault.Wrap(fault.StoreFailed, err, "what an installation left in %s cannot be cleared away: %v", folder, wholefile.Cause(err))
	}
	return nil
}
