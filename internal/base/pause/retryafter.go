package pause

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// RetryAfter returns how long a service asks its clients to wait, by the headers of its answer.
// The wait is given in milliseconds (Retry-After-Ms), in seconds, also with a fraction, or as a
// date. A date that has passed means no wait. A value that cannot be read counts as missing.
func RetryAfter(h http.Header, now time.Time) (d time.Duration, said bool) {
	for _, v := range h.Values("Retry-After-Ms") {
		if d, ok := decimal(v, time.Millisecond); ok {
			return d, true
		}
	}
	for _, v := range h.Values("Retry-After") {
		if d, ok := decimal(v, time.Second); ok {
			return d, true
		}
		if at, ok := date(v); ok {
			if sent, ok := date(h.Get("Date")); ok {
				now = sent // both are by the clock of the service
			}
			return max(0, roundUp(at.Sub(now))), true
		}
	}
	return 0, false
}

// roundUp rounds up to a whole second, as a date names no smaller unit.
func roundUp(d time.Duration) time.Duration {
	if whole := d.Truncate(time.Second); whole < d && whole <= math.MaxInt64-time.Second {
		return whole + time.Second
	}
	return d.Truncate(time.Second)
}

// decimal reads a number of digits, with or without a fraction. A number that is too large becomes
// the longest duration.
func decimal(v string, unit time.Duration) (time.Duration, bool) {
	v = strings.Trim(v, " \t")
	whole, fraction, dotted := strings.Cut(v, ".")
	if whole == "" || dotted && fraction == "" || strings.Trim(whole+fraction, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseFloat(v, 64)
	if err != nil || n >= float64(math.MaxInt64)/float64(unit) {
		return math.MaxInt64, true
	}
	return time.Duration(math.Ceil(n * float64(unit))), true
}

// date reads a date of HTTP, or one of the same form with a numeric zone.
func date(v string) (time.Time, bool) {
	v = strings.Trim(v, " \t")
	if at, err := http.ParseTime(v); err == nil {
		return at, true
	}
	at, err := time.Parse(time.RFC1123Z, v)
	return at, err == nil
}
