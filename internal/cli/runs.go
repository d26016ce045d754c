package cli

import (
	"context"
	"path"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/remitrun/remit/internal/base/document"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/history"
)

// filterFlags are the flags that choose runs.
type filterFlags struct {
	sharedFilter
	status, mode, before string
	failed, denied, all  bool
	unknown              bool
	limit                int
}

func (s *session) runsCmd() *cobra.Command {
	var f filterFlags
	c := &cobra.Command{
		Use:     "runs",
		Aliases: []string{"list-runs"},
		Short:   "List runs, newest first",
		Long: `Commands that take a RUN also accept last or @1 for the first run of this list,
@2 for the second, and so on. Each start of an MCP server is a run of its own.
Such runs are hidden unless they failed; --all and --tool show them.
`,
		Example: `  remit runs
  remit show last
  remit runs --failed --since 24h
  remit runs --tool shell.run --limit 50`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return s.listRuns(cmd.Context(), f) },
	}
	fl := c.Flags()
	fl.StringVar(&f.status, "status", "", "only runs with this `STATUS`: running, completed, denied, failed, timeout, cancelled or interrupted")
	fl.StringVar(&f.tool, "tool", "", "only runs that called this `TOOL`")
	f.addTimes(fl, "runs")
	fl.StringVar(&f.mode, "mode", "", "only runs with this `MODE`: run or replay")
	fl.StringVar(&f.before, "before", "", "show runs older than this `RUN` (next page)")
	fl.BoolVar(&f.failed, "failed", false, "only runs with a failed call")
	fl.BoolVar(&f.denied, "denied", false, "only runs with a denied call, or an action refused while running")
	fl.BoolVar(&f.all, "all", false, "also list the starts of MCP servers")
	fl.BoolVar(&f.unknown, "unknown", false, "list the calls that may or may not have taken effect, see remit settle")
	fl.IntVar(&f.limit, "limit", 20, "maximum number of runs")
	return c
}

// listRuns prints a page of the runs that the flags ask for.
func (s *session) listRuns(ctx context.Context, f filterFlags) error {
	a, st, err := s.reader(ctx)
	if err != nil {
		return err
	}
	if f.unknown {
		return s.printUnknown(ctx, a, f.limit)
	}
	filter, err := f.filter(time.Now())
	if err != nil {
		return err
	}
	if f.before != "" {
		id, err := s.runID(ctx, f.before)
		if err != nil {
			return err
		}
		r, err := st.Run(ctx, id)
		if err != nil {
			return err
		}
		filter.Before = r.Seq
	}
	filter.Limit++ // one more tells whether there is a next page
	runs, checked, err := st.CheckedRuns(ctx, filter)
	if err != nil {
		return err
	}
	more := len(runs) > f.limit
	runs = runs[:min(len(runs), f.limit)]
	if !s.json {
		if err := nameByWork(ctx, a.History, runs); err != nil {
			return err
		}
	}
	return s.printRuns(runs, more, checked)
}

// maxNamed bounds the runs of a page whose last calls are looked up.
const maxNamed = 100

// nameByWork adds to the names of agents' runs, which are alike, the project and the last command or file.
func nameByWork(ctx context.Context, h *history.History, runs []ledger.Run) error {
	for i := range runs[:min(len(runs), maxNamed)] {
		r := &runs[i]
		if r.Name != "sh" && r.Client == "" {
			continue
		}
		about, err := h.LastAbout(ctx, *r)
		if err != nil {
			return err
		}
		r.Name = strings.TrimSuffix(r.Name+"  "+path.Base(r.Workspace)+": "+oneLine(about), ": ")
	}
	return nil
}

func (f filterFlags) filter(now time.Time) (store.RunFilter, error) {
	out := store.RunFilter{Status: f.status, Failed: f.failed, Denied: f.denied, Tool: tool.ID(f.tool), Limit: f.limit}
	if err := checkLimit(f.limit, 10000); err != nil {
		return out, err
	}
	if _, ok := tool.ParseStatus(f.status); f.status != "" && f.status != "running" && !ok {
		return out, fault.New(fault.Usage, "--status %q is not a valid status", f.status).
			WithHint("expected running, completed, denied, failed, timeout, cancelled or interrupted")
	}
	if !f.all && f.tool == "" {
		out.Without = helperTools()
	}
	switch f.mode {
	case "":
	case "run":
		out.Mode = ledger.Live
	case "replay":
		out.Mode = ledger.Replay
	default:
		return out, fault.New(fault.Usage, "--mode %q is not a valid mode; expected run or replay", f.mode).WithHint("a live run has mode run")
	}
	var err error
	out.Since, out.Until, err = f.parse(now)
	return out, err
}

