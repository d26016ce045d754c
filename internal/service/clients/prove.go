package clients

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
)

// Proof is the result of a canary: the installed command line was run with an event that must
// be denied and one that must be allowed.
type Proof struct {
	At     time.Time `json:"at"`
	OK     bool      `json:"ok"`
	Detail string    `json:"detail"`
}

// proofTime bounds a proof. The hook's own deadline is longer, since it may have to wait for
// other processes.
const proofTime = 15 * time.Second

// Prove runs the command line of an installation, as it stands in the agent's file now, with
// events like those of the agent, and keeps the result. The events are recorded like all
// others, as a session of their own.
func (s *Clients) Prove(ctx context.Context, one Installed) (Proof, error) {
	if one.Command == "" {
		return Proof{}, nil
	}
	ctx, stop := context.WithTimeoutCause(ctx, proofTime, fault.New(fault.ToolTimeout, "no proof within %s", proofTime))
	defer stop()
	c := canary{clients: s, one: one, session: uuid.NewString()}
	var p Proof
	if err := c.run(ctx); err != nil {
		p.Detail = fault.Message(err)
	} else {
		p.OK, p.Detail = true, c.shown()
	}
	return p, s.noted(one, p)
}

// canary is one proof.
type canary struct {
	clients *Clients
	one     Installed
	session string
}

func (c *canary) shown() string {
	if c.one.Confine {
		return "reading a private key and writing a Git hook were denied; an allowed command ran in the sandbox"
	}
	return "reading a private key and writing a Git hook were denied; an allowed command was allowed"
}

func (c *canary) run(ctx context.Context) error {
	st, err := c.clients.state(c.one)
	if err != nil {
		return err
	}
	if !st.Present {
		return fault.New(fault.Usage, "%s", strings.Join(st.Problems, "; "))
	}
	denied, err := c.ask(ctx, c.read(".ssh/remit-canary"))
	if err != nil {
		return err
	}
	if denied.decision != "deny" {
		return fault.New(fault.Internal, "reading a key was not denied: the hook answered %.200q", denied.text)
	}
	if err := c.shell(ctx, ": > .git/hooks/remit-canary", false); err != nil {
		return err
	}
	if err := c.shell(ctx, "true", true); err != nil {
		return err
	}
	_, err = c.ask(ctx, c.end())
	return err
}

// shell proves the decision on a command of the agent's shell.
func (c *canary) shell(ctx context.Context, script string, allowed bool) error {
	a, err := c.ask(ctx, c.command(script))
	if err != nil {
		return err
	}
	did := a.decision != "deny"
	if c.one.Confine {
		if a.command == "" {
			return fault.New(fault.Internal, "the hook does not send commands to the sandbox: it answered %.200q", a.text)
		}
		ran, err := c.clients.Run(ctx, a.command, c.one.Folder, nil)
		if err != nil {
			return err
		}
		if did = ran.Status == 0; !did && ran.Status != fault.Denied.Exit() || !did && allowed {
			return fault.New(fault.Internal, "the confined command %q ended with status %d: %s", script, ran.Status, firstLine(ran.Err))
		}
	}
	switch {
	case did && !allowed:
		return fault.New(fault.Internal, "the command %q was not denied", script)
	case !did && allowed:
		return fault.New(fault.Internal, "the command %q was not allowed: %.300s", script, a.text)
	}
	return nil
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

// answer is what the hook printed.
type answer struct {
	text     string
	decision string // allow, deny or ask
	command  string // the agent's shell runs it in place of its command
}

// ask runs the hook with one event.
func (c *canary) ask(ctx context.Context, event map[string]any) (answer, error) {
	line := c.one.Command
	if name, ok := event[eventFlag].(string); ok {
		line += eventFlag + name
		delete(event, eventFlag)
	}
	input, err := json.Marshal(event)
	if err != nil {
		return answer{}, fault.Wrap(fault.Internal, err, "an event cannot be encoded")
	}
	ran, err := c.clients.Run(ctx, line, c.one.Folder, input)
	if err != nil {
		return answer{}, err
	}
	if ran.Status != 0 {
		return answer{}, fault.New(fault.Internal, "the hook ended with status %d: %s", ran.Status, errorLine(ran.Err))
	}
	return answered(ran.Out)
}

// errorLine is the line of a hook's message that says why.
func errorLine(text string) string {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "error: "); ok {
			return strings.TrimSpace(rest)
		}
	}
	return firstLine(text)
}

