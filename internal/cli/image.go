package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/service/images"
)

func (s *session) imageCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "image",
		Short: "Add container images that commands can run in",
		Long: `With where: container, a policy's commands see the programs and libraries of an
image in place of this machine's. No container engine runs them: the sandbox is
the same, and so are all rules. docs/placement.md has an example.
`,
		Example: `  remit image add python python.tar
  remit image show python`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(s.imageAddCmd(), s.imageListCmd(), s.imageShowCmd(), s.imageRemoveCmd())
	return c
}

func (s *session) imageAddCmd() *cobra.Command {
	var q images.Addition
	c := &cobra.Command{
		Use:   "add NAME SOURCE",
		Short: "Unpack an image",
		Long: `SOURCE is a file that "podman save" or "docker save" wrote, or the folder of an
OCI layout. Every digest is verified. The output has the lines for the policy.
`,
		Example: `  podman save -o python.tar python:3.12-slim
  remit image add python python.tar`,
		Args: cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			q.Name, q.From = args[0], args[1]
			a, err := s.open()
			if err != nil {
				return err
			}
			one, err := a.Images.Add(q)
			if err != nil {
				return err
			}
			if s.json {
				return s.printJSON(one)
			}
			s.printf("%s %s: %s, %s\n", s.paint(green, "✓"), one.Name, counted(one.Files, "file"), megabytes(one.Size))
			s.printImageLines(one)
			return nil
		},
	}
	c.Flags().BoolVar(&q.Replace, "replace", false, "replace the image of this name")
	return c
}

// printImageLines prints the policy lines that name the image.
func (s *session) printImageLines(one images.Image) {
	s.printf("\nIn the policy:\n\n  where: container\n  image: %s\n", one.ID)
}

func (s *session) imageShowCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "show NAME",
		Short:   "Show an image, with its lines for a policy",
		Example: "  remit image show python",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			a, err := s.open()
			if err != nil {
				return err
			}
			one, err := a.Images.Find(args[0])
			if err != nil {
				return err
			}
			if s.json {
				return s.printJSON(one)
			}
			s.printf("%s: %s, %s, from %s, %s\n", s.paint(bold, one.Name), counted(one.Files, "file"), megabytes(one.Size), show(one.From), when(one.Added, time.Now()))
			for _, kv := range one.Env {
				s.printf("  %s\n", show(kv))
			}
			s.printImageLines(one)
			return nil
		},
	}
}

func megabytes(n int64) string { return fmt.Sprintf("%d MB", (n+999_999)/1_000_000) }

func (s *session) imageListCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the images",
		Example: "  remit image list",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			a, err := s.open()
			if err != nil {
				return err
			}
			list, err := a.Images.List()
			if err != nil {
				return err
			}
			if s.json {
				if list == nil {
					list = []images.Image{}
				}
				return s.printJSON(list)
			}
			var rows [][]cell
			for _, one := range list {
				rows = append(rows, []cell{{one.Name, bold}, {megabytes(one.Size), ""}, {when(one.Added, time.Now()), dim}, {one.From, ""}})
			}
			s.tableOr("no images; add one with remit image add NAME SOURCE", []string{"IMAGE", "SIZE", "ADDED", "FROM"}, rows)
			return nil
		},
	}
}

func (s *session) imageRemoveCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "remove NAME",
		Short:   "Forget an image and its files",
		Example: "  remit image remove python",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			a, err := s.open()
			if err != nil {
				return err
			}
			if err := a.Images.Remove(args[0]); err != nil {
				return err
			}
			if s.json {
				return s.printJSON(map[string]any{"removed": args[0]})
			}
			s.printf("%s %s removed\n", s.paint(green, "✓"), args[0])
			return nil
		},
	}
}
