package research

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
)

// maxFindings is the largest number of findings of a session.
const maxFindings = 2000

// finding is the content of a finding's file.
type finding struct {
	Number  int      `json:"number"`
	Finding string   `json:"finding"`
	Source  string   `json:"source"`
	Title   string   `json:"title,omitempty"`
	Quote   string   `json:"quote,omitempty"`
	Tags    []string `json:"tags,omitempty"`
}

func (f finding) show() map[string]any {
	out := map[string]any{"number": f.Number, "finding": f.Finding, "source": f.Source}
	if f.Title != "" {
		out["title"] = f.Title
	}
	if f.Quote != "" {
		out["quote"] = f.Quote
	}
	if len(f.Tags) > 0 {
		out["tags"] = f.Tags
	}
	return out
}

// load reads all findings, by number. Files that are not valid findings are listed in
// broken.
func (s session) load(ctx context.Context, p permit.Permit) (all []finding, broken []string, err error) {
	fs, err := s.Need()
	if err != nil {
		return nil, nil, err
	}
	files, err := fs.All(ctx, p, Folder)
	if errors.Is(err, fault.NotFound) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	for _, file := range files {
		n, ok := number(file.Path)
		if !ok {
			continue
		}
		raw, _, err := fs.Read(ctx, p, file.Path)
		if err != nil {
			return nil, nil, err
		}
		var f finding
		if json.Unmarshal(raw, &f) != nil || strings.TrimSpace(f.Finding) == "" || strings.TrimSpace(f.Source) == "" {
			broken = append(broken, file.Path)
			continue
		}
		f.Number = n
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b finding) int { return a.Number - b.Number })
	return all, broken, nil
}

// number returns a finding's number from its path.
func number(name string) (int, bool) {
	n, err := strconv.Atoi(strings.TrimSuffix(path.Base(name), ".json"))
	return n, err == nil && n > 0 && file(n) == name
}

func file(n int) string { return fmt.Sprintf("%s/%04d.json", Folder, n) }

type addArgs struct {
	Finding string   `json:"finding"`
	Source  string   `json:"source"`
	Title   string   `json:"title"`
	Quote   string   `json:"quote"`
	Tags    []string `json:"tags"`
}

func (s session) add(ctx context.Context, p permit.Permit, a addArgs) (map[string]any, error) {
	f := finding{Finding: strings.TrimSpace(a.Finding), Source: strings.TrimSpace(a.Source), Title: strings.TrimSpace(a.Title), Quote: strings.TrimSpace(a.Quote)}
	switch {
	case f.Finding == "":
		return nil, fault.New(fault.ArgsInvalid, "the finding is empty").In("finding")
	case !isNamed(f.Source):
		return nil, fault.New(fault.ArgsInvalid, "%q is not a valid source; every finding needs one", f.Source).In("source").
			WithHint("give the URL, the file, or a reference that others can look up")
	}
	for _, t := range a.Tags {
		if t = strings.TrimSpace(t); t != "" && !slices.Contains(f.Tags, t) {
			f.Tags = append(f.Tags, t)
		}
	}
	fs, err := s.Need()
	if err != nil {
		return nil, err
	}
	for {
		all, broken, err := s.load(ctx, p)
		if err != nil {
			return nil, err
		}
		if len(all) >= maxFindings {
			return nil, fault.New(fault.FilesFull, "the session has %d findings, which is the limit", len(all)).WithHint("write a report, and delete old ones from %s", Folder)
		}
		f.Number = next(all, broken)
		raw, err := json.MarshalIndent(f, "", "  ")
		if err != nil {
			return nil, fault.Wrap(fault.ArgsInvalid, err, "the finding cannot be written as JSON")
		}
		_, _, err = fs.Write(ctx, p, file(f.Number), append(raw, '\n'), capability.MustBeNew)
		if errors.Is(err, fault.Conflict) && ctx.Err() == nil {
			continue // a parallel call took the number
		}
		if err != nil {
			return nil, err
		}
		return map[string]any{"number": f.Number, "path": file(f.Number), "total": len(all) + 1, "same_source": sameSource(all, f.Source)}, nil
	}
}

// isNamed reports whether a source names anything. Models often write these words when they
// have no source.
func isNamed(source string) bool {
	empty := []string{"", "-", "?", "n/a", "na", "none", "null", "unknown", "no source", "source", "tbd", "todo", "undefined"}
	return !slices.Contains(empty, strings.ToLower(strings.Trim(source, " .()[]<>\"'")))
}

// next is the number of a new finding: no file has it, not even a broken one.
func next(all []finding, broken []string) int {
	last := 0
	for _, f := range all {
		last = max(last, f.Number)
	}
	for _, b := range broken {
		if n, ok := number(b); ok {
			last = max(last, n)
		}
	}
	return last + 1
}

func sameSource(all []finding, source string) []int {
	out := []int{}
	for _, f := range all {
		if f.Source == source {
			out = append(out, f.Number)
		}
	}
	return out
}

type listArgs struct {
	Query string `json:"query"`
	Tag   string `json:"tag"`
}

func (s session) list(ctx context.Context, p permit.Permit, a listArgs) (map[string]any, error) {
	all, broken, err := s.load(ctx, p)
	if err != nil {
		return nil, err
	}
	found, tags := []any{}, []string{}
	for _, f := range all {
		tags = append(tags, f.Tags...)
		if (a.Tag == "" || slices.Contains(f.Tags, a.Tag)) && f.holds(a.Query) {
			found = append(found, f.show())
		}
	}
	slices.Sort(tags)
	out := map[string]any{"findings": found, "count": len(found), "total": len(all), "tags": slices.Compact(tags)}
	if len(broken) > 0 {
		out["broken"] = broken
	}
	return out, nil
}

func (f finding) holds(query string) bool {
	text := strings.Join(append([]string{f.Finding, f.Source, f.Title, f.Quote}, f.Tags...), "\n")
	return strings.Contains(strings.ToLower(text), strings.ToLower(query))
}
