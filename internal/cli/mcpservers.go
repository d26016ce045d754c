package cli

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/policies"
	"github.com/remitrun/remit/internal/service/servers"
)

func (s *session) mcpAddCmd() *cobra.Command {
	var env, within, asks []string
	var folder, policyFile, url, protocol string
	var replace, later bool
	c := &cobra.Command{
		Use:   "add NAME [flags] -- COMMAND...",
		Short: "Add an MCP server that Remit starts, confined, or reaches at a URL",
		Long: `The server's tools are mcp:NAME:TOOL in the catalog. The server is started when a
tool of it is needed, in the sandbox, and stopped when it was not needed for five
minutes. Typing its command here is the approval of exactly that command.

Without -p the server sees a folder of its own, no network, and of the environment
what --env gives. With -p it may do what that policy allows, which is copied:
later changes of the file change nothing. A server that npx or uvx would download
cannot be started without network: install it first and name the program.

The server is started once, to see that it works: what failed is told, and which
rule of a policy would probably help; so is text of its tools that speaks to the
model. It is added in any case. --no-start leaves that to remit mcp test.

--within says that an argument of some tools is a path or a URL: then the rules of
whoever calls decide it as for the built-in tools, besides the server's own policy.

--asks lets the server ask something of whoever calls it while a call runs: the
person (elicitation), the model (sampling), the folders (roots) of the client.
The caller's policy must let it too: mcp: {elicitation: ask}.

With --url the server is elsewhere and is reached over streamable HTTP: that URL
alone, unless -p says otherwise. A policy can add a stored secret to the requests;
a server that wants OAuth needs remit mcp login.
`,
		Example: `  remit mcp add notes -- /usr/local/bin/notes-server
  remit mcp add files -w ~/project -- node /opt/mcp/server-filesystem/dist/index.js .
  remit mcp add files -w ~/project --within '*.path=files.read' -- files-server
  remit mcp add weather --url https://mcp.example.com/mcp
  remit mcp add tracker -p tracker.yaml --env TRACKER_URL=https://tracker.example.com -- tracker-mcp`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			at := cmd.ArgsLenAtDash()
			if len(args) == 0 || at == 0 {
				return fault.New(fault.Usage, "NAME is missing").WithHint("usage: remit mcp add NAME [flags] -- COMMAND...; see remit mcp add --help")
			}
			if url != "" && len(args) > 1 {
				return fault.New(fault.Usage, "a server is either started by a command or at a URL")
			}
			if url == "" && (len(args) == 1 || at != 1) {
				return fault.New(fault.Usage, "the server's command is missing, or not after --").
					WithHint("usage: remit mcp add %s -- COMMAND...", args[0])
			}
			m := servers.Server{Name: args[0], Command: args[1:], URL: url, Asks: asks, Protocol: protocol}
			var err error
			if m.Env, err = variablesOf(env); err != nil {
				return err
			}
			if m.Within, err = withinOf(within); err != nil {
				return err
			}
			return s.mcpAdd(cmd.Context(), m, folder, policyFile, replace, !later)
		},
	}
	fl := c.Flags()
	fl.StringArrayVar(&env, "env", nil, "a variable of the server, as NAME=value (repeatable)")
	fl.StringArrayVar(&within, "within", nil, "an argument that is a path or URL, as TOOL.ARGUMENT=files.read, files.write or network (repeatable)")
	fl.StringSliceVar(&asks, "asks", nil, "what it may ask of its callers where their policies let it: elicitation, sampling, roots")
	fl.StringVar(&protocol, "protocol", "", "the revision of MCP to speak with it (default: the newest that both know)")
	fl.StringVarP(&policyFile, "policy", "p", "", "the policy of the server")
	fl.StringVarP(&folder, "workspace", "w", "", "where the server starts, and its policy's workspace (default: a folder of its own)")
	fl.StringVar(&url, "url", "", "where the server is, if it is not started here")
	fl.BoolVar(&replace, "replace", false, "put it in the place of one of this name")
	fl.BoolVar(&later, "no-start", false, "do not start it now")
	return c
}

