package webui

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// words are the states that are not shown by their own name. The style sheet gives each state
// its sign and colour.
var words = map[string]string{"timeout": "timed out", "pending": "running", "used": "approved and used", "lapsed": "expired", "review": "waits for review", "rejected": "discarded"}

func wordOf(status string) string {
	if w, ok := words[status]; ok {
		return w
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

// timeLeft says how long from now a time is.
func timeLeft(now, t time.Time) string {
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
	case d < 48*time.Hour:
		return strconv.Itoa(int(d/time.Hour)) + " h"
	}
	return strconv.Itoa(int(d/(24*time.Hour))) + " days"
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
	return grouped(int64(n)) + " bytes"
}

// grouped is a number with its thousands apart.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// count is a number with its noun, as "3 grants".
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

// dollars writes millionths of a US dollar; "": none.
func dollars(millionths int64) string {
	switch {
	case millionths <= 0:
		return ""
	case millionths < 10_000:
		return "under $0.01"
	}
	return fmt.Sprintf("$%.2f", float64(millionths)/1e6)
}
