package report

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/redact"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
)

// Options say how a text report looks.
type Options struct {
	Color bool // with the terminal's colours
	ASCII bool // without characters beyond ASCII of the report's own
	Width int  // in columns; 0 means 100, less than 60 counts as 60
}

// Text writes the report for a terminal or a file.
func Text(w io.Writer, d Data, o Options) error {
	if o.Width == 0 {
		o.Width = 100
	}
	o.Width = max(o.Width, 60)
	rep, err := BuildShort(d)
	if err != nil {
		return err
	}
	p := &printer{out: bufio.NewWriter(w), o: o, rep: &rep}
	p.header()
	p.timeline()
	p.commitments()
	p.denials()
	p.attempts()
	p.resources()
	p.counts()
	return p.out.Flush()
}

// printer writes lines. Errors of the writer stay in out until Flush.
type printer struct {
	out *bufio.Writer
	o   Options
	rep *Report
}

func (p *printer) line(parts ...string) {
	for _, s := range parts {
		_, _ = p.out.WriteString(s) // Flush reports the error
	}
	_ = p.out.WriteByte('\n')
}

// paint colours a text that is safe to print.
func (p *printer) paint(color, s string) string {
	if !p.o.Color || color == plain || s == "" {
		return s
	}
	return "\x1b[" + color + "m" + s + "\x1b[0m"
}

// pick gives the first, or in ASCII the second.
func (p *printer) pick(sign, ascii string) string {
	if p.o.ASCII {
		return ascii
	}
	return sign
}

func (p *printer) span(ms float64) string {
	if p.o.ASCII {
		return strings.ReplaceAll(span(ms), "µ", "u")
	}
	return span(ms)
}

// shorten makes untrusted text safe and cuts it to the width left.
func (p *printer) shorten(s string, most int) string {
	if len(s) > 8*most {
		s = strings.ToValidUTF8(s[:8*most], "") + "…" // cut before looking at all of it
	}
	return fit(redact.Show(s), max(most, 8), p.pick("…", "..."))
}

func (p *printer) status(status string) string {
	i := iconOf(status)
	return p.paint(i.color, p.pick(i.sign, i.ascii)+" "+status)
}

// unverified says that the list of runs was changed.
const unverified = "not verified: the list of runs was changed and differs from the events, which are shown; run remit verify"

func (p *printer) header() {
	r := p.rep.Run
	dot := p.pick(" · ", " | ")
	name := r.Name
	if name == "" {
		name = "run"
	}
	p.line(p.paint(bold, p.shorten(name, p.o.Width-20)), "  ", p.status(r.Status))
	about := []string{"run " + r.ID}
	if r.ReplayOf != "" {
		about = append(about, "replay of "+r.ReplayOf)
	}
	p.line(strings.Join(about, dot))
	about = []string{"mode " + r.Mode, r.StartedAt.Format("2006-01-02 15:04:05 MST"), p.span(p.rep.Summary.TotalDurationMS)}
	if r.Principal != "" {
		about = append(about, p.shorten(r.Principal, 40))
	}
	p.line(strings.Join(about, dot))
	for _, pol := range p.rep.Policy {
		p.line("policy ", p.shorten(place(pol.Name, pol.File, 0), p.o.Width-8))
	}
	if p.rep.Record != nil {
		p.line(p.rep.Record.String())
	}
	if r.Unverified {
		p.line(unverified)
	}
	if r.Client != "" {
		p.line("calls carried out by ", p.shorten(r.Client, 40), "; Remit decided them, and did not see how they ended")
	}
	if len(p.rep.Policy) == 0 {
		p.line("policy none")
	}
	if r.Phase != "" {
		p.line(r.Phase, " only: calls with side effects are refused")
	}
	if r.Frozen != "" {
		p.line("frozen plan ", p.shorten(r.Frozen, p.o.Width-12))
	}
	if r.Workspace != "" {
		p.line("workspace ", p.shorten(r.Workspace, p.o.Width-10))
	}
}

// Widths of the timeline's columns.
const (
	barWidth    = 20 // at most
	aboutWidth  = 12 // at least
	timeWidth   = 8
	statusWidth = 13
)

