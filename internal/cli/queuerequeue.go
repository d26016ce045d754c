package cli

import (
	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/service/home"
)

func (s *session) queueRequeueCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "requeue ID...",
		Short: "Queue dead letters again",
		Long: `A queued run that could not be started 20 times becomes a dead letter. remit
queue --dead lists them with the reasons. One that is not needed any more is
dropped with remit queue cancel.
`,
		Example: "  remit queue --dead\n  remit queue requeue 0199c1d2",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := s.openAsPerson("queue runs again")
			if err != nil {
				return err
			}
			for _, id := range args {
				run, err := a.Queue.Requeue(cmd.Context(), id, home.Person())
				if err != nil {
					return err
				}
				if s.json {
					if err := s.printJSON(run); err != nil {
						return err
					}
					continue
				}
				s.printf("%s run %s is queued again\n", s.paint(green, "✓"), run.ID)
			}
			return nil
		},
	}
}
