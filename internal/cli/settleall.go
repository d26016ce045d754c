package cli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/service/history"
)

// settleAllFlags choose the calls that are settled together.
type settleAllFlags struct {
	all                          bool
	run, node, tool, since, text string
	yes                          bool
}

func (f *settleAllFlags) add(c *cobra.Command) {
	fl := c.Flags()
	fl.BoolVar(&f.all, "all", false, "settle all interrupted calls that the next flags choose")
	fl.StringVar(&f.run, "run", "", "with --all: only calls of this `RUN`")
	fl.StringVar(&f.node, "node", "", "with --all: only calls of this `NODE`, as remit runs --unknown --json names it")
	fl.StringVar(&f.tool, "tool", "", "with --all: only calls of this `TOOL`")
	fl.StringVar(&f.since, "since", "", "with --all: only calls found since this `TIME`, as 2h or 2026-01-31")
	fl.StringVar(&f.text, "reason", "", "with --all: how you know it; `TEXT` for the record")
	fl.BoolVarP(&f.yes, "yes", "y", false, "with --all: record it; without, the calls are only listed")
}

// check refuses words and flags that do not belong together.
func (f *settleAllFlags) check(cmd *cobra.Command, words []string) error {
	switch {
	case f.all && len(words) > 0:
		return fault.New(fault.Usage, "--all takes no RUN and no CALL, but got %q", words[0]).WithHint("choose the calls with --run, --node, --tool and --since")
	case !f.all && len(words) < 2:
		missing := [...]string{"RUN and CALL are", "CALL is"}[len(words)]
		return fault.New(fault.Usage, "%s missing", missing).WithHint("remit runs --unknown lists the calls; --all settles several of them")
	}
	for _, name := range [...]string{"run", "node", "tool", "since", "reason", "yes"} {
		if !f.all && cmd.Flags().Changed(name) {
			return fault.New(fault.Usage, "--%s needs --all", name).WithHint("see %s --help", cmd.CommandPath())
		}
	}
	return nil
}

// settleAll lists the chosen calls, and settles them with --yes.
func (s *session) settleAll(cmd *cobra.Command, f *settleAllFlags, happened bool) error {
	since, err := parseTime("--since", f.since, time.Now())
	if err != nil {
		return err
	}
	if f.text == "" {
		return fault.New(fault.Usage, "--all needs a reason").WithHint(`add --reason "how you know it"`)
	}
	a, err := s.open()
	if err != nil {
		return err
	}
	list, err := a.History.UnknownOf(cmd.Context(), history.UnknownFilter{Run: f.run, Node: f.node, Tool: tool.ID(f.tool), Since: since})
	if err != nil {
		return err
	}
	if f.yes {
		if list, err = a.History.SettleAll(cmd.Context(), list, happened, f.text); err != nil {
			return err
		}
	}
	if s.json {
		return s.printJSON(map[string]any{"settled": f.yes, "happened": happened, "items": list})
	}
	s.printUnknownCalls(list)
	if len(list) == 0 {
		s.printf("no interrupted call matches; remit runs --unknown lists all\n")
	} else if f.yes {
		s.printf("%s %s settled\n", s.paint(green, "✓"), counted(len(list), "call"))
	} else {
		s.printf("%s to be settled; nothing was recorded: add --yes\n", counted(len(list), "call"))
	}
	return nil
}
