package hook

import (
	"slices"
	"strings"
	"unicode"

	"github.com/remitrun/remit/internal/base/tool"
)

// Lines of a patch. Agents read the format leniently, and each in its own way, so a line that
// is not exactly in the grammar refuses the whole patch:
//
//	patch:  "*** Begin Patch" file+ "*** End Patch"
//	file:   "*** Add File: " path, then lines with "+"
//	        "*** Delete File: " path
//	        "*** Update File: " path, "*** Move to: " path or nothing, then chunks
//	chunk:  "@@" or "@@ " context or nothing, then lines with " ", "+" or "-" or empty lines,
//	        then "*** End of File" or nothing
const (
	patchBegin  = "*** Begin Patch"
	patchEnd    = "*** End Patch"
	patchAdd    = "*** Add File: "
	patchDelete = "*** Delete File: "
	patchUpdate = "*** Update File: "
	patchMove   = "*** Move to: "
	patchEOF    = "*** End of File"
)

// markers are the words of the lines that are not content, as bare gives them. Some agents
// know more of them than the grammar has.
var markers = [...]string{
	"***beginpatch", "***endpatch", "***endoffile", "***addfile:", "***deletefile:", "***updatefile:", "***moveto:", "***renamefile:", "***environmentid:",
}

// bare is a line in lower case without white space, controls and invisible characters.
func bare(line string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || !unicode.IsGraphic(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, line)
}

// isMarker reports whether an agent may take a line of content for a marker, as some do with
// white space before it.
func isMarker(line string) bool {
	if trimmed := strings.TrimFunc(line, isBlank); trimmed == "@@" || strings.HasPrefix(trimmed, "@@ ") {
		return true
	}
	b := bare(line)
	return slices.ContainsFunc(markers[:], func(m string) bool { return strings.HasPrefix(b, m) })
}

// hasMarker reports whether a line that is not empty has a marker for an agent that ends lines
// at other characters too, as at a carriage return.
func hasMarker(line string) bool {
	parts := strings.FieldsFunc(line, func(r rune) bool { return r != '\t' && isBreak(r) })
	if len(parts) > 0 && line[0] != ' ' {
		parts = parts[1:] // added and removed text and context are not taken for a marker
	}
	return slices.ContainsFunc(parts, isMarker)
}

// patch adds the calls for the files of a patch in Codex' format.
func (e *Event) patch(text string) error {
	lines := strings.Split(strings.Trim(text, "\n"), "\n")
	if len(lines) < 2 || lines[0] != patchBegin || lines[len(lines)-1] != patchEnd {
		return e.refusePatch("it does not stand between %s and %s", patchBegin, patchEnd)
	}
	lines = lines[1 : len(lines)-1]
	for len(lines) > 0 {
		n := 1
		for n < len(lines) && (!strings.HasPrefix(lines[n], "*** ") || isPart(lines[n])) {
			n++
		}
		if err := e.patchFile(lines[0], lines[1:n]); err != nil || e.Refusal != "" {
			return err
		}
		lines = lines[n:]
	}
	if len(e.Calls) == 0 {
		return e.refuse("the patch names no file")
	}
	return nil
}

// isPart reports whether a line with *** belongs to the file before it.
func isPart(line string) bool { return line == patchEOF || strings.HasPrefix(line, patchMove) }

func (e *Event) refusePatch(format string, args ...any) error {
	e.Calls = nil
	return e.refuse("the patch cannot be read: "+format, args...)
}

// patchFile adds the calls for one file of a patch.
func (e *Event) patchFile(head string, body []string) error {
	for _, verb := range [...]string{patchAdd, patchDelete, patchUpdate} {
		name, ok := strings.CutPrefix(head, verb)
		if !ok {
			continue
		}
		path, err := e.path(name)
		switch {
		case err != nil:
			return err
		case verb == patchAdd:
			return e.patchNew(path, body)
		case verb == patchUpdate:
			return e.patchOld(path, body)
		case len(body) > 0:
			return e.refusePatch("%.80q follows the deletion of a file", body[0])
		}
		return e.fileCall("fs.delete", tool.Args{"path": path})
	}
	return e.refusePatch("%.80q is not a valid line", head)
}

// patchNew adds the call that makes a file.
func (e *Event) patchNew(path string, body []string) error {
	var content strings.Builder
	for _, line := range body {
		text, ok := strings.CutPrefix(line, "+")
		if !ok || hasMarker(line) {
			return e.refusePatch("%.80q is not a valid line of a new file", line)
		}
		content.WriteString(text + "\n")
	}
	return e.fileCall("fs.write", tool.Args{"path": path, "content": content.String()})
}

// patchOld adds the edits of one file, and its move.
func (e *Event) patchOld(path string, body []string) error {
	to := ""
	if len(body) > 0 && strings.HasPrefix(body[0], patchMove) {
		var err error
		if to, err = e.path(strings.TrimPrefix(body[0], patchMove)); err != nil {
			return err
		}
		body = body[1:]
	}
	var c chunks
	ended := false // at the end of the file, where only another chunk can follow
	for _, line := range body {
		starts := line == "@@" || strings.HasPrefix(line, "@@ ")
		switch {
		case starts && hasMarker(line):
			return e.refusePatch("%.80q is not a valid place of a change", line)
		case starts, line == patchEOF && !ended:
			c.flush()
			ended = line == patchEOF
		case ended || !c.add(line):
			return e.refusePatch("%.80q is not a valid line of a change", line)
		}
	}
	c.flush()
	if len(c.edits) == 0 && c.made == "" && to == "" {
		return e.refusePatch("it changes nothing in %.200q", path)
	}
	if len(c.edits) > 0 || c.made != "" {
		if err := e.edit(path, c.edits, c.made); err != nil {
			return err
		}
	}
	if to == "" {
		return nil
	}
	return e.fileCall("fs.move", tool.Args{"from": path, "to": to})
}

// chunks collects the changes of one file.
type chunks struct {
	edits      []any
	made       string // text that is added without a place
	old, after strings.Builder
}

// add takes one line of a chunk; false: it is not one.
func (c *chunks) add(line string) bool {
	switch {
	case line == "":
		c.old.WriteString("\n")
		c.after.WriteString("\n")
	case hasMarker(line):
		return false
	case line[0] == '-':
		c.old.WriteString(line[1:] + "\n")
	case line[0] == '+':
		c.after.WriteString(line[1:] + "\n")
	case line[0] == ' ':
		c.old.WriteString(line[1:] + "\n")
		c.after.WriteString(line[1:] + "\n")
	default:
		return false
	}
	return true
}

// flush ends a chunk.
func (c *chunks) flush() {
	if c.old.Len() > 0 {
		c.edits = append(c.edits, map[string]any{"old": c.old.String(), "new": c.after.String()})
	} else {
		c.made += c.after.String()
	}
	c.old.Reset()
	c.after.Reset()
}
