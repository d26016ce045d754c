package cli

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/service/database"
)

// dbNodesCmd is remit db nodes; use pins the database that --db names.
func (s *session) dbNodesCmd(use func(*cobra.Command, []string) error) *cobra.Command {
	c := &cobra.Command{
		Use:     "nodes",
		Short:   "List the nodes that share the ledger",
		Args:    cobra.NoArgs,
		PreRunE: use,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, err := s.openAnyway()
			if err != nil {
				return err
			}
			list, err := database.Nodes(cmd.Context(), a.Home)
			if err != nil {
				return err
			}
			if s.json {
				return printPage(s, list, "")
			}
			rows := make([][]cell, len(list))
			for i, n := range list {
				state, colour := "over", red
				if n.Lives {
					state, colour = n.Left.Round(100*time.Millisecond).String()+" left", green
				}
				if len(n.Differs) > 0 {
					state, colour = state+", differs in: "+strings.Join(n.Differs, ", "), red
				}
				rows[i] = []cell{{shortRunID(n.ID.String()), bold}, {n.Name, ""}, {n.Version, ""}, {n.Lease.String(), ""}, {state, colour}}
			}
			s.table([]string{"NODE", "NAME", "VERSION", "LEASE", "STATE"}, rows)
			return nil
		},
	}
	c.AddCommand(s.dbNodesRemoveCmd(use))
	return c
}

func (s *session) dbNodesRemoveCmd(use func(*cobra.Command, []string) error) *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use:   "remove NODE",
		Short: "Remove a node that does not come back",
		Long: `Closes the node's runs as interrupted. Other nodes take its turns over. Nodes do
this by themselves once the lease of a dead node is over, so the command is for
a lease that does not end. A node whose lease is not over is removed only with
--force. If it still works, its calls end, and it writes nothing more.
`,
		Example: `  remit db nodes
  remit db nodes remove 5f0c2e91`,
		Args:    cobra.ExactArgs(1),
		PreRunE: use,
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := s.openAsPerson("remove nodes")
			if err != nil {
				return err
			}
			gone, err := database.RemoveNode(cmd.Context(), a.Home, args[0], force)
			if err != nil {
				return err
			}
			if s.json {
				return s.printJSON(gone)
			}
			s.printf("%s node %s (%s) is removed; %s closed\n", s.paint(green, "✓"), shortRunID(gone.ID.String()), show(gone.Name), counted(gone.Closed, "run"))
			return nil
		},
	}
	c.Flags().BoolVar(&force, "force", false, "remove it although its lease is not over")
	return c
}
