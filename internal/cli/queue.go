package cli

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/queue"
	"github.com/remitrun/remit/internal/service/runs"
)

// queueFlags are the flags of a run that is queued.
type queueFlags struct {
	queue.Options
	on     bool
	at     string
	limits []string
}

// queueOnly are the flags that need --queue.
var queueOnly = []string{"priority", "delay", "at", "unique", "limit"}

// add adds the flags of runs that are queued. A schedule has its own times, and its runs are
// unique.
func (f *queueFlags) add(c *cobra.Command, schedule bool) {
	fl := c.Flags()
	fl.IntVar(&f.Priority, "priority", queue.DefaultPriority, "of a queued run: `N` from 1 (first) to 4")
	fl.StringArrayVar(&f.limits, "limit", nil, "run at most N at once, as `KEY=N`: grant=2, tool:ID=1, source:NAME=3 (repeatable)")
	if schedule {
		return
	}
	fl.BoolVar(&f.on, "queue", false, "queue the run; remit serve or remit queue work starts it")
	durationVar(c, &f.Delay, "delay", 0, "of a queued run: start no earlier than `TIME` from now")
	fl.StringVar(&f.at, "at", "", "of a queued run: start no earlier than `TIME`, as \"2026-12-24 18:00\"")
	fl.StringVar(&f.Unique, "unique", "", "queue no second run of this `KEY` while one waits or runs")
}

// options reads the flags.
func (f *queueFlags) options(cmd *cobra.Command) (queue.Options, error) {
	o := f.Options
	for _, name := range queueOnly {
		if fl := cmd.Flags().Lookup(name); fl != nil && fl.Changed && cmd.Flags().Lookup("queue") != nil && !f.on {
			return o, fault.New(fault.Usage, "--%s needs --queue", name)
		}
	}
	if f.at != "" {
		if f.Delay > 0 {
			return o, fault.New(fault.Usage, "--at and --delay exclude each other")
		}
		at, err := time.Parse(time.RFC3339, f.at)
		if err != nil {
			at, err = time.ParseInLocation("2006-01-02 15:04", f.at, time.Local)
		}
		if err != nil {
			return o, fault.New(fault.Usage, "--at %q is not a time", f.at).WithHint(`write it as "2026-12-24 18:00", or as 2026-12-24T18:00:00Z`)
		}
		o.At = at
	}
	for _, text := range f.limits {
		i := strings.LastIndex(text, "=")
		n, err := strconv.Atoi(text[i+1:])
		if i < 1 || err != nil {
			return o, fault.New(fault.Usage, "--limit %q is not KEY=N", text).WithHint("write grant=2, tool:shell.run=1 or source:mcp:github=3")
		}
		o.Limits = append(o.Limits, store.Slot{Key: text[:i], Most: n})
	}
	return o, nil
}

// queueRun queues a run and prints its ID.
func (s *session) queueRun(ctx context.Context, a *app.App, r runs.Request, o queue.Options) error {
	run, fresh, err := a.Queue.Add(ctx, r, o)
	if err != nil {
		return err
	}
	if s.json {
		out := map[string]any{"run_id": run.ID}
		if !fresh {
			out["existing"] = true
		}
		return s.printJSON(out)
	}
	if !fresh {
		s.printf("%s run %s has the key %s and is %s: no other was queued\n", s.paint(yellow, "!"), run.ID, show(run.Unique), run.Status)
		return nil
	}
	s.printf("%s queued run %s  %s\n", s.paint(green, "✓"), run.ID, show(run.Name))
	if run.Status == "scheduled" {
		s.printf("  starts no earlier than %s\n", run.Due.Local().Format(time.DateTime))
	}
	s.printf("  %s\n", s.paint(dim, "remit queue; remit serve or remit queue work starts it"))
	return nil
}