// withinOf reads --within.
func withinOf(list []string) ([]servers.MCPWithin, error) {
	var out []servers.MCPWithin
	for _, s := range list {
		what, section, _ := strings.Cut(s, "=")
		i := strings.LastIndexByte(what, '.')
		if i < 0 {
			return nil, fault.New(fault.Usage, "--within %q is not TOOL.ARGUMENT=SECTION", s).WithHint("as read_*.path=files.read")
		}
		out = append(out, servers.MCPWithin{Tool: what[:i], Arg: what[i+1:], Section: section})
	}
	return out, nil
}

func variablesOf(pairs []string) (map[string]string, error) {
	if len(pairs) == 0 {
		return nil, nil //nolint:nilnil // there are none
	}
	out := map[string]string{}
	for _, p := range pairs {
		k, v, ok := strings.Cut(p, "=")
		if !ok || k == "" {
			return nil, fault.New(fault.Usage, "--env %q is not NAME=value", p)
		}
		out[k] = v
	}
	return out, nil
}

func (s *session) mcpAdd(ctx context.Context, m servers.Server, folder, policyFile string, replace, start bool) error {
	a, err := s.open()
	if err != nil {
		return err
	}
	if folder != "" {
		if m.Folder, err = home.Workspace(folder); err != nil {
			return err
		}
	}
	if policyFile != "" {
		p, err := policies.Read(policyFile)
		if err != nil {
			return err
		}
		m.Policy, m.PolicyFile = string(p.Source()), policyFile
	}
	if err := a.Servers.Add(m, replace); err != nil {
		return err
	}
	s.say("%s %s added  %s\n", s.paint(green, "✓"), m.Name, s.paint(dim, "remit mcp test "+m.Name))
	if !start {
		if s.json {
			return s.printJSON(map[string]any{"name": m.Name})
		}
		return nil
	}
	return s.mcpTried(ctx, a, m.Name)
}

// mcpServerJSON is a server as --json prints it: of the environment the names
// alone.
type mcpServerJSON struct {
	Name    string              `json:"name"`
	URL     string              `json:"url,omitempty"`
	Command []string            `json:"command"`
	Env     []string            `json:"env"`
	Folder  string              `json:"folder"`
	Policy  string              `json:"policy"`
	Within  []servers.MCPWithin `json:"within,omitempty"`
	Asks    []string            `json:"asks,omitempty"`
	Talks   string              `json:"protocol,omitempty"`
	By      string              `json:"by"`
}

func describeServer(a *app.App, m servers.Server) mcpServerJSON {
	out := mcpServerJSON{Name: m.Name, URL: m.URL, Command: append([]string{}, m.Command...), Env: append([]string{}, slices.Sorted(maps.Keys(m.Env))...), Folder: a.Servers.Folder(m), Policy: m.Policy, Within: m.Within, Asks: m.Asks, Talks: m.Protocol, By: m.By}
	if out.Policy == "" {
		out.Policy = m.DefaultPolicy()
	}
	return out
}

func (s *session) mcpListCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the MCP servers that were added",
		Example: "  remit mcp list",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			a, err := s.open()
			if err != nil {
				return err
			}
			list, err := a.Servers.List()
			if err != nil {
				return err
			}
			if s.json {
				out := make([]mcpServerJSON, len(list))
				for i, m := range list {
					out[i] = describeServer(a, m)
				}
				return s.printJSON(map[string]any{"servers": out})
			}
			if len(list) == 0 {
				s.printf("no MCP server was added\n  %s\n", s.paint(dim, "remit mcp add NAME -- COMMAND..."))
				return nil
			}
			var rows [][]cell
			for _, m := range list {
				own, how := "its folder alone", strings.Join(m.Command, " ")
				if m.URL != "" {
					own, how = "its URL alone", m.URL
				}
				if m.Policy != "" {
					own = "as " + m.PolicyFile
				}
				rows = append(rows, []cell{{m.Name, bold}, {own, ""}, {how, ""}})
			}
			s.table([]string{"SERVER", "MAY", "COMMAND OR URL"}, rows)
			return nil
		},
	}
}

