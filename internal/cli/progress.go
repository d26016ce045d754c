package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mattn/go-runewidth"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/redact"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
)

func itoa(n int) string { return strconv.Itoa(n) }

// progress shows a run while it happens: one line per finished step, and on a terminal
// an animated line for the running steps.
type progress struct {
	s     *session
	red   *redact.Redactor
	total int
	live  bool // a terminal: show the animated line
	quit  chan struct{}
	wait  sync.WaitGroup

	mu      sync.Mutex
	running map[int]running
	done    int
	painted bool
	held    bool // a question is shown: print nothing
	waiting []runner.Notice
	skipped int
	frame   int
}

type running struct {
	label string
	since time.Time
}

var frames = []string{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"}

func (s *session) newProgress(red *redact.Redactor, total int) *progress {
	p := &progress{s: s, red: red, total: total, running: map[int]running{}, quit: make(chan struct{}), live: !s.json && s.moves(s.Out)}
	if p.live {
		p.wait.Add(1)
		go p.spin()
	}
	return p
}

func (p *progress) spin() {
	defer p.wait.Done()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-p.quit:
			return
		case <-tick.C:
			p.mu.Lock()
			p.frame++
			p.paint()
			p.mu.Unlock()
		}
	}
}

// stop removes the animated line. It may be called once.
func (p *progress) stop() {
	close(p.quit)
	p.wait.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	if more := p.skipped - maxSkipped; more > 0 && !p.s.json {
		p.s.printf("%s %s skipped\n", p.s.paint(dim, "⊝"), counted(more, "more step"))
	}
}

// maxSkipped is the maximum number of skipped steps to list: a stopped plan may have
// thousands.
const maxSkipped = 2

func (p *progress) observe(n runner.Notice) {
	if p.s.json {
		if n.State == ledger.Ended {
			for _, text := range violations(n.Outcome.Violations) {
				p.s.errorf("%s\n", show(p.red.Text(text)))
			}
		}
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch n.State {
	case ledger.Created:
		p.running[n.Call.Index] = running{label(n.Call), time.Now()}
	case ledger.Ended:
		delete(p.running, n.Call.Index)
		p.done++
		if p.held {
			p.waiting = append(p.waiting, n)
			return
		}
		p.clear()
		p.line(n)
	}
	p.paint()
}

func label(c runner.Call) string {
	what := string(c.Tool)
	if name := stepName(c.Index, c.Name, c.Step); name != "" {
		what += "  " + name
	}
	return show(what)
}

// stepName returns the name that the plan gives a step, not a generated one.
func stepName(index int, name, id string) string {
	if name == "" && id != "step-"+itoa(index) {
		return id
	}
	return name
}

// line prints a finished step, with the reason if it did not complete.
func (p *progress) line(n runner.Notice) {
	o, s := n.Outcome, p.s
	if o.Status == tool.Skipped {
		if p.skipped++; p.skipped > maxSkipped {
			return
		}
	}
	sign, col := icon(o.Status.String())
	took := "  " + ms(o.Duration)
	head := fmt.Sprintf(" %*d/%d  ", len(itoa(p.total)), o.Index, p.total)
	text := s.clip(label(n.Call), runewidth.StringWidth(sign+head+took))
	s.printf("%s%s%s%s\n", s.paint(col, sign), head, text, s.paint(dim, took))
	p.attempts(o.Attempts)
	defer func() {
		for _, text := range violations(o.Violations) {
			s.block(yellow, show(p.red.Text(text)))
		}
	}()
	if o.Err == nil {
		return
	}
	if o.Status == tool.Skipped {
		s.block(dim, show(p.red.Text(bare(o.Err))))
		return
	}
	s.block("", fault.CodeOf(o.Err).Error()+" "+show(p.red.Text(fault.Message(o.Err))))
	if text, _ := o.Output["stderr"].(string); text != "" {
		s.block(dim, shorten(show(p.red.Text(firstLine(text))), 200))
	}
	if r := o.Decision.Rule; r != nil && r.Line > 0 && o.Decision.Effect != policy.Allow {
		s.block(dim, fmt.Sprintf("%s:%d  %s", show(r.File), r.Line, show(r.String())))
	}
}

// violations describes the policy's responses to refusals.
func violations(list []runner.Violation) []string {
	var out []string
	for _, v := range list {
		what := map[policy.Response]string{policy.NotifyViolation: "notify", policy.PauseGrant: "grant paused", policy.RevokeGrant: "grant revoked"}[v.Response]
		if what != "" {
			out = append(out, "! violations."+v.Kind.String()+": "+what+": "+shorten(firstLine(v.Reason), 200))
		}
	}
	return out
}

// maxAttempts is the maximum number of refused actions to list per step.
const maxAttempts = 5

// attempts prints the actions that were refused while a step ran.
func (p *progress) attempts(a ledger.Attempts) {
	listed := 0
	for _, r := range a.Refused[:min(len(a.Refused), maxAttempts)] {
		text := fmt.Sprintf("⊘ %s (%s)", r.Action, refusalText(r.Rule, r.Reason))
		p.s.block(yellow, shorten(show(p.red.Text(text)), 300))
		listed += r.Count
	}
	if more := a.Count() - listed; more > 0 {
		p.s.block(dim, fmt.Sprintf("and %d more refused", more))
	}
}

// bare is a message without its hint.
func bare(err error) string {
	var coded *fault.Error
	if errors.As(err, &coded) {
		return coded.Msg
	}
	return err.Error()
}

// paint draws the animated line.
func (p *progress) paint() {
	if !p.live || p.held || len(p.running) == 0 {
		return
	}
	p.clear()
	var parts []string
	for _, i := range sortedInts(p.running) {
		r := p.running[i]
		parts = append(parts, r.label+" "+ms(time.Since(r.since).Truncate(100*time.Millisecond)))
	}
	text := fmt.Sprintf("%s %d/%d  %s", frames[p.frame%len(frames)], p.done, p.total, strings.Join(parts, " · "))
	p.s.printf("%s", runewidth.Truncate(text, p.s.width()-3, "…"))
	p.painted = true
}

func (p *progress) clear() {
	if p.painted {
		p.s.printf("\r\x1b[K")
		p.painted = false
	}
}

// hold stops all output while fn asks a person.
func (p *progress) hold(fn func()) {
	p.mu.Lock()
	p.clear()
	p.held = true
	p.mu.Unlock()
	fn()
	p.mu.Lock()
	p.held = false
	for _, n := range p.waiting {
		p.line(n)
	}
	p.waiting = nil
	p.mu.Unlock()
}
