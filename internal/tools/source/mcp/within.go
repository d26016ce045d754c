package mcp

import (
	"path"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// Within says that an argument of some tools is a path or a URL, which the
// caller's rules for such things decide.
type Within struct {
	Tool    string `json:"tool"`    // a tool's name, as the server knows it; * stands for any characters
	Arg     string `json:"arg"`     // the argument's name
	Section string `json:"section"` // "files.read", "files.write", "files.delete" or "network"
}

var sections = map[string]tool.ActionKind{"files.read": tool.FileRead, "files.write": tool.FileWrite, "files.delete": tool.FileDelete, "network": tool.Network}

// Check reports the first error in it.
func (w Within) Check() error {
	if _, err := path.Match(w.Tool, ""); err != nil || w.Tool == "" || w.Arg == "" {
		return fault.New(fault.Usage, "%q and %q are not a valid tool and argument", w.Tool, w.Arg).WithHint("as read_*.path=files.read")
	}
	if sections[w.Section] == tool.NoAction {
		return fault.New(fault.Usage, "%q is not files.read, files.write, files.delete or network", w.Section)
	}
	return nil
}

// Of reports whether a tool of this name is meant. In names the slash is a character
// like any other. A pattern that cannot be read means every tool.
func (w Within) Of(name string) bool {
	plain := strings.NewReplacer("/", "\x01").Replace
	ok, err := path.Match(plain(w.Tool), plain(name))
	return ok || err != nil
}

// actions are those that the operator declared for the tool's arguments. All else in the server is
// bounded by its own policy and by the caller's rules for tools.
func (t *Tool) actions(args tool.Args) []tool.Action {
	var out []tool.Action
	for _, w := range t.server.cfg.Within {
		if !w.Of(t.name) {
			continue
		}
		v, there := args[w.Arg]
		if !there {
			continue
		}
		list, many := v.([]any)
		if !many {
			list = []any{v}
		}
		for _, one := range list {
			if out = append(out, t.server.action(sections[w.Section], one)); len(out) > maxActions {
				return []tool.Action{{Kind: sections[w.Section], Unknown: "the arguments name more things than a decision can list; split the call"}}
			}
		}
	}
	return out
}

const maxActions = 1000

// action reads one argument. A relative path is one of the folder that the server
// starts in.
func (s *Server) action(kind tool.ActionKind, v any) tool.Action {
	if kind != tool.Network {
		return policy.PathArgument(kind, s.cfg.Folder, v, policy.Env{})
	}
	a := tool.Action{Kind: kind}
	text, ok := v.(string)
	if !ok {
		a.Unknown = "the argument is not a URL: expected a string"
		return a
	}
	to, err := target.Parse("", text)
	if err != nil {
		a.Unknown = fault.Message(err)
	}
	to.Method = "" // which one the server uses is not known
	a.Target = to
	return a
}
