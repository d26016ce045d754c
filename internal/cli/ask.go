package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/remitrun/remit/internal/call/approval"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/home"
)

func sortedInts[V any](m map[int]V) []int { return slices.Sorted(maps.Keys(m)) }

// askAtTerminal returns a function that asks the person at the terminal, or nil without a
// terminal: then others can answer. A process under REMIT_GRANT acts for a delegate,
// which must not answer for the person.
func (s *session) askAtTerminal(p *progress) func(context.Context, approval.Case) (store.Vote, error) {
	in, ok := s.In.(*os.File)
	if s.json || !ok || !isTerminal(s.In) || !isTerminal(s.Out) || s.delegated() {
		return nil
	}
	return (&terminalAsker{s: s, p: p, in: in}).ask
}

// delegated reports whether this process acts under the grant in REMIT_GRANT.
func (s *session) delegated() bool {
	g, _ := s.lookup("REMIT_GRANT")
	return g != ""
}

// terminalAsker asks one question at a time.
type terminalAsker struct {
	s  *session
	p  *progress
	in *os.File
	mu sync.Mutex
}

func (a *terminalAsker) ask(ctx context.Context, c approval.Case) (v store.Vote, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if ctx.Err() != nil { // answered elsewhere while another question was asked here
		return v, context.Cause(ctx)
	}
	a.p.hold(func() {
		a.s.ring()
		a.s.printCase(c)
		v, err = a.s.vote(c.Body,
			func() error { return discardTyped(ctx, a.in, true) },
			func(prompt string) (string, error) {
				a.s.printf("%s", prompt)
				return readAnswer(ctx, a.in)
			})
		if errors.Is(err, context.Canceled) {
			a.s.printf("\n") // the prompt's line was not ended
		}
	})
	return v, err
}

// aside is an answer that decides nothing.
type aside int

const (
	decided  aside = iota
	unlisted       // not an answer
	explain        // ?
	whole          // v: everything that the question is about
)

// vote reads answers until one decides. Before each, discard drops keys that were typed
// before the question was shown. The end of the input denies.
func (s *session) vote(b approval.Body, discard func() error, read func(prompt string) (string, error)) (store.Vote, error) {
	prompt := "  allow once (y), deny (n, or n and a reason), view all (v), help (?)? "
	if b.Pattern != nil {
		prompt = "  allow once (y), for the session (s), deny (n, or n and a reason), view all (v), help (?)? "
	}
	for {
		if err := discard(); err != nil {
			return store.Vote{}, err
		}
		line, err := read(prompt)
		if errors.Is(err, io.EOF) {
			s.printf("\n")
			return store.Vote{By: home.Person(), Where: "terminal"}, nil
		}
		if err != nil {
			return store.Vote{}, err
		}
		v, what, err := parseVote(line, b.Pattern)
		switch what {
		case decided:
			return v, err
		case whole:
			s.printWhole(b, "    ")
		case explain:
			s.explainAnswers(b.Pattern != nil)
		case unlisted:
			s.printf("  %s is not an answer\n", shorten(show(fmt.Sprintf("%q", line)), 60))
		}
	}
}

// parseVote reads one line: y, s, n with the reason for it, v or ?.
func parseVote(line string, pattern *approval.Pattern) (v store.Vote, what aside, err error) {
	v = store.Vote{By: home.Person(), Where: "terminal"}
	word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	word, rest = strings.ToLower(word), strings.TrimSpace(rest)
	switch {
	case word == "n" || word == "no":
		v.Reason = rest
		return v, decided, nil
	case rest != "":
		return v, unlisted, nil
	case word == "y" || word == "yes" || word == "once":
		v.Yes = true
		return v, decided, nil
	case (word == "s" || word == "session") && pattern != nil:
		v.Session, err = json.Marshal(pattern)
		v.Yes = err == nil
		return v, decided, err
	case word == "v" || word == "view":
		return v, whole, nil
	case word == "?" || word == "help":
		return v, explain, nil
	}
	return v, unlisted, nil
}

func (s *session) explainAnswers(session bool) {
	s.printf("    y  allow exactly this call, once\n")
	if session {
		s.printf("    s  allow this call and further calls of this run that match the \"session\" lines\n")
	}
	s.printf("    n  deny it; text after n is the reason given to the caller\n" +
		"    v  show the call in full\n" +
		"    other people can answer with remit approvals\n")
}

// printCase shows a question of a run.
func (s *session) printCase(c approval.Case) {
	q := c.Asked
	s.printf("%s step %d, %s, needs approval (risk %s)\n", s.paint(yellow, "?"), q.Call.Index, s.paint(bold, s.clip(label(q.Call), 40)), show(c.Body.Risk))
	s.printToAsk(c.Body)
	if c.Question.Needs > 1 {
		s.printf("    needs      %d different people; others answer with remit approvals\n", c.Question.Needs)
	}
	if c.History != nil {
		s.printEvidence(*c.History, "    ")
	}
	if c.Body.Pattern != nil {
		s.printf("    of the calls so far, the session pattern %s\n", matched(c))
	}
}

// printEvidence shows the record's evidence about similar questions.
func (s *session) printEvidence(h approval.History, indent string) {
	label := "before"
	for _, text := range h.Lines() {
		s.printf("%s%-10s %s\n", indent, label, text)
		label = ""
	}
}

// matched lists the calls of the session that a pattern would have matched.
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

// shownMost is how many characters of one line of a question a terminal shows at first.
const shownMost = 400

// printBody shows the call of a question, and reports whether something was cut. All of
// it except the policy's reason comes from the caller.
func (s *session) printBody(b approval.Body, indent string) (cut bool) {
	lines, cut := b.Short(shownMost)
	before := ""
	for _, l := range lines {
		label := l.Label
		if label == before && label == "session" {
			label = ""
		}
		before = l.Label
		s.printf("%s%-10s %s\n", indent, label, l.Text)
	}
	return cut
}

// printWhole shows the call of a question in full.
func (s *session) printWhole(b approval.Body, indent string) {
	for text := range strings.Lines(b.Whole()) {
		s.printf("%s%s", indent, text)
	}
}

// printToAsk shows the call of a question before it is answered.
func (s *session) printToAsk(b approval.Body) {
	if s.printBody(b, "    ") {
		s.printf("    %s\n", s.paint(yellow, "cut; answer v to read all of it"))
	}
}

// shorten cuts text for a terminal and says how much is missing.
func shorten(text string, most int) string {
	r := []rune(text)
	if len(r) <= most {
		return text
	}
	return string(r[:most]) + "… (" + itoa(len(r)-most) + " more characters)"
}
