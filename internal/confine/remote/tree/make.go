package tree

import (
	"os"
	"path"
)

// Source gives what a tree consists of.
type Source interface {
	// List gives an encoded Directory, whose digest is checked.
	List(d Digest) ([]byte, error)
	// Link makes a file with a content below the root.
	Link(d Digest, mode uint32, root *os.Root, path string) error
}

// Make makes the tree of a digest in an empty folder.
func Make(root *os.Root, d Digest, from Source) error {
	m := &maker{root: root, from: from}
	return m.folder(d, "")
}

type maker struct {
	root  *os.Root
	from  Source
	names int
	bytes int64
}

func (m *maker) folder(d Digest, at string) error {
	b, err := m.from.List(d)
	if err != nil {
		return err
	}
	if DigestOf(b) != d {
		return invalid("a folder's list does not have its digest")
	}
	dir, err := decode(b)
	if err != nil {
		return err
	}
	if m.names += len(dir.Files) + len(dir.Directories) + len(dir.Symlinks); m.names > MaxNames {
		return invalid("there are more than %d names", MaxNames)
	}
	for _, f := range dir.Files {
		if m.bytes += f.Digest.Size; m.bytes > MaxBytes {
			return invalid("there are more than %d GiB", MaxBytes>>30)
		}
		if err := m.from.Link(f.Digest, f.Mode, m.root, path.Join(at, f.Name)); err != nil {
			return err
		}
	}
	for _, l := range dir.Symlinks {
		p := path.Join(at, l.Name)
		if err := CheckTarget(p, l.Target); err != nil {
			return err
		}
		if err := m.root.Symlink(l.Target, p); err != nil {
			return err
		}
	}
	for _, f := range dir.Directories {
		p := path.Join(at, f.Name)
		if err := CheckPath(p); err != nil {
			return err
		}
		if err := m.root.Mkdir(p, 0o700); err != nil {
			return err
		}
		if err := m.folder(f.Digest, p); err != nil {
			return err
		}
	}
	if at == "" {
		at = "."
	}
	return m.root.Chmod(at, os.FileMode(dir.Mode|0o700)) // the worker must be able to list and remove it
}