func (s *session) mcpShowCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "show NAME",
		Short:   "Show an MCP server: its command and what it may do",
		Example: "  remit mcp show files",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			a, err := s.open()
			if err != nil {
				return err
			}
			m, err := a.Servers.Find(args[0])
			if err != nil {
				return err
			}
			d := describeServer(a, m)
			if s.json {
				return s.printJSON(d)
			}
			if m.URL != "" {
				s.printf("%s\n\nurl      %s\nadded by %s\n\npolicy\n", s.paint(bold, m.Name), show(m.URL), show(m.By))
			} else {
				s.printf("%s\n\ncommand  %s\nfolder   %s\nenv      %s\nadded by %s\n\npolicy\n", s.paint(bold, m.Name),
					show(strings.Join(m.Command, " ")), show(d.Folder), orDash(show(strings.Join(d.Env, " "))), show(m.By))
			}
			if len(m.Asks) > 0 {
				s.printf("  (it may ask its callers, where their policies let it: %s)\n", strings.Join(m.Asks, " "))
			}
			for _, w := range m.Within {
				s.printf("  (the caller's %s decides %s of %s)\n", w.Section, show(w.Arg), show(w.Tool))
			}
			for line := range strings.SplitSeq(strings.TrimSuffix(d.Policy, "\n"), "\n") {
				s.printf("  %s\n", show(line))
			}
			return nil
		},
	}
}

func (s *session) mcpRemoveCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "remove NAME",
		Short:   "Remove an MCP server; its folder stays",
		Example: "  remit mcp remove files",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			a, err := s.open()
			if err != nil {
				return err
			}
			if err := a.Servers.Remove(args[0]); err != nil {
				return err
			}
			s.say("%s %s removed\n", s.paint(green, "✓"), args[0])
			return nil
		},
	}
}

func (s *session) mcpTestCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "test NAME",
		Short: "Start an MCP server and list its tools",
		Long: `The server is started as for a call, confined, asked for its tools, and stopped.
None of them is called. Where it fails, the rule of its policy that would probably
help is proposed. Text of its tools that speaks to the model is shown as a finding.
`,
		Example: "  remit mcp test files",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := s.open()
			if err != nil {
				return err
			}
			return s.mcpTest(cmd.Context(), a, args[0])
		},
	}
}

func (s *session) mcpImportCmd() *cobra.Command {
	var replace bool
	c := &cobra.Command{
		Use:   "import FILE",
		Short: "Add the MCP servers of another client's configuration",
		Long: `FILE is JSON with an object mcpServers (or servers), as Claude Desktop, Claude Code
(.mcp.json), Cursor and VS Code have it. Each server gets the default policy: a
folder of its own, no network, and the variables that the file gives it. Most need
more: see what with remit mcp test, and give it with remit mcp add --replace -p.
`,
		Example: "  remit mcp import ~/project/.mcp.json",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			a, err := s.open()
			if err != nil {
				return err
			}
			found, left, err := servers.ImportMCPServers(args[0])
			if err != nil {
				return err
			}
			var names []string
			for _, m := range found {
				if err := a.Servers.Add(m, replace); err != nil {
					left[m.Name] = err
					continue
				}
				names = append(names, m.Name)
				s.say("%s %s added\n", s.paint(green, "✓"), m.Name)
			}
			for _, name := range slices.Sorted(maps.Keys(left)) {
				s.errorf("%s %s left out: %s\n", s.paintErr(yellow, "!"), show(name), show(fault.Message(left[name])))
			}
			if s.json {
				return s.printJSON(map[string]any{"added": append([]string{}, names...), "left_out": slices.Sorted(maps.Keys(left))})
			}
			if len(names) == 0 {
				return exit(fault.Usage.Exit())
			}
			return nil
		},
	}
	c.Flags().BoolVar(&replace, "replace", false, "put servers in the place of those of their names")
	return c
}

// say prints for people; with --json, nothing.
func (s *session) say(format string, args ...any) {
	if !s.json {
		s.printf(format, args...)
	}
}
