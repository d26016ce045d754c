package codebox

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// exchange copies a session's files into a folder, and the changes in the folder back.
//
// If both the code and somebody else change a file, the session's version wins: a change
// of the code is made only if the file is still at the version that was copied.
// Otherwise the file is listed in conflicts.
type exchange struct {
	files  capability.Files
	folder *sandbox.Folder
	p      permit.Permit

	before                    map[string]capability.File // by path in the session
	created, changed, deleted []string
	conflicts, refused        []any
	images                    []any
	shown                     int // bytes of images
}

// copyIn copies the session's files into the folder.
func (x *exchange) copyIn(ctx context.Context) error {
	all, err := x.files.All(ctx, x.p, "/")
	if err != nil && !errors.Is(err, fault.NotFound) {
		return err
	}
	total := int64(0)
	for _, f := range all {
		total += f.Size
	}
	if total > maxBytes || len(all) > maxFiles {
		return fault.New(fault.LimitReached, "the session has %d files with %d bytes; the limit is %d files with %d bytes", len(all), total, maxFiles, int64(maxBytes)).
			WithHint("delete files that are not needed")
	}
	x.before = make(map[string]capability.File, len(all))
	for _, f := range all {
		if isInternal(f.Path) {
			continue
		}
		content, f, err := x.files.Read(ctx, x.p, f.Path)
		if errors.Is(err, fault.NotFound) {
			continue // deleted in between
		}
		if err == nil {
			err = x.folder.Put(strings.TrimPrefix(f.Path, "/"), content)
		}
		if err != nil {
			return err
		}
		x.before[f.Path] = f
	}
	return nil
}

// isInternal reports whether a path is a file with code, or one that an interpreter leaves
// behind.
func isInternal(p string) bool {
	return strings.HasPrefix(p, "/"+codeFile+".") || strings.Contains(p, "/__pycache__/")
}

// copyBack makes the code's changes in the session's files: deletions first, so that there
// is room for the rest. Links are not followed; they and special files are not copied.
func (x *exchange) copyBack(ctx context.Context) error {
	now, err := x.folder.Files(ctx)
	if err != nil {
		return fault.Wrap(fault.CodeOf(err), err, "the changed files were not copied back: %s", fault.Message(err))
	}
	if err := x.remove(ctx, now); err != nil {
		return err
	}
	changes := 0
	for _, f := range now {
		name := "/" + f.Path
		if isInternal(name) {
			continue
		}
		clean, err := capability.CleanPath(name)
		switch {
		case f.Odd != "":
			x.refuse(name, f.Odd)
			continue
		case err != nil || clean != name:
			x.refuse(name, "its name cannot be a path in the session's files")
			continue
		}
		did, err := x.file(ctx, name, f, changes)
		if err != nil {
			return err
		}
		if did {
			changes++
		}
	}
	return nil
}

// file copies one file back if its content differs.
func (x *exchange) file(ctx context.Context, name string, f sandbox.FolderFile, changes int) (did bool, err error) {
	content, err := x.folder.Read(f.Path)
	if err != nil {
		x.refuse(name, "it cannot be read")
		return false, nil //nolint:nilerr // it is listed as refused
	}
	was, old := x.before[name]
	if old && was.Size == int64(len(content)) && was.SHA256 == sha256.Sum256(content) {
		return false, nil
	}
	if changes >= maxTaken {
		x.refuse(name, "more files were changed than one call takes back")
		return false, nil
	}
	version := capability.MustBeNew
	if old {
		version = was.Version
	}
	_, _, err = x.files.Write(ctx, x.p, name, content, version)
	if told, fatal := x.failed(ctx, name, err); told || fatal != nil {
		return false, fatal
	}
	x.show(name, content)
	if old {
		x.changed = append(x.changed, name)
	} else {
		x.created = append(x.created, name)
	}
	return true, nil
}

// Bounds of the images that a call shows.
const (
	maxImages = 20
	maxShown  = 8 << 20 // bytes
)

