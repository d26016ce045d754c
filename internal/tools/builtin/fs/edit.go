package fs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/files"
)

func edit() permit.Tool {
	return newTool(tool.Spec{ID: "fs.edit", Title: "Edit a file", Risk: tool.Medium,
		Effects: tool.EffectSet(tool.FSRead, tool.FSWrite), Input: schemaOf("edit.in"), Output: schemaOf("edit.out"),
		Description: "Replaces exact text in a file. Each old must occur exactly once (include more of its surroundings), unless all is true. Edits apply in order; if one fails, nothing is written."}, func(a editArgs) []access { return one(a.Path, tool.FileRead, tool.FileWrite) }, runEdit)
}

type editArgs struct {
	Path     string        `json:"path"`
	Edits    []replacement `json:"edits"`
	IfSHA256 string        `json:"if_sha256"`
}

// replacement is one edit.
type replacement struct {
	Old string `json:"old"`
	New string `json:"new"`
	All bool   `json:"all"`
}

// maxReported bounds how many places of an edit are listed.
const maxReported = 100

func runEdit(ctx context.Context, f *files.Files, a editArgs) (map[string]any, error) {
	guard, err := parseDigest(a.IfSHA256)
	if err != nil {
		return nil, err
	}
	before, err := f.ReadAll(a.Path)
	if err != nil {
		return nil, err
	}
	was := tool.Digest(sha256.Sum256(before))
	if guard != nil && *guard != was {
		return nil, fault.New(fault.Conflict, "%q has changed: its content does not match if_sha256", f.Show(a.Path)).WithHint("read it again")
	}
	after, places, n := before, []any{}, 0
	for i, e := range a.Edits {
		if ctx.Err() != nil {
			return nil, permit.Ended(ctx)
		}
		var lines []int
		if after, lines, err = replace(after, e, i, f.Show(a.Path), f.WriteCap()); err != nil {
			return nil, err
		}
		n += len(lines)
		for _, line := range lines[:min(len(lines), maxReported-min(len(places), maxReported))] {
			places = append(places, map[string]any{"edit": int64(i), "line": int64(line)})
		}
	}
	if _, err := f.Write(a.Path, after, files.WriteOptions{Mode: files.Replace, If: &was}); err != nil {
		return nil, err
	}
	return map[string]any{"path": f.Show(a.Path), "replacements": int64(n), "places": places, "places_truncated": len(places) < n,
		"bytes_written": int64(len(after)), "sha256_before": hash(before), "sha256_after": hash(after)}, nil
}

// replace does one edit and says at which lines.
func replace(b []byte, e replacement, i int, shown string, limit int64) ([]byte, []int, error) {
	field := fmt.Sprintf("edits[%d].old", i)
	if e.Old == "" {
		return nil, nil, fault.New(fault.ArgsInvalid, "the old text is empty").In(field)
	}
	lines := occurrences(b, []byte(e.Old), e.All)
	switch {
	case len(lines) == 0:
		return nil, nil, fault.New(fault.ToolFailed, "the text was not found in %q", shown).In(field).
			WithHint("white space and line ends must match exactly; read the file again")
	case len(lines) > 1 && !e.All:
		return nil, nil, fault.New(fault.ToolFailed, "the text occurs %d times in %q, on lines %s", len(lines), shown, some(lines)).In(field).
			WithHint("add surrounding lines to make it unique, or set all")
	}
	if size := int64(len(b)) + int64(len(lines))*int64(len(e.New)-len(e.Old)); size > limit {
		return nil, nil, fault.New(fault.LimitReached, "%q would have %d bytes; the policy allows writing %d", shown, size, limit)
	}
	return bytes.ReplaceAll(b, []byte(e.Old), []byte(e.New)), lines, nil
}

// occurrences returns the line of each place where old begins. Text to be replaced everywhere is
// counted without overlaps; text that must be unique, with.
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
