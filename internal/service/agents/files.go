package agents

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/store"
)

// FilesOf gives capabilities access to the files of sessions, which a store keeps.
func FilesOf(kept store.Files, quota store.Quota) func(uuid.UUID) capability.Files {
	return func(session uuid.UUID) capability.Files { return sessionFiles{kept, session, quota} }
}

// sessionFiles are the files of a session, in the ledger. Every use needs the permit of a
// call and is noted with it.
type sessionFiles struct {
	kept    store.Files
	session uuid.UUID
	quota   store.Quota
}

// sessionTries is how often a change is tried when other changes come in between.
const sessionTries = 32

// onSession names a session's file in the record; no file of a workspace has such a name.
func onSession(name string) string { return "session:" + name }

// begin checks the permit and cleans the path.
func (sessionFiles) begin(ctx context.Context, p permit.Permit, name string) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", permit.Ended(ctx)
	}
	if !p.Live() {
		return "", fault.New(fault.HandleRefused, "a session's file %q: the call that this belongs to is over", name)
	}
	return capability.CleanPath(name)
}

func asFile(r store.FileRecord) capability.File {
	return capability.File{Path: r.Path, Folder: r.Folder, Size: r.Size, Version: r.Version, SHA256: r.SHA256, Created: r.Created, Modified: r.Modified}
}

// find gives the file or folder at a clean path; the root always exists.
func (f sessionFiles) find(ctx context.Context, name string) (store.FileRecord, error) {
	if name == "/" {
		return store.FileRecord{Path: "/", Folder: true}, nil
	}
	return f.kept.File(ctx, f.session, name, 0)
}

// Stat implements capability.Files.
func (f sessionFiles) Stat(ctx context.Context, p permit.Permit, name string) (capability.File, error) {
	name, err := f.begin(ctx, p, name)
	if err != nil {
		return capability.File{}, err
	}
	r, err := f.find(ctx, name)
	return asFile(r), err
}

// Read implements capability.Files.
func (f sessionFiles) Read(ctx context.Context, p permit.Permit, name string) ([]byte, capability.File, error) {
	name, err := f.begin(ctx, p, name)
	if err != nil {
		return nil, capability.File{}, err
	}
	r, err := f.find(ctx, name)
	if err == nil && r.Folder {
		err = fault.New(fault.ArgsInvalid, "%q is a folder", name).In("path")
	}
	var content []byte
	if err == nil {
		content, err = f.kept.LoadFile(ctx, r)
	}
	if err != nil {
		return nil, capability.File{}, err
	}
	p.Note(tool.Happened{Effect: tool.FSRead, On: onSession(name), Bytes: int64(len(content))})
	return content, asFile(r), nil
}

// Write implements capability.Files.
func (f sessionFiles) Write(ctx context.Context, p permit.Permit, name string, content []byte, version int) (capability.File, bool, error) {
	name, err := f.begin(ctx, p, name)
	if err != nil {
		return capability.File{}, false, err
	}
	var made store.FileRecord
	fresh := false
	err = f.change(ctx, p, func() ([]store.FileChange, error) {
		was, err := f.guarded(ctx, name, version)
		if err != nil {
			return nil, err
		}
		changes, err := f.missingParents(ctx, name)
		fresh = was == 0
		return append(changes, store.FileChange{Path: name, Was: was, Content: content, At: time.Now()}), err
	}, func(after []store.FileRecord) {
		made = after[len(after)-1]
		for _, r := range after {
			p.Note(tool.Happened{Effect: tool.FSWrite, On: onSession(r.Path), Bytes: r.Size})
		}
	})
	return asFile(made), fresh, err
}

// guarded gives the version of the file that a write replaces, 0 if it does not exist. It
// fails if the writer expects another version.
func (f sessionFiles) guarded(ctx context.Context, name string, version int) (int, error) {
	now, err := f.find(ctx, name)
	there := err == nil
	switch {
	case err != nil && !errors.Is(err, fault.NotFound):
		return 0, err
	case there && now.Folder:
		return 0, fault.New(fault.ArgsInvalid, "%q is a folder", name).In("path")
	case version == capability.MustBeNew && there:
		return 0, fault.New(fault.Conflict, "%q already exists, at version %d", name, now.Version).WithHint("read it first")
	case version > 0 && now.Version != version:
		return 0, fault.New(fault.Conflict, "%q is at version %d, not %d", name, now.Version, version).WithHint("read it again")
	case version < capability.MustBeNew:
		return 0, fault.New(fault.ArgsInvalid, "%d is not a valid file version", version)
	}
	return now.Version, nil
}