// answered reads an answer in the form of any agent. No text is an allowing answer.
func answered(text string) (answer, error) {
	a := answer{text: strings.TrimSpace(text), decision: "allow"}
	if a.text == "" {
		return a, nil
	}
	type input struct {
		Command string `json:"command"`
	}
	var m struct {
		Own struct {
			Decision string `json:"permissionDecision"`
			Updated  input  `json:"updatedInput"`
			Merged   input  `json:"tool_input"`
		} `json:"hookSpecificOutput"`
		Decision   string `json:"decision"`
		Permission string `json:"permission"`
		Copilot    string `json:"permissionDecision"`
		Modified   input  `json:"modifiedArgs"`
	}
	if err := json.Unmarshal([]byte(a.text), &m); err != nil {
		return a, fault.New(fault.Internal, "the hook printed what agents cannot read: %.200q", a.text)
	}
	a.command = m.Own.Updated.Command + m.Own.Merged.Command + m.Modified.Command
	if d := m.Own.Decision + m.Decision + m.Permission + m.Copilot; d != "" {
		a.decision = d
	}
	return a, nil
}

// event has the fields that all events of the agent have, as the agent sends them.
func (c *canary) event(name string) map[string]any {
	dir := c.one.Folder
	switch c.one.Agent {
	case "antigravity":
		return map[string]any{"conversationId": c.session, "workspacePaths": []any{dir}, eventFlag: name}
	case "copilot":
		return map[string]any{"sessionId": c.session, "timestamp": time.Now().UnixMilli(), "cwd": dir}
	case "cursor":
		return map[string]any{"conversation_id": c.session, "hook_event_name": name, "workspace_roots": []any{dir}}
	}
	return map[string]any{"session_id": c.session, "cwd": dir, "hook_event_name": name, "permission_mode": "dontAsk"}
}

// call is an event before a call of the agent's tool.
func (c *canary) call(tool string, input map[string]any) map[string]any {
	e := c.event(map[string]string{"antigravity": "PreToolUse", "gemini": "BeforeTool", "cursor": "preToolUse"}[c.one.Agent])
	switch c.one.Agent {
	case "antigravity":
		e["toolCall"] = map[string]any{"name": tool, "args": input}
		return e
	case "copilot":
		e["toolName"], e["toolArgs"] = tool, input
		return e
	case "claude", "codex":
		e["hook_event_name"] = "PreToolUse"
	}
	e["tool_name"], e["tool_input"] = tool, input
	if c.one.Agent != "gemini" {
		e["tool_use_id"] = fmt.Sprintf("canary-%s", uuid.NewString())
	}
	return e
}

func (c *canary) read(name string) map[string]any {
	file := filepath.Join(c.one.Folder, name)
	switch c.one.Agent {
	case "antigravity":
		return c.call("view_file", map[string]any{"AbsolutePath": file})
	case "codex":
		return c.call("view_image", map[string]any{"path": file})
	case "copilot":
		return c.call("view", map[string]any{"path": file})
	case "gemini":
		return c.call("read_file", map[string]any{"file_path": file})
	}
	return c.call("Read", map[string]any{"file_path": file})
}

func (c *canary) command(script string) map[string]any {
	if c.one.Agent == "antigravity" {
		return c.call("run_command", map[string]any{"CommandLine": script, "Cwd": c.one.Folder})
	}
	tool := map[string]string{"copilot": "bash", "cursor": "Shell", "gemini": "run_shell_command"}[c.one.Agent]
	if tool == "" {
		tool = "Bash"
	}
	return c.call(tool, map[string]any{"command": script})
}

// end is the event that ends the session.
func (c *canary) end() map[string]any {
	e := c.event(map[string]string{"cursor": "sessionEnd"}[c.one.Agent])
	if c.one.Agent == "copilot" {
		e["reason"] = "complete"
	} else if c.one.Agent == "antigravity" {
		e[eventFlag] = "SessionEnd"
	} else if c.one.Agent != "cursor" {
		e["hook_event_name"] = "SessionEnd"
	}
	return e
}
