package queue_test

import (
	"testing"
	"time"

	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/queue"
)

func TestNextTimeOfAnExpression(t *testing.T) {
	for name, c := range map[string]struct{ cron, zone, after, want string }{
		"the next minute":               {"* * * * *", "UTC", "2026-11-23T10:00:30Z", "2026-11-23T10:01:00Z"},
		"not the same time again":       {"0 3 * * *", "UTC", "2026-11-23T03:00:00Z", "2026-11-24T03:00:00Z"},
		"a weekday":                     {"30 6 * * 1-5", "UTC", "2026-11-20T07:00:00Z", "2026-11-23T06:30:00Z"},
		"in a zone":                     {"30 6 * * *", "Europe/Berlin", "2026-11-23T06:00:00Z", "2026-11-24T05:30:00Z"},
		"a leap day":                    {"0 0 29 2 *", "UTC", "2026-11-23T00:00:00Z", "2028-02-29T00:00:00Z"},
		"an hour that comes twice":      {"30 2 25 10 *", "Europe/Berlin", "2026-10-25T00:30:00Z", "2027-10-25T00:30:00Z"},
		"after an hour that is skipped": {"0 4 * * *", "Europe/Berlin", "2026-03-29T00:59:00Z", "2026-03-29T02:00:00Z"},
	} {
		after, err := time.Parse(time.RFC3339, c.after)
		if err != nil {
			t.Fatal(err)
		}
		got, err := queue.Next(c.cron, c.zone, after)
		if err != nil || got.Format(time.RFC3339) != c.want {
			t.Errorf("%s: %s, %v; want %s", name, got.Format(time.RFC3339), err, c.want)
		}
	}
	for _, c := range [][2]string{{"", "UTC"}, {"* * * *", "UTC"}, {"* * * * * *", "UTC"}, {"61 * * * *", "UTC"}, {"@every 1s", "UTC"}, {"TZ=UTC * * * *", "UTC"}, {"0 0 30 2 *", "UTC"},
		{"* * * * *", "Local"}, {"* * * * *", "../etc/passwd"}, {"* * * * *", "Nowhere"}, {"*/0 * * * *", "UTC"}} {
		if got, err := queue.Next(c[0], c[1], time.Now()); err == nil {
			t.Errorf("%q in %q is %s, want an error", c[0], c[1], got)
		}
	}
}

// A schedule that is due queues one run, whatever times passed before, and runs under the
// authority of the person who made it.
func TestAScheduleQueuesOneRunForTimesThatPassed(t *testing.T) {
	p := newPlace(t, writing)
	made, err := p.Queue.AddSchedule(t.Context(), queue.NewSchedule{Name: "often", Cron: "* * * * *", By: "user:ann"}, p.request("often"), queue.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p.work() // not due
	st := p.store()
	ended := func() []store.QueuedRun {
		t.Helper()
		list, err := st.QueuedRuns(t.Context(), store.QueueFilter{Ended: true})
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	if n := len(ended()); n != 0 {
		t.Fatalf("%d runs before the time", n)
	}
	made.Next = time.Now().Add(-24 * time.Hour) // as after a day without a worker
	if made, err = st.SaveSchedule(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	p.work()
	list := ended()
	if len(list) != 1 || list[0].Status != "completed" || list[0].Schedule != made.ID || list[0].Name != "often" {
		t.Fatalf("ended are %+v", list)
	}
	after, err := st.Schedule(t.Context(), "often")
	if err != nil || !after.Next.After(time.Now()) || after.Last.IsZero() {
		t.Errorf("the schedule is now %+v, %v", after, err)
	}
	if _, err := p.Queue.ChangeSchedule(t.Context(), "often", "user:ann", func(c *store.Schedule) { c.Paused, c.Next = true, made.Next }); err != nil {
		t.Fatal(err)
	}
	p.work()
	if n := len(ended()); n != 1 {
		t.Errorf("a paused schedule queued %d runs", n-1)
	}
	resumed, err := p.Queue.ChangeSchedule(t.Context(), "often", "user:ann", func(c *store.Schedule) { c.Paused = false })
	if err != nil || !resumed.Next.After(time.Now()) {
		t.Errorf("resumed it is %+v, %v", resumed, err)
	}
}
