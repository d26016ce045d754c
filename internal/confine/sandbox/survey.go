package sandbox

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
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
	Most int // the bound
	seen int
}

// Add counts the names of a folder. Too many in all are fault.SandboxMissing.
func (c *Count) Add(folder string, names int) error {
	if c.seen += names; c.seen <= c.Most {
		return nil
	}
	return fault.New(fault.SandboxMissing, "the folders that the policy's file rules name hold too many names to look through: more than %d, up to %q", c.Most, folder).
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
