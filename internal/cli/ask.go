package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/approval"
	"github.com/remitrun/remit/internal/store"
)

func sortedInts[V any](m map[int]V) []int { return slices.Sorted(maps.Keys(m)) }

// here asks the person at the terminal, or is nil where there is none: then
// others can answer.
func (s *session) here(p *progress) func(context.Context, approval.Case) (store.Vote, error) {
	if s.json || !isTerminal(s.In) || !isTerminal(s.Out) {
		return nil
	}
	a := &terminalAsker{s: s, p: p, lines: make(chan string)}
	return a.ask
}

// terminalAsker asks one question at a time.
type terminalAsker struct {
	s     *session
	p     *progress
	mu    sync.Mutex
	once  sync.Once
	lines chan string
}

// read passes on what is typed, until standard input ends. It is started with
// the first question and ends with the process: a read of a terminal cannot be
// called off.
func (a *terminalAsker) read() {
	in := bufio.NewScanner(a.s.In)
	for in.Scan() {
		a.lines <- in.Text()
	}
	close(a.lines)
}

func (a *terminalAsker) ask(ctx context.Context, c approval.Case) (v store.Vote, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if ctx.Err() != nil { // answered elsewhere while another question was asked here
		return v, context.Cause(ctx)
	}
	a.once.Do(func() { go a.read() })
	a.p.hold(func() {
		a.print(c)
		var line string
		var ok bool
		select {
		case line, ok = <-a.lines:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		if !ok {
			a.s.printf("\n") // nothing was typed that ended the line
		}
		v, err = vote(line, ok, c.Body.Pattern, err)
	})
	return v, err
}

// vote reads an answer: y, s, or no with the reason for it.
func vote(line string, ok bool, pattern *approval.Pattern, err error) (store.Vote, error) {
	v := store.Vote{By: app.Person(), Where: "terminal"}
	if err != nil || !ok {
		return v, err
	}
	word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	switch strings.ToLower(word) {
	case "y", "yes", "once":
		v.Yes = true
	case "s", "session":
		if pattern == nil {
			break // it was not offered
		}
		if v.Session, err = json.Marshal(pattern); err == nil {
			v.Yes = true
		}
	case "n", "no":
		v.Reason = strings.TrimSpace(rest)
	}
	return v, err
}

func (a *terminalAsker) print(c approval.Case) {
	s, b := a.s, c.Body
	q := c.Asked
	s.printf("%s step %d, %s, wants approval (risk %s)\n", s.paint(yellow, "?"), q.Call.Index, s.paint(bold, s.clip(label(q.Call), 40)), b.Risk)
	s.printBody(b, "    ")
	if c.Question.Needs > 1 {
		s.printf("    needs      %d different people: others answer with remit approvals\n", c.Question.Needs)
	}
	if b.Pattern == nil {
		s.printf("  allow this once? [y/N, or n and why] ")
		return
	}
	for i, line := range b.Pattern.Lines() {
		label := "           "
		if i == 0 {
			label = "session is "
		}
		s.printf("    %s%s\n", label, shorten(show(a.p.red.Text(line)), 400))
	}
	s.printf("    of the calls so far it %s\n", matched(c))
	s.printf("  allow once (y), for the session (s), or not (N, or n and why)? ")
}

// matched says which calls of the session a pattern would have matched.
func matched(c approval.Case) string {
	if len(c.Matches)+len(c.Others) == 0 {
		return "matches none"
	}
	list := func(past []approval.Past) string {
		names := make([]string, 0, len(past))
		for _, p := range past {
			names = append(names, "step "+itoa(p.Index))
		}
		if more := len(names) - 5; more > 0 {
			names = append(names[:5], itoa(more)+" more")
		}
		return strings.Join(names, ", ")
	}
	out := "matches none"
	if len(c.Matches) > 0 {
		out = "matches " + list(c.Matches)
	}
	if len(c.Others) > 0 {
		out += ", and not " + list(c.Others) + " of the same tool"
	}
	return out
}

// printBody shows what a question is about. All of it but the words of the
// policy comes from who asks.
func (s *session) printBody(b approval.Body, indent string) {
	line := func(label, text string) {
		if text != "" {
			s.printf("%s%-10s %s\n", indent, label, shorten(show(text), 400))
		}
	}
	line("arguments", string(b.Args))
	for _, t := range b.Touches {
		line("touches", t)
	}
	line("effects", strings.Join(b.Effects, " "))
	line("for", b.Holder)
	line("because", b.Reason)
}

// shorten cuts text for a terminal and says how much is missing.
func shorten(text string, most int) string {
	r := []rune(text)
	if len(r) <= most {
		return text
	}
	return string(r[:most]) + "… (" + itoa(len(r)-most) + " more characters)"
}
