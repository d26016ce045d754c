package command

import (
	"path"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/tool"
)

// places returns the paths that a command's first word can mean. A bare name
// means a path only in the folders that a script added to PATH: in any of them as
// asked, in the one where it was found once the facts are known.
func (p *Pattern) places(a *tool.Action, trusted []string) (out []string) {
	asked := a.Argv[0]
	if len(a.Search) == 0 || strings.Contains(asked, "/") {
		return []string{asked}
	}
	if a.Exe != "" && p.trusted(a, trusted) {
		return nil
	}
	for _, dir := range a.Search {
		place := path.Join(dir, asked)
		if a.Exe == "" || a.Exe == place || slices.Contains(a.Names, place) {
			out = append(out, place)
		}
	}
	return out
}

// trusted reports whether the facts, if there are any, say that the command
// was found on the trusted path and is not in the workspace.
func (p *Pattern) trusted(a *tool.Action, path []string) bool {
	if a.Exe == "" {
		return true
	}
	if p.workspace != "" && strings.HasPrefix(a.Exe, p.workspace+"/") {
		return false
	}
	if inFolder(a.Exe, path) || inFolder(a.Argv[0], path) {
		return true
	}
	for _, n := range a.Names {
		if inFolder(n, path) {
			return true
		}
	}
	return false
}
