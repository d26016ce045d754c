package cli

import (
	"github.com/spf13/cobra"
)

func (s *session) initCmd() *cobra.Command {
	var anew bool
	c := &cobra.Command{
		Use:   "init",
		Short: "Make the ledger, or start over with a new one",
		Long: `Makes the ledger in $REMIT_HOME if there is none yet. Other commands do that too
when they first need it.

A ledger that is missing although its keys are there is never made anew by
itself: restore its file from a copy. If there is no copy, --new-ledger starts
over. The new ledger has a new origin and new keys, grants of the old one are
not accepted, and the old keys are kept in keys/retired. A ledger that is there
is never replaced.
`,
		Example: `  remit init
  remit init --new-ledger`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, err := s.openAnyway()
			if err != nil {
				return err
			}
			b, err := a.Init(cmd.Context(), anew)
			if err != nil {
				return err
			}
			if s.json {
				return s.printJSON(map[string]any{"home": b.Home, "origin": b.Origin, "retired": b.Retired.Folder, "old_origin": b.Retired.Origin})
			}
			if b.Retired.Folder != "" {
				s.printf("%s a new ledger was made: %s\n  the keys of the old one are in %s\n", s.paint(green, "✓"), show(b.Origin), show(b.Retired.Folder))
				return nil
			}
			s.printf("%s the ledger is ready: %s\n", s.paint(green, "✓"), show(b.Origin))
			return nil
		},
	}
	c.Flags().BoolVar(&anew, "new-ledger", false, "start over after the ledger was lost, with a new origin and new keys")
	return c
}
