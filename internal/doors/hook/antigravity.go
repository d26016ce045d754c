package hook

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/doors/hookwire"
)

// antigravity reads the events of Google's Antigravity CLI and IDE. They have no name: the hook's own command line has it,
// or else their fields tell it. Its user is not asked: the answer "ask" has another effect in each version.
func antigravity(e *Event, m object) (err error) {
	if e.Session, err = m.text("conversationId"); err != nil {
		return err
	}
	if e.ID, err = m.step(); err != nil {
		return err
	}
	dir, err := m.first("workspacePaths")
	if err != nil {
		return err
	}
	if err = e.setDir(dir); err != nil {
		return err
	}
	call, err := m.object("toolCall")
	if err != nil {
		return err
	}
	e.answer = geminiAnswer
	if e.name == "" {
		e.name = antigravityEvent(m, call)
	}
	switch e.name {
	case "PreToolUse":
		e.Phase = Before
	case "PostToolUse":
		e.Phase, e.silent = After, noReport
		if e.Failed, err = m.text("error"); err != nil || call == nil && e.ID != "" {
			return err // the report is about the call with this ID
		}
	case "SessionEnd":
		e.Phase = End
		return nil
	case "":
		return fault.New(fault.Usage, "the event has no \"toolCall\", and is not known as another event of Antigravity").
			WithHint("run the hook of the agent that sends the event: remit hook AGENT")
	default:
		e.Phase = Other
		return nil
	}
	if e.Tool, err = call.need("name"); err != nil {
		return err
	}
	in, err := call.object("args")
	if err != nil {
		return err
	}
	return e.antigravityTool(in)
}

// isAntigravitys reports whether an event that came to the hook of another agent is Antigravity's.
func isAntigravitys(m object) bool {
	_, conversation := m["conversationId"]
	_, named := m["hook_event_name"]
	return conversation && !named
}

// isGeminis reports whether an event that came to Antigravity's hook is of Gemini CLI, its predecessor.
func isGeminis(m object) bool {
	name, _ := m["hook_event_name"].(string)
	return slices.Contains([]string{"BeforeTool", "AfterTool"}, name)
}

// lifecycle are fields of Antigravity's events that are about no tool call.
var lifecycle = []string{"invocationNum", "initialNumSteps", "terminationReason", "executionNum", "fullyIdle"}

// antigravityEvent is the name of an event by its fields; "": none has them. A possible question about a call counts as one.
func antigravityEvent(m, call object) string {
	_, reports := m["error"]
	switch {
	case call != nil:
		return "PreToolUse"
	case slices.ContainsFunc(lifecycle, func(name string) bool { return m[name] != nil }):
		return "Stop"
	case reports:
		return "PostToolUse"
	}
	return ""
}

// step is the ID of a tool call by the number of its step; "": it has none.
func (o object) step() (string, error) {
	switch v := o["stepIdx"].(type) {
	case nil:
		return "", nil
	case json.Number:
		return "step-" + v.String(), nil
	}
	return "", fault.New(fault.Usage, "the field \"stepIdx\" is not a number")
}

// first is the first text of a list; "": there is none.
func (o object) first(name string) (string, error) {
	list, ok := o[name].([]any)
	if !ok && o[name] != nil {
		return "", fault.New(fault.Usage, "the field %q is not a list", name)
	}
	if len(list) == 0 {
		return "", nil
	}
	text, ok := list[0].(string)
	if !ok {
		return "", fault.New(fault.Usage, "%s[0] is not a string", name)
	}
	return text, nil
}

// renamed gives the arguments of a tool under the names that this package's functions know. names are pairs: the agent's
// name, and the other; an agent's name that ends with ! must be there.
func (o object) renamed(names ...string) (object, error) {
	out := object{}
	for i := 0; i < len(names); i += 2 {
		name, needed := strings.CutSuffix(names[i], "!")
		v, err := o.arg(name)
		if err != nil {
			return nil, err
		}
		if needed && (v == nil || v == "") {
			return nil, fault.New(fault.Usage, "the field %q is missing or empty", name)
		}
		if v != nil {
			out[names[i+1]] = v
		}
	}
	return out, nil
}

// antigravityInternal are Antigravity's tools that reach nothing outside the agent. The calls of agents that some of them
// start, now or later, pass the hook by themselves.
var antigravityInternal = []string{
	"ask_permission", "ask_question", "command_status", "define_subagent", "finish", "invoke_subagent", "list_permissions", "list_resources", "manage_subagents", "notify_user",
	"schedule", "send_message", "task_boundary",
}