func (s *session) queueCmd() *cobra.Command {
	var f store.QueueFilter
	c := &cobra.Command{
		Use:   "queue",
		Short: "List queued runs, cancel them, and work on them",
		Long: `remit run --queue queues runs, and schedules do. remit serve starts them; where
no service runs, remit queue work does. A queued run has only the authority of
its caller, which is decided anew when the run starts. Each run
is started at most once.
`,
		Example: `  remit run plan.yaml -p policy.yaml --queue --priority 1
  remit queue
  remit queue cancel 0199c1d2
  remit queue work --until-empty`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, st, err := s.reader(cmd.Context())
			if err != nil {
				return err
			}
			return s.printQueue(cmd.Context(), st, f)
		},
	}
	c.Flags().BoolVar(&f.Ended, "ended", false, "list the queued runs that ended, were refused or cancelled")
	c.Flags().BoolVar(&f.Dead, "dead", false, "list the queued runs that could not be started, with the reasons")
	c.Flags().IntVar(&f.Limit, "limit", 100, "maximum number of runs")
	c.MarkFlagsMutuallyExclusive("ended", "dead")
	c.AddCommand(s.queueCancelCmd(), s.queueRequeueCmd(), s.queuePauseCmd(true), s.queuePauseCmd(false), s.queueWorkCmd())
	return c
}

// queueState is the state of the whole queue.
type queueState struct {
	Paused    bool              `json:"paused"`
	Waiting   int               `json:"waiting"`
	Scheduled int               `json:"scheduled"`
	Items     []store.QueuedRun `json:"items"`
}

func (s *session) printQueue(ctx context.Context, st store.Backend, f store.QueueFilter) error {
	var q queueState
	var err error
	f.Sealed = true
	if q.Items, err = st.QueuedRuns(ctx, f); err != nil {
		return err
	}
	if q.Waiting, q.Scheduled, err = st.QueueSize(ctx, st.Now()); err != nil {
		return err
	}
	if q.Paused, err = st.QueueIsPaused(ctx); err != nil {
		return err
	}
	q.Waiting -= q.Scheduled
	if s.json {
		q.Items = append([]store.QueuedRun{}, q.Items...)
		return s.printJSON(q)
	}
	paused := ""
	if q.Paused {
		paused = "; the queue is paused"
	}
	s.printf("%d waiting, %d scheduled%s\n", q.Waiting, q.Scheduled, paused)
	if len(q.Items) == 0 {
		if f.Dead {
			s.printf("no dead letters\n")
		}
		return nil
	}
	rows := make([][]cell, len(q.Items))
	for i, r := range q.Items {
		_, colour := icon(r.Status)
		rows[i] = []cell{{text: shortRunID(r.ID.String())}, {text: r.Status, colour: colour}, {text: strconv.Itoa(r.Priority)}, {text: timeOf(r)},
			{text: r.Name}, {text: fmt.Sprintf("%d/%d", r.Completed, r.Total)}, {text: whyOf(r)}}
	}
	s.tableWhole([]string{"RUN", "STATUS", "PRIORITY", "AT", "NAME", "STEPS", "REASON"}, rows)
	return nil
}

// timeOf is the time that matters of a queued run: when it ended, started or is due.
func timeOf(r store.QueuedRun) string {
	switch now := time.Now(); {
	case !r.Ended.IsZero():
		return when(r.Ended, now)
	case !r.Started.IsZero():
		return when(r.Started, now)
	default:
		return when(r.Due, now)
	}
}

func whyOf(r store.QueuedRun) string {
	switch {
	case r.By != "":
		return "cancelled by " + r.By
	case r.Code != "":
		return r.Code + " " + r.Reason
	}
	return ""
}

