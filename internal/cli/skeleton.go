package cli

import (
	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/service/skeleton"
)

func (s *session) extNewCmd() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use:   "new NAME",
		Short: "Begin an extension of your own",
		Long: `Writes a working extension with one slash command, a policy for it, tests of the
policy and a plan, into a new folder.
`,
		Example: `  remit ext new word_count
  cd word_count && remit ext install extension`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return s.begin(skeleton.Extension, args[0], dir) },
	}
	dirFlag(c, &dir)
	return c
}

func (s *session) toolNewCmd() *cobra.Command {
	var dir string
	var script, wasm, program bool
	c := &cobra.Command{
		Use:   "new NAME",
		Short: "Begin a tool of your own",
		Long: `Writes a working tool, with a policy and tests, into a new folder. One kind must
be named:

  --script  a script that runs confined: an extension, as of remit ext new
  --wasm    a WebAssembly module in Go, with access by its manifest only
  --go      functions of a Go program that embeds Remit
`,
		Example: `  remit tool new word_count --script
  remit tool new word_count --wasm --dir ~/src/words`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			switch {
			case script && !wasm && !program:
				return s.begin(skeleton.Extension, args[0], dir)
			case wasm && !script && !program:
				return s.begin(skeleton.Wasm, args[0], dir)
			case program && !script && !wasm:
				return s.begin(skeleton.Go, args[0], dir)
			}
			return fault.New(fault.Usage, "exactly one kind of tool must be named").WithHint("add --script, --wasm or --go")
		},
	}
	fl := c.Flags()
	fl.BoolVar(&script, "script", false, "a script that runs confined")
	fl.BoolVar(&wasm, "wasm", false, "a WebAssembly module")
	fl.BoolVar(&program, "go", false, "functions of a Go program")
	dirFlag(c, &dir)
	return c
}

func dirFlag(c *cobra.Command, dir *string) {
	c.Flags().StringVar(dir, "dir", "", "the new `FOLDER` (default: NAME)")
}

// begin writes a project, and says how to go on.
func (s *session) begin(k skeleton.Kind, name, dir string) error {
	if dir == "" {
		dir = name
	}
	p, err := skeleton.Write(k, name, dir)
	if err != nil {
		return err
	}
	if s.json {
		return s.printJSON(p)
	}
	s.printf("%s written to %s:\n", s.paint(green, "✓"), show(p.Folder))
	for _, name := range p.Files {
		s.printf("  %s\n", name)
	}
	cd := tool.Action{Kind: tool.Command, Argv: []string{"cd", p.Folder}}
	s.printf("\nGo on with:\n  %s\n", show(cd.Subject()))
	for _, line := range p.Next {
		s.printf("  %s\n", line)
	}
	return nil
}
