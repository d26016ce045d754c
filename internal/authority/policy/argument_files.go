package policy

import (
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy/glob"
	"github.com/remitrun/remit/internal/base/tool"
)

// leaves reports whether the decision on a file that a command's argument names is left
// to the sandbox. An argument is refused only by an entry, because its name is sensitive,
// or where the sandbox certainly has no such file: a policy that allows parts of a folder
// does not stop a command that is given the folder.
func (r *Rules) leaves(id sectionID, a *tool.Action, p string) bool {
	if pathProblem(p) != "" {
		return true
	}
	if e, b := r.judgePlainPath(id, a, p, 0, nil, nil); e != Deny || b != nil {
		return false
	}
	if a.Argument == tool.AgentArgument {
		return true
	}
	write := id != readSection
	own := underAny([]string{r.env.Workspace, r.env.Home, r.env.State, r.own, r.env.Repository}, p)
	switch {
	case !own && underAny(systemFolders[write], p):
		return true
	case r.needs(p, glob.Fold(p), write, nil) != nil:
		return false
	case !write && underAny(r.path, p):
		return true
	}
	return a.Argument == tool.HomeArgument || a.Argument == tool.TreeArgument && r.reaches(id, p)
}

// systemFolders are folders that a sandbox has of its own, or shows parts of, to read
// and (true) to write.
var systemFolders = map[bool][]string{
	false: {"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/etc", "/tmp", "/var/tmp", "/dev", "/proc", "/sys"},
	true:  {"/tmp", "/var/tmp", "/dev", "/proc"},
}

// under reports whether a path is a folder or in it.
func under(dir, p string) bool {
	rest, ok := strings.CutPrefix(p, strings.TrimSuffix(dir, "/"))
	return ok && (rest == "" || rest[0] == '/')
}

func underAny(dirs []string, p string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return dir != "" && under(dir, p) })
}

// reaches reports whether an entry of allow or ask may match something below a path.
func (r *Rules) reaches(id sectionID, p string) bool {
	for e := Ask; e <= Allow; e++ {
		list := r.sections[id].lists[e]
		for i := range list {
			pattern, ok := list[i].pattern.(*filePattern)
			if ok && slices.ContainsFunc(pattern.exact.Bases(), func(b glob.Base) bool { return under(p, b.Path) || b.Deep && under(b.Path, p) }) {
				return true
			}
		}
	}
	return false
}