// missingParents gives the changes that make a file's missing parent folders.
func (f sessionFiles) missingParents(ctx context.Context, name string) ([]store.FileChange, error) {
	var out []store.FileChange
	for dir := path.Dir(name); dir != "/"; dir = path.Dir(dir) {
		r, err := f.find(ctx, dir)
		switch {
		case err == nil && r.Folder:
			return out, nil
		case err == nil:
			return nil, fault.New(fault.ArgsInvalid, "%q is a file, so nothing can be in it", dir).In("path")
		case !errors.Is(err, fault.NotFound):
			return nil, err
		}
		out = slices.Insert(out, 0, store.FileChange{Path: dir, Folder: true, At: time.Now()})
	}
	return out, nil
}

// change makes the changes that plan gives, and plans again when other changes come in
// between.
func (f sessionFiles) change(ctx context.Context, p permit.Permit, plan func() ([]store.FileChange, error), done func([]store.FileRecord)) error {
	for try := 1; ; try++ {
		changes, err := plan()
		if err != nil {
			return err
		}
		if !p.Live() { // also after a wait for others
			return fault.New(fault.HandleRefused, "a session's files: the call that this belongs to is over")
		}
		after, err := f.kept.ChangeFiles(ctx, f.session, f.quota, changes...)
		switch {
		case err == nil:
			done(after)
			return nil
		case !errors.Is(err, fault.Stale) && !errors.Is(err, fault.Conflict):
			return err
		case try == sessionTries:
			return fault.Wrap(fault.Conflict, err, "the session's files are being changed by somebody else: %s", fault.Message(err)).WithHint("try again")
		}
	}
}

// listTree gives a folder and everything in it, at any depth.
func (f sessionFiles) listTree(ctx context.Context, name string) (of store.FileRecord, in []store.FileRecord, err error) {
	if of, err = f.find(ctx, name); err != nil || !of.Folder {
		return of, nil, err
	}
	tree, err := f.kept.FileTree(ctx, f.session)
	prefix := strings.TrimSuffix(name, "/") + "/"
	return of, slices.DeleteFunc(tree, func(r store.FileRecord) bool { return !strings.HasPrefix(r.Path, prefix) }), err
}

// List implements capability.Files.
func (f sessionFiles) List(ctx context.Context, p permit.Permit, name string) ([]capability.File, error) {
	name, err := f.begin(ctx, p, name)
	if err != nil {
		return nil, err
	}
	of, in, err := f.listTree(ctx, name)
	if err != nil {
		return nil, err
	}
	if !of.Folder {
		return nil, fault.New(fault.ArgsInvalid, "%q is a file", name).In("path")
	}
	p.Note(tool.Happened{Effect: tool.FSRead, On: onSession(name)})
	var folders, files []capability.File
	for _, r := range in {
		switch {
		case path.Dir(r.Path) != name:
		case r.Folder:
			folders = append(folders, asFile(r))
		default:
			files = append(files, asFile(r))
		}
	}
	return append(folders, files...), nil
}

// All implements capability.Files.
func (f sessionFiles) All(ctx context.Context, p permit.Permit, name string) ([]capability.File, error) {
	name, err := f.begin(ctx, p, name)
	if err != nil {
		return nil, err
	}
	_, in, err := f.listTree(ctx, name)
	if err != nil {
		return nil, err
	}
	p.Note(tool.Happened{Effect: tool.FSRead, On: onSession(name)})
	var out []capability.File
	for _, r := range in {
		if !r.Folder {
			out = append(out, asFile(r))
		}
	}
	return out, nil
}

// Delete implements capability.Files. The root itself stays.
func (f sessionFiles) Delete(ctx context.Context, p permit.Permit, name string, recursive bool) (int, error) {
	name, err := f.begin(ctx, p, name)
	if err != nil {
		return 0, err
	}
	removed := 0
	err = f.change(ctx, p, func() ([]store.FileChange, error) {
		of, in, err := f.listTree(ctx, name)
		if err != nil {
			return nil, err
		}
		if len(in) > 0 && !recursive {
			return nil, fault.New(fault.Conflict, "the folder %q is not empty", name).WithHint("delete it with all that is in it: recursive")
		}
		if name != "/" {
			in = append(in, of)
		}
		changes := make([]store.FileChange, len(in))
		for i, r := range in {
			changes[i] = store.FileChange{Path: r.Path, Was: r.Version, Delete: true, At: time.Now()}
		}
		return changes, nil
	}, func(after []store.FileRecord) {
		for _, r := range after {
			p.Note(tool.Happened{Effect: tool.FSDelete, On: onSession(r.Path)})
		}
		removed = len(after)
	})
	return removed, err
}
