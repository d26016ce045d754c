package policy

import (
	"path"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy/command"
	"github.com/remitrun/remit/internal/authority/provenance"
	"github.com/remitrun/remit/internal/base/tool"
)

// matches reports whether an entry names an action. The standard entries about Git name an
// effect, in any spelling of the command.
func (k *steering) matches(e *flowSource, a *tool.Action) bool {
	sub, git := strings.CutPrefix(e.Pattern, "git ")
	if !e.standard || !git || a.Kind != tool.Command || a.Unknown != "" || len(a.Argv) == 0 || path.Base(a.Argv[0]) != "git" {
		return e.matches(nil, a, false)
	}
	return strings.TrimSuffix(sub, " **") == command.GitEffect(a.Argv)
}

// movers are programs that delete a file where they have put a copy of it.
var movers = strings.Fields("mv rsync")

// moves reports whether a call only moves what it deletes at one name, to another name in the
// workspace: it destroys nothing.
func (k *steering) moves(deleted *tool.Action) bool {
	commands, moved := false, false
	for i := range k.call.Actions {
		a := &k.call.Actions[i]
		if a.Kind != tool.Command || len(a.Argv) == 0 {
			continue
		}
		commands = true
		does := k.does(a)
		if !slices.ContainsFunc(does, func(o tool.Action) bool { return o.Kind == tool.FileDelete && o.Path == deleted.Path }) {
			continue
		}
		if !slices.Contains(movers, path.Base(a.Argv[0])) || !k.lands(does) {
			return false
		}
		moved = true
	}
	if commands {
		return moved
	}
	return k.lands(k.call.Actions) && slices.ContainsFunc(k.call.Actions, func(o tool.Action) bool { return o.Kind == tool.FileRead && o.Path == deleted.Path })
}

// does gives the actions of one command.
func (k *steering) does(a *tool.Action) []tool.Action {
	return command.Actions(a.Argv, k.flows.chain[0].tool, a.Dir)
}

// lands reports whether actions write files, and only in the workspace.
func (k *steering) lands(actions []tool.Action) bool {
	writes := 0
	inside := func(p string) bool { return under(k.flows.chain[0].env.Workspace, p) }
	for i := range actions {
		w := &actions[i]
		if w.Kind != tool.FileWrite {
			continue
		}
		writes++
		if !inside(w.Path) || slices.ContainsFunc(k.call.Actions, func(o tool.Action) bool {
			return o.Kind == tool.FileWrite && o.Path == w.Path && o.Real != "" && !inside(o.Real)
		}) {
			return false
		}
	}
	return writes > 0
}

// deletesUnnamed reports whether a command deletes or carries away files that its words do not
// certainly name.
func (k *steering) deletesUnnamed(a *tool.Action) bool {
	if len(a.Argv) == 0 || a.Unknown != "" || !command.DeletesUnnamed(a.Argv, k.flows.chain[0].tool, a.Dir) {
		return false
	}
	return !slices.Contains(movers, path.Base(a.Argv[0])) || !k.lands(k.does(a))
}

// unnamed adds the deletion of files that are known only at run time.
func (k *steering) unnamed(a *tool.Action) {
	k.add("command", path.Base(a.Argv[0])+" of files that are known only when it runs", provenance.Found{}, true)
}
