package shelltool

import (
	"path/filepath"
	"slices"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy/command"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/files"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// HintWorktrees returns hints for the caller of a command that added Git worktrees where the sandbox has no folder of the
// machine: Git's own message does not tell why that failed, and in the sandbox's /tmp it seems to work.
func HintWorktrees(p permit.Permit, starts []tool.Action, o sandbox.Outcome) (hints []string) {
	if o.ExitCode == 0 && slices.ContainsFunc(starts, func(a tool.Action) bool {
		return slices.Contains(a.Argv, "worktree") && slices.Contains(a.Argv, "remove")
	}) {
		return nil // it was for this command alone
	}
	for _, a := range starts {
		at := command.GitWorktree(a.Argv, a.Dir)
		inside := filepath.Join(at, sandbox.AnyName)
		if at == "" || p.Check(tool.Action{Kind: tool.FileWrite, Path: inside, Real: inside}) == nil {
			continue
		}
		hints = append(hints, "no worktree is left at "+files.New(p).Show(at)+": files.write does not allow that folder. "+
			"Add it in the workspace, as git worktree add .worktrees/NAME, or run git worktree add outside of the sandbox")
	}
	return hints
}
