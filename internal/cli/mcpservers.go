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

// mcpAddHelp is the help of remit mcp add.
const mcpAddHelp = `The server's tools get the IDs mcp:NAME:TOOL. Remit starts the server in the
sandbox when one of its tools is needed, and stops it after five minutes
without use. Adding it here counts as your approval of exactly this command.

Without -p the server can use only its own folder and the variables given with
--env, and no network. With -p that policy decides its permissions. The
policy is copied, so later edits of the file have no effect.

A command of npx or uvx names a package. Remit resolves it once, in a sandbox
that reaches only the package registry of your own npm, uv or pip
configuration, and pins it: the lock file with the hash of each package. No
code of a package runs then: install scripts are left out (a package that has
some needs --yes or your answer), and Python packages must be wheels. The
server then runs from these files, without network. Folders among its arguments
are allowed to it. remit mcp upgrade changes the pinned version.

The server is started once as a test. If that fails, the error is shown
together with policy entries that may help; the server is added anyway.
Suspicious text in its tools is reported. --no-start skips the test; remit mcp
test repeats it.

--within declares that an argument of some tools is a path or URL. The caller's
own policy then decides it as well, as it does for built-in tools.

--asks allows the server to send requests to the client of a call: elicitation
(ask the person), sampling (ask the model) or roots (list folders). The
caller's policy must allow them too, for example mcp: {elicitation: ask}.

With --url the server runs elsewhere and is reached by streamable HTTP. Only
that URL is allowed, unless -p says otherwise. The policy can add a secret to
its requests. For OAuth, use remit mcp login.

With --bundle the server is in an MCPB file. It is unpacked and pinned by its
hash, none of it is changed later, and it runs like a package: without network.
Its settings are asked for like those of a server.json. Folders that you name
are allowed to it. To pin another version, add the new bundle with --replace.

With --server-json the entry of an MCP registry says what to run or reach:
packages of npm and PyPI, and remotes. Values that it needs are asked for on a
terminal, or given with --input and --input-env. Secrets and headers go to the
secret store.
`

func (s *session) mcpAddCmd() *cobra.Command {
	var f mcpAddFlags
	c := &cobra.Command{
		Use:   "add NAME [flags] -- COMMAND...",
		Short: "Add an MCP server: a command that Remit starts, or a URL",
		Long:  mcpAddHelp,
		Example: `  remit mcp add memory -- npx -y @modelcontextprotocol/server-memory
  remit mcp add time -- uvx mcp-server-time
  remit mcp add notes -- /usr/local/bin/notes-server
  remit mcp add files -w ~/project -- node /opt/mcp/files/index.js .
  remit mcp add files -w ~/project --within '*.path=files.read' -- files-server
  remit mcp add weather --url https://mcp.example.com/mcp
  remit mcp add files --bundle files.mcpb
  remit mcp add tracker --server-json server.json --input-env TRACKER_TOKEN
  remit mcp add tracker -p tracker.yaml \
    --env TRACKER_URL=https://tracker.example.com -- tracker-mcp`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			at := cmd.ArgsLenAtDash()
			if len(args) == 0 || at == 0 {
				return fault.New(fault.Usage, "NAME is missing").WithHint("usage: remit mcp add NAME [flags] -- COMMAND...; see remit mcp add --help")
			}
			if f.serverJSON != "" || f.bundle != "" {
				return s.mcpAddDescribed(cmd.Context(), args, f)
			}
			if f.url != "" && len(args) > 1 {
				return fault.New(fault.Usage, "give either a command or --url, not both")
			}
			if f.url == "" && (len(args) == 1 || at != 1) {
				return fault.New(fault.Usage, "the server's command is missing after --").
					WithHint("usage: remit mcp add %s -- COMMAND...", args[0])
			}
			m := servers.Server{Name: args[0], Command: args[1:], URL: f.url, Asks: f.asks, Protocol: f.protocol}
			var err error
			if m.Env, err = variablesOf(f.env); err != nil {
				return err
			}
			if m.Within, err = withinOf(f.within); err != nil {
				return err
			}
			return s.mcpAdd(cmd.Context(), m, f.mcpAdding)
		},
	}
	f.define(c)
	return c
}

// mcpAddFlags are the flags of remit mcp add.
type mcpAddFlags struct {
	mcpAdding
	env, within, asks []string
	url, protocol     string
	serverJSON, kind  string
	bundle            string
	inputs            mcpImporting
}