func (s *session) queueCancelCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "cancel ID...",
		Short:   "Cancel queued runs, also started ones",
		Example: "  remit queue cancel 0199c1d2",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := s.openAsPerson("cancel queued runs")
			if err != nil {
				return err
			}
			for _, id := range args {
				run, err := a.Queue.Cancel(cmd.Context(), id, home.Person())
				if err != nil {
					return err
				}
				if s.json {
					err = s.printJSON(run)
				} else if run.State == ledger.QueueStopping {
					s.printf("%s run %s is being stopped\n", s.paint(green, "✓"), run.ID)
				} else {
					s.printf("%s run %s is cancelled\n", s.paint(green, "✓"), run.ID)
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// openAsPerson opens Remit for a change of what others queued, which a process that acts for
// a delegate cannot make.
func (s *session) openAsPerson(what string) (*app.App, error) {
	if s.delegated() {
		return nil, fault.New(fault.Denied, "a process that runs under a grant cannot %s here", what).WithHint("use a shell without REMIT_GRANT, or the HTTP API")
	}
	return s.open()
}

func (s *session) queuePauseCmd(pause bool) *cobra.Command {
	use, text, done := "resume", "Start queued runs again", "the queue is not paused any more"
	if pause {
		use, text, done = "pause", "Start no queued run until remit queue resume", "the queue is paused; runs that have started go on"
	}
	return &cobra.Command{
		Use:   use,
		Short: text,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, err := s.openAsPerson(use + " the queue")
			if err != nil {
				return err
			}
			if err := a.Queue.Pause(cmd.Context(), pause, home.Person()); err != nil {
				return err
			}
			if s.json {
				return s.printJSON(map[string]bool{"paused": pause})
			}
			s.printf("%s %s\n", s.paint(green, "✓"), done)
			return nil
		},
	}
}

func (s *session) queueWorkCmd() *cobra.Command {
	var o queue.Worker
	c := &cobra.Command{
		Use:   "work",
		Short: "Start queued runs and schedules, where no remit serve runs",
		Long: `Works until it is interrupted, or with --until-empty until nothing is due. It
then waits for its runs for the time of --drain, and cancels those left. Any
number of processes may work on one queue.
`,
		Example: `  remit queue work
  remit queue work --until-empty --at-once 1`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, err := s.openAsPerson("work on the queue")
			if err != nil {
				return err
			}
			o.Failed = s.complain
			o.Ended = func(run store.QueuedRun) { s.printEnded(run) }
			return a.Queue.Work(cmd.Context(), o)
		},
	}
	c.Flags().BoolVar(&o.Empty, "until-empty", false, "end once nothing is due and nothing runs")
	c.Flags().IntVar(&o.AtOnce, "at-once", 0, "carry out at most `N` runs at once (default: queue.at_once of config.yaml)")
	durationVar(c, &o.Drain, "drain", 20*time.Second, "time for running runs to finish when it is stopped")
	return c
}

// printEnded prints what became of a queued run.
func (s *session) printEnded(r store.QueuedRun) {
	if s.json {
		if err := s.printJSON(r); err != nil {
			s.complain(err)
		}
		return
	}
	sign, colour := icon(r.Status)
	why := whyOf(r)
	if why != "" {
		why = "  " + show(why)
	}
	s.printf("%s %s %s  %s  %d of %d%s\n", s.paint(colour, sign), r.ID, r.Status, show(r.Name), r.Completed, r.Total, why)
}

func (s *session) scheduleCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "schedule",
		Short: "Queue a run again and again, at the times of a cron expression",
		Long: `Each run of a schedule has only the authority of the caller who made the
schedule, decided anew when the run starts. While a run of a schedule waits or
runs, the next one is recorded as refused. Of several times that passed while
no process worked on the queue, one run is queued.
`,
		Example: `  remit schedule add nightly plan.yaml -p policy.yaml --cron "0 3 * * *"
  remit schedule
  remit schedule change nightly --cron "0 4 * * *"
  remit schedule run nightly
  remit schedule remove nightly`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, st, err := s.reader(cmd.Context())
			if err != nil {
				return err
			}
			list, err := st.Schedules(cmd.Context())
			if err != nil {
				return err
			}
			return s.printSchedules(list)
		},
	}
	c.AddCommand(s.scheduleAddCmd(), s.scheduleChangeCmd("pause", "Queue no runs of a schedule", func(c *store.Schedule) { c.Paused = true }),
		s.scheduleChangeCmd("resume", "Queue runs of a paused schedule again", func(c *store.Schedule) { c.Paused = false }),
		s.scheduleChangeCmd("remove", "Remove a schedule; its runs stay", func(c *store.Schedule) { c.Deleted = true }),
		s.scheduleTimesCmd(), s.scheduleRunCmd())
	return c
}

func (s *session) printSchedules(list []store.Schedule) error {
	if s.json {
		return printPage(s, list, "")
	}
	if len(list) == 0 {
		s.printf("no schedules\n")
		return nil
	}
	rows := make([][]cell, len(list))
	for i, c := range list {
		next := c.Next.Local().Format("2006-01-02 15:04")
		if c.Paused {
			next = "paused"
		}
		last := ""
		if !c.Last.IsZero() {
			last = c.Last.Local().Format("2006-01-02 15:04")
		}
		rows[i] = []cell{{text: c.Name}, {text: c.Cron}, {text: c.Zone}, {text: next}, {text: last}, {text: c.Principal}}
	}
	s.table([]string{"NAME", "CRON", "ZONE", "NEXT", "LAST", "HOLDER"}, rows)
	return nil
}

