//go:build linux && (amd64 || arm64)

package linux

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/supervisor"
)

// ofGitdir decides about the file by which a repository names one of its worktrees. It may name folders that the command
// fills: by others, a worktree of the person's would become one that the command chose.
func (d *decider) ofGitdir(r supervisor.Request, git string, err error) error {
	if d.leads.Around(r.Path) {
		return err // it says from where relative settings lead
	}
	if at := d.elsewhere(git); at != "" {
		return ownRefusal(r.Path, "it names the worktree "+at+", which is outside of the sandbox")
	}
	err = ownRefusal(r.Path, "a worktree that a command makes must be in a folder that files.write allows; make others outside of the sandbox")
	return ifHarmless(r, err, func(text []byte) bool {
		folder, ok := worktreeIn(git, text)
		if !ok {
			return false
		}
		inside := path.Join(folder, sandbox.AnyName)
		if !d.concerns(inside) {
			_, err := os.Lstat(folder) // on the machine, where the name means another folder
			return errors.Is(err, fs.ErrNotExist) && slices.ContainsFunc(privateFolders, func(dir string) bool { return sandbox.Within(folder, dir) })
		}
		return d.may(tool.FileWrite, inside) == nil && d.hasNoLink(folder, "/")
	})
}

// privateFolders are those whose files end with the sandbox, unless the policy names a folder in them.
var privateFolders = []string{"/tmp", "/var/tmp"}

// elsewhere returns the folder of a worktree that is there and that the command does not see; "": it is not so. git is the
// worktree's folder in its repository.
func (d *decider) elsewhere(git string) string {
	if path.Base(path.Dir(git)) != "worktrees" {
		return ""
	}
	text, err := os.ReadFile(d.at(path.Join(git, "gitdir")))
	if err != nil {
		return ""
	}
	folder, ok := worktreeIn(git, text)
	if !ok || d.concerns(folder) {
		return ""
	}
	if _, err := os.Lstat(path.Join(folder, ".git")); err != nil {
		return ""
	}
	return folder
}

// worktreeIn returns the folder of the worktree that the text of a file gitdir names.
func worktreeIn(git string, text []byte) (folder string, ok bool) {
	to, whole := strings.CutSuffix(string(text), "\n")
	if !whole || to != path.Clean(to) || strings.Contains(to, "\n") {
		return "", false // behind a link, .. is another folder
	}
	if !path.IsAbs(to) {
		to = path.Join(git, to)
	}
	return strings.CutSuffix(to, "/.git")
}

// ownRefusal is a refusal to write a path that no entry of the policy gives.
func ownRefusal(p, why string) error {
	return refusal{tool.Action{Kind: tool.FileWrite, Path: p, Real: p}, policy.Decision{Reason: why}}
}
