package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"
	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/service/approvals"
	"github.com/remitrun/remit/internal/service/history"
)

// leastEvery is the shortest time between two looks at the ledger.
const leastEvery = 100 * time.Millisecond

func (s *session) topCmd() *cobra.Command {
	var follow bool
	every := time.Second
	c := &cobra.Command{
		Use:   "top",
		Short: "Show live runs, calls, budgets and waiting approvals",
		Long: `Fills the terminal with the runs that have not ended and what waits for
approval, and keeps it up to date until q. Without a terminal it prints this
once. --json prints one snapshot; with --follow, one line of JSON for each.
`,
		Example: `  remit top
  remit top --json
  remit top --json --follow --every 5s`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if follow && !s.json {
				return fault.New(fault.Usage, "--follow needs --json").WithHint("remit top follows by itself in a terminal")
			}
			if every < leastEvery {
				return fault.New(fault.Usage, "--every %s is too short; expected at least %s", every, leastEvery)
			}
			a, err := s.open()
			if err != nil {
				return err
			}
			switch {
			case follow:
				return s.streamLive(cmd.Context(), a, every)
			case !s.json && isTerminal(s.In) && s.moves(s.Out):
				return s.showLive(cmd.Context(), a, every)
			}
			l, err := a.History.Live(cmd.Context())
			if err != nil {
				return err
			}
			if s.json {
				return s.printJSON(l)
			}
			for _, text := range liveFrame(l, s.width()) {
				s.printf("%s\n", strings.TrimRight(text.text, " "))
			}
			return nil
		},
	}
	c.Flags().BoolVar(&follow, "follow", false, "with --json, print a snapshot again and again")
	c.Flags().DurationVar(&every, "every", every, "`TIME` between two snapshots")
	return c
}

// streamLive prints a snapshot in each line until it is interrupted.
func (s *session) streamLive(ctx context.Context, a *app.App, every time.Duration) error {
	enc := json.NewEncoder(s.Out)
	enc.SetEscapeHTML(false)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		l, err := a.History.Live(ctx)
		if err != nil {
			return err
		}
		if err := enc.Encode(l); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// showLive keeps the terminal up to date until the person leaves.
func (s *session) showLive(ctx context.Context, a *app.App, every time.Duration) error {
	f, err := s.openFullscreen("top", "remit top --json prints a snapshot")
	if err != nil {
		return err
	}
	defer f.close()
	for {
		l, err := a.History.Live(ctx)
		if err != nil {
			return err
		}
		w, h := f.size()
		frame := liveFrame(l, w)
		if over := len(frame) - h + 1; over > 0 { // the questions stand first
			frame = append(frame[:max(h-2, 0)], line{counted(over+1, "more line"), yellow})
		}
		f.draw(append(frame, line{"q leave", dim}))
		keys, err := f.keys(ctx, every)
		if err != nil {
			return err
		}
		for _, k := range keys {
			if k == "q" || k == "\x03" || k == "\x04" {
				return nil
			}
		}
	}
}

// liveFrame is a snapshot in lines of a width.
func liveFrame(l history.Live, w int) []line {
	more := func(n int, cut bool) string {
		if cut {
			return fmt.Sprintf("%d or more", n)
		}
		return itoa(n)
	}
	out := []line{{fmt.Sprintf("Remit · %s · live runs: %s · waiting approvals: %s",
		l.At.Local().Format(time.TimeOnly), more(len(l.Runs), l.MoreRuns), more(len(l.Waiting), l.MoreWaits)), bold}}
	if len(l.Waiting) > 0 {
		out = append(out, line{}, line{"WAITING; answer with remit approvals watch", dim})
	}
	for _, q := range l.Waiting {
		b, err := approvals.BodyOf(q)
		if err != nil {
			out = append(out, line{"◆ " + shortRunID(q.ID.String()) + "  cannot be read", red})
			continue
		}
		left := "  " + countdown(q.Until.Sub(l.At))
		text := "◆ " + shortRunID(q.ID.String()) + "  " + show(calledTool(b)) + "  " + show(b.Risk) + "  " + show(q.Holder)
		out = append(out, line{besideRight(text, left, w), yellow})
	}
	if len(l.Runs) > 0 {
		out = append(out, line{}, line{"RUNS", dim})
	}
	for _, r := range l.Runs {
		out = append(out, liveRun(r, l.At, w)...)
	}
	return out
}

// liveRun is a run with its calls and budgets.
func liveRun(r history.LiveRun, now time.Time, w int) []line {
	out := []line{{besideRight("… "+shortRunID(r.ID.String())+"  "+callCounts(r.Run)+"  "+show(r.Name), "  "+age(now.Sub(r.Started)), w), ""}}
	for _, c := range r.Calls {
		text := fmt.Sprintf("    call %d  %s", c.Index, show(strings.TrimSpace(string(c.Tool)+" "+oneLine(c.About))))
		if c.Step != "" {
			text += "  " + show(c.Step)
		}
		out = append(out, line{besideRight(text, "  "+age(now.Sub(c.Since)), w), ""})
	}
	var parts []string
	for _, b := range r.Budgets {
		text := fmt.Sprintf("%s %s of %s", show(strings.ReplaceAll(b.What, "_", " ")), amount(b.What, b.Spent), amount(b.What, b.Limit))
		if b.Leased > 0 {
			text += fmt.Sprintf(" (%s reserved)", amount(b.What, b.Leased))
		}
		parts = append(parts, text)
	}
	if len(parts) > 0 {
		for _, text := range wrap(strings.Join(parts, " · "), max(w-4, 20)) {
			out = append(out, line{"    " + text, dim})
		}
	}
	return out
}

// besideRight puts a text on the left of a line and a short one on its right.
func besideRight(left, right string, w int) string {
	room := max(w-runewidth.StringWidth(right), 10)
	return runewidth.FillRight(runewidth.Truncate(left, room, "…"), room) + right
}

// age prints a time span in at most seven characters.
func age(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}