// show keeps an image for the call's output. One for which there is no room is only named.
func (x *exchange) show(name string, content []byte) {
	if !bytes.HasPrefix(content, []byte("\x89PNG\r\n\x1a\n")) || len(x.images) == maxImages {
		return
	}
	one := map[string]any{"path": name, "media_type": "image/png", "bytes": len(content)}
	if x.shown+len(content) <= maxShown {
		x.shown += len(content)
		one["content_base64"] = base64.StdEncoding.EncodeToString(content)
	}
	x.images = append(x.images, one)
}

// remove deletes from the session the files that the code deleted. Files in a folder that
// cannot be read do not count as deleted.
func (x *exchange) remove(ctx context.Context, now []sandbox.FolderFile) error {
	there := make(map[string]bool, len(now))
	for _, f := range now {
		there["/"+f.Path] = true
	}
	var gone []string
	for name := range x.before {
		kept := false
		for at := name; at != "/" && !kept; at = path.Dir(at) {
			kept = there[at] && (at == name || x.isUnreadable(now, at))
		}
		if !kept {
			gone = append(gone, name)
		}
	}
	slices.Sort(gone)
	for i, name := range gone {
		if i >= maxTaken {
			x.refuse(name, "more files were deleted than one call takes back")
			continue
		}
		now, err := x.files.Stat(ctx, x.p, name)
		switch {
		case errors.Is(err, fault.NotFound):
			continue // somebody else deleted it
		case err == nil && now.Version != x.before[name].Version:
			x.conflict(name)
			continue
		case err == nil:
			_, err = x.files.Delete(ctx, x.p, name, false)
		}
		if told, fatal := x.failed(ctx, name, err); fatal != nil {
			return fatal
		} else if !told {
			x.deleted = append(x.deleted, name)
		}
	}
	return nil
}

// isUnreadable reports whether a path is in a folder that could not be read.
func (x *exchange) isUnreadable(now []sandbox.FolderFile, at string) bool {
	return slices.ContainsFunc(now, func(f sandbox.FolderFile) bool { return "/"+f.Path == at && f.Closed })
}

// failed sorts an error of the session's files: an error of one path is listed, and the
// other files are copied back all the same.
func (x *exchange) failed(ctx context.Context, name string, err error) (told bool, fatal error) {
	switch {
	case err == nil:
		return false, nil
	case ctx.Err() != nil:
		return false, permit.Ended(ctx)
	case errors.Is(err, fault.Conflict):
		x.conflict(name)
	case errors.Is(err, fault.FilesFull), errors.Is(err, fault.ArgsInvalid):
		x.refuse(name, fault.Message(err))
	default:
		return false, err
	}
	return true, nil
}

func (x *exchange) conflict(name string) {
	x.conflicts = append(x.conflicts, map[string]any{"path": name, "reason": "it was changed by somebody else while the code ran; their version stays"})
}

// maxRefused is how many files that are not copied back are listed.
const maxRefused = 100

func (x *exchange) refuse(name, reason string) {
	switch {
	case len(x.refused) < maxRefused:
		x.refused = append(x.refused, map[string]any{"path": strings.ToValidUTF8(name, "\uFFFD"), "reason": reason})
	case len(x.refused) == maxRefused:
		x.refused = append(x.refused, map[string]any{"path": "…", "reason": "there are more that are not listed"})
	}
}

// report adds the changed files to a call's output.
func (x *exchange) report(out map[string]any) {
	for name, list := range map[string][]string{"created": x.created, "changed": x.changed, "deleted": x.deleted} {
		all := make([]any, len(list))
		for i, p := range list {
			all[i] = p
		}
		out[name] = all
	}
	if len(x.images) > 0 {
		out["images"] = x.images
	}
	out["conflicts"], out["not_taken"] = orNone(x.conflicts), orNone(x.refused)
}

func orNone(list []any) []any {
	if list == nil {
		return []any{}
	}
	return list
}
