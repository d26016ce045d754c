package cli

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/erasures"
)

func (s *session) eraseCmd() *cobra.Command {
	var q erasures.Request
	var before string
	var yes bool
	c := &cobra.Command{
		Use:   "erase [RUN]",
		Short: "Erase arguments, outputs and messages from the record",
		Long: `Erases payloads: arguments, outputs, plans, policies and inputs of runs, and
messages and files of deleted sessions. The events stay, with their
commitments: the log and every proof still verify. An event records the erased
payloads, the time and the actor. Names of tools, people, workspaces and rules
are fields of events and stay; so do grants and operators' actions.

Shows the numbers and asks first. Erased payloads cannot be brought back,
except from backups: erase those too.
`,
		Example: `  remit erase 019a2c
  remit erase --session 019a2c… --yes
  remit erase --holder agent:ci --dry-run
  remit erase --before 90d`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				q.Run = args[0]
			}
			if before != "" {
				var err error
				if q.Before, err = parseTime("--before", before, time.Now()); err != nil {
					return err
				}
			}
			return s.erase(cmd, q, yes)
		},
	}
	f := c.Flags()
	f.StringVar(&q.Session, "session", "", "a deleted `SESSION` with its runs")
	f.StringVar(&q.Holder, "holder", "", "all runs and deleted sessions of this `HOLDER` of grants")
	f.StringVar(&before, "before", "", "all that ended before this `TIME`, as 90d or 2026-01-31")
	f.BoolVar(&q.Expired, "expired", false, "what retention in config.yaml does not keep")
	f.BoolVar(&q.DryRun, "dry-run", false, "only show the numbers")
	f.BoolVarP(&yes, "yes", "y", false, "do not ask")
	c.MarkFlagsMutuallyExclusive("session", "holder", "before", "expired")
	return c
}

func (s *session) erase(cmd *cobra.Command, q erasures.Request, yes bool) error {
	chosen := 0
	for _, set := range []bool{q.Run != "", q.Session != "", q.Holder != "", !q.Before.IsZero(), q.Expired} {
		if set {
			chosen++
		}
	}
	if chosen != 1 {
		return fault.New(fault.Usage, "name what to erase, in one way").WithHint("a RUN, --session, --holder, --before or --expired")
	}
	a, err := s.open()
	if err != nil {
		return err
	}
	ask := !q.DryRun && !yes
	do := q
	do.DryRun = q.DryRun || ask
	out, err := a.Erasures.Erase(cmd.Context(), do)
	if err != nil {
		return err
	}
	if ask && out.Payloads > 0 {
		in, ok := s.In.(*os.File)
		if s.json || !ok || !isTerminal(s.In) {
			return fault.New(fault.Usage, "erasing %s needs your confirmation, but no terminal is attached", counted(out.Payloads, "payload")).WithHint("look with --dry-run, then add --yes")
		}
		s.printErased(out, "to be erased")
		if agreed, err := s.askYesOrNo(cmd.Context(), in, "erase them for good"); err != nil || !agreed {
			return err
		}
		if out, err = a.Erasures.Erase(cmd.Context(), q); err != nil {
			return err
		}
	}
	if s.json {
		return s.printJSON(out)
	}
	if q.DryRun {
		s.printErased(out, "to be erased")
	} else {
		s.printErased(out, "erased")
	}
	return nil
}

// printErased prints the count of erased payloads, also of a trial.
func (s *session) printErased(e store.Erased, what string) {
	if e.Payloads == 0 {
		s.printf("nothing %s\n", what)
	} else {
		s.printf("%s: %s of %s and %s, with %s, %d bytes\n", what, counted(e.Payloads, "payload"), counted(e.Runs, "run"), counted(e.Sessions, "session"), counted(e.Blobs, "blob"), e.Bytes)
	}
	var left []string
	for _, l := range []struct {
		n    int
		text string
	}{{e.Open, "runs that have not ended, or whose changes wait to be applied or discarded"}, {e.Live, "sessions that are not deleted"},
		{e.Shared, "blobs that other payloads have as well"}} {
		if l.n > 0 {
			left = append(left, fmt.Sprintf("%d %s", l.n, l.text))
		}
	}
	if e.Payloads > 0 {
		left = append(append(left, e.Left...), "backups and other copies of the ledger, workspaces, and logs/ (names and errors, no payloads)")
	}
	for _, l := range left {
		s.printf("  not erased: %s\n", show(strings.TrimSpace(l)))
	}
}