// sharedFilter are the flags by which both runs and events are chosen.
type sharedFilter struct{ tool, since, until string }

func (f *sharedFilter) addTimes(fl *pflag.FlagSet, of string) {
	fl.StringVar(&f.since, "since", "", "only "+of+" after this `TIME`: 2h, 7d, 2026-01-31 or RFC 3339")
	fl.StringVar(&f.until, "until", "", "only "+of+" before this `TIME`")
}

// parse checks the tool, and reads the times.
func (f sharedFilter) parse(now time.Time) (since, until time.Time, err error) {
	if _, err := tool.ParseID(f.tool); f.tool != "" && err != nil {
		return since, until, fault.New(fault.Usage, "--tool %q is not a valid tool ID", f.tool).WithHint("remit tools lists them")
	}
	if since, err = parseTime("--since", f.since, now); err != nil {
		return since, until, err
	}
	until, err = parseTime("--until", f.until, now)
	return since, until, err
}

// parseTime reads a time: a duration before now, a date, or RFC 3339.
func parseTime(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := document.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateTime, time.DateOnly} {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fault.New(fault.Usage, "%s %q is not a valid time", flag, text).
		WithHint("expected 2h, 7d, 2026-01-31, or 2026-01-31T12:00:00Z")
}

// printRuns prints a page of runs. checked is false if some rows were not compared with the events.
func (s *session) printRuns(runs []ledger.Run, more, checked bool) error {
	next := ""
	if more {
		next = runs[len(runs)-1].ID.String()
	}
	if s.json {
		return s.printJSON(struct {
			page[ledger.Run]
			Unverified bool `json:"unverified,omitempty"` // some rows were not compared with the events
		}{page[ledger.Run]{append([]ledger.Run{}, runs...), next}, !checked})
	}
	if len(runs) == 0 {
		s.printf("no runs\n")
	} else {
		s.tableOfRuns(runs)
	}
	if !checked {
		s.printf("%s not verified: some rows of the list of runs were not compared with the events; remit verify compares them all\n", s.paint(yellow, "!"))
	}
	s.older(shortRunID(next))
	return nil
}

// tableOfRuns prints runs, one in a line.
func (s *session) tableOfRuns(runs []ledger.Run) {
	now := time.Now()
	var rows [][]cell
	edited := false
	for _, r := range runs {
		sign, col := icon(r.Status)
		edited = edited || r.Unverified
		took := "-"
		if !r.Ended.IsZero() {
			took = ms(r.Ended.Sub(r.Started))
		}
		if r.Unverified {
			sign, col = sign+" not verified:", red
		}
		name := r.Name
		if r.Mode == ledger.Replay {
			name += " (replay)"
		}
		rows = append(rows, []cell{
			{shortRunID(r.ID.String()), bold}, {sign + " " + r.Status, col}, {when(r.Started, now), dim}, {took, ""}, {callCounts(r), ""}, {name, ""},
		})
	}
	s.table([]string{"RUN", "STATUS", "STARTED", "TOOK", "CALLS", "NAME"}, rows)
	if edited {
		s.printf("%s not verified: the list of runs was edited, and the record is shown; remit verify lists the changes\n", s.paint(red, "!"))
	}
}

// callCounts summarizes how a run's calls ended: the completed ones of all, and the
// other outcomes.
func callCounts(r ledger.Run) string {
	text := itoa(r.Completed) + "/" + itoa(r.Total)
	if r.Denied > 0 {
		text += ", " + itoa(r.Denied) + " denied"
	}
	if r.Failed > 0 {
		text += ", " + itoa(r.Failed) + " failed"
	}
	if r.Refused > 0 {
		text += ", " + itoa(r.Refused) + " refused"
	}
	return text
}
