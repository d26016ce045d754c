package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/service/clients"
	"github.com/remitrun/remit/internal/service/home"
)

// scopeFlags are the flags that choose an agent's file.
type scopeFlags struct {
	dir                    string
	project, user, managed bool
}

func (f *scopeFlags) add(c *cobra.Command) {
	c.Flags().BoolVar(&f.project, "project", false, "in the agent's settings for the workspace (default)")
	c.Flags().BoolVar(&f.user, "user", false, "in your own settings of the agent, for all folders")
	c.Flags().BoolVar(&f.managed, "managed", false, "in the machine's settings of the agent, for everybody; needs root")
	c.Flags().StringVarP(&f.dir, "workspace", "w", "", "workspace `DIR` (default: the current folder)")
	c.MarkFlagsMutuallyExclusive("project", "user", "managed")
}

func (f *scopeFlags) request(agent string) (clients.Request, error) {
	q := clients.Request{Agent: agent, Scope: clients.Project}
	if f.user {
		q.Scope = clients.User
	} else if f.managed {
		q.Scope = clients.Managed
	}
	var err error
	q.Folder, err = home.Workspace(f.dir)
	return q, err
}

// openFor opens Remit for a request about an agent's settings.
func (s *session) openFor(f *scopeFlags, agent string) (*app.App, clients.Request, error) {
	a, err := s.open()
	if err != nil {
		return nil, clients.Request{}, err
	}
	q, err := f.request(agent)
	return a, q, err
}

func (s *session) agentsInstallCmd() *cobra.Command {
	var f scopeFlags
	var confine, mcpOnly, yes bool
	c := &cobra.Command{
		Use:   "install AGENT",
		Short: "Install Remit's hook in another agent, and prove it",
		Long: `AGENT is ` + strings.Join(clients.Names(), ", ") + `.
Adds remit hook to the agent's settings. Everything else in the file stays as it
is, also comments, and remit agents remove takes the added entries out. Then a
canary runs the installed command line: a call must be denied and another one
allowed.

Shell commands of the agent run in the sandbox, where the agent can be told so
(all but cursor); --confine=false only decides them.

With --mcp-only (claude) no hook is installed. All of the agent's own tools are
denied instead, so that it can only use MCP servers, as remit mcp serve.

The exit status is 1 if the hook is installed but not proved.
`,
		Example: `  remit agents install claude
  remit agents install codex --user
  remit agents install claude --mcp-only`,
		Args:      cobra.ExactArgs(1),
		ValidArgs: clients.Names(),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, q, err := s.openFor(&f, args[0])
			if err != nil {
				return err
			}
			q.MCPOnly = mcpOnly
			if cmd.Flags().Changed("confine") {
				q.Confine = &confine
			}
			if to := a.Clients.CopiesTo(); to != "" && !s.json {
				s.printf("%s\n", show(copiesLine(to)))
			}
			st, err := a.InstallHook(cmd.Context(), q)
			if err != nil {
				return err
			}
			if s.json {
				err = s.printJSON(agentJSON(st, nil))
			} else {
				s.printState(st)
			}
			if err == nil && !st.Held() {
				err = exit(1)
			}
			return err
		},
	}
	f.add(c)
	c.Flags().BoolVar(&confine, "confine", true, "run the agent's shell commands in the sandbox")
	c.Flags().BoolVar(&mcpOnly, "mcp-only", false, "deny the agent's own tools in place of the hook")
	c.Flags().BoolVar(&yes, "yes", false, "accepted for scripts; this command never asks")
	c.MarkFlagsMutuallyExclusive("confine", "mcp-only")
	return c
}

