package report

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"golang.org/x/text/width"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/glyph"
	"github.com/remitrun/remit/internal/base/tool"
)

// icon is how a status is drawn.
type icon struct{ sign, ascii, color string }

// pageSign is the sign on a page, where the stopwatch would become a coloured
// picture or, in most fonts, an empty box.
func pageSign(status string) string {
	if status == tool.TimedOut.String() {
		return "◷"
	}
	return iconOf(status).sign
}

// The colours are the terminal's own, so that they suit its theme.
const (
	plain  = ""
	bold   = "1"
	faint  = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
	purple = "35"
)

var icons = map[string]icon{
	tool.Completed.String():         {"✓", "+", green},
	tool.StatusDenied.String():      {"⊘", "!", yellow},
	tool.Failed.String():            {"✗", "x", red},
	tool.TimedOut.String():          {"⏱", "t", red},
	tool.Cancelled.String():         {"◼", "c", purple},
	tool.Skipped.String():           {"⊝", "-", faint},
	tool.StatusInterrupted.String(): {"‖", "|", purple},
}

func iconOf(status string) icon {
	if i, ok := icons[status]; ok {
		return i
	}
	return icon{"…", "?", faint}
}

// span prints a duration given in milliseconds with about three digits.
func span(ms float64) string {
	switch {
	case ms < 0.001:
		return "0"
	case ms < 1:
		return fmt.Sprintf("%.0f µs", ms*1000)
	case ms < 100:
		return trimZero(fmt.Sprintf("%.1f", ms)) + " ms"
	case ms < 1000:
		return fmt.Sprintf("%.0f ms", ms)
	case ms < 60_000:
		return trimZero(fmt.Sprintf("%.2f", ms/1000)) + " s"
	}
	return time.Duration(ms * float64(time.Millisecond)).Round(time.Second).String()
}

func trimZero(s string) string { return strings.TrimSuffix(strings.TrimRight(s, "0"), ".") }

// size prints a number of bytes.
func size(n int64) string {
	switch {
	case n < 1024:
		return strconv.FormatInt(n, 10) + " bytes"
	case n < 1<<20:
		return trimZero(fmt.Sprintf("%.1f", float64(n)/1024)) + " KiB"
	}
	return trimZero(fmt.Sprintf("%.1f", float64(n)/(1<<20))) + " MiB"
}

// verb is the verb for the effect of a rule.
func verb(effect string) string {
	switch effect {
	case policy.Deny.String():
		return "denied"
	case policy.Ask.String():
		return "approval needed"
	case policy.Allow.String():
		return "allowed"
	}
	return effect
}

// place is where a rule is written: "docs-writer, policy.yaml:7".
func place(policy, file string, line int) string {
	if file != "" && line > 0 {
		file += ":" + strconv.Itoa(line)
	}
	switch {
	case policy == "":
		return file
	case file == "":
		return policy
	}
	return policy + ", " + file
}

// columns is the width of a text on a terminal.
func columns(s string) int {
	n := 0
	for _, c := range s {
		n += runeColumns(c)
	}
	return n
}

func runeColumns(c rune) int {
	if c < 0x300 {
		return 1
	}
	if unicode.Is(unicode.Mn, c) || !glyph.Visible(c) { // a selector or joiner of an emoji
		return 0
	}
	if k := width.LookupRune(c).Kind(); k == width.EastAsianWide || k == width.EastAsianFullwidth {
		return 2
	}
	return 1
}

// fit cuts a text to a width and says so with an ellipsis.
func fit(s string, most int, ellipsis string) string {
	if columns(s) <= most {
		return s
	}
	most -= columns(ellipsis)
	n := 0
	for i, c := range s {
		if n += runeColumns(c); n > most {
			return strings.TrimRight(s[:i], "\u200d") + ellipsis // a joiner at the cut joins nothing
		}
	}
	return s
}

// pad fills a text up to a width.
func pad(s string, to int) string {
	return s + strings.Repeat(" ", max(0, to-columns(s)))
}

// plural prints "1 file", "2 files".
func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return strconv.Itoa(n) + " " + word + "s"
}
