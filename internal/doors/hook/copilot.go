package hook

import "slices"

// copilot reads the events of GitHub Copilot CLI, in both of its forms: with its own names
// of fields, and with those of Claude Code.
func copilot(e *Event, m object) error {
	if _, ok := m["hook_event_name"]; ok {
		return copilotPascal(e, m)
	}
	var err error
	if e.Session, err = m.text("sessionId"); err != nil {
		return err
	}
	if e.Tool, err = m.text("toolName"); err != nil {
		return err
	}
	dir, err := m.text("cwd")
	if err != nil {
		return err
	}
	if err := e.setDir(dir); err != nil {
		return err
	}
	e.Asks, e.answer, e.replace = true, copilotAnswer, copilotReplace
	switch _, done := m["toolResult"]; {
	case e.Tool == "":
		e.Phase = Other
		if _, ended := m["reason"]; ended {
			e.Phase = End
		}
		return nil
	case done:
		e.report(m, copilotMasked, "toolResult")
		if kind, ok := e.Output["resultType"].(string); ok && kind != "success" {
			e.Failed = kind
		}
	default:
		e.Phase = Before
	}
	in, err := m.object("toolArgs")
	if err != nil {
		return err
	}
	return e.copilotTool(in)
}

func copilotPascal(e *Event, m object) error {
	if err := e.head(m); err != nil {
		return err
	}
	e.Asks, e.answer = true, claudeAnswer
	switch e.name {
	case "PreToolUse":
		e.Phase = Before
	case "PostToolUse":
		e.report(m, copilotPascalMasked, "tool_response", "tool_result")
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
	if e.Tool == "Bash" || e.Tool == "Read" || e.Tool == "Write" || e.Tool == "Edit" {
		return e.claudeTool(in)
	}
	return e.copilotTool(in)
}

var copilotInternal = []string{
	"ask_user", "exit_plan_mode", "fetch_copilot_cli_documentation", "list_agents", "list_bash", "read_agent", "read_bash", "report_intent", "stop_bash", "task", "task_complete", "update_todo",
}

func (e *Event) copilotTool(in object) error {
	switch e.Tool {
	case "bash":
		return e.shell(in)
	case "view":
		return e.file("fs.read", in, "path")
	case "create":
		return e.write(in, "file_text", "path")
	case "edit", "str_replace":
		return e.editOnce(in, "path", "old_str", "new_str", "replace_all")
	case "apply_patch":
		patch, err := in.needArg("patch", "input", "command")
		if err != nil {
			return err
		}
		return e.patch(patch)
	case "grep", "rg":
		return e.search(in, "paths", "path")
	case "glob":
		return e.names(in, "paths", "path")
	case "web_fetch":
		return e.fetch(in)
	}
	if slices.Contains(copilotInternal, e.Tool) {
		e.Internal = true
		return nil
	}
	return e.unknown(in)
}

func copilotReplace(input object, v Verdict) any {
	return map[string]any{"permissionDecision": v.Effect.String(), "permissionDecisionReason": v.Reason, "modifiedArgs": input}
}

func copilotAnswer(_ *Event, v Verdict) any {
	return map[string]any{"permissionDecision": v.Effect.String(), "permissionDecisionReason": v.Reason}
}
