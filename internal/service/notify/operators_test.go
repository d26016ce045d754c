package notify_test

import (
	"context"
	"log/slog"
	"slices"
	"testing"

	"github.com/remitrun/remit/internal/service/notify"
)

// tray is a channel that keeps what it is told.
type tray struct{ got chan notify.Event }

func (tray) Name() string { return "tray" }

func (c tray) Deliver(_ context.Context, e notify.Event) error {
	c.got <- e
	return nil
}

// told returns the kinds of the events that do sends.
func told(t *testing.T, do func(*notify.Notifier)) (kinds []string, events []notify.Event) {
	t.Helper()
	c := tray{make(chan notify.Event, 20)}
	n := notify.New([]notify.Channel{c}, func() *slog.Logger { return slog.New(slog.DiscardHandler) })
	do(n)
	n.Close()
	close(c.got)
	for e := range c.got {
		kinds, events = append(kinds, e.Kind), append(events, e)
	}
	return kinds, events
}

func TestOperatorsAreToldOfTheDead(t *testing.T) {
	for _, c := range []struct {
		runs int
		dead uint64
		want []string
	}{{0, 0, nil}, {2, 0, []string{"runs.unknown"}}, {0, 1, []string{"node.lost"}}, {3, 2, []string{"node.lost", "runs.unknown"}}} {
		got, events := told(t, func(n *notify.Notifier) { n.Recovered(c.runs, c.dead) })
		if !slices.Equal(got, c.want) {
			t.Errorf("%d runs of %d dead: told %v, want %v", c.runs, c.dead, got, c.want)
		}
		if len(got) == 2 && (events[0].Facts["processes"] != "2" || events[1].Facts["runs"] != "3") {
			t.Errorf("got %+v", events)
		}
	}
}

func TestOperatorsAreToldOnceOfASpentBudget(t *testing.T) {
	got, events := told(t, func(n *notify.Notifier) {
		for range 3 {
			n.BudgetUsedUp("grant-a", "agent:docs", "run-1")
		}
		n.BudgetUsedUp("grant-b", "agent:web", "run-2")
		(*notify.Notifier)(nil).BudgetUsedUp("grant-c", "", "")
	})
	if len(got) != 2 || got[0] != notify.BudgetSpent || events[0].Facts["holder"] != "agent:docs" || events[1].Facts["grant"] != "grant-b" {
		t.Errorf("told %v %+v", got, events)
	}
}

func TestOperatorsAreToldOfAFullDiskOnce(t *testing.T) {
	const least = 1000
	got, _ := told(t, func(n *notify.Notifier) {
		low := false
		for _, free := range []uint64{5000, 1000, 999, 500, 1500, 999, 2000, 3000, 10, 10} {
			low = n.DiskLow(low, free, least)
		}
		if !low {
			t.Error("10 of 1000 bytes are not low")
		}
	})
	if !slices.Equal(got, []string{notify.DiskLow, notify.DiskLow}) {
		t.Errorf("told %v, want it at 999 and, after 2000 were free, at 10", got)
	}
	if free, least, err := notify.Free(t.TempDir()); err != nil || free == 0 || least == 0 {
		t.Errorf("Free = %d, %d, %v", free, least, err)
	}
}
