package markdown

import "strings"

// kind is the kind of a block.
type kind uint8

const (
	paragraph kind = iota
	heading
	item     // of a list
	codeLine // of a code block
	rule
	table
)

// block is one block of a text. Its texts are safe to show.
type block struct {
	kind   kind
	apart  bool // an empty line, or the end of a heading or code, stands before it
	quote  int  // quotes that it is in
	indent int  // spaces before it
	mark   string
	spans  []span     // of all kinds but rules and tables
	rows   [][][]span // of a table: cells, the head first
}

// parser reads blocks from lines.
type parser struct {
	lines []string // of the block that is not complete
	size  int      // of lines
	next  block    // that block, without its text
	fence string   // of the code block that lines belong to; "": none
	apart bool
	emit  func(block)
}

// line takes one complete line.
func (p *parser) line(line string) {
	line = strings.TrimRight(strings.ReplaceAll(line, "\t", "    "), "\r")
	depth, text := quote(line)
	trimmed := strings.TrimLeft(text, " ")
	at := block{quote: depth, indent: min(len(text)-len(trimmed), maxIndent)}
	switch {
	case p.fence != "":
		p.code(text, trimmed)
	case len(line) > maxLine:
		p.flush()
		p.add(block{spans: []span{{text: shown(line)}}})
	case strings.TrimSpace(trimmed) == "":
		p.flush()
		p.apart = true
	case fenceOf(trimmed) != "":
		p.flush()
		at.kind = codeLine
		p.fence, p.next = fenceOf(trimmed), at
	default:
		p.textLine(at, trimmed)
	}
}

// textLine takes a line of a paragraph, heading, item, table or rule.
func (p *parser) textLine(at block, text string) {
	level := len(text) - len(strings.TrimLeft(text, "#"))
	mark := itemMark(text)
	switch {
	case level > 0 && level <= 6 && strings.HasPrefix(text[level:], " "):
		p.flush()
		at.kind, at.spans = heading, inline(strings.Trim(text, "# "), Plain)
		p.add(at)
		p.apart = true
	case isRule(text):
		p.flush()
		at.kind = rule
		p.add(at)
	case mark != "":
		p.flush()
		at.kind, at.mark = item, mark
		p.begin(at, strings.TrimLeft(text[len(mark):], " "))
	case strings.HasPrefix(text, "|") != (p.next.kind == table) || len(p.lines) == 0:
		p.flush()
		if strings.HasPrefix(text, "|") {
			at.kind = table
		}
		p.begin(at, text)
	default:
		p.addLine(text)
	}
}

// begin begins a block of several lines.
func (p *parser) begin(b block, text string) {
	p.next = b
	p.addLine(text)
}

func (p *parser) addLine(text string) {
	p.lines = append(p.lines, text)
	if p.size += len(text) + 1; p.size > maxBlock {
		p.flush()
	}
}

// code takes a line of a code block, or its end.
func (p *parser) code(text, trimmed string) {
	if strings.HasPrefix(trimmed, p.fence) && strings.Trim(trimmed, p.fence[:1]+" ") == "" {
		p.fence, p.apart = "", true
		p.next = block{}
		return
	}
	if p.next.quote == 0 { // the fence's own indent is taken off
		text = text[min(p.next.indent, len(text)-len(trimmed)):]
	}
	line := p.next
	line.spans = []span{{text: shown(text), style: Code}}
	p.add(line)
}

// flush completes the block that was read so far.
func (p *parser) flush() {
	b, lines := p.next, p.lines
	p.lines, p.size, p.next = nil, 0, block{}
	switch {
	case len(lines) == 0:
		return
	case b.kind == table && len(lines) > 1 && isTableRule(lines[1]):
		for _, line := range append(lines[:1:1], lines[2:]...) {
			b.rows = append(b.rows, cells(line))
		}
	default:
		if b.kind == table {
			b.kind = paragraph
		}
		for i, text := range join(lines) {
			if i > 0 {
				b.spans = append(b.spans, span{text: "\n"})
			}
			b.spans = append(b.spans, inline(text, Plain)...)
		}
	}
	p.add(b)
}

// add gives a block out.
func (p *parser) add(b block) {
	b.apart, p.apart = p.apart, false
	p.emit(b)
}

// cells reads a row of a table.
func cells(line string) (out [][]span) {
	for text := range strings.SplitSeq(strings.Trim(strings.TrimSpace(line), "|"), "|") {
		out = append(out, inline(strings.TrimSpace(text), Plain))
	}
	return out
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

// quote takes the marks of quotes off a line, and counts them.
func quote(line string) (depth int, rest string) {
	for rest = line; ; {
		inner, quoted := strings.CutPrefix(strings.TrimLeft(rest, " "), ">")
		if !quoted {
			return depth, rest
		}
		depth = min(depth+1, maxQuotes)
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

// itemMark returns the mark of an item of a list: -, *, + or a number with . or ); else "".
func itemMark(text string) string {
	mark, _, ok := strings.Cut(text, " ")
	switch {
	case !ok || mark == "":
	case isBullet(mark):
		return mark
	case len(mark) < 2 || len(mark) > 10 || !strings.Contains(".)", mark[len(mark)-1:]):
	case strings.Trim(mark[:len(mark)-1], "0123456789") == "":
		return mark
	}
	return ""
}

func isBullet(mark string) bool { return mark == "-" || mark == "*" || mark == "+" }

// isRule reports whether a line is three or more of -, * or _.
func isRule(text string) bool {
	marks := strings.ReplaceAll(text, " ", "")
	return len(marks) >= 3 && strings.Contains("-*_", marks[:1]) && strings.Trim(marks, marks[:1]) == ""
}

// isTableRule reports whether a line stands between a table's head and its rows.
func isTableRule(text string) bool {
	return strings.Contains(text, "-") && strings.Trim(text, "|-: ") == ""
}
