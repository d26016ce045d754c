package sandbox

import (
	"path"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy"
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