func (e *Event) antigravityTool(in object) error {
	with := func(carry func(in object) error, names ...string) error {
		args, err := in.renamed(names...)
		if err != nil {
			return err
		}
		return carry(args)
	}
	switch e.Tool {
	case "run_command":
		return with(func(in object) error { return e.shell(in, "cwd") }, "CommandLine!", "command", "Cwd", "cwd")
	case "view_file", "view_file_outline":
		return with(func(in object) error { return e.file("fs.read", in, "path") }, "AbsolutePath!", "path")
	case "view_code_item":
		return with(func(in object) error { return e.file("fs.read", in, "path") }, "File!", "path")
	case "list_dir":
		return with(func(in object) error { return e.file("fs.list", in, "path") }, "DirectoryPath!", "path")
	case "write_to_file":
		return with(func(in object) error { return e.write(in, "content", "path") }, "TargetFile!", "path", "CodeContent", "content")
	case "replace_file_content":
		return with(func(in object) error { return e.editOnce(in, "path", "old", "new", "all") },
			"TargetFile!", "path", "TargetContent", "old", "ReplacementContent", "new", "AllowMultiple", "all")
	case "multi_replace_file_content":
		return e.antigravityEdits(in)
	case "grep_search":
		return with(func(in object) error { return e.search(in, "path") }, "SearchPath", "path", "Query!", "pattern")
	case "find_by_name":
		return with(func(in object) error { return e.names(in, "path") }, "SearchDirectory", "path", "Pattern", "pattern")
	case "read_url_content":
		return with(e.fetch, "Url!", "url")
	case "search_web":
		return e.call(tool.ProviderSearch, tool.Args(in))
	case "call_mcp_tool", "read_resource":
		return e.antigravityMCP(in)
	}
	if names := underscored(e.Tool); names != nil {
		return e.mcpNamed(names, in)
	}
	if !slices.Contains(antigravityInternal, e.Tool) {
		return e.unknown(in)
	}
	e.Internal = true
	return nil
}

// antigravityEdits adds the edit of several places of a file.
func (e *Event) antigravityEdits(in object) error {
	args, err := in.renamed("TargetFile!", "file_path", "ReplacementChunks!", "edits")
	if err != nil {
		return err
	}
	list, err := args.objects("edits")
	if err != nil {
		return err
	}
	chunks := make([]any, len(list))
	for i, one := range list {
		chunk, err := one.renamed("TargetContent", "old_string", "ReplacementContent", "new_string", "AllowMultiple", "replace_all")
		if err != nil {
			return fault.Wrap(fault.CodeOf(err), err, "ReplacementChunks[%d]: %s", i, fault.Message(err))
		}
		chunks[i] = map[string]any(chunk)
	}
	args["edits"] = chunks
	return e.multiEdit(args)
}

// antigravityMCP adds the call of an MCP server's tool, or of one of its resources.
func (e *Event) antigravityMCP(in object) error {
	server, err := in.need("ServerName")
	if err != nil {
		return err
	}
	if e.Tool == "read_resource" {
		return e.mcp(server, tool.ReadResource, in)
	}
	name, err := in.need("ToolName")
	if err != nil {
		return err
	}
	args, err := in.object("Arguments")
	if err != nil {
		return err
	}
	return e.mcp(server, name, args)
}

// underscored takes the name mcp_SERVER_TOOL of an MCP server's tool apart, in each way in which it can be read.
func underscored(name string) (names [][2]string) {
	rest, ok := strings.CutPrefix(name, "mcp_")
	for i := 1; ok && i < len(rest)-1; i++ {
		if rest[i] == '_' {
			names = append(names, [2]string{rest[:i], rest[i+1:]})
		}
	}
	return names
}

// Blocked is what the hook prints beside an error, for an agent that does not take the exit status for an answer; nil:
// nothing. The event is a report, or else it may ask about a call. name is that of [ParseNamed].
func Blocked(agent, name string, src []byte, report bool, why string) []byte {
	v, _ := canon.DecodeLenient(src[:min(len(src), hookwire.MaxEvent)], maxValues)
	m, _ := v.(map[string]any)
	if sender(agent, m) != "antigravity" {
		return nil
	}
	if report || name != "" && name != "PreToolUse" {
		return []byte(noReport)
	}
	b, err := encode(geminiAnswer(nil, Verdict{Reason: "remit: " + why}))
	if err != nil { // cannot be: it is text
		return []byte(`{"decision":"deny"}` + "\n")
	}
	return b
}

// noReport is Antigravity's answer to a report. It takes no text for an error, and any field as well.
const noReport = "{}\n"
