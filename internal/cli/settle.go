package cli

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/service/history"
)

func (s *session) settleCmd() *cobra.Command {
	var happened, not bool
	var many settleAllFlags
	c := &cobra.Command{
		Use:   "settle [RUN CALL]",
		Short: "Record the outcome of an interrupted call",
		Long: `A call is interrupted if its process ended between the intent and the outcome:
it may or may not have taken effect, and Remit does not repeat it. Find out its
effect, then record it here, under your name. remit runs --unknown lists these
calls until then. The record of the call itself does not change.

With --all it settles many calls for one reason, each with an event of its own.
It lists them first, and records them with --yes.
`,
		Example: `  remit runs --unknown
  remit settle 01a1fe70 3 --happened
  remit settle last 3 --not-happened
  remit settle --all --tool fs.write --not-happened --reason "disk gone"`,
		Args: cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, words []string) error {
			if s.delegated() {
				return fault.New(fault.Denied, "a process that runs under a grant cannot settle calls").WithHint("use a shell without REMIT_GRANT")
			}
			if err := many.check(cmd, words); err != nil {
				return err
			}
			if happened == not {
				return fault.New(fault.Usage, "the outcome of the call is missing").WithHint("add --happened or --not-happened")
			}
			if many.all {
				return s.settleAll(cmd, &many, happened)
			}
			call, err := strconv.Atoi(words[1])
			if err != nil || call < 1 {
				return fault.New(fault.Usage, "%q is not a valid call; expected its number in the run, from 1", words[1])
			}
			a, err := s.open()
			if err != nil {
				return err
			}
			u, err := a.History.Settle(cmd.Context(), words[0], call, happened)
			if err != nil {
				return err
			}
			if s.json {
				return s.printJSON(map[string]any{"run_id": u.Run, "call": u.Call, "happened": happened})
			}
			s.printf("%s call %d (%s) of run %s is settled\n", s.paint(green, "✓"), u.Call, show(string(u.Tool)), shortRunID(u.Run.String()))
			return nil
		},
	}
	fl := c.Flags()
	fl.BoolVar(&happened, "happened", false, "the call took effect")
	fl.BoolVar(&not, "not-happened", false, "the call did not take effect")
	c.MarkFlagsMutuallyExclusive("happened", "not-happened")
	many.add(c)
	return c
}

// printUnknown prints the calls that may or may not have taken effect.
func (s *session) printUnknown(ctx context.Context, a *app.App, limit int) error {
	if err := checkLimit(limit, 10000); err != nil {
		return err
	}
	list, err := a.History.Unknown(ctx, limit)
	if err != nil {
		return err
	}
	if s.json {
		return printPage(s, list, "")
	}
	if len(list) == 0 {
		s.printf("no calls with an unknown outcome\n%s\n", s.paint(dim, unsealedIndex))
		return nil
	}
	s.printUnknownCalls(list)
	s.printf("%s\n", s.paint(dim, unsealedIndex))
	s.printf("find out the effect of each, then: remit settle RUN CALL --happened (or --not-happened)\n")
	return nil
}

// unsealedIndex says that table blocks, by which unknown calls are found, has no seal.
const unsealedIndex = "not verified: the index that finds such calls; remit verify checks it"

func (s *session) printUnknownCalls(list []history.Unknown) {
	if len(list) == 0 {
		return
	}
	now := time.Now()
	rows := make([][]cell, len(list))
	for i, u := range list {
		rows[i] = []cell{{shortRunID(u.Run.String()), bold}, {itoa(u.Call), ""}, {string(u.Tool), ""}, {when(u.At, now), dim}, {u.Name, ""}}
	}
	s.table([]string{"RUN", "CALL", "TOOL", "FOUND", "NAME"}, rows)
}
