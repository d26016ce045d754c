package fs

import (
	"cmp"
	"context"
	iofs "io/fs"
	"path"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/files"
)

func list() permit.Tool {
	return newTool(tool.Spec{ID: "fs.list", Title: "List a folder", Risk: tool.Low,
		Effects: tool.EffectSet(tool.FSRead), Input: schemaOf("list.in"), Output: schemaOf("list.out"),
		Description: "Lists a folder by name. Links are not followed; denied counts entries that the policy hides."}, func(a listArgs) []access { return one(cmp.Or(a.Path, "."), tool.FileRead) }, runList)
}

type listArgs struct {
	Path      string `json:"path"`
	Recursive bool   `json:"recursive"`
	Glob      string `json:"glob"`
	Limit     int64  `json:"limit"`
}

func stat() permit.Tool {
	return newTool(tool.Spec{ID: "fs.stat", Title: "Look at a file", Risk: tool.Low,
		Effects: tool.EffectSet(tool.FSRead), Input: schemaOf("stat.in"), Output: schemaOf("stat.out"),
		Description: "Returns type, size, permissions and time of change of a file or folder. Links are followed."}, func(a statArgs) []access { return one(a.Path, tool.FileRead) }, runStat)
}

type statArgs struct {
	Path string `json:"path"`
}

const defaultEntries = 1000

func runList(ctx context.Context, f *files.Files, a listArgs) (map[string]any, error) {
	asked, limit := cmp.Or(a.Path, "."), cmp.Or(a.Limit, defaultEntries)
	match, err := matcher(a.Glob)
	if err != nil {
		return nil, err
	}
	entries, total := []any{}, int64(0)
	base := f.Show(asked)
	add := func(e files.Entry) error {
		if !match(relativeTo(base, e.Path)) {
			return nil
		}
		if total++; total <= limit {
			entries = append(entries, listed(e))
		}
		return nil
	}
	var denied int
	if a.Recursive {
		denied, err = f.Walk(ctx, asked, add)
	} else {
		var l files.Listing
		l, err = f.ReadDir(ctx, asked)
		denied = l.Denied
		for _, e := range l.Entries {
			_ = add(e) // never fails
		}
	}
	if err != nil {
		return nil, err
	}
	return map[string]any{"path": base, "entries": entries, "entries_total": total, "truncated": total > limit, "denied": int64(denied)}, nil
}

func listed(e files.Entry) map[string]any {
	m := map[string]any{"name": e.Name, "path": e.Path, "type": files.TypeName(e.Mode), "size": e.Size, "mtime": stamp(e.Info)}
	if e.Target != "" {
		m["target"] = e.Target
	}
	return m
}

func stamp(i files.Info) string { return i.ModTime.UTC().Format(time.RFC3339Nano) }

// relativeTo returns a path relative to the listed folder.
func relativeTo(base, p string) string {
	if base == "." || base == "/" {
		return strings.TrimPrefix(p, "/")
	}
	return strings.TrimPrefix(p, base+"/")
}

// matcher compiles a glob. One without a slash matches the last name at any
// depth; an empty one matches everything.
func matcher(glob string) (func(rel string) bool, error) {
	switch {
	case glob == "":
		return func(string) bool { return true }, nil
	case !doublestar.ValidatePattern(glob):
		return nil, fault.New(fault.ArgsInvalid, "%q is not a valid glob", glob).In("glob").WithHint("as *.go or src/**/*.{js,ts}")
	case !strings.Contains(glob, "/") && glob != "**":
		return func(rel string) bool { return doublestar.MatchUnvalidated(glob, path.Base(rel)) }, nil
	}
	return func(rel string) bool { return doublestar.MatchUnvalidated(glob, rel) }, nil
}

func runStat(_ context.Context, f *files.Files, a statArgs) (map[string]any, error) {
	i, target, err := f.Lstat(a.Path)
	if err != nil {
		return nil, err
	}
	isLink := i.Mode.Type() == iofs.ModeSymlink
	if isLink {
		if i, err = f.Stat(a.Path); err != nil {
			return nil, err
		}
	}
	out := map[string]any{"path": f.Show(a.Path), "type": files.TypeName(i.Mode), "size": i.Size,
		"mode": i.Mode.Perm().String(), "mtime": stamp(i), "links": int64(i.Links)}
	if isLink {
		out["link"] = target
	}
	return out, nil
}
