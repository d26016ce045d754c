package research

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
)

// sources numbers the sources of findings, each once, in the order of their citations.
type sources struct {
	list []finding // the first finding of each
}

// mark is the number of a finding's source.
func (s *sources) mark(f finding) int {
	i := slices.IndexFunc(s.list, func(x finding) bool { return x.Source == f.Source })
	if i < 0 {
		s.list = append(s.list, f)
		return len(s.list)
	}
	if s.list[i].Title == "" {
		s.list[i].Title = f.Title
	}
	return i + 1
}

// lines prints the sources.
func (s *sources) lines() []string {
	out := make([]string, len(s.list))
	for i, f := range s.list {
		text := flat(f.Source)
		if isURL(text) {
			text = "<" + text + ">"
		}
		if f.Title != "" {
			text = flat(f.Title) + ". " + text
		}
		out[i] = fmt.Sprintf("[%d] %s", i+1, text)
	}
	return out
}

// flat makes a text one line.
func flat(s string) string { return strings.Join(strings.Fields(s), " ") }

func isURL(s string) bool {
	return (strings.HasPrefix(s, "https://") || strings.HasPrefix(s, "http://")) && !strings.ContainsAny(s, " <>")
}

type citeArgs struct {
	Findings []int `json:"findings"`
}

func (s session) cite(ctx context.Context, p permit.Permit, a citeArgs) (map[string]any, error) {
	all, _, err := s.load(ctx, p)
	if err != nil {
		return nil, err
	}
	var src sources
	marks := make([]any, len(a.Findings))
	for i, n := range a.Findings {
		f, err := pick(all, n, fmt.Sprintf("findings[%d]", i))
		if err != nil {
			return nil, err
		}
		marks[i] = map[string]any{"finding": n, "mark": fmt.Sprintf("[%d]", src.mark(f))}
	}
	lines := src.lines()
	return map[string]any{"citations": marks, "sources": lines, "markdown": strings.Join(lines, "  \n")}, nil
}

// pick finds a finding by its number; field is the argument, for errors.
func pick(all []finding, n int, field string) (finding, error) {
	i := slices.IndexFunc(all, func(f finding) bool { return f.Number == n })
	if i >= 0 {
		return all[i], nil
	}
	e := fault.New(fault.NotFound, "unknown finding %d", n).In(field)
	if len(all) == 0 {
		return finding{}, e.WithHint("the session has no findings; add one with add_finding")
	}
	return finding{}, e.WithHint("the session has %d, from %d to %d; list them with list_findings", len(all), all[0].Number, all[len(all)-1].Number)
}

type section struct {
	Heading  string `json:"heading"`
	Text     string `json:"text"`
	Findings []int  `json:"findings"`
}

type reportArgs struct {
	Title        string    `json:"title"`
	Introduction string    `json:"introduction"`
	Sections     []section `json:"sections"`
	SaveTo       string    `json:"save_to"`
}

func (s session) report(ctx context.Context, p permit.Permit, a reportArgs) (map[string]any, error) {
	all, _, err := s.load(ctx, p)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fault.New(fault.ToolFailed, "the session has no findings to report").WithHint("add one with add_finding")
	}
	if len(a.Sections) == 0 {
		a.Sections = byTag(all)
	}
	text, used, src, err := compose(a, all)
	if err != nil {
		return nil, err
	}
	left := []int{}
	for _, f := range all {
		if !used[f.Number] {
			left = append(left, f.Number)
		}
	}
	out := map[string]any{"markdown": text, "findings": len(used), "sources": len(src.list), "left_out": left}
	if a.SaveTo == "" {
		return out, nil
	}
	return out, s.save(ctx, p, a.SaveTo, text, out)
}

func (s session) save(ctx context.Context, p permit.Permit, name, text string, out map[string]any) error {
	clean, err := capability.CleanPath(name)
	if err != nil {
		return err
	}
	if strings.HasPrefix(clean+"/", Folder+"/") {
		return fault.New(fault.ArgsInvalid, "%s is the folder of the findings", Folder).In("save_to").WithHint("choose another folder, as /report.md")
	}
	fs, err := s.Need()
	if err != nil {
		return err
	}
	f, _, err := fs.Write(ctx, p, clean, []byte(text), 0)
	if err != nil {
		return err
	}
	out["path"], out["version"] = f.Path, f.Version
	return nil
}

// byTag groups findings by their first tag, in the order of the findings. Those without a
// tag come last.
func byTag(all []finding) []section {
	var out []section
	var rest []int
	for _, f := range all {
		if len(f.Tags) == 0 {
			rest = append(rest, f.Number)
			continue
		}
		i := slices.IndexFunc(out, func(s section) bool { return s.Heading == f.Tags[0] })
		if i < 0 {
			i = len(out)
			out = append(out, section{Heading: f.Tags[0]})
		}
		out[i].Findings = append(out[i].Findings, f.Number)
	}
	if len(rest) > 0 {
		heading := "Findings"
		if len(out) > 0 {
			heading = "Other findings"
		}
		out = append(out, section{Heading: heading, Findings: rest})
	}
	return out
}

// compose writes a report.
func compose(a reportArgs, all []finding) (text string, used map[int]bool, src sources, err error) {
	var b strings.Builder
	used = map[int]bool{}
	fmt.Fprintf(&b, "# %s\n", flat(a.Title))
	paragraph(&b, a.Introduction)
	for i, sec := range a.Sections {
		fmt.Fprintf(&b, "\n## %s\n", flat(sec.Heading))
		paragraph(&b, sec.Text)
		for j, n := range sec.Findings {
			f, err := pick(all, n, fmt.Sprintf("sections[%d].findings[%d]", i, j))
			if err != nil {
				return "", nil, src, err
			}
			if j == 0 {
				b.WriteString("\n")
			}
			used[n] = true
			fmt.Fprintf(&b, "- %s [%d]\n", flat(f.Finding), src.mark(f))
			if f.Quote != "" {
				fmt.Fprintf(&b, "  > %s\n", flat(f.Quote))
			}
		}
	}
	if len(src.list) > 0 {
		b.WriteString("\n## Sources\n\n" + strings.Join(src.lines(), "  \n") + "\n")
	}
	return b.String(), used, src, nil
}

func paragraph(b *strings.Builder, text string) {
	if text = strings.TrimSpace(text); text != "" {
		b.WriteString("\n" + text + "\n")
	}
}
