package sessionfiles

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/tools/typed"
)

// Bounds of the result of one call.
const (
	defaultRead = 256 << 10
	maxEntries  = 1000
)

// own offers one of the tools.
func own[A any](name, title string, risk tool.Risk, effects tool.Effects, description string, in, out json.RawMessage,
	run func(context.Context, permit.Permit, A) (map[string]any, error)) capability.Offer {
	return capability.Own(name, typed.Func(tool.Spec{ID: tool.ID(ID + "." + name), Title: title, Description: description,
		Version: "1", Risk: risk, Effects: effects, Input: in, Output: out}, run))
}

type readArgs struct {
	Path   string `json:"path"`
	Offset int64  `json:"offset"`
	Limit  int64  `json:"limit"`
}

func (s session) read(ctx context.Context, p permit.Permit, a readArgs) (map[string]any, error) {
	content, f, err := s.load(ctx, p, a.Path)
	if err != nil {
		return nil, err
	}
	size := int64(len(content))
	if a.Offset > size {
		return nil, fault.New(fault.ArgsInvalid, "%q has %d bytes; the offset %d is behind its end", f.Path, size, a.Offset).In("offset")
	}
	if a.Limit == 0 {
		a.Limit = defaultRead
	}
	text := isText(content)
	part := content[a.Offset:min(size, a.Offset+a.Limit)]
	if text {
		part = wholeRunes(part)
	}
	out := map[string]any{"path": f.Path, "size_bytes": size, "version": f.Version, "encoding": "text", "content": string(part)}
	if !text || !utf8.Valid(part) { // an offset may be in the middle of a character
		out["encoding"], out["content"] = "base64", base64.StdEncoding.EncodeToString(part)
	}
	end := a.Offset + int64(len(part))
	if out["truncated"] = end < size; end < size {
		out["next_offset"] = end
	}
	return out, nil
}

// load reads a file. A folder is an error.
func (s session) load(ctx context.Context, p permit.Permit, name string) ([]byte, capability.File, error) {
	fs, clean, err := s.resolve(name)
	if err != nil {
		return nil, capability.File{}, err
	}
	f, err := fs.Stat(ctx, p, clean)
	if err != nil {
		return nil, f, missing(err, clean)
	}
	if f.Folder {
		return nil, f, fault.New(fault.ArgsInvalid, "%q is a folder", clean).In("path").WithHint("list it with list_directory")
	}
	content, f, err := fs.Read(ctx, p, clean)
	return content, f, missing(err, clean)
}

// resolve returns the session's files and the clean path.
func (s session) resolve(name string) (capability.Files, string, error) {
	fs, err := s.Need()
	if err != nil {
		return nil, "", err
	}
	clean, err := capability.CleanPath(name)
	return fs, clean, err
}

// missing adds a hint to the error of a path that does not exist.
func missing(err error, name string) error {
	if errors.Is(err, fault.NotFound) {
		return fault.Wrap(fault.NotFound, err, "%q does not exist", name).In("path").WithHint("list the files with list_directory")
	}
	return err
}

// isText reports whether a content can be given as text.
func isText(b []byte) bool { return utf8.Valid(b) && !strings.ContainsRune(string(b), 0) }

// wholeRunes drops an incomplete character at the end, unless there is nothing else.
func wholeRunes(b []byte) []byte {
	for i := 1; i < utf8.UTFMax && i < len(b); i++ {
		if at := len(b) - i; utf8.RuneStart(b[at]) {
			if !utf8.FullRune(b[at:]) {
				return b[:at]
			}
			break
		}
	}
	return b
}

type writeArgs struct {
	Path      string `json:"path"`
	Content   string `json:"content"`
	Encoding  string `json:"encoding"`
	IfVersion *int   `json:"if_version"`
}

func (s session) write(ctx context.Context, p permit.Permit, a writeArgs) (map[string]any, error) {
	fs, clean, err := s.resolve(a.Path)
	if err != nil {
		return nil, err
	}
	content := []byte(a.Content)
	if a.Encoding == "base64" {
		if content, err = base64.StdEncoding.DecodeString(a.Content); err != nil {
			return nil, fault.Wrap(fault.ArgsInvalid, err, "the content is not valid base64").In("content")
		}
	}
	f, created, err := fs.Write(ctx, p, clean, content, guard(a.IfVersion))
	if err != nil {
		return nil, err
	}
	return map[string]any{"path": f.Path, "size_bytes": f.Size, "created": created, "version": f.Version}, nil
}

// guard returns the version that the file must be at for a change.
func guard(version *int) int {
	switch {
	case version == nil:
		return 0
	case *version == 0:
		return capability.MustBeNew
	}
	return *version
}

type listArgs struct {
	Path string `json:"path"`
}

func (s session) list(ctx context.Context, p permit.Permit, a listArgs) (map[string]any, error) {
	if a.Path == "" {
		a.Path = "/"
	}
	fs, clean, err := s.resolve(a.Path)
	if err != nil {
		return nil, err
	}
	found, err := fs.List(ctx, p, clean)
	if err != nil {
		return nil, missing(err, clean)
	}
	entries := make([]any, 0, min(len(found), maxEntries))
	for _, f := range found[:min(len(found), maxEntries)] {
		e := map[string]any{"name": path.Base(f.Path), "path": f.Path, "is_directory": f.Folder, "size_bytes": f.Size, "updated_at": stamp(f.Modified)}
		if !f.Folder {
			e["version"], e["is_readonly"] = f.Version, f.ReadOnly
		}
		entries = append(entries, e)
	}
	return map[string]any{"path": clean, "entries": entries, "count": len(found), "truncated": len(entries) < len(found)}, nil
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

type removeArgs struct {
	Path      string `json:"path"`
	Recursive bool   `json:"recursive"`
}

func (s session) remove(ctx context.Context, p permit.Permit, a removeArgs) (map[string]any, error) {
	fs, clean, err := s.resolve(a.Path)
	if err != nil {
		return nil, err
	}
	if clean == "/" {
		return nil, fault.New(fault.ArgsInvalid, "the root folder cannot be deleted").In("path").WithHint("delete the files and folders in it")
	}
	n, err := fs.Delete(ctx, p, clean, a.Recursive)
	switch {
	case errors.Is(err, fault.NotFound):
		n = 0
	case errors.Is(err, fault.Conflict) && !a.Recursive:
		return nil, fault.Wrap(fault.Conflict, err, "the folder %q is not empty", clean).WithHint("set recursive to delete all that is in it")
	case err != nil:
		return nil, err
	}
	return map[string]any{"path": clean, "deleted": n > 0, "count": n}, nil
}

type statArgs struct {
	Path string `json:"path"`
}

func (s session) stat(ctx context.Context, p permit.Permit, a statArgs) (map[string]any, error) {
	fs, clean, err := s.resolve(a.Path)
	if err != nil {
		return nil, err
	}
	out := map[string]any{"path": clean, "name": path.Base(clean), "exists": false}
	f, err := fs.Stat(ctx, p, clean)
	if errors.Is(err, fault.NotFound) {
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	out["exists"], out["is_directory"], out["is_readonly"], out["size_bytes"] = true, f.Folder, f.ReadOnly, f.Size
	out["created_at"], out["updated_at"] = stamp(f.Created), stamp(f.Modified)
	if !f.Folder {
		out["version"], out["sha256"] = f.Version, hex.EncodeToString(f.SHA256[:])
	}
	return out, nil
}
