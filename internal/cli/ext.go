package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/service/extensions"
	"github.com/remitrun/remit/internal/tools/extension"
)

func (s *session) extCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "ext",
		Short: "Install extensions, which add slash commands and tools",
		Long: `An extension adds slash commands, and the programs or modules that they run as
tools. Its manifest declares the permissions that it needs. Other actions are
denied even if a policy allows them; declared ones must also be allowed by the
policy. It can write only to its own work folder.
`,
		Example: `  remit ext install extensions/git
  remit ext show git
  remit slash "/git status"`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(s.extInstallCmd(false), s.extInstallCmd(true), s.extListCmd(), s.extShowCmd(), s.extSwitchCmd(true), s.extSwitchCmd(false), s.extRemoveCmd(), s.extNewCmd(), s.extSchemaCmd())
	return c
}

func (s *session) extInstallCmd(update bool) *cobra.Command {
	q := extensions.Installation{Update: update}
	var yes bool
	c := &cobra.Command{
		Use:   "install PATH",
		Short: "Install an extension from a folder or a zip archive",
		Long: `Shows the extension's permissions and the commands to be run now, and asks
before anything is written. Links, devices, unsafe paths and archives that
expand too far are refused.
`,
		Example: `  remit ext install extensions/git
  remit ext install git-1.0.0.zip --sha256 \
    9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
  remit ext install extensions/http --yes --json`,
		Args: cobra.ExactArgs(1),
	}
	if update {
		c.Use, c.Short = "update PATH", "Update an installed extension"
		c.Long = `Shows the permissions of the new version and marks the new ones. The work
folder is kept. A signed extension accepts only updates by the same signer. An
older version does not replace a newer one. Changed tools are accepted with the
update.
`
		c.Example = "  remit ext update git-1.1.0.zip"
	}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		a, err := s.open()
		if err != nil {
			return err
		}
		q.Path = args[0]
		q.Confirm = func(o extensions.Offer) (bool, error) { return s.confirmExtension(cmd.Context(), o, yes) }
		done, err := a.Extensions.Install(cmd.Context(), q)
		if err != nil {
			return err
		}
		if s.json {
			return s.printJSON(done)
		}
		s.printf("%s %s %s installed: %s\n", s.paint(green, "✓"), done.ID, done.Version, commandNames(done.Extension))
		if len(done.Accepted) > 0 {
			s.printf("  %s changed and accepted\n", counted(len(done.Accepted), "tool"))
		}
		return nil
	}
	fl := c.Flags()
	fl.BoolVar(&yes, "yes", false, "install without asking (for scripts)")
	fl.StringVar(&q.SHA256, "sha256", "", "required checksum of the archive, as `HEX`")
	fl.StringVar(&q.Signer, "signer", "", "required signing `KEY`, as ed25519:BASE64")
	return c
}

func commandNames(e extensions.Extension) string {
	names := make([]string, len(e.Commands))
	for i, c := range e.Commands {
		names[i] = c.Name
	}
	return strings.Join(names, " ")
}

// confirmExtension shows an extension and asks whether to install it. It fails without
// a terminal.
func (s *session) confirmExtension(ctx context.Context, o extensions.Offer, yes bool) (bool, error) {
	if yes {
		return true, nil
	}
	in, ok := s.In.(*os.File)
	if s.json || !ok || !isTerminal(s.In) {
		return false, fault.New(fault.Usage, "installing %s needs your confirmation, but no terminal is attached", o.ID).
			WithHint("review the extension, then add --yes")
	}
	s.printExtension(o)
	s.printf("\n")
	return s.askYesOrNo(ctx, in, "install")
}

// askYesOrNo asks a person at the terminal. The end of the input is a no.
func (s *session) askYesOrNo(ctx context.Context, in *os.File, question string) (bool, error) {
	for {
		if err := discardTyped(ctx, in, true); err != nil {
			return false, err
		}
		s.printf("%s (y or n)? ", question)
		line, err := readAnswer(ctx, in)
		if errors.Is(err, io.EOF) {
			s.printf("\n")
			return false, nil
		}
		if err != nil {
			return false, err
		}
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "y", "yes":
			return true, nil
		case "n", "no":
			return false, nil
		}
	}
}

// printExtension prints everything known about an extension. Its texts come from the
// extension itself and are not verified.
func (s *session) printExtension(o extensions.Offer) {
	version := o.Version
	if o.Was != nil {
		version = o.Was.Version + " → " + o.Version
	}
	s.printf("%s  %s %s\n\n%s\n\n", s.paint(bold, o.ID), show(o.Name), version, showLines(o.Description))
	signer := "none"
	if o.Signer != "" {
		signer = o.Signer
	}
	for _, l := range [][2]string{{"author", o.Author}, {"license", o.License}, {"signer", signer}, {"from", o.From}, {"folder", o.Folder}, {"files", fmt.Sprintf("%d, %d bytes", o.Files, o.Bytes)},
		{"digest", o.Digest}, {"state", state(o.Extension)}} {
		s.printf("%-10s %s\n", l[0], show(l[1]))
	}
	s.printf("\nPermissions, where the policy of a call also allows them:\n")
	for _, w := range o.Wants {
		sign, note := "·", ""
		if w.New {
			sign, note = s.paint(yellow, "+"), s.paint(yellow, "  (new)")
		}
		s.printf("  %s %-16s %s%s\n", sign, w.Name, w.Means, note)
	}
	if len(o.Wants) == 0 {
		s.printf("  · none: computation only\n")
	}
	s.printf("Never permitted, under any policy:\n")
	for _, what := range o.Never {
		s.printf("  · %s\n", what)
	}
	s.printf("\n")
	var rows [][]cell
	for _, a := range o.Actions {
		rows = append(rows, []cell{{a.Command, bold}, {orDash(string(a.Tool)), ""}, {orDash(a.Risk), riskOf(a.Risk)}, {a.Runs, ""}})
	}
	s.tableWhole([]string{"COMMAND", "TOOL", "RISK", "RUNS"}, rows)
	if o.InstallPlan != "" {
		s.printf("\nOn installation this plan runs in its work folder:\n%s\nunder the permissions above and this policy:\n%s", indentLines(o.InstallPlan), indentLines(o.InstallPolicy))
	}
	for _, w := range o.Warnings {
		s.printf("%s %s\n", s.paint(yellow, "!"), show(w))
	}
}

