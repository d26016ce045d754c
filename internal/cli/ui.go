package cli

import (
	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/base/fault"
)

func (s *session) uiCmd() *cobra.Command {
	var link bool
	c := &cobra.Command{
		Use:   "ui",
		Short: "Open the web UI of the running service",
		Long: `Opens the web UI of remit serve in your browser, signed in. The link signs one
browser in, once and within a minute. The browser gets a grant of its own that
is narrowed from yours and lasts at most 7 days; the settings of the web UI, and
remit grant revoke, end it.
`,
		Example: `  remit ui
  remit ui --print --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if s.delegated() {
				return fault.New(fault.Denied, "a process that runs under a grant cannot sign in").WithHint("sign in from a shell without REMIT_GRANT")
			}
			a, err := s.open()
			if err != nil {
				return err
			}
			if !link {
				if err := a.OpenUI(cmd.Context()); err != nil {
					return err
				}
				if s.json {
					return s.printJSON(map[string]bool{"opened": true})
				}
				s.printf("%s opened in your browser\n", s.paint(green, "✓"))
				return nil
			}
			url, err := a.UILink(cmd.Context())
			if err != nil {
				return err
			}
			if s.json {
				return s.printJSON(map[string]string{"url": url})
			}
			s.printf("%s\n", url)
			return nil
		},
	}
	c.Flags().BoolVar(&link, "print", false, "print the link and open nothing")
	return c
}
