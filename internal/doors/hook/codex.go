package hook

import (
	"slices"

	"github.com/remitrun/remit/internal/base/regex"
)

// codex reads the events of Codex. It runs the tool after "ask", and after "allow" without
// other input fields, so it only gets denials.
func codex(e *Event, m object) error {
	if err := e.head(m); err != nil {
		return err
	}
	e.answer, e.replace = denyOnly(claudeAnswer), claudeReplace
	switch e.name {
	case "PreToolUse":
		e.Phase = Before
	case "PostToolUse":
		e.report(m, codexMasked, "tool_response")
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
	return e.codexTool(in)
}

// patchInShell finds scripts whose patch Codex applies without a shell.
var patchInShell = regex.Lazy(`(?s)(^|[^\w./-])apply_?patch\b.*<<`)

func (e *Event) codexTool(in object) error {
	switch e.Tool {
	case "Bash":
		if script, _ := in["command"].(string); patchInShell.MatchString(script) {
			return e.refuse("Codex carries a patch in a shell command out by itself; use its tool apply_patch")
		}
		return e.shell(in)
	case "apply_patch", "Edit", "Write":
		patch, err := in.needArg("command", "input", "patch")
		if err != nil {
			return err
		}
		return e.patch(patch)
	case "view_image":
		return e.file("fs.read", in, "path")
	}
	if names := mcpNames(e.Tool); names != nil {
		return e.mcpNamed(names, in)
	}
	if slices.Contains([]string{"update_plan", "request_user_input"}, e.Tool) {
		e.Internal = true
		return nil
	}
	return e.unknown(in)
}
