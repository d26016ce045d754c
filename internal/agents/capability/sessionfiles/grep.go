package sessionfiles

import (
	"bytes"
	"context"
	"errors"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
)

// Bounds of one search.
const (
	maxMatches  = 200
	maxShown    = 500      // bytes of a line
	maxSearched = 64 << 20 // bytes of all files
	maxFile     = 8 << 20  // bytes of one file
	maxLineScan = 64 << 10 // bytes of a line that are searched
	searchTime  = 5 * time.Second
)

type grepArgs struct {
	Pattern     string `json:"pattern"`
	PathPattern string `json:"path_pattern"`
}

// search is one run of grep_files.
type search struct {
	re      *regexp.Regexp
	matches []any
	files   int
	skipped int
	bytes   int64
	why     string // why it ended early
}

func (s session) grep(ctx context.Context, p permit.Permit, a grepArgs) (map[string]any, error) {
	fs, err := s.Need()
	if err != nil {
		return nil, err
	}
	re, err := regexp.Compile(a.Pattern)
	if err != nil {
		return nil, fault.Wrap(fault.ArgsInvalid, err, "the pattern is not a valid RE2 expression: %v", err).In("pattern").
			WithHint("RE2 has no look-around and no back-references")
	}
	if a.PathPattern != "" && !doublestar.ValidatePattern(a.PathPattern) {
		return nil, fault.New(fault.ArgsInvalid, "%q is not a valid path pattern", a.PathPattern).In("path_pattern").WithHint("use * and **, as *.txt or /src/**/*.go")
	}
	all, err := fs.All(ctx, p, "/")
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, searchTime)
	defer cancel()
	find := search{re: re, matches: []any{}}
	for _, f := range all {
		if find.why != "" {
			break
		}
		if !matches(a.PathPattern, f.Path) {
			continue
		}
		if err := find.file(limited, p, fs, f); err != nil {
			return nil, err
		}
	}
	if ctx.Err() != nil {
		return nil, permit.Ended(ctx)
	}
	out := map[string]any{"pattern": a.Pattern, "matches": find.matches, "match_count": len(find.matches), "files_searched": find.files,
		"files_skipped": find.skipped, "truncated": find.why != ""}
	if find.why != "" {
		out["reason"] = find.why
	}
	return out, nil
}

// matches compares a path with a pattern. A pattern without a slash is compared with the
// file's name.
func matches(pattern, name string) bool {
	switch {
	case pattern == "":
		return true
	case !strings.Contains(pattern, "/"):
		name = path.Base(name)
	case !strings.HasPrefix(pattern, "/"):
		name = strings.TrimPrefix(name, "/")
	}
	ok, err := doublestar.Match(pattern, name)
	return err == nil && ok
}

func (f *search) file(ctx context.Context, p permit.Permit, fs capability.Files, file capability.File) error {
	if file.Size > maxFile {
		f.skipped++
		return nil
	}
	if f.bytes += file.Size; f.bytes > maxSearched {
		f.why = "more files than one search looks at; give a path_pattern"
		return nil
	}
	content, _, err := fs.Read(ctx, p, file.Path)
	switch {
	case ctx.Err() != nil:
		f.why = "the time of one search is over; give a path_pattern"
		return nil //nolint:nilerr // it is listed as skipped
	case errors.Is(err, fault.NotFound):
		return nil // deleted in between
	case err != nil:
		return err
	case !isText(content):
		f.skipped++
		return nil
	}
	f.files++
	f.lines(ctx, file.Path, content)
	return nil
}

func (f *search) lines(ctx context.Context, name string, content []byte) {
	for n := 1; len(content) > 0; n++ {
		line, rest, _ := bytes.Cut(content, []byte("\n"))
		content = rest
		line = bytes.TrimSuffix(line, []byte("\r"))
		if ctx.Err() != nil { // the work for a line is bounded
			f.why = "the time of one search is over; give a path_pattern"
			return
		}
		if !f.re.Match(line[:min(len(line), maxLineScan)]) {
			continue
		}
		if len(f.matches) == maxMatches {
			f.why = "more matches than are listed; narrow the pattern"
			return
		}
		f.matches = append(f.matches, map[string]any{"path": name, "line_number": n, "line": shown(line)})
	}
}

func shown(line []byte) string {
	if len(line) <= maxShown {
		return string(line)
	}
	return string(wholeRunes(line[:maxShown])) + "…"
}