func (f *mcpAddFlags) define(c *cobra.Command) {
	fl := c.Flags()
	fl.StringArrayVar(&f.env, "env", nil, "set a variable for the server, as `NAME=VALUE` (repeatable)")
	fl.StringArrayVar(&f.within, "within", nil, "`ARGUMENT` that is a path or URL: TOOL.ARGUMENT=files.read, files.write, files.delete or network (repeatable)")
	fl.StringSliceVar(&f.asks, "asks", nil, "`REQUESTS` that it may send to clients: elicitation, sampling, roots")
	fl.StringVar(&f.protocol, "protocol", "", "MCP `VERSION` to use (default: the newest that both support)")
	fl.StringVarP(&f.policyFile, "policy", "p", "", "policy `FILE` of the server")
	fl.StringVarP(&f.folder, "workspace", "w", "", "`DIR` where the server starts, the workspace of its policy (default: its own folder)")
	fl.StringVar(&f.url, "url", "", "`URL` of a remote server")
	fl.StringVar(&f.serverJSON, "server-json", "", "`FILE` of an MCP registry that describes the server")
	fl.StringVar(&f.kind, "kind", "", "which entry of the server.json: npm, pypi or remote (default: the first that can be used)")
	fl.StringVar(&f.bundle, "bundle", "", "MCPB or DXT `FILE` that has the server")
	f.inputs.addFlags(c)
	fl.BoolVar(&f.replace, "replace", false, "replace the server of this name")
	fl.BoolVar(&f.later, "no-start", false, "do not start the server as a test")
	fl.BoolVar(&f.yes, "yes", false, "accept a package with install scripts, which are not run, without asking")
}

// mcpAddDescribed adds the server that a server.json or a bundle describes.
func (s *session) mcpAddDescribed(ctx context.Context, args []string, f mcpAddFlags) error {
	flag := "--server-json"
	if f.bundle != "" {
		flag = "--bundle"
	}
	if len(args) > 1 || f.url != "" || f.policyFile != "" || f.folder != "" || len(f.env)+len(f.within)+len(f.asks) > 0 || f.serverJSON != "" && f.bundle != "" {
		return fault.New(fault.Usage, "%s says how the server is started: leave the command and the other settings out", flag)
	}
	f.inputs.replace, f.inputs.yes = f.replace, f.yes
	a, err := s.open()
	if err != nil {
		return err
	}
	if err := f.inputs.answers(s); err != nil {
		return err
	}
	read := func() (servers.Imported, error) {
		if f.bundle != "" {
			return a.Servers.ReadBundle(ctx, f.bundle, args[0], f.inputs.values)
		}
		return servers.ReadServerJSON(f.serverJSON, args[0], f.kind, f.inputs.values)
	}
	i, err := read()
	if err != nil {
		return err
	}
	if err := s.mcpImportOne(ctx, a, i, &f.inputs); err != nil {
		return err
	}
	s.say("%s %s added  %s\n", s.paint(green, "✓"), args[0], s.paint(dim, "remit mcp test "+args[0]))
	if !f.later {
		return s.mcpTried(ctx, a, args[0])
	}
	if s.json {
		return s.printJSON(map[string]any{"name": args[0]})
	}
	return nil
}

// withinOf reads --within.
func withinOf(list []string) ([]servers.MCPWithin, error) {
	var out []servers.MCPWithin
	for _, s := range list {
		what, section, _ := strings.Cut(s, "=")
		i := strings.LastIndexByte(what, '.')
		if i < 0 {
			return nil, fault.New(fault.Usage, "--within %q is not TOOL.ARGUMENT=SECTION", s).WithHint("for example read_*.path=files.read")
		}
		out = append(out, servers.MCPWithin{Tool: what[:i], Arg: what[i+1:], Section: section})
	}
	return out, nil
}

func variablesOf(pairs []string) (map[string]string, error) {
	if len(pairs) == 0 {
		return nil, nil //nolint:nilnil // there are none
	}
	return pairsOf("--env", pairs)
}

func pairsOf(flag string, pairs []string) (map[string]string, error) {
	out := map[string]string{}
	for _, p := range pairs {
		k, v, ok := strings.Cut(p, "=")
		if !ok || k == "" {
			return nil, fault.New(fault.Usage, "%s %q is not NAME=VALUE", flag, p)
		}
		out[k] = v
	}
	return out, nil
}

// mcpAdding says how a server is added.
type mcpAdding struct {
	folder, policyFile  string
	replace, later, yes bool
	imported            bool // the command comes from a file
}

