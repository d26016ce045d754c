package webui

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// state is how a state is shown: by a sign and a word, besides its colour.
type state struct{ sign, word string }

var states = map[string]state{
	"completed": {"✓", "completed"}, "denied": {"⊘", "denied"}, "failed": {"✗", "failed"}, "timeout": {"✗", "timed out"}, "cancelled": {"◼", "cancelled"},
	"skipped": {"⊝", "skipped"}, "interrupted": {"‖", "interrupted"}, "running": {"…", "running"}, "pending": {"…", "running"}, "waiting": {"◆", "waiting"}, "paused": {"⏸", "paused"},
	"approved": {"✓", "approved"}, "used": {"✓", "approved and used"}, "refused": {"⊘", "refused"}, "lapsed": {"◷", "expired"}, "replay": {"↺", "replayed"},
}

func signOf(status string) string {
	if s, ok := states[status]; ok {
		return s.sign
	}
	return "·"
}

func wordOf(status string) string {
	if s, ok := states[status]; ok {
		return s.word
	}
	return status
}

// ago says how long before now a time was.
func ago(now, t time.Time) string {
	d := now.Sub(t)
	switch {
	case d < 5*time.Second:
		return "just now"
	case d < 24*time.Hour:
		return rough(d) + " ago"
	}
	return t.UTC().Format("2 Jan 2006, 15:04")
}

// left says how long from now a time is.
func left(now, t time.Time) string {
	if d := t.Sub(now); d > 0 {
		return rough(d) + " left"
	}
	return "expired"
}

// rough is a duration in its largest unit.
func rough(d time.Duration) string {
	switch {
	case d < time.Minute:
		return strconv.Itoa(int(d/time.Second)) + " s"
	case d < time.Hour:
		return strconv.Itoa(int(d/time.Minute)) + " min"
	}
	return strconv.Itoa(int(d/time.Hour)) + " h"
}

// spanOf is a duration in milliseconds with about three digits.
func spanOf(ms float64) string {
	trim := func(s string) string { return strings.TrimSuffix(strings.TrimRight(s, "0"), ".") }
	switch {
	case ms < 0.001:
		return "0 ms"
	case ms < 1:
		return fmt.Sprintf("%.0f µs", ms*1000)
	case ms < 100:
		return trim(fmt.Sprintf("%.1f", ms)) + " ms"
	case ms < 1000:
		return fmt.Sprintf("%.0f ms", ms)
	case ms < 60_000:
		return trim(fmt.Sprintf("%.2f", ms/1000)) + " s"
	}
	return time.Duration(ms * float64(time.Millisecond)).Round(time.Second).String()
}

// sizeOf is a number of bytes in words.
func sizeOf(n int) string {
	if n == 1 {
		return "1 byte"
	}
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s + " bytes"
}

// count is a number with its noun, as "3 calls".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// id8 is the beginning of an ID that people recognize it by.
func id8(id fmt.Stringer) string {
	s := id.String()
	return s[:min(8, len(s))]
}
