package hook

import (
	"path/filepath"
	"slices"

	"github.com/remitrun/remit/internal/base/tool"
)

// gemini reads the events of Gemini CLI. Its user is not asked: an "ask" makes it hang.
func gemini(e *Event, m object) error {
	if err := e.head(m); err != nil {
		return err
	}
	e.answer, e.replace = denyOnly(geminiAnswer), geminiReplace
	switch e.name {
	case "BeforeTool":
		e.Phase = Before
	case "AfterTool":
		e.report(m, geminiMasked, "tool_response")
		if why, ok := e.Output["error"]; ok && why != nil {
			e.Failed = "the agent reported an error"
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
	from, err := m.object("mcp_context")
	if err != nil {
		return err
	}
	if from != nil {
		return e.geminiMCP(from, in)
	}
	return e.geminiTool(in)
}

func (e *Event) geminiMCP(from, in object) error {
	server, err := from.need("server_name")
	if err != nil {
		return err
	}
	name, err := from.need("tool_name")
	if err != nil {
		return err
	}
	return e.mcp(server, name, in)
}

// geminiInternal are Gemini CLI's tools that reach nothing outside the agent. The calls of agents that they start pass the hook.
var geminiInternal = []string{
	"ask_user", "complete_task", "enter_plan_mode", "exit_plan_mode", "get_internal_docs", "invoke_agent", "list_mcp_resources", "tracker_add_dependency",
	"tracker_create_task", "tracker_get_task", "tracker_list_tasks", "tracker_update_task", "tracker_visualize", "update_topic", "write_todos",
}

func (e *Event) geminiTool(in object) error {
	switch e.Tool {
	case "run_shell_command":
		return e.shell(in, "dir_path", "directory")
	case "read_file":
		return e.file("fs.read", in, "file_path", "absolute_path")
	case "write_file":
		return e.write(in, "content", "file_path")
	case "replace":
		if p, _ := in["file_path"].(string); !filepath.IsAbs(p) {
			e.Needs = e.Dir + "/" + p
		}
		return e.editOnce(in, "file_path", "old_string", "new_string", "allow_multiple")
	case "list_directory":
		return e.file("fs.list", in, "dir_path", "path")
	case "glob":
		return e.names(in, "dir_path")
	case "grep_search", "search_file_content":
		return e.search(in, "dir_path", "path")
	case "google_web_search":
		return e.call(tool.ProviderSearch, tool.Args(in))
	}
	if slices.Contains(geminiInternal, e.Tool) {
		e.Internal = true
		return nil
	}
	return e.unknown(in)
}

func geminiReplace(input object, v Verdict) any {
	return map[string]any{"decision": v.Effect.String(), "reason": v.Reason, "hookSpecificOutput": map[string]any{"tool_input": input}}
}

func geminiAnswer(_ *Event, v Verdict) any {
	return map[string]any{"decision": v.Effect.String(), "reason": v.Reason}
}
