package queue

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/netresearch/go-cron"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/regex"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/runs"
)

// scheduleName matches names of schedules.
var scheduleName = regex.Lazy(`^[a-z0-9][a-z0-9._-]{0,62}$`)

// NewSchedule is a schedule that a person makes.
type NewSchedule struct {
	Name string
	Cron string // five fields
	Zone string // as "Europe/Berlin"; "": UTC
	By   string
}

// Next returns the first time after a moment that a cron expression of five fields names in
// a time zone.
func Next(expression, zone string, after time.Time) (time.Time, error) {
	bad := func(why string) error {
		return fault.New(fault.Usage, "%q is not a valid cron expression: %s", expression, why).In("cron").
			WithHint(`write minute, hour, day, month and weekday, as "30 6 * * 1-5"`)
	}
	if strings.ContainsAny(expression, "=@") || len(strings.Fields(expression)) != 5 {
		return time.Time{}, bad("it does not have five fields")
	}
	spec, err := cron.MustNewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow).Parse(expression)
	if err != nil {
		return time.Time{}, bad(err.Error())
	}
	if zone == "" {
		zone = "UTC"
	}
	where, err := time.LoadLocation(zone)
	if err != nil || zone == "Local" {
		return time.Time{}, fault.New(fault.Usage, "%q is not a known time zone; expected a name such as Europe/Berlin", zone).In("zone")
	}
	next := spec.Next(after.In(where))
	for !strings.Contains(strings.Fields(expression)[1], "*") && repeated(next) {
		next = spec.Next(next)
	}
	if next.IsZero() {
		return next, bad("no day matches it")
	}
	return next.UTC(), nil
}

// repeated reports whether the clock showed the same time an hour before, as where summer time
// ends. A run that is due at an hour of the day then runs once.
func repeated(t time.Time) bool {
	before := t.Add(-time.Hour)
	return !t.IsZero() && before.Hour() == t.Hour() && before.Day() == t.Day()
}

// AddSchedule makes a schedule that queues a run of a plan again and again, under the
// authority that the caller has now.
func (q *Queue) AddSchedule(ctx context.Context, n NewSchedule, r runs.Request, o Options) (store.Schedule, error) {
	run, err := q.prepare(ctx, r, &o)
	if err != nil {
		return store.Schedule{}, err
	}
	return q.saveSchedule(ctx, n, run)
}

// saveSchedule makes a schedule that queues such runs.
func (q *Queue) saveSchedule(ctx context.Context, n NewSchedule, run store.QueuedRun) (store.Schedule, error) {
	if !scheduleName.MatchString(n.Name) {
		return store.Schedule{}, fault.New(fault.Usage, "%q is not a valid name of a schedule", n.Name).In("name").
			WithHint("use up to 63 small letters, digits, dots, hyphens and underscores")
	}
	st, err := q.Home.Ledger(ctx)
	if err != nil {
		return store.Schedule{}, err
	}
	now := st.Now()
	next, err := Next(n.Cron, n.Zone, now)
	if err != nil {
		return store.Schedule{}, err
	}
	c := store.Schedule{Name: n.Name, Cron: n.Cron, Zone: n.Zone, Next: next, Principal: run.Principal, Workspace: run.Workspace, Priority: run.Priority, Limits: run.Limits,
		Grant: run.Grant, By: n.By, Saved: now, Root: run.Root, RunName: run.Name, Session: run.Session, Task: run.Task}
	if c.Zone == "" {
		c.Zone = "UTC"
	}
	if c.ID, err = home.NewID(); err != nil {
		return c, err
	}
	return st.SaveSchedule(ctx, c)
}

// ChangeSchedule changes a schedule: change may pause, resume or delete it, or set its times
// and priority.
func (q *Queue) ChangeSchedule(ctx context.Context, name, by string, change func(*store.Schedule)) (store.Schedule, error) {
	st, err := q.Home.Ledger(ctx)
	if err != nil {
		return store.Schedule{}, err
	}
	c, err := st.Schedule(ctx, name)
	if err != nil {
		return c, err
	}
	c.By, c.Saved = by, st.Now()
	was := c
	change(&c)
	if c.Priority < 1 || c.Priority > 4 {
		return was, badPriority(c.Priority)
	}
	if was.Paused && !c.Paused || c.Cron != was.Cron || c.Zone != was.Zone { // runs missed meanwhile were not to be
		if c.Next, err = Next(c.Cron, c.Zone, c.Saved); err != nil {
			return was, err
		}
	}
	return st.SaveSchedule(ctx, c)
}

// RunSchedule queues a run of a schedule now, besides its times.
func (q *Queue) RunSchedule(ctx context.Context, name string) (store.QueuedRun, error) {
	st, err := q.Home.Ledger(ctx)
	if err != nil {
		return store.QueuedRun{}, err
	}
	c, err := st.Schedule(ctx, name)
	if err != nil {
		return store.QueuedRun{}, err
	}
	if c.Paused {
		return store.QueuedRun{}, fault.New(fault.Conflict, "the schedule %q is paused", c.Name).ForOperator("resume it first: remit schedule resume %s", c.Name)
	}
	id, err := home.NewID()
	if err == nil {
		err = st.FireSchedule(ctx, c, c.Next, id, st.Now(), q.room())
	}
	if err != nil {
		return store.QueuedRun{}, err
	}
	q.wake.all()
	return st.Queued(ctx, id.String())
}

// Schedules lists the schedules that are not deleted, by name.
func (q *Queue) Schedules(ctx context.Context) ([]store.Schedule, error) {
	st, err := q.Home.Ledger(ctx)
	if err != nil {
		return nil, err
	}
	return st.Schedules(ctx)
}

// fire queues the runs of schedules whose time has come. Of several times that passed while
// no process looked, one run is queued. The next time is never before the last one, also if
// the clock was set back.
func (q *Queue) fire(ctx context.Context, st store.Backend) error {
	all, err := st.Schedules(ctx)
	if err != nil {
		return err
	}
	now := st.Now()
	for i := range all {
		c := all[i]
		if c.Paused || c.Next.After(now) {
			continue
		}
		next, err := Next(c.Cron, c.Zone, now)
		if err != nil {
			return err
		}
		run, err := home.NewID()
		if err != nil {
			return err
		}
		if err := st.FireSchedule(ctx, c, next, run, now, q.room()); err != nil && !errors.Is(err, fault.Stale) {
			return err
		}
	}
	return nil
}
