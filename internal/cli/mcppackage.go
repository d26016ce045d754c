package cli

import (
	"context"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/service/servers"
	"github.com/remitrun/remit/internal/tools/packages"
)

// mcpPin pins the package of a server whose command names one. Another command is left as it
// is.
func (s *session) mcpPin(ctx context.Context, a *app.App, m *servers.Server, q mcpAdding) error {
	r, err := packages.ParseCommand(m.Command)
	if err != nil || r == nil {
		return err
	}
	if err := a.Servers.Free(m.Name, q.replace); err != nil {
		return err
	}
	words, folders, err := servers.PathArguments(r.Args)
	if err != nil {
		return err
	}
	m.Command = append(m.Command[:len(m.Command)-len(r.Args):len(m.Command)-len(r.Args)], words...)
	r.Args = words
	if m.Policy == "" && !q.imported { // another client's file is not what the person typed
		m.Paths = folders
	}
	busy := s.startActivity("looking for the package")
	m.Package, err = a.Servers.Pin(ctx, r, nil, s.pinning(ctx, m.Name, q.yes, busy))
	busy.stop()
	if err != nil {
		return err
	}
	s.say("%s %s@%s pinned: %s, lock %s\n", s.paint(green, "✓"), m.Package.Name, m.Package.Version,
		counted(m.Package.Count, "package"), s.paint(dim, "sha256:"+m.Package.Lock[:16]))
	for _, dir := range m.Paths {
		s.say("  it may read and write %s\n", show(dir))
	}
	return nil
}

// pinning shows the steps, and asks about install scripts and changes.
func (s *session) pinning(ctx context.Context, server string, yes bool, busy *activity) servers.Pinning {
	return servers.Pinning{
		Server: server, Step: busy.step,
		Confirm: func(found *servers.Package, was, now *packages.Lock) error {
			return busy.hold(func() error { return s.confirmPackage(ctx, found, was, now, yes) })
		},
	}
}

// confirmPackage asks whether to go on with a package that replaces another one, or that has
// install scripts.
func (s *session) confirmPackage(ctx context.Context, found *servers.Package, was, now *packages.Lock, yes bool) error {
	var changes []packages.Change
	if was != nil {
		if changes = packages.Compare(was, now); len(changes) == 0 {
			return nil
		}
		s.say("%s@%s changes %s:\n", found.Name, found.Version, counted(len(changes), "package"))
		for _, c := range changes {
			s.say("  %s\n", show(describeChange(c)))
		}
	}
	if len(found.Scripts) > 0 {
		s.errorf("%s install scripts, which are not run: %s\n", s.paintErr(yellow, "!"), show(strings.Join(found.Scripts, ", ")))
	}
	if yes || len(found.Scripts) == 0 && len(changes) == 0 {
		return nil
	}
	in, ok := s.In.(*os.File)
	if s.json || !ok || !isTerminal(s.In) {
		why := "has packages with install scripts (" + strings.Join(found.Scripts, ", ") + ")"
		if len(found.Scripts) == 0 {
			why = "would change"
		}
		return fault.New(fault.Usage, "the package %s %s, and no terminal is attached to confirm it", found.Name, why).WithHint("review it, then add --yes")
	}
	if goOn, err := s.askYesOrNo(ctx, in, "go on"); err != nil || !goOn {
		return fault.Wrap(fault.ToolCancelled, err, "the package %s was not accepted", found.Name)
	}
	return nil
}

func describeChange(c packages.Change) string {
	switch name := strings.TrimPrefix(c.Path, "node_modules/"); {
	case c.Was == "":
		return "+ " + name + " " + c.Now
	case c.Now == "":
		return "- " + name + " " + c.Was
	case c.Was == c.Now:
		return "! " + name + " " + c.Now + ": another content under the same version"
	default:
		return "~ " + name + " " + c.Was + " → " + c.Now
	}
}

// printPackage prints the pinned package of a server, with locked also the packages of its lock
// file.
func (s *session) printPackage(a *app.App, m servers.Server, locked bool) {
	p := m.Package
	if p == nil {
		return
	}
	s.printf("\npackage  %s@%s (%s)\nlock     sha256:%s  %s\nfiles    sha256:%s\n", show(p.Name), show(p.Version), p.Kind, p.Lock, counted(p.Count, "package"), p.Files)
	if len(p.Scripts) > 0 {
		s.printf("scripts  not run: %s\n", show(strings.Join(p.Scripts, ", ")))
	}
	if !locked {
		return
	}
	list, err := a.Servers.Locked(p)
	if err != nil {
		s.errorf("%s %s\n", s.paintErr(yellow, "!"), show(fault.Message(err)))
	}
	for _, l := range list {
		s.printf("  %s@%s  %s\n", show(l.Name), show(l.Version), s.paint(dim, show(l.Integrity)))
	}
}

func (s *session) mcpUpgradeCmd() *cobra.Command {
	var to string
	var yes bool
	c := &cobra.Command{
		Use:   "upgrade NAME",
		Short: "Pin another version of an MCP server's package",
		Long: `Resolves the package that the server's command names again, shows which packages
change, and pins them once you agree. Tools of the server that were accepted
count as changed then: review them with remit tools, and accept them with remit
tools accept. Nothing is upgraded otherwise.
`,
		Example: "  remit mcp upgrade files\n  remit mcp upgrade files --to 2026.8.31 --yes",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := s.open()
			if err != nil {
				return err
			}
			busy := s.startActivity("looking for the package")
			m, changed, err := a.Servers.Upgrade(cmd.Context(), args[0], to, s.pinning(cmd.Context(), args[0], yes, busy))
			busy.stop()
			if err != nil {
				return err
			}
			if s.json {
				return s.printJSON(map[string]any{"name": m.Name, "changed": changed, "package": m.Package})
			}
			if !changed {
				s.printf("%s %s@%s is pinned already\n", s.paint(green, "✓"), show(m.Package.Name), show(m.Package.Version))
				return nil
			}
			s.printf("%s %s runs %s@%s  %s\n", s.paint(green, "✓"), m.Name, show(m.Package.Name), show(m.Package.Version),
				s.paint(dim, "remit tools accept --source mcp:"+m.Name+" --diff, then without --diff"))
			return nil
		},
	}
	c.Flags().StringVar(&to, "to", "", "the `VERSION` to pin (default: the version in the command, else the newest)")
	c.Flags().BoolVar(&yes, "yes", false, "pin what changed without asking")
	return c
}
