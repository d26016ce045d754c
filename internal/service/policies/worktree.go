package policies

import (
	"os"
	"path/filepath"

	"github.com/remitrun/remit/internal/confine/repository"
	"github.com/remitrun/remit/internal/service/home"
)

// holder returns the folder whose remit.yaml holds for a workspace: its own, or that of the same folder in the main
// worktree, where the workspace is in a linked worktree. A file of its own counts there only if it was trusted.
func holder(list []trust, workspace string) string {
	file := filepath.Join(workspace, workspaceFile)
	if _, ok := home.Entry(list, file); ok {
		if _, err := os.Lstat(file); err == nil {
			return workspace
		}
	}
	for _, t := range repository.LinkedWorktrees(workspace) {
		in, err := filepath.Rel(t.Folder, workspace)
		if err != nil || t.Main == "" {
			continue
		}
		main := filepath.Join(t.Main, in)
		if _, ok := home.Entry(list, filepath.Join(main, workspaceFile)); ok {
			return main
		}
	}
	return workspace
}

// Holder returns the folder whose remit.yaml holds for a workspace: another one where the workspace is in a linked worktree.
func (s *Policies) Holder(workspace string) (string, error) {
	list, err := s.trusted().List()
	return holder(list, workspace), err
}

// For returns the workspace for a client that works in a folder, and whose hook was installed for a workspace: the same
// folder in the linked worktree that the client works in, if that is of the same repository. inside reports whether the
// client works in the workspace.
func For(workspace, dir string) (at string, inside bool) {
	if dir == "" {
		return workspace, true
	}
	dir, err := home.Workspace(dir)
	if err != nil {
		return workspace, false
	}
	if isIn(workspace, dir) {
		return workspace, true
	}
	for _, t := range repository.LinkedWorktrees(dir) {
		if at, ok := t.Counterpart(workspace); ok && isIn(at, dir) {
			return at, true
		}
	}
	return workspace, false
}

func isIn(folder, p string) bool {
	in, err := filepath.Rel(folder, p)
	return err == nil && filepath.IsLocal(in)
}
