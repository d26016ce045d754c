package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/doors/hook"
	"github.com/remitrun/remit/internal/service/clients"
	"github.com/remitrun/remit/internal/service/policyreview"
	"github.com/remitrun/remit/internal/service/runs"
)

// settleFiles completes the paths in arguments of an unknown tool, and marks the certain ones.
func (s *session) settleFiles(e *hook.Event) {
	person, _ := s.lookup("HOME")
	for i, c := range e.Calls {
		path, ok := c.Args["path"].(string)
		if c.Argument == "" || !ok {
			continue
		}
		if rest, home := strings.CutPrefix(path, "~/"); home && filepath.IsAbs(person) {
			path = filepath.Join(person, rest)
			c.Args["path"] = path
		}
		e.Calls[i].Guess = c.Guess && !isFile(path, e.Dir)
	}
}

// isFile reports whether a text that may be a path is one: the file exists; or it could be made in a folder that exists,
// which is neither the project's own nor at the top, as in "/home/settings".
func isFile(path, project string) bool {
	if _, err := os.Lstat(path); err == nil {
		return strings.Trim(path, "/") != "" // a separator
	}
	dir := filepath.Dir(path)
	if strings.ContainsFunc(path, unicode.IsSpace) || strings.Count(dir, "/") < 2 || strings.HasPrefix(path, project+"/") {
		return false
	}
	st, err := os.Stat(dir)
	return err == nil && st.IsDir()
}

// settle leaves those calls of an unknown tool out whose argument may be plain text and that the policies have nothing
// against. Where the policies ask about the tool itself, a command that no entry knows is part of that question. An error
// is a command that would run outside of the sandbox without a question.
func (h *hookDoor) settle(c *runs.ClientSession, e *hook.Event) error {
	last := len(e.Calls) - 1
	if e.About() == "" {
		return nil
	}
	effect := c.Ahead(runner.Call{Tool: e.Calls[last].Tool, Args: e.Calls[last].Args})
	for _, call := range e.Calls[:last] {
		if call.Tool == "shell.run" && !call.Guess && h.confine && effect == policy.Allow {
			return e.RefusedCommand(call)
		}
	}
	concerns := func(call hook.Call) bool { return c.Concerns(runner.Call{Tool: call.Tool, Args: call.Args}) }
	e.Calls = slices.DeleteFunc(e.Calls, func(call hook.Call) bool { return call.Guess && !concerns(call) })
	h.about = e.About()
	if effect == policy.Ask {
		e.Calls = slices.DeleteFunc(e.Calls, func(call hook.Call) bool { return call.Tool == "shell.run" && !concerns(call) })
	}
	return nil
}

// aboutCall puts the tool and its argument before a reason, where an argument of an unknown tool is decided.
func (h *hookDoor) aboutCall(e *hook.Event, i int, v hook.Verdict) hook.Verdict {
	switch {
	case h.about == "":
	case v.Effect == policy.Ask:
		v.Reason = h.about + ": " + v.Reason
	case v.Effect == policy.Deny && e.Calls[i].Argument != "":
		v.Reason = strings.Replace(v.Reason, "remit: ", "remit: "+e.AboutArgument(i)+": ", 1)
	}
	return v
}

// explainCall explains the decision on a call. For an agent's unknown tool it combines the decisions on its arguments, as
// the agent's hook does.
func (s *session) explainCall(explain func(tool.ID, tool.Args) (policyreview.Explanation, error), workspace string, id tool.ID, args tool.Args) (policyreview.Explanation, error) {
	out, err := explain(id, args)
	agent, name, ok := strings.Cut(strings.TrimPrefix(string(id), tool.AgentTools), ":")
	if err != nil || !ok || !strings.HasPrefix(string(id), tool.AgentTools) {
		return out, err
	}
	e, err := hook.UnknownTool(agent, name, workspace, args)
	if err == nil && e.Refusal != "" {
		err = fault.New(fault.Denied, "%s", e.Refusal)
	}
	if err != nil {
		return out, err
	}
	s.settleFiles(e)
	asks := out.Effect == policy.Ask.String()
	rank := []string{policy.Deny.String(), policy.Ask.String(), policy.Allow.String()}
	confined := out.Effect == policy.Allow.String() && clients.Confines(agent)
	for i, c := range e.Calls[:len(e.Calls)-1] {
		one, err := explain(c.Tool, c.Args)
		if (c.Guess || asks && c.Tool == "shell.run") && (err != nil || !one.Concerned) {
			continue
		}
		if err != nil {
			return out, err
		}
		if confined && !c.Guess && c.Tool == "shell.run" && one.Effect != policy.Deny.String() {
			one.Effect, one.Rule, one.Reason = policy.Deny.String(), "", fault.Message(e.RefusedCommand(c))
		}
		out.Actions, out.Rules = append(out.Actions, one.Actions...), append(out.Rules, one.Rules...)
		if slices.Index(rank, one.Effect) < slices.Index(rank, out.Effect) {
			out.Effect, out.Rule, out.Reason = one.Effect, one.Rule, e.AboutArgument(i)+": "+one.Reason
		}
	}
	return out, nil
}
