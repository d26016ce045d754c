package cli

import (
	"github.com/spf13/cobra"
)

func (s *session) initCmd() *cobra.Command {
	var anew bool
	c := &cobra.Command{
		Use:   "init",
		Short: "Create the ledger, or start over with a new one",
		Long: `Creates the ledger in $REMIT_HOME. Other commands also create it when they
first need it.

If the ledger's file is lost but its keys remain, Remit does not create a new
ledger by itself: restore the file from a backup. Without a backup,
--new-ledger starts over with a new origin and new keys. Grants of the old
ledger are then not accepted, and the old keys are moved to keys/retired. An
existing ledger is never replaced.
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
				s.printf("%s new ledger created: %s\n  the old keys are in %s\n", s.paint(green, "✓"), show(b.Origin), show(b.Retired.Folder))
				return nil
			}
			s.printf("%s the ledger is ready: %s\n", s.paint(green, "✓"), show(b.Origin))
			return nil
		},
	}
	c.Flags().BoolVar(&anew, "new-ledger", false, "replace a lost ledger by a new one, with a new origin and new keys")
	return c
}
