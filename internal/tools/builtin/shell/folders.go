package shelltool

import (
	"path/filepath"
	"slices"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/regex"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/files"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// A sandbox can let a command write below out/** only if out exists: it mounts folders of
// the host, and no mount allows a single new name in a folder that is read-only. So a
// missing folder is made before a command that names it, or a path below it, for writing.
// Other commands that fail get a hint.

// missingFolders lists folders that do not exist and that may be filled.
func missingFolders(p permit.Permit) []string {
	if p.Held() != nil {
		return nil // the layer that holds the writes takes any name
	}
	var out []string
	f := files.New(p)
	for _, l := range p.Chain().Files(tool.FileWrite) {
		if l.Inherits {
			continue
		}
		for _, a := range l.Allow {
			if a.Deep && !slices.Contains(out, a.Base) && fillable(p, a.Base) && f.Missing(a.Base) {
				out = append(out, a.Base)
			}
		}
		break // every link must allow a path, so the folders of one are enough
	}
	return out
}

// fillable reports whether a folder may be made, and new files in it.
func fillable(p permit.Permit, folder string) bool {
	for _, name := range []string{folder, filepath.Join(folder, sandbox.AnyName)} {
		if p.Check(tool.Action{Kind: tool.FileWrite, Path: name, Real: name}) != nil {
			return false
		}
	}
	return true
}

// MakeFolders makes the missing folders that a command names for writing, and returns
// hints that say so. If one cannot be made, the command fails by itself.
func MakeFolders(p permit.Permit, actions []tool.Action) (hints []string) {
	f := files.New(p)
	for _, folder := range missingFolders(p) {
		named := slices.ContainsFunc(actions, func(a tool.Action) bool {
			return a.Kind == tool.FileWrite && sandbox.Within(a.Path, folder)
		})
		if named && f.Mkdir(folder, true) == nil {
			hints = append(hints, "the missing folder "+f.Show(folder)+" was made before the command")
		}
	}
	return hints
}

// readOnlyFS finds the error EROFS in what programs write.
var readOnlyFS = regex.Lazy(`(?i)read-only file ?system|\bEROFS\b`)

// maxMissing bounds the folders that a failed command is told of.
const maxMissing = 3

// HintMissing returns hints for the caller of a command that failed because it could not
// write: folders that it may have tried to make.
func HintMissing(p permit.Permit, o sandbox.Outcome) (hints []string) {
	if o.ExitCode == 0 {
		return nil
	}
	tried := func(folder string) bool { // a name on the way to it
		return slices.ContainsFunc(o.Refusals, func(r sandbox.Refusal) bool { return r.Kind == tool.FileWrite && sandbox.Within(folder, r.Path) })
	}
	readOnly := o.Stderr.Total == 0 || readOnlyFS.Match(o.Stderr.Data)
	f := files.New(p)
	list := slices.DeleteFunc(missingFolders(p), func(folder string) bool { return !readOnly && !tried(folder) })
	for _, folder := range list[:min(len(list), maxMissing)] {
		hints = append(hints, "files.write allows "+f.Show(folder)+", which does not exist; without mkdir -p "+f.Show(folder)+" first, a command cannot write there")
	}
	return hints
}