func (s *session) mcpAdd(ctx context.Context, m servers.Server, q mcpAdding) error {
	a, err := s.open()
	if err != nil {
		return err
	}
	if q.folder != "" {
		if m.Folder, err = home.Workspace(q.folder); err != nil {
			return err
		}
	}
	if q.policyFile != "" {
		p, err := policies.Read(q.policyFile)
		if err != nil {
			return err
		}
		m.Policy, m.PolicyFile = string(p.Source()), q.policyFile
	}
	if err := s.mcpPin(ctx, a, &m, q); err != nil {
		return err
	}
	if err := a.Servers.Add(m, q.replace); err != nil {
		return err
	}
	s.say("%s %s added  %s\n", s.paint(green, "✓"), m.Name, s.paint(dim, "remit mcp test "+m.Name))
	if q.later {
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
	Package *servers.Package    `json:"package,omitempty"`
	Env     []string            `json:"env"`
	Folder  string              `json:"folder"`
	Policy  string              `json:"policy"`
	Within  []servers.MCPWithin `json:"within,omitempty"`
	Asks    []string            `json:"asks,omitempty"`
	Talks   string              `json:"protocol,omitempty"`
	By      string              `json:"by"`
}

func describeServer(a *app.App, m servers.Server) mcpServerJSON {
	out := mcpServerJSON{Name: m.Name, URL: m.URL, Command: append([]string{}, m.Command...), Package: m.Package, Env: append([]string{}, slices.Sorted(maps.Keys(m.Env))...), Folder: a.Servers.Folder(m), Policy: m.Policy, Within: m.Within, Asks: m.Asks, Talks: m.Protocol, By: m.By}
	if out.Policy == "" {
		out.Policy = m.DefaultPolicy()
	}
	return out
}

func (s *session) mcpListCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the added MCP servers",
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
				s.printf("no MCP servers; add one with remit mcp add NAME -- COMMAND...\n")
				return nil
			}
			var rows [][]cell
			for _, m := range list {
				own, how := "its folder only", strings.Join(m.Command, " ")
				if m.URL != "" {
					own, how = "its URL only", m.URL
				}
				if m.Package != nil {
					how += "  (" + m.Package.Version + ")"
				}
				if len(m.Paths) > 0 {
					own = "its folders only"
				}
				if m.Policy != "" {
					own = m.PolicyFile
				}
				rows = append(rows, []cell{{m.Name, bold}, {own, ""}, {how, ""}})
			}
			s.tableWhole([]string{"SERVER", "POLICY", "COMMAND OR URL"}, rows)
			return nil
		},
	}
}

func (s *session) mcpShowCmd() *cobra.Command {
	var locked bool
	c := &cobra.Command{
		Use:     "show NAME",
		Short:   "Show an MCP server's command and policy",
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
				s.printf("%s\n\nurl      %s\nadded by %s\n", s.paint(bold, m.Name), show(m.URL), show(m.By))
			} else {
				s.printf("%s\n\ncommand  %s\nfolder   %s\nenv      %s\nadded by %s\n", s.paint(bold, m.Name),
					show(strings.Join(m.Command, " ")), show(d.Folder), orDash(show(strings.Join(d.Env, " "))), show(m.By))
			}
			s.printPackage(a, m, locked)
			s.printf("\npolicy\n")
			if len(m.Asks) > 0 {
				s.printf("  (it may send to clients, if their policies allow it: %s)\n", strings.Join(m.Asks, " "))
			}
			for _, w := range m.Within {
				s.printf("  (the caller's %s rules also decide %s of %s)\n", w.Section, show(w.Arg), show(w.Tool))
			}
			for line := range strings.SplitSeq(strings.TrimSuffix(d.Policy, "\n"), "\n") {
				s.printf("  %s\n", show(line))
			}
			return nil
		},
	}
	c.Flags().BoolVar(&locked, "packages", false, "list the pinned packages with their hashes")
	return c
}

func (s *session) mcpRemoveCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "remove NAME",
		Short:   "Remove an MCP server, but not its folder",
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
		Long: `Starts the server in the sandbox, lists its tools and stops it. No tool is
called. If it fails, policy entries that may help are proposed. Suspicious text
in its tools is reported.
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

// say prints for people; with --json, nothing.
func (s *session) say(format string, args ...any) {
	if !s.json {
		s.printf(format, args...)
	}
}
