package learn

import (
	"path"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/tool"
)

// Observed is a side effect that a call had, as the action that it was. ok is
// false for anything that is not an action of its own: a name that was resolved, a command,
// which the call's own actions name.
func Observed(workspace string, h tool.Happened) (a tool.Action, ok bool) {
	switch h.Effect {
	case tool.FSRead, tool.FSWrite, tool.FSDelete, tool.FSChmod:
		a.Kind = tool.FileWrite
		switch h.Effect {
		case tool.FSRead:
			a.Kind = tool.FileRead
		case tool.FSDelete:
			a.Kind = tool.FileDelete
		}
		a.Path = h.On
		if !path.IsAbs(a.Path) {
			a.Path = path.Join(workspace, h.On)
		}
		return a, h.On != ""
	case tool.NetworkHTTP, tool.NetworkSocket:
		t, ok := ParseTarget(h.On)
		return tool.Action{Kind: tool.Network, Target: t}, ok
	}
	return a, false
}

// ParseTarget reads what [tool.Target.String] prints: a destination without a
// method is a connection that nobody looks into.
func ParseTarget(s string) (tool.Target, bool) {
	method, rest, ok := strings.Cut(s, " ")
	if !ok {
		method, rest = "", s
	}
	if t, err := target.Local(s); err == nil {
		return t, true
	}
	t, err := target.Parse(method, rest)
	if err != nil {
		return t, false
	}
	if method == "" {
		t.Method, t.Path = "", ""
	}
	return t, true
}
