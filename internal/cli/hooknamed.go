package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
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

// settleFiles completes the paths in arguments of an unknown tool, marks the certain ones, and adds guesses for the files that
// texts and patterns name.
func (s *session) settleFiles(ctx context.Context, e *hook.Event) {
	if e.About() == "" {
		return
	}
	person, _ := s.lookup("HOME")
	known := map[string]bool{}
	var patterns []string
	for i, c := range e.Calls {
		path, ok := c.Args["path"].(string)
		if c.Argument == "" || !ok {
			continue
		}
		path = fromHome(path, person)
		c.Args["path"], known[path] = path, true
		exists := isFile(path, e.Dir)
		prose := c.Guess && strings.ContainsFunc(path, unicode.IsSpace)
		e.Calls[i].Text, e.Calls[i].Guess = c.Guess, c.Guess && !exists
		e.Calls[i].Absent = !exists && (prose || isAbsent(path, e.Dir, person))
		if exists && (c.Guess || len(e.Calls) > hook.MaxCalls) { // its links may not be looked up later
			e.Texts = append(e.Texts, hook.Text{Argument: c.Argument, Path: path})
		}
		if c.Pattern() {
			patterns = append(patterns, path)
		}
	}
	for _, path := range runs.Matching(ctx, patterns) {
		e.Texts = append(e.Texts, hook.Text{Argument: "a pattern", Path: path})
	}
	last := e.Calls[len(e.Calls)-1]
	e.Calls = e.Calls[:len(e.Calls)-1]
	for _, text := range e.Texts {
		for _, path := range existing(fromHome(text.Path, person)) {
			if !known[path] {
				known[path] = true
				e.Calls = append(e.Calls, hook.Call{Tool: "fs.read", Args: tool.Args{"path": path}, Argument: text.Argument, Guess: true, Text: true})
			}
		}
	}
	e.Calls = append(e.Calls, last)
}

// existing gives the path of a file and its path without links; nil for a missing file.
func existing(path string) []string {
	if _, err := os.Lstat(path); err != nil {
		return nil
	}
	if real, err := filepath.EvalSymlinks(path); err == nil && real != path {
		return []string{path, real}
	}
	return []string{path}
}

// fromHome completes a path that begins with a home folder.
func fromHome(path, person string) string {
	name, rest, ok := strings.Cut(path, "/")
	switch {
	case !ok || !filepath.IsAbs(person):
	case name == "~", name == "$HOME", name == "${HOME}":
		return filepath.Join(person, rest)
	case name == "~root":
		return filepath.Join("/root", rest)
	case strings.HasPrefix(name, "~"):
		return filepath.Join(filepath.Dir(person), name[1:], rest)
	}
	return path
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

// isAbsent reports whether nothing can be at a path, as at /api/token: its folder does not exist, and it is neither in the
// project nor in the home folder.
func isAbsent(path string, in ...string) bool {
	_, err := os.Stat(filepath.Dir(path))
	return errors.Is(err, fs.ErrNotExist) && !slices.ContainsFunc(in, func(dir string) bool { return dir == "" || strings.HasPrefix(path, dir+"/") })
}

// counts reports whether a call for an argument of an unknown tool is decided. If the policies ask about the tool, the question
// shows commands and existing files in other arguments than a path's, and only an entry or a sensitive name denies them.
func counts(call hook.Call, concern runs.Concern, asks bool) bool {
	switch {
	case concern == runs.ByEntry:
		return true
	case asks && call.Absent:
		return false
	case concern == runs.ByName:
		return true
	}
	return !call.Guess && !(asks && (call.Tool == "shell.run" || call.Text))
}

// settle leaves those calls of an unknown tool out whose argument may be plain text and that the policies have nothing
// against. An error is a command that would run outside of the sandbox without a question, or too many arguments.
func (h *hookDoor) settle(c *runs.ClientSession, e *hook.Event) error {
	last := len(e.Calls) - 1
	if h.about = e.About(); h.about == "" {
		return nil
	}
	effect := c.Ahead(runner.Call{Tool: e.Calls[last].Tool, Args: e.Calls[last].Args})
	for _, call := range e.Calls[:last] {
		if call.Tool == "shell.run" && !call.Guess && h.confine && effect == policy.Allow {
			return e.RefusedCommand(call)
		}
	}
	e.Calls = slices.DeleteFunc(e.Calls, func(call hook.Call) bool {
		return call.Argument != "" && !counts(call, c.Concerns(runner.Call{Tool: call.Tool, Args: call.Args}), effect == policy.Ask)
	})
	if many := len(e.Calls); many > hook.MaxCalls {
		if effect != policy.Ask {
			return e.RefusedMany()
		}
		e.Calls = slices.DeleteFunc(e.Calls, func(call hook.Call) bool {
			return call.Argument != "" && c.Ahead(runner.Call{Tool: call.Tool, Args: call.Args}) == policy.Allow
		})
		e.Calls = e.Calls[max(0, len(e.Calls)-hook.MaxCalls):]
		h.about += fmt.Sprintf(" (%d files, URLs and commands in all)", many-1)
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
func (s *session) explainCall(ctx context.Context, explain func(tool.ID, tool.Args) (policyreview.Explanation, error), workspace string, id tool.ID, args tool.Args) (policyreview.Explanation, error) {
	out, err := explain(id, args)
	agent, name, ok := strings.Cut(strings.TrimPrefix(string(id), tool.AgentTools), ":")
	if err != nil || !ok || !strings.HasPrefix(string(id), tool.AgentTools) {
		return out, err
	}
	e, err := hook.UnknownTool(agent, name, workspace, args)
	if err == nil {
		s.settleFiles(ctx, e)
	}
	if err == nil && e.Refusal != "" {
		err = fault.New(fault.Denied, "%s", e.Refusal)
	}
	if err != nil {
		return out, err
	}
	asks := out.Effect == policy.Ask.String()
	rank := []string{policy.Deny.String(), policy.Ask.String(), policy.Allow.String()}
	confined := out.Effect == policy.Allow.String() && clients.Confines(agent)
	for i, c := range e.Calls[:len(e.Calls)-1] {
		one, err := explain(c.Tool, c.Args)
		if !counts(c, one.Concern, asks) {
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

// searched gives the files and folders of which each file must be readable; nil, if the search leaves the others out.
func searched(ctx context.Context, c *runs.ClientSession, e *hook.Event) []string {
	if e.CanLeaveOut() {
		if names, ok := c.Unreadable(ctx, e.Search); ok && (len(names) == 0 || e.LeaveOut(names)) {
			return nil
		}
	}
	return e.Search
}
