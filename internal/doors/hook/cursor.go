package hook

import (
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
)

// isCursors reports whether an event that came to the hook of Claude Code is Cursor's, which runs the hooks in Claude Code's
// settings, too.
func isCursors(m object) bool {
	name, _ := m["hook_event_name"].(string)
	_, roots := m["workspace_roots"]
	return roots && slices.Contains(cursorEvents, name)
}

// cursorEvents are the events of Cursor that the hook reads. No name is one of Claude Code's.
var cursorEvents = []string{"preToolUse", "beforeShellExecution", "beforeReadFile", "beforeTabFileRead", "beforeMCPExecution", "postToolUse", "afterShellExecution", "afterMCPExecution", "postToolUseFailure", "sessionEnd"}

// cursor reads the events of Cursor.
func cursor(e *Event, m object) (err error) {
	if e.name, err = m.need("hook_event_name"); err != nil {
		return err
	}
	if e.Session, err = m.text("conversation_id"); err == nil && e.Session == "" {
		e.Session, err = m.text("session_id")
	}
	if err != nil {
		return err
	}
	if e.ID, err = m.text("tool_use_id"); err != nil {
		return err
	}
	dir, err := cursorDir(m)
	if err != nil {
		return err
	}
	if err = e.setDir(dir); err != nil {
		return err
	}
	e.Asks, e.answer = true, cursorAnswer
	switch e.name {
	case "preToolUse", "beforeShellExecution", "beforeReadFile", "beforeTabFileRead", "beforeMCPExecution":
		e.Phase = Before
	case "postToolUse", "afterShellExecution", "afterMCPExecution":
		e.report(m, nil, "tool_output", "output")
	case "postToolUseFailure":
		e.Phase = After
		if e.Failed, err = failure(m); err != nil {
			return err
		}
	case "sessionEnd":
		e.Phase = End
		return nil
	default:
		e.Phase = Other
		return nil
	}
	return e.cursorCall(m)
}

// cursorDir is the folder of an event, or else the first folder of the window.
func cursorDir(m object) (string, error) {
	dir, err := m.text("cwd")
	if err != nil || dir != "" {
		return dir, err
	}
	roots, ok := m["workspace_roots"].([]any)
	if !ok || len(roots) == 0 {
		return "", nil
	}
	if dir, ok = roots[0].(string); !ok {
		return "", fault.New(fault.Usage, "workspace_roots[0] is not a string")
	}
	return dir, nil
}

func (e *Event) cursorCall(m object) error {
	switch {
	case strings.Contains(e.name, "ShellExecution"):
		e.Tool = "Shell"
		return e.cursorTool(m)
	case e.name == "beforeReadFile", e.name == "beforeTabFileRead":
		e.Tool = "Read"
		return e.cursorTool(m)
	}
	var err error
	if e.Tool, err = m.need("tool_name"); err != nil {
		return err
	}
	if strings.Contains(e.name, "MCPExecution") {
		return e.refuse("Cursor does not say which MCP server has the tool %.80q", e.Tool)
	}
	in, err := m.object("tool_input")
	if err != nil {
		return err
	}
	return e.cursorTool(in)
}

func (e *Event) cursorTool(in object) error {
	switch e.Tool {
	case "Shell":
		return e.shell(in, "working_directory", "cwd")
	case "Read":
		return e.file("fs.read", in, "file_path", "path")
	case "Write":
		return e.write(in, "content", "file_path", "path")
	case "Delete":
		return e.file("fs.delete", in, "file_path", "path")
	case "Grep":
		return e.search(in, "path")
	}
	if slices.Contains([]string{"Task", "TodoWrite"}, e.Tool) {
		e.Internal = true
		return nil
	}
	return e.unknown(in)
}

func cursorAnswer(_ *Event, v Verdict) any {
	return map[string]any{"permission": v.Effect.String(), "user_message": v.Reason, "agent_message": v.Reason}
}
