package hook

import (
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/tool"
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
		e.Phase, e.Output = After, m.output("tool_response")
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

func (e *Event) codexTool(in object) error {
	switch e.Tool {
	case "Bash":
		return e.shell(in, e.Dir)
	case "apply_patch", "Edit", "Write":
		patch, err := in.need("command", "input", "patch")
		if err != nil {
			return err
		}
		return e.patch(patch)
	case "view_image":
		return e.file("fs.read", in, "path")
	}
	if server, name, ok := mcpName(e.Tool); ok {
		return e.mcp(server, name, in)
	}
	if slices.Contains([]string{"update_plan", "request_user_input"}, e.Tool) {
		e.Internal = true
		return nil
	}
	return e.unknown()
}

// patch adds one call for each file of a patch in Codex' format.
func (e *Event) patch(text string) error {
	lines := strings.Split(strings.TrimSpace(strings.ReplaceAll(text, "\r\n", "\n")), "\n")
	if len(lines) < 2 || strings.TrimSpace(lines[0]) != "*** Begin Patch" || strings.TrimSpace(lines[len(lines)-1]) != "*** End Patch" {
		return e.refuse("the patch cannot be read: it does not stand between *** Begin Patch and *** End Patch")
	}
	lines = lines[1 : len(lines)-1]
	for len(lines) > 0 {
		head := lines[0]
		n := 1
		for n < len(lines) && !isPatchHead(lines[n]) {
			n++
		}
		if err := e.patchFile(head, lines[1:n]); err != nil || e.Refusal != "" {
			e.Calls = nil
			return err
		}
		lines = lines[n:]
	}
	if len(e.Calls) == 0 {
		return e.refuse("the patch names no file")
	}
	return nil
}

var patchHeads = [...]string{"*** Add File: ", "*** Update File: ", "*** Delete File: "}

func isPatchHead(line string) bool {
	return slices.ContainsFunc(patchHeads[:], func(h string) bool { return strings.HasPrefix(strings.TrimLeft(line, " \t"), h) })
}

// patchFile adds the calls for one file of a patch.
func (e *Event) patchFile(head string, body []string) error {
	head = strings.TrimSpace(head)
	verb, name, ok := strings.Cut(head, ": ")
	if !ok || strings.TrimSpace(name) == "" {
		return e.refuse("the patch cannot be read: %.80q names no file", head)
	}
	path, err := e.path(strings.TrimSpace(name))
	if err != nil {
		return err
	}
	switch verb {
	case "*** Delete File":
		return e.call("fs.delete", tool.Args{"path": path})
	case "*** Add File":
		var content strings.Builder
		for _, line := range body {
			content.WriteString(strings.TrimPrefix(line, "+") + "\n")
		}
		return e.call("fs.write", tool.Args{"path": path, "content": content.String()})
	case "*** Update File":
		return e.patchUpdate(path, body)
	}
	return e.refuse("the patch cannot be read: %.80q is not a valid line", head)
}

// patchUpdate adds the edit of one file, and its move.
func (e *Event) patchUpdate(path string, body []string) error {
	to := ""
	var edits []any
	var old, after strings.Builder
	flush := func() {
		if old.Len() > 0 {
			edits = append(edits, map[string]any{"old": old.String(), "new": after.String()})
		}
		old.Reset()
	}
	made := ""
	for _, line := range body {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "*** Move to: "); ok {
			var err error
			if to, err = e.path(strings.TrimSpace(name)); err != nil {
				return err
			}
			continue
		}
		switch {
		case strings.HasPrefix(line, "@@"), strings.HasPrefix(line, "*** End of File"):
			flush()
			after.Reset()
		case strings.HasPrefix(line, "-"):
			old.WriteString(line[1:] + "\n")
		case strings.HasPrefix(line, "+"):
			after.WriteString(line[1:] + "\n")
			made += line[1:] + "\n"
		default:
			context := strings.TrimPrefix(line, " ") + "\n"
			old.WriteString(context)
			after.WriteString(context)
		}
	}
	flush()
	if err := e.edit(path, edits, made); err != nil || to == "" {
		return err
	}
	return e.call("fs.move", tool.Args{"from": path, "to": to})
}
