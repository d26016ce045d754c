package sandbox

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/base/walk"
)

// RootsOf are the literal beginnings of the allow patterns of one link, since
// every link must allow a path.
func RootsOf(chain policy.Chain, kind tool.ActionKind) (out []string) {
	for _, l := range chain.Files(kind) {
		if l.Inherits {
			continue
		}
		for _, a := range l.Allow {
			out = append(out, a.Base)
		}
		break
	}
	return out
}

// Steering are names in a repository's folder that decide what Git runs there.
var Steering = []string{"hooks", "config", "config.worktree", "commondir", "modules", "worktrees", "info/attributes"}

// OfRepository reports whether a name in a folder is a part of a Git repository that decides what Git runs:
// of a .git folder, the steering names and their folders.
func OfRepository(folder, name string) bool {
	if strings.EqualFold(name, ".git") || strings.EqualFold(name, "HEAD") {
		return true
	}
	if !strings.EqualFold(path.Base(folder), ".git") {
		folder, name = path.Dir(folder), path.Join(path.Base(folder), name)
	}
	return strings.EqualFold(path.Base(folder), ".git") &&
		slices.ContainsFunc(Steering, func(s string) bool { return s == name || strings.HasPrefix(s, name+"/") })
}

// MaxSurvey bounds how many names one survey looks at.
const MaxSurvey = 5_000_000

// Count counts the names that a survey looks at.
type Count struct {
	Most  int // the bound
	seen  int
	bytes int // of the names
}

// maxSurveyBytes is how many bytes the names of one survey may have.
const maxSurveyBytes = 256 << 20

// List lists an open folder in order, and counts its names. Too many in all are
// fault.SandboxMissing.
func (c *Count) List(ctx context.Context, folder string, dir *os.File) ([]fs.DirEntry, error) {
	left := walk.Budget{Names: c.Most - c.seen, Bytes: maxSurveyBytes - c.bytes}
	entries, err := walk.Entries(ctx, dir, &left)
	c.seen, c.bytes = c.Most-left.Names, maxSurveyBytes-left.Bytes
	switch {
	case errors.Is(err, walk.ErrMany):
		return nil, c.tooMany(folder)
	case err != nil && errors.Is(err, ctx.Err()):
		return nil, fault.Wrap(fault.ToolCancelled, err, "cancelled before the command started")
	}
	return entries, err
}

// Entries lists a folder in order, which may have a million names.
func Entries(dir string) ([]fs.DirEntry, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	return walk.Entries(context.Background(), f, walk.Most())
}

func (c *Count) tooMany(folder string) error {
	return fault.New(fault.SandboxMissing, "the folders that the policy's file rules name hold too many names to look through: more than %d, or more than %d MiB, up to %q", c.Most, maxSurveyBytes>>20, folder).
		WithHint("name narrower folders in files.read and files.write")
}

// KindOf gives the kind of a name by the type bits of its mode.
func KindOf(mode fs.FileMode) NodeKind {
	switch {
	case mode.IsRegular():
		return FileNode
	case mode.IsDir():
		return FolderNode
	case mode&fs.ModeSymlink != 0:
		return LinkNode
	}
	return SpecialNode
}
