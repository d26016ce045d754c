// Package markdown renders Markdown for a terminal and as HTML: headings, emphasis, lists, quotes,
// code and tables. It knows the forms that models write, not all of CommonMark; other forms stay
// text. The text is untrusted: control characters are shown, the target of a link stands beside its
// text, and HTML is shown as it is written. Start at [Stream] for a terminal, and at [HTML].
package markdown

import (
	"strings"

	"github.com/remitrun/remit/internal/base/redact"
)

// Style is how a piece of text stands out.
type Style uint8

// The styles.
const (
	Plain Style = iota
	Strong
	Emphasis
	Code
	Faint // marks and link targets
)

// Options say how to render.
type Options struct {
	Width int                            // of a line; less than 20 counts as 20
	Paint func(s Style, t string) string // makes text stand out; nil: nothing does
}

func (o Options) paint(s Style, t string) string {
	if o.Paint == nil || t == "" {
		return t
	}
	return o.Paint(s, t)
}

// The limits of the Markdown reader. They bound the time that hostile text takes.
const (
	minWidth  = 20
	maxIndent = 24
	maxQuotes = 6
	maxLine   = 8 << 10
	maxBlock  = 16 << 10
)

// Stream renders text that arrives in pieces. It gives out each paragraph, item and table once it
// is complete, and the lines of code as they come, so that nothing that was printed changes
// later. The zero Stream renders without styles, in lines of the least width.
type Stream struct {
	Options Options

	out   strings.Builder
	rest  string // an incomplete line
	read  parser
	begun bool // something was printed
	gap   bool // an empty line stands before the next line
}

// Render renders a whole text. Each line ends with a line end.
func Render(src string, o Options) string {
	s := Stream{Options: o}
	return s.Write(src) + s.End()
}

// Write takes a piece of text and returns the text that can be printed now.
func (s *Stream) Write(piece string) string {
	s.read.emit = s.draw
	s.rest += piece
	for {
		line, rest, ok := strings.Cut(s.rest, "\n")
		if !ok {
			break
		}
		s.rest = rest
		s.read.line(line)
	}
	return s.take()
}

// End returns the rest of a text, and makes the stream ready for the next one.
func (s *Stream) End() string {
	s.read.emit = s.draw
	if s.rest != "" {
		s.read.line(s.rest)
	}
	s.read.flush()
	out := s.take()
	*s = Stream{Options: s.Options}
	return out
}

func (s *Stream) take() string {
	out := s.out.String()
	s.out.Reset()
	return out
}

// draw prints a block.
func (s *Stream) draw(b block) {
	s.gap = s.gap || b.apart && s.begun
	prefix := strings.Repeat("│ ", b.quote) + strings.Repeat(" ", b.indent)
	switch b.kind {
	case heading:
		s.wrapped(prefix, prefix, restyle(b.spans, Strong))
	case item:
		mark := b.mark + " "
		if isBullet(b.mark) {
			mark = "• "
		}
		s.wrapped(prefix+mark, prefix+strings.Repeat(" ", width(mark)), b.spans)
	case codeLine:
		s.print(prefix+"    ", b.spans)
	case rule:
		s.print(prefix, []span{{text: strings.Repeat("─", max(s.width()-width(prefix), 3)), style: Faint}})
	case table:
		s.printTable(prefix, b.rows)
	default:
		s.wrapped(prefix, prefix, b.spans)
	}
}

// print writes one line, after an empty one where blocks are apart.
func (s *Stream) print(prefix string, spans []span) {
	if s.gap {
		s.out.WriteByte('\n')
	}
	s.begun, s.gap = true, false
	s.out.WriteString(s.Options.paint(Faint, prefix))
	for _, sp := range spans {
		s.out.WriteString(s.Options.paint(sp.style, sp.text))
	}
	s.out.WriteByte('\n')
}

// shown makes one line of untrusted text safe.
func shown(line string) string { return redact.Show(line) }