func state(e extensions.Extension) string {
	switch {
	case e.Installed.IsZero():
		return "not installed"
	case !e.Enabled:
		return "disabled"
	}
	return "installed " + e.Installed.Local().Format(time.DateTime)
}

func indentLines(text string) string {
	return "    " + strings.ReplaceAll(strings.TrimRight(showLines(text), "\n"), "\n", "\n    ") + "\n"
}

func (s *session) extListCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the installed extensions",
		Example: "  remit ext list",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			a, err := s.open()
			if err != nil {
				return err
			}
			list, err := a.Extensions.List()
			if err != nil {
				return err
			}
			if s.json {
				if list == nil {
					list = []extensions.Extension{}
				}
				return s.printJSON(list)
			}
			var rows [][]cell
			for _, e := range list {
				perms := make([]string, len(e.Permissions))
				for i, p := range e.Permissions {
					perms[i] = string(p)
				}
				on, col := "on", green
				if !e.Enabled {
					on, col = "off", yellow
				}
				rows = append(rows, []cell{{e.ID, bold}, {e.Version, ""}, {on, col}, {commandNames(e), ""}, {orDash(strings.Join(perms, " ")), ""}})
			}
			s.tableOr("no extensions; add one with remit ext install PATH", []string{"EXTENSION", "VERSION", "STATE", "COMMANDS", "PERMISSIONS"}, rows)
			return nil
		},
	}
}

func (s *session) extShowCmd() *cobra.Command {
	var bounds bool
	c := &cobra.Command{
		Use:   "show ID",
		Short: "Show an extension's permissions and commands",
		Example: `  remit ext show git
  remit ext show git --bounds`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: s.completeExtensions,
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := s.open()
			if err != nil {
				return err
			}
			o, err := a.Extensions.Show(cmd.Context(), args[0])
			switch {
			case err != nil:
				return err
			case s.json:
				return s.printJSON(o)
			case bounds:
				s.printf("%s\n", showLines(o.Bounds))
				return nil
			}
			s.printExtension(o)
			return nil
		},
	}
	c.Flags().BoolVar(&bounds, "bounds", false, "print only the policy that limits its calls")
	return c
}

func (s *session) extSwitchCmd(on bool) *cobra.Command {
	name, did, short := "disable", "disabled", "Disable an extension: refuse its commands and tools"
	if on {
		name, did, short = "enable", "enabled", "Enable a disabled extension"
	}
	return &cobra.Command{
		Use: name + " ID", Short: short, Example: "  remit ext " + name + " git",
		Args: cobra.ExactArgs(1), ValidArgsFunction: s.completeExtensions,
		RunE: func(_ *cobra.Command, args []string) error {
			a, err := s.open()
			if err != nil {
				return err
			}
			e, err := a.Extensions.Enable(args[0], on)
			if err != nil {
				return err
			}
			if s.json {
				return s.printJSON(e)
			}
			s.printf("%s %s %s\n", s.paint(green, "✓"), e.ID, did)
			return nil
		},
	}
}

func (s *session) extRemoveCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "remove ID",
		Short: "Remove an extension and its work folder",
		Long: `The record of its calls is kept.
`,
		Example: "  remit ext remove git",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: s.completeExtensions,
		RunE: func(_ *cobra.Command, args []string) error {
			a, err := s.open()
			if err != nil {
				return err
			}
			if err := a.Extensions.Remove(args[0]); err != nil {
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

func (s *session) extSchemaCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "schema manifest|commands",
		Short: "Print the JSON Schema of manifest.json or commands.yaml",
		Example: `  remit ext schema manifest > manifest.schema.json
  remit ext schema commands > commands.schema.json`,
		Args: cobra.ExactArgs(1), ValidArgs: []string{"manifest", "commands"},
		RunE: func(_ *cobra.Command, args []string) error {
			schema := extension.DocumentSchema(args[0])
			if schema == nil {
				return fault.New(fault.Usage, "%q is not a schema; expected manifest or commands", args[0])
			}
			s.printf("%s", schema)
			return nil
		},
	}
}

// completeExtensions completes the ID of an installed extension.
func (s *session) completeExtensions(_ *cobra.Command, args []string, begin string) ([]string, cobra.ShellCompDirective) {
	a, err := s.open()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	list, err := a.Extensions.List()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []string
	for _, e := range list {
		if strings.HasPrefix(e.ID, begin) {
			out = append(out, e.ID+"\t"+e.Name)
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

func riskOf(name string) colour {
	r, ok := tool.ParseRisk(name)
	if !ok {
		return ""
	}
	return riskColour(r)
}
