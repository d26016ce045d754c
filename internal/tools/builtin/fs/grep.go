package fs

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	iofs "io/fs"
	"regexp"
	"strings"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/files"
)

func grep() permit.Tool {
	return newTool(tool.Spec{ID: "fs.grep", Title: "Search files", Risk: tool.Low,
		Effects: tool.EffectSet(tool.FSRead), Input: schemaOf("grep.in"), Output: schemaOf("grep.out"),
		Description: "Searches the lines of a file, or of all files below a folder, for an RE2 regular expression. Binary files and links are skipped; denied counts files that the policy hides."}, func(a grepArgs) []access { return one(cmp.Or(a.Path, "."), tool.FileRead) }, runGrep)
}

type grepArgs struct {
	Pattern    string `json:"pattern"`
	Path       string `json:"path"`
	Glob       string `json:"glob"`
	Context    int    `json:"context"`
	IgnoreCase bool   `json:"ignore_case"`
	Limit      int    `json:"limit"`
}

const (
	defaultMatches = 200
	maxLine        = 500 // bytes of a line that are shown
	scanLine       = 1 << 20
)

// search is one run of fs.grep.
type search struct {
	f       *files.Files
	re      *regexp.Regexp
	context int
	limit   int

	matches                            []any
	searched, binary, denied, cut, bad int64
	more                               bool
}

func runGrep(ctx context.Context, f *files.Files, a grepArgs) (map[string]any, error) {
	expr := a.Pattern
	if a.IgnoreCase {
		expr = "(?i:" + expr + ")"
	}
	re, err := regexp.Compile(expr)
	if err != nil {
		return nil, fault.Wrap(fault.ArgsInvalid, err, "%q is not a valid RE2 expression", a.Pattern).In("pattern")
	}
	match, err := matcher(a.Glob)
	if err != nil {
		return nil, err
	}
	s := &search{f: f, re: re, context: a.Context, limit: cmp.Or(a.Limit, defaultMatches), matches: []any{}}
	if err := s.all(ctx, cmp.Or(a.Path, "."), match); err != nil {
		return nil, err
	}
	return map[string]any{"matches": s.matches, "truncated": s.more, "files_searched": s.searched, "files_binary": s.binary,
		"files_cut": s.cut, "files_failed": s.bad, "denied": s.denied}, nil
}

func (s *search) all(ctx context.Context, asked string, match func(string) bool) error {
	i, err := s.f.Stat(asked)
	if err != nil {
		return err
	}
	if !i.Mode.IsDir() {
		return s.file(ctx, asked, s.f.Show(asked))
	}
	base := s.f.Show(asked)
	denied, err := s.f.Walk(ctx, asked, func(e files.Entry) error {
		if s.more {
			return iofs.SkipAll
		}
		if e.Mode.Type() != 0 || !match(relativeTo(base, e.Path)) {
			return nil
		}
		// A path as shown begins at the workspace or at "/", so it can be asked again.
		err := s.file(ctx, e.Path, e.Path)
		switch {
		case err == nil, ctx.Err() != nil:
			return err
		case errors.Is(err, fault.HandleRefused):
			s.denied++
		default:
			s.bad++
		}
		return nil
	})
	s.denied += int64(denied)
	return err
}

func (s *search) file(ctx context.Context, asked, shown string) error {
	file, err := s.f.Open(asked)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // nothing was written
	r := bufio.NewReaderSize(io.LimitReader(file, s.f.ReadCap()), 64<<10)
	head, err := r.Peek(8 << 10)
	if err != nil && err != io.EOF {
		return err
	}
	if bytes.IndexByte(head, 0) >= 0 {
		s.binary++
		return nil
	}
	s.searched++
	if file.Size > s.f.ReadCap() {
		s.cut++
	}
	return s.lines(ctx, r, shown)
}

// lines searches line by line, holding the lines of the context only.
func (s *search) lines(ctx context.Context, r *bufio.Reader, shown string) error {
	var before []string
	var open []*after
	for n := int64(1); ; n++ {
		if n%1024 == 0 && ctx.Err() != nil {
			return permit.Ended(ctx)
		}
		line, err := readLine(r)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		text := shorten(line)
		open = feed(open, text)
		if s.re.Match(line) {
			if len(s.matches) >= s.limit {
				s.more = true
				return nil
			}
			m := map[string]any{"path": shown, "line": n, "text": text}
			s.matches = append(s.matches, m)
			if s.context > 0 {
				m["before"], m["after"] = anys(before), []any{}
				open = append(open, &after{m: m, left: s.context})
			}
		}
		if s.context > 0 {
			if before = append(before, text); len(before) > s.context {
				before = before[1:]
			}
		}
	}
}

// after is a match that still waits for the lines that follow it.
type after struct {
	m    map[string]any
	left int
}

func feed(open []*after, text string) []*after {
	kept := open[:0]
	for _, o := range open {
		o.m["after"] = append(o.m["after"].([]any), text)
		if o.left--; o.left > 0 {
			kept = append(kept, o)
		}
	}
	return kept
}

// readLine returns a line without its end; of a longer one than scanLine, the
// beginning.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if room := scanLine - len(line); len(part) > room {
			line = append(line, part[:room]...)
		} else {
			line = append(line, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err == io.EOF && len(line) > 0 || err == nil {
			return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r")), nil
		}
		return nil, err
	}
}

// shorten makes a line fit to be shown; bytes that are not UTF-8 show as U+FFFD.
func shorten(line []byte) string {
	if len(line) <= maxLine {
		return strings.ToValidUTF8(string(line), "\uFFFD")
	}
	return strings.ToValidUTF8(clip.Prefix(string(line[:maxLine+1]), maxLine), "\uFFFD") + "..."
}

func anys(in []string) []any {
	out := make([]any, len(in))
	for i, s := range in {
		out[i] = s
	}
	return out
}
