package policy

import (
	"path"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy/command"
	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// Within gives the actions that constraints of the kind `within` make of a
// call's arguments. They are decided along with the tool's own actions.
func (c Chain) Within(t *tool.Spec, args tool.Args) []tool.Action {
	if t == nil {
		return nil
	}
	var out []tool.Action
	for _, r := range c {
		if r == nil {
			continue
		}
		for e := Ask; e <= Allow; e++ {
			list := r.sections[toolSection].lists[e]
			for i := range list {
				if en := list[i].tool(); en.args != nil && en.matchName(t.ID) {
					out = r.collect(&en.args.tree, args, out)
				}
			}
		}
	}
	return out
}

func (r *Rules) collect(n *node, args map[string]any, out []tool.Action) []tool.Action {
	for _, c := range n.children {
		v, there := args[c.name]
		if !there {
			continue
		}
		if c.rule != nil {
			out = r.collectRule(c.rule, v, out)
		} else if m, ok := asMap(v); ok {
			out = r.collect(c, m, out)
		}
	}
	return out
}

// maxWithin bounds the actions of a call's arguments, so that a decision stays cheap
// for any call.
const maxWithin = 1000

func (r *Rules) collectRule(c *constraint, v any, out []tool.Action) []tool.Action {
	if len(out) >= maxWithin {
		if out[len(out)-1].Unknown == "" {
			out = append(out, tool.Action{Kind: tool.FileRead, Unknown: "the arguments name more things than a decision can list; split the call"})
		}
		return out
	}
	if c.within != noSection {
		for _, a := range r.derive(c, v) {
			if !contains(out, &a) {
				out = append(out, a)
			}
		}
	}
	if list, ok := v.([]any); ok && c.each != nil {
		for _, w := range list {
			out = r.collectRule(c.each, w, out)
		}
	}
	return out
}

// within is yes if the argument's actions are among the actions of the call, which
// are decided on their own.
func (x *context) within(c *constraint, v any) truth {
	acts := x.rules.derive(c, v)
	for i := range acts {
		if acts[i].Unknown != "" {
			return unknown
		}
		if !contains(x.actions, &acts[i]) {
			return unknown
		}
	}
	return truthOf(len(acts) > 0)
}

func contains(list []tool.Action, a *tool.Action) bool {
	for i := range list {
		b := &list[i]
		if a.Kind == b.Kind && a.Argument == b.Argument && a.Entry == b.Entry && a.Unknown == b.Unknown && a.Path == b.Path && a.Target == b.Target &&
			a.Dir == b.Dir && slices.Equal(a.Argv, b.Argv) && slices.EqualFunc(a.Input, b.Input, slices.Equal[[]string]) {
			return true
		}
	}
	return false
}

// derive reads an argument as the path, URL or command that it is.
func (r *Rules) derive(c *constraint, v any) []tool.Action {
	switch c.within {
	case readSection, writeSection, deleteSection:
		return []tool.Action{r.derivePath(fileKinds[c.within], c.base, v)}
	case networkSection:
		a := tool.Action{Kind: tool.Network}
		s, ok := v.(string)
		if !ok {
			a.Unknown = "the argument is not a string, so not a URL"
			return []tool.Action{a}
		}
		t, err := target.Parse("", s)
		if err != nil {
			a.Unknown = fault.Message(err)
		}
		// The tool's method is not known: a rule that names one does not cover it.
		t.Method = ""
		a.Target = t
		return []tool.Action{a}
	}
	return r.deriveCommand(c.base, v)
}

func (r *Rules) derivePath(kind tool.ActionKind, base string, v any) tool.Action {
	return PathArgument(kind, base, v, r.env)
}

// PathArgument reads an argument as a path, as `within` does. An ambiguous path
// becomes an unknown action, which every policy denies. A relative path is relative
// to base, which is absolute or relative to env; without a base it is unknown.
func PathArgument(kind tool.ActionKind, base string, v any, env Env) tool.Action {
	a := tool.Action{Kind: kind}
	s, ok := v.(string)
	switch {
	case !ok:
		a.Unknown = "the argument is not a string, so not a path"
	case s == "":
		a.Unknown = "the path is empty"
	case strings.TrimSpace(s) != s:
		a.Unknown = "the path begins or ends with white space, which the tool may cut off"
	case s[0] == '~':
		a.Unknown = "the path begins with ~, which the tool may read as a home folder"
	case strings.Contains(s, "://") || strings.HasPrefix(strings.ToLower(s), "file:"):
		a.Unknown = "the path looks like a URL"
	case s == ".." || strings.HasPrefix(s, "../") || strings.HasSuffix(s, "/..") || strings.Contains(s, "/../"):
		a.Unknown = "the path contains .., whose meaning depends on links"
	case s[0] != '/' && base == "":
		a.Unknown = "the path is relative, and the rule gives no base"
	case s[0] == '/':
		a.Path = path.Clean(s)
	default:
		dir, err := cleanBase(base, env)
		if err != nil {
			a.Unknown = err.Error()
		}
		a.Path = path.Join(dir, s)
	}
	return a
}

func (r *Rules) deriveCommand(base string, v any) []tool.Action {
	unknown := func(why string) []tool.Action { return []tool.Action{{Kind: tool.Command, Unknown: why}} }
	dir := ""
	if base != "" {
		var err error
		if dir, err = cleanBase(base, r.env); err != nil {
			return unknown(err.Error())
		}
	}
	switch v := v.(type) {
	case string:
		// The tool gets the text as it is, not its canonical form, so ambiguous text
		// is refused.
		return command.Actions([]string{"sh", "-c", v}, r.tool, dir)[1:]
	case []any:
		argv := make([]string, len(v))
		for i, w := range v {
			s, ok := w.(string)
			if !ok {
				return unknown("a word of the command is not a string")
			}
			argv[i] = s
		}
		if len(argv) > 0 {
			return command.Actions(argv, r.tool, dir)
		}
	}
	return unknown("the argument is not a command; expected a string or a list of strings")
}

// cleanBase is the folder that a base names.
func cleanBase(base string, env Env) (string, error) {
	dir, rest := env.Workspace, base
	switch {
	case strings.HasPrefix(base, "/"):
		dir, rest = "/", base[1:]
	case strings.HasPrefix(base, "~/"):
		if env.Home == "" {
			return "", fault.New(fault.PolicyInvalid, "base %q: the home folder is not known", base)
		}
		dir, rest = env.Home, base[2:]
	}
	out := path.Join(dir, rest)
	if why := pathProblem(out); why != "" || slices.Contains(strings.Split(rest, "/"), "..") {
		return "", fault.New(fault.PolicyInvalid, "base %q is not a valid folder: write it without ..", base)
	}
	return out, nil
}
