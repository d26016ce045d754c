package pause_test

import (
	"fmt"
	"math"
	"net/http"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/base/pause"
)

var now = time.Date(2026, 11, 30, 12, 0, 0, 400_000_000, time.UTC)

const none = time.Duration(-1)

func TestRetryAfter(t *testing.T) {
	at := func(d time.Duration, form string) string { return now.Add(d).Truncate(time.Second).Format(form) }
	for v, want := range map[string]time.Duration{
		"": none, "0": 0, "1": time.Second, "86400": 24 * time.Hour, " 7 ": 7 * time.Second, "007": 7 * time.Second,
		"1.5": 1500 * time.Millisecond, "0.0": 0, "9999999999999999999999": math.MaxInt64, "0.00000000001": 1,
		"-5": none, "+5": none, "0x10": none, "0x1p4": none, "1e3": none, "1_000": none, "Inf": none, "NaN": none, "soon": none,
		"1.": none, ".5": none, ".": none, "1.5.2": none, "5s": none, "1 2": none, "1,5": none, "٣": none,
		at(3*time.Second, http.TimeFormat): 3 * time.Second, // 2.6 s, rounded up
		at(time.Second, http.TimeFormat):   time.Second,
		at(0, http.TimeFormat):             0,
		at(-time.Minute, http.TimeFormat):  0,
		at(24*time.Hour, http.TimeFormat):  24 * time.Hour,
		at(3*time.Second, time.RFC850):     3 * time.Second,
		at(3*time.Second, time.ANSIC):      3 * time.Second,
		at(3*time.Second, time.RFC1123Z):   3 * time.Second,
		"Fri, 31 Dec 9999 23:59:59 GMT":    math.MaxInt64 / time.Second * time.Second,
		"Thu, 01 Jan 1970 00:00:00 GMT":    0,
		"Mon, 30 Nov 2026 25:00:00 GMT":    none,
		at(3*time.Second, time.RFC3339):    none,
	} {
		got, said := pause.RetryAfter(http.Header{"Retry-After": {v}}, now)
		if !said {
			got = none
		}
		if got != want {
			t.Errorf("%q: got %v, want %v", v, got, want)
		}
	}
}

func TestRetryAfterOfSeveralHeaders(t *testing.T) {
	later := now.Add(10 * time.Second).Truncate(time.Second).Format(http.TimeFormat)
	tests := map[string]struct {
		h    http.Header
		want time.Duration
	}{
		"milliseconds":                  {http.Header{"Retry-After-Ms": {"1500"}}, 1500 * time.Millisecond},
		"milliseconds are more exact":   {http.Header{"Retry-After-Ms": {"1500"}, "Retry-After": {"2"}}, 1500 * time.Millisecond},
		"unusable milliseconds":         {http.Header{"Retry-After-Ms": {"-1"}, "Retry-After": {"2"}}, 2 * time.Second},
		"the first usable value counts": {http.Header{"Retry-After": {"soon", "2", "3"}}, 2 * time.Second},
		"the clock of the service":      {http.Header{"Retry-After": {later}, "Date": {now.Add(8 * time.Second).Format(http.TimeFormat)}}, 2 * time.Second},
		"an unusable date of answer":    {http.Header{"Retry-After": {later}, "Date": {"today"}}, 10 * time.Second},
	}
	for name, tc := range tests {
		if got, said := pause.RetryAfter(tc.h, now); got != tc.want || !said {
			t.Errorf("%s: got %v, %v; want %v", name, got, said, tc.want)
		}
	}
}

// The wait is never negative, and never shorter than the service wants.
func TestRetryAfterAnyValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := now.Add(time.Duration(rapid.Int64Range(-1e6, 1e6).Draw(t, "ms")) * time.Millisecond)
		wants := at.Truncate(time.Second)
		got, said := pause.RetryAfter(http.Header{"Retry-After": {wants.Format(http.TimeFormat)}}, now)
		if !said || got < 0 || now.Add(got).Before(wants) || got > 0 && now.Add(got-time.Second).After(wants) {
			t.Fatalf("%v: got %v, %v", wants, got, said)
		}
		secs := rapid.Float64Range(0, 1e6).Draw(t, "seconds")
		v := fmt.Sprintf("%.3f", secs)
		if got, said := pause.RetryAfter(http.Header{"Retry-After": {v}}, now); !said || math.Abs(got.Seconds()-secs) > 0.002 {
			t.Fatalf("%s: got %v, %v", v, got, said)
		}
		if got, _ := pause.RetryAfter(http.Header{"Retry-After": {rapid.String().Draw(t, "value")}}, now); got < 0 {
			t.Fatalf("got %v", got)
		}
	})
}