func (p *printer) timeline() {
	if len(p.rep.Steps) == 0 {
		p.line()
		p.line("No calls.")
		return
	}
	index, name := len(strconv.Itoa(p.rep.Summary.Counts.Total)), 4
	for _, s := range p.rep.Steps {
		name = max(name, min(columns(redact.Show(s.Tool)), 20))
	}
	room := p.o.Width - index - statusWidth - name - timeWidth - 6
	bar := min(barWidth, max(room-aboutWidth, 0))
	about := max(room-bar, aboutWidth)
	p.line()
	for _, s := range p.rep.Steps {
		if s.Left > 0 {
			p.line(p.paint(faint, p.pick("…", "...")+" "+plural(s.Left, "step")+" not shown, none of them refused anything: remit show "+p.rep.Run.ID+" --json lists all, --step shows one"))
		}
		i := iconOf(s.Status)
		p.line(pad(strconv.Itoa(s.Index), index), " ",
			p.paint(i.color, pad(p.pick(i.sign, i.ascii)+" "+s.Status, statusWidth)), " ",
			pad(p.shorten(s.Tool, name), name), " ",
			pad(p.shorten(p.about(s), about), about), " ",
			strings.Repeat(" ", max(0, timeWidth-columns(p.span(s.DurationMS)))), p.span(s.DurationMS), " ",
			p.paint(faint, p.bar(s, bar)))
		if s.Error != nil && s.Status != tool.StatusDenied.String() {
			p.line(strings.Repeat(" ", index+1), p.paint(i.color, s.Error.Code), " ", p.shorten(s.Error.Message, p.o.Width-index-8))
		}
	}
}

// about describes the step, after the name of its reporter.
func (p *printer) about(s Step) string {
	if by := s.Executor(); by != "" {
		return by + p.pick(" · ", " | ") + subject(s)
	}
	return subject(s)
}

// bar draws when in the run the step ran, in so many columns.
func (p *printer) bar(s Step, width int) string {
	if width == 0 {
		return ""
	}
	from, to := place01(s, p.rep.Summary.TotalDurationMS)
	start := min(int(from*float64(width)), width-1)
	end := min(max(int(to*float64(width)+0.5), start+1), width)
	return strings.Repeat(p.pick("·", "."), start) + strings.Repeat(p.pick("▇", "#"), end-start) +
		strings.Repeat(p.pick("·", "."), width-end)
}

// place01 is where in the run the step lies, from 0 to 1.
func place01(s Step, total float64) (from, to float64) {
	if total <= 0 {
		return 0, 0
	}
	from = min(millis(s.offset)/total, 1)
	return from, min(from+s.DurationMS/total, 1)
}

func (p *printer) commitments() {
	if len(p.rep.Summary.Commitments) == 0 {
		return
	}
	p.title("Commitments")
	for _, c := range p.rep.Summary.Commitments {
		i, word := iconOf(tool.Completed.String()), "met"
		if !c.Met {
			i, word = iconOf(tool.Failed.String()), "not met"
		}
		p.line("  ", p.paint(i.color, pad(p.pick(i.sign, i.ascii)+" "+word, 9)), " ", p.shorten(c.Text, p.o.Width-20), "  step ", strconv.Itoa(c.Step))
	}
}

func (p *printer) denials() {
	first := true
	for _, s := range p.rep.Steps {
		if s.Status != tool.StatusDenied.String() {
			continue
		}
		if first {
			p.title("Denied")
			first = false
		}
		i := iconOf(s.Status)
		p.line(p.paint(i.color, p.pick(i.sign, i.ascii)), " ", strconv.Itoa(s.Index), " ", p.shorten(s.Tool, 40), " ", p.shorten(subject(s), p.o.Width-30))
		if n := len(s.Args.JSON); n > 0 && s.Decision.Effect == policy.Ask.String() {
			p.line(fmt.Sprintf("    arguments of %d bytes, sha256 %x", n, sha256.Sum256(s.Args.JSON)))
			p.line("      all of them: remit show ", p.rep.Run.ID, " --step ", strconv.Itoa(s.Index))
		}
		for _, x := range refusalsOf(s) {
			p.line("    ", p.shorten(verb(x.Effect)+" by "+x.Rule, p.o.Width-4))
			if at := place(x.Policy, x.File, x.Line); at != "" {
				p.line("      in ", p.shorten(at, p.o.Width-9))
			}
			if x.Action != "" {
				p.line("      for ", p.shorten(x.Action, p.o.Width-10))
			}
			if x.Reason != "" {
				p.line("      ", p.shorten(x.Reason, 4*p.o.Width))
			}
		}
	}
}

