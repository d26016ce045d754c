package hook

import (
	"cmp"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// head reads what Claude Code, Codex, Gemini CLI and others have in common.
func (e *Event) head(m object) (err error) {
	if e.name, err = m.need("hook_event_name"); err != nil {
		return err
	}
	if e.Session, err = m.text("session_id"); err != nil {
		return err
	}
	if e.Tool, err = m.text("tool_name"); err != nil {
		return err
	}
	if e.ID, err = m.text("tool_use_id"); err != nil {
		return err
	}
	dir, err := m.text("cwd")
	if err != nil {
		return err
	}
	return e.setDir(dir)
}

// claude reads the events of Claude Code.
func claude(e *Event, m object) error {
	if err := e.head(m); err != nil {
		return err
	}
	mode, err := m.text("permission_mode")
	if err != nil {
		return err
	}
	if e.Transcript, err = m.text("transcript_path"); err != nil {
		return err
	}
	// In the other modes Claude Code answers its own questions. In auto it asks about a call that a hook wants confirmed, as seen
	// with version 2.1.330.
	e.Asks = slices.Contains([]string{"default", "plan", "acceptEdits", "auto"}, mode)
	e.answer, e.replace = claudeAnswer, claudeReplace
	switch e.name {
	case "PreToolUse":
		e.Phase = Before
	case "PostToolUse":
		e.report(m, claudeMasked, "tool_response")
	case "PostToolUseFailure":
		e.Phase = After
		if e.Failed, err = failure(m); err != nil {
			return err
		}
	case "SessionEnd":
		e.Phase = End
		return nil
	default:
		e.Phase = Other
		return nil
	}
	in, err := m.object("tool_input")
	if err != nil {
		return err
	}
	return e.claudeTool(in)
}

// failure is why a reported call failed.
func failure(m object) (string, error) {
	why, err := m.text("error")
	if why == "" {
		why = "the agent gave no reason"
	}
	return why, err
}

// claudeInternal are Claude Code's tools that reach nothing outside the agent, and those for worktrees, which Claude Code itself
// makes below .claude/worktrees and removes. The calls of the agents that some of them start, now or later, pass the hook by
// themselves.
var claudeInternal = []string{
	"Agent", "AskUserQuestion", "BashOutput", "CronCreate", "CronDelete", "CronList", "EnterPlanMode", "EnterWorktree", "ExitPlanMode",
	"ExitWorktree", "KillBash", "KillShell", "ListMcpResourcesTool", "OfferChromeSetup", "ProposeGoal", "ReadNotifications", "RefreshMcpTools", "ReportFindings", "ScheduleWakeup", "SendMessage", "ShowOnboardingRolePicker", "StructuredOutput", "Task",
	"TaskCreate", "TaskGet", "TaskList", "TaskOutput", "TaskStop", "TaskUpdate", "TeamCreate", "TeamDelete", "TodoRead", "TodoWrite",
	"ToolSearch", "WaitForMcpServers", "Workflow",
}

// claudeReads are the arguments of internal tools that name a file or folder: a script of agents, and an existing worktree.
var claudeReads = map[string]string{"Workflow": "scriptPath", "EnterWorktree": "path"}

func (e *Event) claudeTool(in object) error {
	switch e.Tool {
	case "Bash":
		return e.shell(in)
	case "Monitor":
		return e.monitor(in)
	case "Read":
		return e.file("fs.read", in, "file_path")
	case "LSP":
		return e.file("fs.read", in, "filePath")
	case "Write":
		return e.write(in, "content", "file_path")
	case "NotebookEdit":
		return e.write(in, "new_source", "notebook_path")
	case "Edit":
		return e.editOnce(in, "file_path", "old_string", "new_string", "replace_all")
	case "MultiEdit":
		return e.multiEdit(in)
	case "Grep":
		e.input, e.narrow = in, true
		return e.search(in, "path")
	case "Glob":
		return e.names(in, "path")
	case "LS":
		return e.file("fs.list", in, "path")
	case "WebFetch":
		return e.fetch(in)
	case "WebSearch":
		return e.call(tool.ProviderSearch, tool.Args(in))
	case "ReadMcpResourceTool", "ReadMcpResourceDirTool":
		return e.resource(in)
	case "Skill", "SlashCommand":
		return e.skill(in)
	}
	if names := mcpNames(e.Tool); names != nil {
		return e.mcpNamed(names, in)
	}
	if !slices.Contains(claudeInternal, e.Tool) {
		return e.unknown(in)
	}
	if name := claudeReads[e.Tool]; in[name] != nil && in[name] != "" {
		return e.file("fs.read", in, name)
	}
	e.Internal = true
	return nil
}

// monitor adds the command whose output Claude Code watches. It can watch a WebSocket instead.
func (e *Event) monitor(in object) error {
	if ws, err := in.arg("ws"); ws != nil || err != nil {
		return e.refuse("no policy can decide about a WebSocket of the tool Monitor; give it a command")
	}
	return e.shell(in)
}

// skill notes the skill that a tool starts.
func (e *Event) skill(in object) error {
	name, err := in.needArg("skill", "command")
	if err != nil {
		return err
	}
	name, _, _ = strings.Cut(strings.TrimLeft(strings.TrimSpace(name), "/"), " ")
	if name == "" {
		return fault.New(fault.Usage, "the call names no skill")
	}
	e.Skill, e.Internal = name, true
	return nil
}

func (e *Event) multiEdit(in object) error {
	p, err := e.needPath(in, "file_path")
	if err != nil {
		return err
	}
	list, err := in.objects("edits")
	if err != nil {
		return err
	}
	var all []any
	made := ""
	for _, one := range list {
		edits, text, err := replacement(one, "old_string", "new_string", "replace_all")
		if err != nil {
			return err
		}
		made += text
		all = append(all, edits...)
	}
	return e.edit(p, all, made)
}

// fetch adds a call that fetches a page.
func (e *Event) fetch(in object) error {
	url, err := in.needArg("url")
	if err != nil {
		return err
	}
	return e.call("http.get", tool.Args{"url": url})
}

// resource adds a call that reads a resource of an MCP server.
func (e *Event) resource(in object) error {
	server, err := in.needArg("server")
	if err != nil {
		return err
	}
	return e.mcp(server, tool.ReadResource, in)
}

// mcpNames takes the name mcp__SERVER__TOOL of an MCP server's tool apart, in each way in which it can be read: names of
// servers and tools can have two underscores, too.
func mcpNames(s string) (names [][2]string) {
	rest, ok := strings.CutPrefix(s, "mcp__")
	for i := 1; ok && i < len(rest)-2; i++ {
		if strings.HasPrefix(rest[i:], "__") {
			names = append(names, [2]string{rest[:i], rest[i+2:]})
		}
	}
	return names
}

// mcpNamed adds a call for each reading of the name of an MCP server's tool: all must be allowed.
func (e *Event) mcpNamed(names [][2]string, in object) error {
	if len(names) > maxReadings {
		return e.refuse("the tool %.80q of %s can be of more than %d MCP servers", e.Tool, e.Agent, maxReadings)
	}
	for _, n := range names {
		if err := e.mcp(n[0], n[1], in); err != nil || e.Refusal != "" {
			return err
		}
	}
	return nil
}

// maxReadings bounds the servers that the name of an MCP server's tool can be of.
const maxReadings = 8

// mcp adds a call of an MCP server's tool, as Remit names it.
func (e *Event) mcp(server, name string, in object) error {
	e.Server = cmp.Or(e.Server, server)
	id := "mcp:" + server + ":" + name
	if _, err := tool.ParseID(id); err != nil || strings.Contains(server, ":") {
		return e.refuse("remit does not know the tool %.80q of %s, and no policy can name it", e.Tool, e.Agent)
	}
	if in == nil {
		in = object{}
	}
	return e.call(tool.ID(id), tool.Args(in))
}

func claudeAnswer(_ *Event, v Verdict) any {
	return map[string]any{"hookSpecificOutput": map[string]any{
		"hookEventName": "PreToolUse", "permissionDecision": v.Effect.String(), "permissionDecisionReason": v.Reason,
	}}
}

func claudeReplace(input object, v Verdict) any {
	return map[string]any{"hookSpecificOutput": map[string]any{
		"hookEventName": "PreToolUse", "permissionDecision": v.Effect.String(), "permissionDecisionReason": v.Reason, "updatedInput": input,
	}}
}

// denyOnly answers agents for which an allowing answer has another meaning.
func denyOnly(with func(e *Event, v Verdict) any) func(e *Event, v Verdict) any {
	return func(e *Event, v Verdict) any {
		if v.Effect == policy.Allow {
			return nil
		}
		return with(e, v)
	}
}
