package erasures_test

import (
	"testing"
	"time"

	"github.com/remitrun/remit/internal/service/erasures"
)

func TestWholeMonthsWaitForTheirEnd(t *testing.T) {
	east := time.FixedZone("east", 5*3600)
	for _, c := range []struct {
		now    time.Time
		days   int
		months bool
		want   string
	}{
		{time.Date(2026, 11, 27, 13, 0, 0, 0, time.UTC), 30, false, "2026-10-28T13:00:00Z"},
		{time.Date(2026, 11, 27, 13, 0, 0, 0, time.UTC), 30, true, "2026-10-01T00:00:00Z"},
		{time.Date(2026, 11, 30, 23, 59, 0, 0, time.UTC), 30, true, "2026-10-01T00:00:00Z"},
		{time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC), 30, true, "2026-11-01T00:00:00Z"},
		{time.Date(2026, 12, 1, 4, 0, 0, 0, east), 30, true, "2026-10-01T00:00:00Z"}, // it is November in UTC
	} {
		if got := erasures.Cutoff(c.now, c.days, c.months).UTC().Format(time.RFC3339); got != c.want {
			t.Errorf("%d days before %s, whole months %v: %s, want %s", c.days, c.now, c.months, got, c.want)
		}
	}
}
