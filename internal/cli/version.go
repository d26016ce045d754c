package cli

import (
	"runtime"

	"github.com/spf13/cobra"
)

func (s *session) versionCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  remit version",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if s.json {
				return s.printJSON(map[string]string{
					"version": s.version, "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH,
				})
			}
			s.printf("remit %s (%s, %s/%s)\n", s.version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return nil
		},
	}
}