func (s *session) scheduleAddCmd() *cobra.Command {
	var n queue.NewSchedule
	var f runFlags
	var q queueFlags
	c := &cobra.Command{
		Use:   "add NAME PLAN",
		Short: "Make a schedule of a plan",
		Example: `  remit schedule add nightly plan.yaml --cron "0 3 * * *"
  remit schedule add report plan.yaml --cron "30 6 * * 1-5" --zone Europe/Berlin`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := q.options(cmd)
			if err != nil {
				return err
			}
			a, r, err := s.runRequest(&f, args[1])
			if err != nil {
				return err
			}
			n.Name, n.By = args[0], home.Person()
			made, err := a.Queue.AddSchedule(cmd.Context(), n, r, o)
			if err != nil {
				return err
			}
			if s.json {
				return s.printJSON(made)
			}
			s.printf("%s schedule %s, next %s\n", s.paint(green, "✓"), made.Name, made.Next.Local().Format("2006-01-02 15:04 MST"))
			return nil
		},
	}
	f.add(s, c)
	q.add(c, true)
	c.Flags().StringVar(&n.Cron, "cron", "", "`TIMES`: minute, hour, day, month and weekday, as \"30 6 * * 1-5\"")
	c.Flags().StringVar(&n.Zone, "zone", "UTC", "time `ZONE` of the times, as Europe/Berlin")
	_ = c.MarkFlagRequired("cron") // the flag exists
	return c
}

func (s *session) scheduleChangeCmd(use, text string, change func(*store.Schedule)) *cobra.Command {
	return &cobra.Command{
		Use:     use + " NAME",
		Short:   text,
		Example: "  remit schedule " + use + " nightly",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := s.openAsPerson("change schedules")
			if err != nil {
				return err
			}
			c, err := a.Queue.ChangeSchedule(cmd.Context(), args[0], home.Person(), change)
			if err != nil {
				return err
			}
			if s.json {
				return s.printJSON(c)
			}
			state := "active, next " + c.Next.Local().Format("2006-01-02 15:04 MST")
			switch {
			case c.Deleted:
				state = "removed"
			case c.Paused:
				state = "paused"
			}
			s.printf("%s schedule %s is %s\n", s.paint(green, "✓"), c.Name, state)
			return nil
		},
	}
}

func (s *session) scheduleTimesCmd() *cobra.Command {
	var cron, zone string
	var priority int
	c := s.scheduleChangeCmd("change", "Change the times or the priority of a schedule", func(c *store.Schedule) {
		c.Cron, c.Zone, c.Priority = cmp.Or(cron, c.Cron), cmp.Or(zone, c.Zone), cmp.Or(priority, c.Priority)
	})
	c.Example = `  remit schedule change nightly --cron "0 4 * * *" --zone Europe/Berlin`
	c.Flags().StringVar(&cron, "cron", "", "`TIMES`: minute, hour, day, month and weekday")
	c.Flags().StringVar(&zone, "zone", "", "time `ZONE` of the times")
	c.Flags().IntVar(&priority, "priority", 0, "of its runs: `N` from 1 (first) to 4")
	c.MarkFlagsOneRequired("cron", "zone", "priority")
	return c
}

func (s *session) scheduleRunCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "run NAME",
		Short: "Queue a run of a schedule now, besides its times",
		Long: `The run has the authority of the caller who made the schedule. While a run of
the schedule waits or runs, the new one is recorded as refused.
`,
		Example: "  remit schedule run nightly",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := s.openAsPerson("run schedules")
			if err != nil {
				return err
			}
			run, err := a.Queue.RunSchedule(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			switch {
			case s.json:
				return s.printJSON(run)
			case !run.Waits():
				return fault.New(fault.Conflict, "the run was refused: %s", run.Reason).ForOperator("remit queue lists what waits and runs")
			}
			s.printf("%s queued run %s  %s\n", s.paint(green, "✓"), run.ID, show(run.Name))
			return nil
		},
	}
}