// attempts lists the refused attempts of allowed steps.
func (p *printer) attempts() {
	if p.rep.Summary.Counts.Refused == 0 {
		return
	}
	p.title("Refused while running")
	for _, s := range p.rep.Steps {
		if s.SideEffects.attempts() == 0 {
			continue
		}
		i := iconOf(tool.StatusDenied.String())
		p.line(p.paint(i.color, p.pick(i.sign, i.ascii)), " ", strconv.Itoa(s.Index), " ", p.shorten(s.Tool, 40), " ", p.shorten(subject(s), p.o.Width-30))
		for _, x := range s.SideEffects.Refused {
			p.line("    ", p.shorten(x.Action+times(x.Count), p.o.Width-4))
			p.line("      denied by ", p.shorten(x.Rule, p.o.Width-16))
			p.line("      ", p.shorten(x.Reason, 4*p.o.Width))
		}
		if n := s.SideEffects.RefusedMore; n > 0 {
			p.line("    and ", strconv.Itoa(n), " more")
		}
	}
}

// times says how often, if more than once.
func times(n int) string {
	if n < 2 {
		return ""
	}
	return " (" + strconv.Itoa(n) + " times)"
}

// refusalsOf returns every rule that refused, or the recorded reason if there is no
// list: a limit, an unknown tool, a refusal by a handle.
func refusalsOf(s Step) []ledger.Refusal {
	if len(s.Decision.Refusals) > 0 {
		return s.Decision.Refusals
	}
	x := ledger.Refusal{Effect: s.Decision.Effect, Rule: s.Decision.Rule, Policy: s.Decision.Policy, File: s.Decision.File, Line: s.Decision.Line}
	if s.Error != nil {
		x.Reason = s.Error.Code + " " + s.Error.Message
		if s.Decision.Effect == "allow" { // the policy's rule did not refuse
			x = ledger.Refusal{Effect: "refused", Rule: s.Error.Code, Reason: s.Error.Message}
		}
	}
	return []ledger.Refusal{x}
}

func (p *printer) title(s string) {
	p.line()
	p.line(p.paint(bold, s))
}

// listMost bounds each list of resources in a text report; JSON and HTML have
// all of them.
const listMost = 20

// group is one kind of resource with its title.
type group struct {
	Title string
	List  []string
	All   int // how many there are, where List has the first ones only
}

func newGroup(title string, list []string) group { return group{title, list, len(list)} }

// More is how many are left out of List.
func (g group) More() int { return g.All - len(g.List) }

func groups(r Resources) []group {
	return []group{
		newGroup("Files read", r.FilesRead), newGroup("Files written", r.FilesWritten), newGroup("Files deleted", r.FilesDeleted),
		newGroup("Hosts contacted", r.HostsContacted), newGroup("Commands run", r.CommandsRun), newGroup("Tables read", r.TablesRead), newGroup("Tables written", r.TablesWritten),
	}
}

func (p *printer) resources() {
	for _, g := range groups(p.rep.Summary.Resources) {
		if len(g.List) == 0 {
			continue
		}
		p.title(g.Title + " (" + strconv.Itoa(len(g.List)) + ")")
		for _, s := range g.List[:min(len(g.List), listMost)] {
			p.line("  ", p.shorten(s, p.o.Width-2))
		}
		if more := len(g.List) - listMost; more > 0 {
			p.line("  and ", strconv.Itoa(more), " more")
		}
	}
}

func (p *printer) counts() {
	c := p.rep.Summary.Counts
	parts := []string{plural(c.Total, "step")}
	for _, x := range []struct {
		n     int
		word  string
		color string
	}{{c.Completed, "completed", green}, {c.Denied, "denied", yellow}, {c.Failed, "failed", red}, {c.Skipped, "skipped", faint}, {c.Refused, "refused while running", yellow}} {
		if x.n > 0 {
			parts = append(parts, p.paint(x.color, strconv.Itoa(x.n)+" "+x.word))
		}
	}
	parts = append(parts, p.span(p.rep.Summary.TotalDurationMS))
	p.line()
	p.line(strings.Join(parts, p.pick(" · ", " | ")))
}