func (s *session) agentsStatusCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "status [AGENT]",
		Short: "Show which hooks are installed, and whether they still hold",
		Long: `Checks that the entries that Remit wrote are still in the agents' settings, that
the program is still there, and that no settings of the project switch the hook
off. It shows the result of the last canary, and what a hook cannot guarantee
on each agent. The exit status is 1 if a hook does not hold.
`,
		Example: `  remit agents status
  remit agents status claude --json`,
		Args:      cobra.MaximumNArgs(1),
		ValidArgs: clients.Names(),
		RunE: func(_ *cobra.Command, args []string) error {
			a, err := s.open()
			if err != nil {
				return err
			}
			list, err := a.Clients.Status(strings.Join(args, ""))
			if err != nil {
				return err
			}
			status := exit(0)
			var items []setupAgentJSON
			for _, st := range list {
				items = append(items, agentJSON(st, nil))
				if !st.Held() {
					status = 1
				}
			}
			if s.json {
				err = printPage(s, items, "")
			} else if len(list) == 0 {
				s.printf("no hooks are installed; remit init sets up a project\n")
			} else {
				for _, st := range list {
					s.printState(st)
				}
			}
			if err != nil {
				return err
			}
			return status.orNil()
		},
	}
}

func (s *session) agentsRemoveCmd() *cobra.Command {
	var f scopeFlags
	var yes bool
	c := &cobra.Command{
		Use:   "remove AGENT",
		Short: "Remove from an agent's settings what Remit added",
		Long: `Removes the entries of remit init or remit agents install, and nothing else, and
puts back the MCP servers that remit init moved. A file that was not changed
since gets its former content, to the byte. The imported servers stay in
Remit: remit mcp remove removes them.
`,
		Example: `  remit agents remove claude
  remit agents remove codex --user`,
		Args:      cobra.ExactArgs(1),
		ValidArgs: clients.Names(),
		RunE: func(_ *cobra.Command, args []string) error {
			a, q, err := s.openFor(&f, args[0])
			if err != nil {
				return err
			}
			// The servers first: they may be in the hook's file, and were put there last.
			moved, had, err := a.Clients.RestoreServers(args[0], q.Scope, q.Folder)
			if err != nil {
				return err
			}
			file, was, err := a.Clients.Remove(args[0], q.Scope, q.Folder)
			if err != nil {
				return err
			}
			if had && !was {
				file, was = moved, true
			}
			if !was {
				return fault.New(fault.NotFound, "nothing of Remit is installed in %s", file).WithHint("remit agents status lists the installations")
			}
			if s.json {
				return s.printJSON(map[string]any{"removed": args[0], "file": file, "servers_restored": had})
			}
			if had {
				s.printf("%s MCP servers restored in %s\n", s.paint(green, "✓"), show(moved))
			}
			s.printf("%s removed from %s\n", s.paint(green, "✓"), show(file))
			return nil
		},
	}
	f.add(c)
	c.Flags().BoolVar(&yes, "yes", false, "accepted for scripts; this command never asks")
	return c
}

// printState prints how an installed hook stands.
func (s *session) printState(st clients.State) {
	sign, word := s.paint(green, "✓"), "installed and proved"
	switch {
	case st.Command == "" && st.Held():
		word = "its own tools are denied"
	case !st.Present:
		sign, word = s.paint(red, "✗"), "not whole any more"
	case !st.Held():
		sign, word = s.paint(red, "✗"), "installed, but it does not hold"
	case st.Next != "":
		sign, word = s.paint(yellow, "!"), "installed and proved, but one step is left to you"
	}
	s.printf("%s %s: %s\n", sign, st.Title, word)
	s.item(" ", "file: "+st.File)
	for _, p := range st.Problems {
		s.item(" ", "problem: "+p)
	}
	if st.Proof != nil && st.Proof.OK {
		s.item(" ", "canary: "+st.Proof.Detail)
	} else if st.Proof != nil {
		s.item(" ", "canary failed: "+st.Proof.Detail)
	}
	for _, l := range st.Limits {
		s.item(" ", "limit: "+l)
	}
	if st.Next != "" {
		s.item(" ", "next: "+st.Next)
	}
}
