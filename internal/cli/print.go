package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"
	"golang.org/x/term"

	"github.com/remitrun/remit/internal/redact"
	"github.com/remitrun/remit/internal/tool"
)

// colour is an SGR parameter.
type colour string

const (
	red    colour = "31"
	green  colour = "32"
	yellow colour = "33"
	dim    colour = "2"
	bold   colour = "1"
)

// show makes untrusted text safe to print on a terminal: control characters
// are shown, not obeyed.
func show(text string) string { return redact.Show(text) }

// showLines does the same for text of several lines.
func showLines(text string) string { return redact.ShowLines(text) }

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

func (s *session) printf(format string, args ...any) {
	if _, err := fmt.Fprintf(s.Out, format, args...); err != nil && s.unwritten == nil {
		s.unwritten = err
	}
}

func (s *session) errorf(format string, args ...any) {
	_, _ = fmt.Fprintf(s.Err, format, args...)
}

// paint colours text for standard output, if it is a terminal that wants it.
func (s *session) paint(c colour, text string) string { return s.paintOn(s.Out, c, text) }

func (s *session) paintErr(c colour, text string) string { return s.paintOn(s.Err, c, text) }

func (s *session) paintOn(w io.Writer, c colour, text string) string {
	if c == "" || !s.colours(w) {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

// colours reports whether a stream takes colour: a terminal, no NO_COLOR.
func (s *session) colours(w io.Writer) bool {
	if v, _ := s.lookup("NO_COLOR"); v != "" {
		return false
	}
	return s.moves(w)
}

// moves reports whether a stream is a terminal that obeys control characters.
func (s *session) moves(w io.Writer) bool {
	v, _ := s.lookup("TERM")
	return v != "dumb" && isTerminal(w)
}

// printJSON prints one value for machines.
func (s *session) printJSON(v any) error {
	enc := json.NewEncoder(s.Out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// width is the terminal's, or 100 where there is none.
func (s *session) width() int {
	if f, ok := s.Out.(interface{ Fd() uintptr }); ok && isTerminal(s.Out) {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 20 {
			return w
		}
	}
	return 100
}

// cell is one cell of a table: text, made safe when printed, and its colour.
type cell struct {
	text   string
	colour colour
}

// gap is the space between two columns.
const gap = 2

// table prints rows under headings, columns aligned. On a terminal what does
// not fit is cut, the widest columns first, so that no line wraps.
func (s *session) table(head []string, rows [][]cell) {
	rows, widths, room := s.layout(head, rows)
	for _, r := range rows {
		s.tableLine(r, widths, room)
	}
}

// tableWhole is table for rows whose last column is to be read whole: what
// does not fit goes on below.
func (s *session) tableWhole(head []string, rows [][]cell) {
	rows, widths, room := s.layout(head, rows)
	last := len(head) - 1
	for _, r := range rows {
		for i, part := range chop(wrap(r[last].text, widths[last]), widths[last]) {
			if i > 0 {
				clear(r[:last])
			}
			r[last].text = part
			s.tableLine(r, widths, room)
		}
	}
}

// layout makes the cells of a table safe, adds its head, and gives the widths
// of its columns and of the line.
func (s *session) layout(head []string, body [][]cell) (rows [][]cell, widths []int, room int) {
	line := make([]cell, len(head))
	for i, h := range head {
		line[i] = cell{h, dim}
	}
	rows = append([][]cell{line}, body...)
	widths = make([]int, len(head))
	for _, r := range rows {
		for i := range r {
			r[i].text = show(r[i].text)
			widths[i] = max(widths[i], runewidth.StringWidth(r[i].text))
		}
	}
	if !isTerminal(s.Out) {
		return rows, widths, math.MaxInt
	}
	room = s.width()
	shrink(head, widths, room)
	return rows, widths, room
}

// shrink makes columns fit into room, the widest first, but none of them
// narrower than a few characters, and not those that one needs to go on.
func shrink(head []string, widths []int, room int) {
	const least = 6
	whole := []string{"#", "RUN", "SESSION", "RUN/CALL", "TOOL", "AT", "STARTED", "TOOK"}
	var cut []int
	for i, h := range head {
		if !slices.Contains(whole, h) {
			cut = append(cut, i)
		}
	}
	total := -gap
	for _, w := range widths {
		total += w + gap
	}
	for ; total > room; total-- {
		widest := slices.MaxFunc(cut, func(a, b int) int { return widths[a] - widths[b] })
		if widths[widest] <= least {
			return
		}
		widths[widest]--
	}
}

func (s *session) tableLine(r []cell, widths []int, room int) {
	var b strings.Builder
	for i, c := range r {
		if room <= 0 {
			break
		}
		text := runewidth.Truncate(c.text, min(widths[i], room), "…")
		pad := min(widths[i], room) - runewidth.StringWidth(text)
		if c.colour != "" && text != "" {
			text = s.paint(c.colour, text)
		}
		b.WriteString(text)
		if room -= widths[i] + gap; i < len(r)-1 && room > 0 {
			b.WriteString(strings.Repeat(" ", pad+gap))
		}
	}
	s.printf("%s\n", strings.TrimRight(b.String(), " "))
}

// clip cuts one line of safe text to the terminal, less what else is on it.
func (s *session) clip(text string, less int) string {
	if !isTerminal(s.Out) {
		return text
	}
	return runewidth.Truncate(text, max(s.width()-less, 8), "…")
}

// block prints safe text that may be long, indented, and on a terminal wrapped
// between words.
func (s *session) block(c colour, text string) {
	const indent = "    "
	room := math.MaxInt
	if isTerminal(s.Out) {
		room = max(s.width()-len(indent), 20)
	}
	for _, line := range wrap(text, room) {
		s.printf("%s%s\n", indent, s.paint(c, line))
	}
}

// wrap breaks a line between words. A word that is longer than room stays whole.
func wrap(text string, room int) []string {
	if runewidth.StringWidth(text) <= room {
		return []string{text}
	}
	var lines []string
	line := ""
	for _, word := range strings.Split(text, " ") {
		switch {
		case line == "":
			line = word
		case runewidth.StringWidth(line)+1+runewidth.StringWidth(word) <= room:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
	}
	return append(lines, line)
}

// chop breaks also words.
func chop(lines []string, room int) []string {
	var out []string
	for _, line := range lines {
		for runewidth.StringWidth(line) > room {
			head := runewidth.Truncate(line, room, "")
			if head == "" {
				break // not even one character fits
			}
			out = append(out, head)
			line = line[len(head):]
		}
		out = append(out, line)
	}
	return out
}

// short is the beginning of a run's ID: its time to the microsecond, enough to
// find it by.
func short(id string) string { return id[:min(len(id), 18)] }

// older tells how the page after a list is had, if there is one.
func (s *session) older(before string) {
	if before != "" {
		s.printf("%s\n", s.paint(dim, "older ones: --before "+before))
	}
}

// when prints a moment for people, in their time zone.
func when(t, now time.Time) string {
	t = t.Local()
	if t.Year() == now.Local().Year() {
		return t.Format(time.Stamp)
	}
	return t.Format("2006-01-02 15:04")
}

// icon gives a status its sign and colour.
func icon(status string) (string, colour) {
	switch status {
	case tool.Completed.String():
		return "✓", green
	case tool.StatusDenied.String():
		return "⊘", yellow
	case tool.Skipped.String():
		return "⊝", dim
	case "applied", "undone", "issued", "active", "approved", "used", "recorded":
		return "✓", green
	case "paused":
		return "‖", yellow
	case "held", "review", "applying", "undoing", "discarded", "idle", "ended":
		return "·", dim
	case tool.TimedOut.String():
		return "⏱", red
	case "running", "working", "waiting", tool.Pending.String():
		return "…", bold
	case tool.StatusInterrupted.String():
		return "‖", red
	}
	return "✗", red
}

// ms prints a duration for people.
func ms(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%d µs", d.Microseconds())
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return d.Round(time.Second).String()
}

// counted is a number with its noun, which says how many.
func counted[N int | uint64](n N, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
