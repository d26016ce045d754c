package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"
	"golang.org/x/term"

	"github.com/remitrun/remit/internal/base/redact"
	"github.com/remitrun/remit/internal/base/tool"
)

// colour is an SGR parameter.
type colour string

const (
	red    colour = "31"
	green  colour = "32"
	yellow colour = "33"
	dim    colour = "2"
	bold   colour = "1"
	italic colour = "3"
	cyan   colour = "36"
)

// show makes untrusted text safe to print on a terminal: control characters are
// replaced by visible text.
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

// paint colours text for standard output, if it is a terminal with colours.
func (s *session) paint(c colour, text string) string { return s.paintOn(s.Out, c, text) }

func (s *session) paintErr(c colour, text string) string { return s.paintOn(s.Err, c, text) }

func (s *session) paintOn(w io.Writer, c colour, text string) string {
	if c == "" || text == "" || !s.colours(w) {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

// colours reports whether to colour a stream: a terminal, without NO_COLOR.
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

// printJSON prints one value as JSON.
func (s *session) printJSON(v any) error {
	enc := json.NewEncoder(s.Out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// page is a list as --json prints it; lists of the HTTP API have the same form.
type page[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next,omitempty"` // the value of --before for the next page
}

// printPage prints a list for machines.
func printPage[T any](s *session, items []T, next string) error {
	return s.printJSON(page[T]{append([]T{}, items...), next})
}

// width returns the width of the terminal, or 100 without one.
func (s *session) width() int {
	if f, ok := s.Out.(interface{ Fd() uintptr }); ok && isTerminal(s.Out) {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 20 {
			return w
		}
	}
	return 100
}

// clip cuts a line of safe text to the terminal's width minus less.
func (s *session) clip(text string, less int) string {
	if !isTerminal(s.Out) {
		return text
	}
	return runewidth.Truncate(text, max(s.width()-less, 8), "…")
}

// facts prints a label and its values, separated by sep. On a terminal, values that
// do not fit continue on the next line, below the first.
func (s *session) facts(label, sep string, parts ...cell) {
	const indent = 10
	room := math.MaxInt
	if isTerminal(s.Out) {
		room = s.width()
	}
	line, used := label+strings.Repeat(" ", max(indent-len(label), 1)), indent
	for i, p := range parts {
		text := show(p.text)
		wide := runewidth.StringWidth(text)
		switch {
		case i == 0:
		case used+len(sep)+wide > room:
			line += "\n" + strings.Repeat(" ", indent)
			used = indent
		default:
			line += sep
			used += len(sep)
		}
		line += s.paint(p.colour, text)
		used += wide
	}
	s.printf("%s\n", strings.TrimRight(line, " "))
}

// block prints safe text indented, and on a terminal wrapped between words.
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

// wrapped returns the lines of safe text, wrapped between words on a terminal.
func (s *session) wrapped(text string) []string {
	if !isTerminal(s.Out) {
		return []string{text}
	}
	return wrap(text, s.width())
}

// item prints untrusted text after a sign, and on a terminal wrapped and indented.
func (s *session) item(sign, text string) {
	const indent = 2
	room := math.MaxInt
	if isTerminal(s.Out) {
		room = max(s.width()-indent, 20)
	}
	for i, line := range wrap(show(text), room) {
		if i > 0 {
			sign = " "
		}
		s.printf("%s %s\n", sign, line)
	}
}

// wrap breaks a line between words. A word longer than room is not broken.
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

// chop breaks lines longer than room, within words too.
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

// shortRunID returns the beginning of a run's ID: its time to the microsecond, enough to
// find the run.
func shortRunID(id string) string { return id[:min(len(id), 18)] }

// older prints how to list the next page, if there is one.
func (s *session) older(before string) {
	if before != "" {
		s.printf("%s\n", s.paint(dim, "next page: --before "+before))
	}
}

// when prints a time in the local time zone.
func when(t, now time.Time) string {
	t = t.Local()
	if t.Year() == now.Local().Year() {
		return t.Format(time.Stamp)
	}
	return t.Format("2006-01-02 15:04")
}

// icon returns the sign and the colour of a status.
func icon(status string) (string, colour) {
	switch status {
	case tool.Completed.String():
		return "✓", green
	case tool.StatusDenied.String():
		return "⊘", yellow
	case tool.Skipped.String():
		return "⊝", dim
	case "applied", "undone", "issued", "active", "approved", "used", "recorded", "saved", "added", "deleted":
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

// ms prints a duration in a readable unit.
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

// counted returns a number and its noun, in the plural unless it is 1.
func counted[N int | uint64](n N, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
