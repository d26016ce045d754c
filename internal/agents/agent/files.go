package agent

import (
	"context"
	"encoding/hex"
	"errors"
	"path"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/store"
)

// Files of sessions, for people. Whether the caller may read or change them is decided
// before these methods are called. Each change is an event of the ledger.

// Files lists the files and folders of a session.
func (s *Service) Files(ctx context.Context, id string) ([]FileInfo, error) {
	r, _, err := s.session(ctx, id)
	if err != nil {
		return nil, err
	}
	tree, err := s.o.Record.FileTree(ctx, r.ID)
	out := make([]FileInfo, len(tree))
	for i, f := range tree {
		out[i] = fileInfo(f)
	}
	return out, err
}

func fileInfo(f store.FileRecord) FileInfo {
	i := FileInfo{Path: f.Path, Folder: f.Folder, Size: f.Size, Version: f.Version, Created: f.Created, Modified: f.Modified}
	if !f.Folder {
		i.SHA256 = hex.EncodeToString(f.SHA256[:])
	}
	return i
}

// maxPath is the longest path of a file, in bytes.
const maxPath = 1024

// filePath gives the one spelling of a path under which the file is recorded.
func filePath(p string) (string, error) {
	if !strings.HasPrefix(p, "/") {
		p = "/" + p
	}
	if len(p) > maxPath || !printable(p) {
		return "", fault.New(fault.ArgsInvalid, "a path must have at most %d bytes of visible characters", maxPath).In("path")
	}
	return path.Clean(p), nil
}

// ReadFile reads a file of a session.
func (s *Service) ReadFile(ctx context.Context, id, name string) ([]byte, FileInfo, error) {
	r, _, err := s.session(ctx, id)
	if err != nil {
		return nil, FileInfo{}, err
	}
	if name, err = filePath(name); err != nil {
		return nil, FileInfo{}, err
	}
	f, err := s.o.Record.File(ctx, r.ID, name, 0)
	if err != nil {
		return nil, FileInfo{}, err
	}
	if f.Folder {
		return nil, fileInfo(f), fault.New(fault.ArgsInvalid, "%q is a folder", name).In("path")
	}
	b, err := s.o.Record.LoadFile(ctx, f)
	return b, fileInfo(f), err
}

// WriteFile writes a file of a session if it is at a version; 0: at any. Folders above it
// are created.
func (s *Service) WriteFile(ctx context.Context, _ Caller, id, name string, content []byte, ifVersion int) (FileInfo, error) {
	r, _, err := s.session(ctx, id)
	if err != nil {
		return FileInfo{}, err
	}
	if name, err = filePath(name); err != nil {
		return FileInfo{}, err
	}
	if name == "/" {
		return FileInfo{}, fault.New(fault.ArgsInvalid, "%q is a folder", name).In("path")
	}
	for try := 0; ; try++ {
		changes, err := s.changesFor(ctx, r, name, content, ifVersion)
		if err != nil {
			return FileInfo{}, err
		}
		made, err := s.o.Record.ChangeFiles(ctx, r.ID, s.o.Quota, changes...)
		if errors.Is(err, fault.Stale) && ifVersion == 0 && try < 4 {
			continue // somebody else wrote it in between: the last one wins
		}
		if err != nil {
			return FileInfo{}, err
		}
		return fileInfo(made[len(made)-1]), nil
	}
}

// changesFor gives the changes that write a file: the folders above it that are missing,
// then the file.
func (s *Service) changesFor(ctx context.Context, r store.SessionRecord, name string, content []byte, ifVersion int) ([]store.FileChange, error) {
	var out []store.FileChange
	for dir := path.Dir(name); dir != "/"; dir = path.Dir(dir) {
		switch f, err := s.o.Record.File(ctx, r.ID, dir, 0); {
		case errors.Is(err, fault.NotFound):
			out = append([]store.FileChange{{Path: dir, Folder: true, At: s.o.Now().UTC()}}, out...)
		case err != nil:
			return nil, err
		case !f.Folder:
			return nil, fault.New(fault.Conflict, "%q is a file and not a folder", dir).In("path")
		}
	}
	was := 0
	switch f, err := s.o.Record.File(ctx, r.ID, name, 0); {
	case errors.Is(err, fault.NotFound):
	case err != nil:
		return nil, err
	case f.Folder:
		return nil, fault.New(fault.Conflict, "%q is a folder", name).In("path")
	default:
		was = f.Version
	}
	if ifVersion > 0 && was != ifVersion {
		return nil, fault.New(fault.Stale, "the file is at version %d, not %d", was, ifVersion).WithHint("read it again, and write on that version")
	}
	return append(out, store.FileChange{Path: name, Was: was, Content: content, At: s.o.Now().UTC()}), nil
}

// DeleteFile deletes a file, or with recursive a folder and all that is in it.
func (s *Service) DeleteFile(ctx context.Context, _ Caller, id, name string, recursive bool) error {
	r, _, err := s.session(ctx, id)
	if err != nil {
		return err
	}
	if name, err = filePath(name); err != nil {
		return err
	}
	tree, err := s.o.Record.FileTree(ctx, r.ID)
	if err != nil {
		return err
	}
	var gone []store.FileChange
	for _, f := range tree {
		if f.Path == name || strings.HasPrefix(f.Path, strings.TrimSuffix(name, "/")+"/") {
			gone = append(gone, store.FileChange{Path: f.Path, Was: f.Version, Folder: f.Folder, Delete: true, At: s.o.Now().UTC()})
		}
	}
	switch {
	case len(gone) == 0:
		return fault.New(fault.NotFound, "unknown file %q: the session has no file with this path", name)
	case len(gone) > 1 && !recursive:
		return fault.New(fault.Conflict, "the folder %q is not empty", name).WithHint("set recursive to delete it with all that is in it")
	}
	_, err = s.o.Record.ChangeFiles(ctx, r.ID, s.o.Quota, gone...)
	return err
}
