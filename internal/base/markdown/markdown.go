// Package markdown renders Markdown for a terminal: headings, emphasis, lists, quotes, code and
// tables, wrapped to a width. It knows what models write, not all of CommonMark; what it does not
// know stays text. The text is untrusted: control characters are shown, the target of a link
// stands beside its text, and HTML is shown as it is written. Start at [Stream].
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
	maxLine   = 8 << 10
	maxBlock  = 16 << 10
)

// Stream renders text that arrives in pieces. It gives out each paragraph, item and table once it
// is complete, and the lines of code as they come, so that nothing that was printed changes
// later. The zero Stream renders without styles, in lines of the least width.
type Stream struct {
	Options Options

	out   strings.Builder
	rest  string   // an incomplete line
	lines []string // of the block that is not complete
	size  int      // of lines
	first string   // what stands before the block's first line
	next  string   // and before the others
	table bool     // the block is a table
	fence string   // of the code block that lines belong to; "": none
	begun bool     // something was printed
	gap   bool     // an empty line stands before the next block
}

// Render renders a whole text. Each line ends with a line end.
func Render(src string, o Options) string {
	s := Stream{Options: o}
	return s.Write(src) + s.End()
}

// Write takes a piece of text and returns what can be printed now.
func (s *Stream) Write(piece string) string {
	s.rest += piece
	for {
		line, rest, ok := strings.Cut(s.rest, "\n")
		if !ok {
			break
		}
		s.rest = rest
		s.line(line)
	}
	return s.take()
}

// End returns what is left of a text, and makes the stream ready for the next one.
func (s *Stream) End() string {
	if s.rest != "" {
		s.line(s.rest)
	}
	s.flush()
	out := s.take()
	*s = Stream{Options: s.Options}
	return out
}

func (s *Stream) take() string {
	out := s.out.String()
	s.out.Reset()
	return out
}

// line takes one complete line.
func (s *Stream) line(line string) {
	line = strings.TrimRight(strings.ReplaceAll(line, "\t", "    "), "\r")
	prefix, text := quote(line)
	trimmed := strings.TrimLeft(text, " ")
	prefix += strings.Repeat(" ", min(len(text)-len(trimmed), maxIndent))
	switch {
	case s.fence != "":
		s.code(text, trimmed)
	case len(line) > maxLine:
		s.flush()
		s.print("", []span{{shown(line), Plain}})
	case strings.TrimSpace(trimmed) == "":
		s.flush()
		s.gap = s.begun
	case fenceOf(trimmed) != "":
		s.flush()
		s.fence, s.first = fenceOf(trimmed), prefix
	default:
		s.textLine(prefix, trimmed)
	}
}

// textLine takes a line of a paragraph, heading, item, table or rule.
func (s *Stream) textLine(prefix, text string) {
	level := len(text) - len(strings.TrimLeft(text, "#"))
	mark := item(text)
	switch {
	case level > 0 && level <= 6 && strings.HasPrefix(text[level:], " "):
		s.flush()
		s.wrapped(prefix, prefix, restyle(inline(strings.Trim(text, "# "), Plain), Strong))
		s.gap = true
	case isRule(text):
		s.flush()
		s.print(prefix, []span{{strings.Repeat("─", max(s.width()-width(prefix), 3)), Faint}})
	case mark != "":
		s.flush()
		shownMark := mark + " "
		if strings.Contains("-*+", mark) {
			shownMark = "• "
		}
		s.begin(prefix+shownMark, prefix+strings.Repeat(" ", width(shownMark)), strings.TrimLeft(text[len(mark):], " "))
	case strings.HasPrefix(text, "|") != s.table || len(s.lines) == 0:
		s.flush()
		s.table = strings.HasPrefix(text, "|")
		s.begin(prefix, prefix, text)
	default:
		s.add(text)
	}
}

// begin begins a block.
func (s *Stream) begin(first, next, text string) {
	s.first, s.next = first, next
	s.add(text)
}

func (s *Stream) add(text string) {
	s.lines = append(s.lines, text)
	if s.size += len(text) + 1; s.size > maxBlock {
		s.flush()
	}
}

// code takes a line of a code block, or its end.
func (s *Stream) code(text, trimmed string) {
	if strings.HasPrefix(trimmed, s.fence) && strings.Trim(trimmed, s.fence[:1]+" ") == "" {
		s.fence, s.gap = "", true
		return
	}
	inner := len(s.first) - len(strings.TrimLeft(s.first, " │")) // the fence's own indent is taken off
	if drop := min(inner, len(text)-len(trimmed)); !strings.Contains(s.first, "│") {
		text = text[drop:]
	}
	s.print(s.first+"    ", []span{{shown(text), Code}})
}

// flush prints the block that was read so far.
func (s *Stream) flush() {
	lines, table := s.lines, s.table
	s.lines, s.size, s.table = nil, 0, false
	switch {
	case len(lines) == 0:
	case table && len(lines) > 1 && isTableRule(lines[1]):
		s.printTable(append(lines[:1:1], lines[2:]...))
	default:
		var spans []span
		for i, text := range join(lines) {
			if i > 0 {
				spans = append(spans, span{"\n", Plain})
			}
			spans = append(spans, inline(text, Plain)...)
		}
		s.wrapped(s.first, s.next, spans)
	}
}

// join joins the lines of a paragraph, except after a hard break.
func join(lines []string) (out []string) {
	text := ""
	for _, line := range lines {
		hard := strings.HasSuffix(line, "  ") || strings.HasSuffix(line, "\\")
		text = strings.TrimLeft(text+" "+strings.TrimSuffix(strings.TrimRight(line, " "), "\\"), " ")
		if hard {
			out = append(out, text)
			text = ""
		}
	}
	if text != "" {
		out = append(out, text)
	}
	return out
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

// quote takes the marks of quotes off a line, and returns what stands for them.
func quote(line string) (prefix, rest string) {
	for rest = line; ; {
		inner, quoted := strings.CutPrefix(strings.TrimLeft(rest, " "), ">")
		if !quoted {
			return prefix, rest
		}
		if len(prefix) < maxIndent {
			prefix += "│ "
		}
		rest = strings.TrimPrefix(inner, " ")
	}
}

// fenceOf returns the fence that a line opens a code block with, or "".
func fenceOf(text string) string {
	for _, c := range []string{"`", "~"} {
		n := len(text) - len(strings.TrimLeft(text, c))
		if n >= 3 && !(c == "`" && strings.Contains(text[n:], "`")) {
			return text[:n]
		}
	}
	return ""
}

// item returns the mark of an item of a list: -, *, + or a number with . or ); else "".
func item(text string) string {
	mark, _, ok := strings.Cut(text, " ")
	switch {
	case !ok || mark == "":
	case mark == "-" || mark == "*" || mark == "+":
		return mark
	case len(mark) < 2 || len(mark) > 10 || !strings.Contains(".)", mark[len(mark)-1:]):
	case strings.Trim(mark[:len(mark)-1], "0123456789") == "":
		return mark
	}
	return ""
}

// isRule reports whether a line is three or more of -, * or _.
func isRule(text string) bool {
	marks := strings.ReplaceAll(text, " ", "")
	return len(marks) >= 3 && strings.Contains("-*_", marks[:1]) && strings.Trim(marks, marks[:1]) == ""
}

// isTableRule reports whether a line stands between a table's head and its rows.
func isTableRule(text string) bool {
	return strings.Contains(text, "-") && strings.Trim(text, "|-: ") == ""
}
