package fs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/files"
)

func edit() *Tool {
	return &Tool{
		spec: tool.Spec{ID: "fs.edit", Title: "Edit a file", Version: "1", Source: "builtin", Risk: tool.Medium,
			Effects: tool.EffectSet(tool.FSRead, tool.FSWrite), Input: schemaOf("edit.in"), Output: schemaOf("edit.out"),
			Description: "Replaces exact text in a file. Each old text must occur exactly once (give more of its surroundings), unless all is true. Edits apply in order; if one fails, none is written."},
		order: []string{"path"}, paths: map[string][]tool.ActionKind{"path": {tool.FileRead, tool.FileWrite}},
		run: runEdit,
	}
}

// maxReported bounds how many places of an edit are listed.
const maxReported = 100

func runEdit(ctx context.Context, f *files.Files, a args) (map[string]any, error) {
	asked := a.str("path", "")
	guard, err := a.guard()
	if err != nil {
		return nil, err
	}
	before, err := f.ReadAll(asked)
	if err != nil {
		return nil, err
	}
	was := tool.Digest(sha256.Sum256(before))
	if guard != nil && *guard != was {
		return nil, fault.New(fault.Conflict, "%q has changed: its content is not the one that if_sha256 names", f.Show(asked)).WithHint("read it again")
	}
	edits, _ := a.in["edits"].([]any)
	after, places, n := before, []any{}, 0
	for i := range edits {
		if ctx.Err() != nil {
			return nil, stopped(ctx)
		}
		e, _ := edits[i].(map[string]any)
		var lines []int
		if after, lines, err = replace(after, args{in: e}, i, f.Show(asked), f.WriteCap()); err != nil {
			return nil, err
		}
		n += len(lines)
		for _, line := range lines[:min(len(lines), maxReported-min(len(places), maxReported))] {
			places = append(places, map[string]any{"edit": int64(i), "line": int64(line)})
		}
	}
	if _, err := f.Write(asked, after, files.WriteOptions{Mode: files.Replace, If: &was}); err != nil {
		return nil, err
	}
	return map[string]any{"path": f.Show(asked), "replacements": int64(n), "places": places, "places_truncated": len(places) < n,
		"bytes_written": int64(len(after)), "sha256_before": hash(before), "sha256_after": hash(after)}, nil
}

// replace does one edit and says at which lines.
func replace(b []byte, e args, i int, shown string, limit int64) ([]byte, []int, error) {
	field := fmt.Sprintf("edits[%d].old", i)
	old, repl := e.str("old", ""), e.str("new", "")
	if old == "" {
		return nil, nil, fault.New(fault.ArgsInvalid, "the old text is empty").In(field)
	}
	all := e.flag("all", false)
	lines := occurrences(b, []byte(old), all)
	switch {
	case len(lines) == 0:
		return nil, nil, fault.New(fault.ToolFailed, "%q does not hold the old text of edit %d", shown, i).In(field).
			WithHint("it has to match exactly, white space and line ends too; read the file again")
	case len(lines) > 1 && !all:
		return nil, nil, fault.New(fault.ToolFailed, "%q holds the old text of edit %d %d times, on lines %s", shown, i, len(lines), some(lines)).In(field).
			WithHint("give more of what surrounds it, or set all")
	}
	if size := int64(len(b)) + int64(len(lines))*int64(len(repl)-len(old)); size > limit {
		return nil, nil, fault.New(fault.LimitReached, "%q would have %d bytes; the policy lets %d be written", shown, size, limit)
	}
	return bytes.ReplaceAll(b, []byte(old), []byte(repl)), lines, nil
}

// occurrences gives the line of each place where old begins. What is to be
// replaced everywhere is counted without overlaps; what must be unique, with.
func occurrences(b, old []byte, all bool) []int {
	var lines []int
	step := 1
	if all {
		step = len(old)
	}
	for at, line, seen := 0, 1, 0; ; {
		i := bytes.Index(b[at:], old)
		if i < 0 {
			return lines
		}
		at += i
		line += bytes.Count(b[seen:at], []byte("\n"))
		lines = append(lines, line)
		seen = at
		at += step
	}
}

func some(lines []int) string {
	s := strings.Trim(strings.ReplaceAll(fmt.Sprint(lines[:min(len(lines), 10)]), " ", ", "), "[]")
	if len(lines) > 10 {
		s += ", ..."
	}
	return s
}
