package sessionfiles

import (
	"context"
	"fmt"
	"strings"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
)

// Bounds of an edit: the size of the file afterwards, and how many places are listed.
const (
	maxEdited = 64 << 20
	maxLines  = 50
)

type editArgs struct {
	Path       string `json:"path"`
	Old        string `json:"old_string"`
	New        string `json:"new_string"`
	ReplaceAll bool   `json:"replace_all"`
	IfVersion  int    `json:"if_version"`
}

func (s session) edit(ctx context.Context, p permit.Permit, a editArgs) (map[string]any, error) {
	content, f, err := s.load(ctx, p, a.Path)
	switch {
	case err != nil:
		return nil, err
	case a.IfVersion != 0 && a.IfVersion != f.Version:
		return nil, fault.New(fault.Conflict, "%q is at version %d, not %d", f.Path, f.Version, a.IfVersion).In("if_version").WithHint("read it again")
	case !isText(content):
		return nil, fault.New(fault.ArgsInvalid, "%q is not a text file", f.Path).In("path").WithHint("replace it with write_file and encoding base64")
	case a.Old == "":
		return nil, fault.New(fault.ArgsInvalid, "the text to replace is empty").In("old_string").WithHint("create new files with write_file")
	case a.Old == a.New:
		return nil, fault.New(fault.ArgsInvalid, "old_string and new_string are the same").In("new_string")
	}
	text := string(content)
	lines := places(text, a.Old, a.ReplaceAll)
	if len(lines) == 0 {
		return nil, fault.New(fault.ToolFailed, "old_string was not found in %q", f.Path).In("old_string").
			WithHint("it must match exactly, with white space and line ends; read the file again")
	}
	if len(lines) > 1 && !a.ReplaceAll {
		return nil, fault.New(fault.ToolFailed, "old_string occurs %d times in %q, on lines %s", len(lines), f.Path, some(lines)).In("old_string").
			WithHint("include more of the surrounding text, or set replace_all")
	}
	if len(text)+len(lines)*(len(a.New)-len(a.Old)) > maxEdited {
		return nil, fault.New(fault.LimitReached, "%q would be larger than %d bytes", f.Path, maxEdited)
	}
	fs, err := s.Need()
	if err != nil {
		return nil, err
	}
	// On the version that was read, so that nothing that was written since is lost.
	f, _, err = fs.Write(ctx, p, f.Path, []byte(strings.ReplaceAll(text, a.Old, a.New)), f.Version)
	if err != nil {
		return nil, err
	}
	at := make([]any, 0, maxLines)
	for _, l := range lines[:min(len(lines), maxLines)] {
		at = append(at, l)
	}
	return map[string]any{"path": f.Path, "replacements": len(lines), "lines": at, "size_bytes": f.Size, "version": f.Version}, nil
}

// places returns the line of each place where old starts. Overlapping places count only if
// old must be unique.
func places(text, old string, all bool) []int {
	step := 1
	if all {
		step = len(old)
	}
	var lines []int
	for at, line, seen := 0, 1, 0; at <= len(text); {
		i := strings.Index(text[at:], old)
		if i < 0 {
			break
		}
		at += i
		line += strings.Count(text[seen:at], "\n")
		lines = append(lines, line)
		seen = at
		at += step
	}
	return lines
}

func some(lines []int) string {
	s := strings.Trim(strings.ReplaceAll(fmt.Sprint(lines[:min(len(lines), 10)]), " ", ", "), "[]")
	if len(lines) > 10 {
		s += ", ..."
	}
	return s
}
