package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/base/glyph"
	"github.com/remitrun/remit/internal/base/markdown"
)

// screen shows a turn as it happens. On a terminal with colours, answers are rendered as
// Markdown, block by block, so that nothing that was printed changes later; elsewhere their text
// is printed as it arrives.
type screen struct {
	s       *session
	mid     bool   // the cursor is within a line
	pending []byte // the end of the text that was received: an incomplete character or emoji
	printed bool   // the current answer was shown as it arrived
	answer  *markdown.Stream
}

// event shows one event of a turn.
func (c *screen) event(e agent.Event) {
	switch e.Type {
	case agent.TextDelta:
		c.text(e.Text)
		c.printed = true
	case agent.MessageAdded:
		c.message(e.Message)
	case agent.CallStarted:
		c.line("%s %s %s", c.s.paint(dim, "●"), c.s.paint(bold, show(e.Call.Name)), c.s.paint(dim, shorten(show(compact(e.Call.Args)), 160)))
	case agent.CallProgress:
		if e.Text != "" {
			c.line("  %s", c.s.paint(dim, shorten(show(e.Text), 160)))
		}
	case agent.CallEnded:
		c.ended(e.Call)
	case agent.StateChanged:
		if e.Error != nil {
			c.line("%s %s %s", c.s.paint(red, "error:"), show(e.Error.Code), show(e.Error.Message))
			if e.Error.Hint != "" {
				c.line("  %s", show(e.Error.Hint))
			}
		}
	case agent.ApprovalDue:
	}
}

// text shows a piece of an answer. A piece may end within a character or an emoji.
func (c *screen) text(piece string) {
	if c.s.colours(c.s.Out) {
		if c.answer == nil {
			c.answer = &markdown.Stream{Options: markdown.Options{Width: c.s.width(), Paint: c.paint}}
		}
		c.s.printf("%s", c.answer.Write(piece))
		return
	}
	b := append(c.pending, piece...)
	whole := len(b)
	for i := 1; i <= min(utf8.UTFMax-1, len(b)); i++ {
		if tail := b[len(b)-i:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				whole = len(b) - i
			}
			break
		}
	}
	whole = glyph.Settled(string(b[:whole]))
	c.pending = append([]byte(nil), b[whole:]...)
	if whole == 0 {
		return
	}
	c.s.printf("%s", showLines(string(b[:whole])))
	c.mid = b[whole-1] != '\n'
}

// paint makes a piece of an answer stand out.
func (c *screen) paint(style markdown.Style, text string) string {
	return c.s.paint(map[markdown.Style]colour{markdown.Strong: bold, markdown.Emphasis: italic, markdown.Code: cyan, markdown.Faint: dim}[style], text)
}

// cutNote is shown after an answer that was cut off.
const cutNote = "[cut off: the limit max_tokens or the model's context was reached]"

// message shows a whole message.
func (c *screen) message(m *agent.Message) {
	if m == nil {
		return
	}
	switch {
	case m.Kind == agent.Notice, m.Kind == agent.Summary, m.Kind == agent.Command:
		c.line("%s", c.s.paint(dim, shorten(show(firstLine(m.Text)), 160)))
	case m.Role == "assistant":
		if !c.printed && m.Text != "" {
			c.text(m.Text)
		}
		c.printed = false
		if m.Cut {
			c.line("%s", c.s.paint(yellow, cutNote))
		}
	}
	c.printRest()
}

func (c *screen) ended(e *agent.CallEvent) {
	mark, col := "✓", green
	switch e.Status {
	case "completed":
	case "denied":
		mark, col = "⊘", yellow
	default:
		mark, col = "✗", red
	}
	c.line("%s %s %s", c.s.paint(col, mark), show(e.Name), c.s.paint(dim, strings.TrimSpace(show(e.Status)+" "+ms(time.Duration(e.DurationMS*float64(time.Millisecond)))+" "+shorten(show(compact(e.Args)), 80))))
	if e.Error != nil {
		c.line("  %s %s", show(e.Error.Code), shorten(show(e.Error.Message), 400))
	}
}

// line prints a separate line.
func (c *screen) line(format string, args ...any) {
	c.printRest()
	c.s.printf("%s\n", fmt.Sprintf(format, args...))
}

// printRest prints the rest of an answer, and ends an unfinished line.
func (c *screen) printRest() {
	if c.answer != nil {
		c.s.printf("%s", c.answer.End())
		c.answer = nil
	}
	if len(c.pending) > 0 {
		c.s.printf("%s", showLines(strings.ToValidUTF8(string(c.pending), "\uFFFD")))
		c.pending, c.mid = nil, true
	}
	if c.mid {
		c.s.printf("\n")
		c.mid = false
	}
}

// compact returns JSON on one line.
func compact(raw json.RawMessage) string {
	return strings.Join(strings.Fields(string(raw)), " ")
}
