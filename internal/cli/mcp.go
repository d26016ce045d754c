package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/doors/listen"
	"github.com/remitrun/remit/internal/service/grants"
	"github.com/remitrun/remit/internal/service/policies"
)

func (s *session) mcpCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "mcp",
		Short: "Serve tools over MCP and manage MCP servers",
		Long: `remit mcp serve offers Remit's tools to an MCP client such as Claude Code or
Codex. Every call of the client is decided, recorded and confined. remit mcp
add makes the tools of an MCP server available to all runs.
`,
		Example: "  remit mcp serve -p policy.yaml -w ~/project\n  remit mcp add notes -- /usr/local/bin/notes-server",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(s.mcpServeCmd(), s.mcpAddCmd(), s.mcpListCmd(), s.mcpShowCmd(), s.mcpTestCmd(), s.mcpLoginCmd(), s.mcpLogoutCmd(), s.mcpUpgradeCmd(), s.mcpRemoveCmd(), s.mcpImportCmd())
	return c
}

// mcpServe are the flags of remit mcp serve that are not part of the request.
type mcpServe struct {
	dir, answers, listen string
	frozen               string
	hosts, proxies       []string
	presented            func() (grants.Presented, error)
}

func (s *session) mcpServeCmd() *cobra.Command {
	var q app.MCPRequest
	var f mcpServe
	c := &cobra.Command{
		Use:   "serve",
		Short: "Serve Remit's tools to MCP clients",
		Long: `An MCP client starts this command and talks to it on standard input and output.
The connection is one run in the ledger. Tools that the policy denies entirely
are not listed. A denied call returns an error that names the rule and the
allowed entries.

With --listen, many clients connect over HTTP. Each presents a grant as its
bearer token and gets its own run; -p narrows all of them. The address must be
a loopback address. Requests for another host or from web pages of other
origins are refused.

With --server, only the tools, resources and prompts of that one MCP server are
offered, under the server's own names. Calls are still decided and recorded by
tool ID.

If the policy requires approval, the person at the client is asked, provided
that the client supports forms (elicitation). Use --answers approvals if you do
not trust the client to pass on answers; they are then given with remit
approvals. This is always so under a grant, or if the policy requires an admin
or several people.
`,
		Example: `  remit mcp serve -p policy.yaml -w ~/project
  claude mcp add remit -- remit mcp serve -p ~/policy.yaml -w ~/project
  codex mcp add remit -- remit mcp serve -p ~/policy.yaml -w ~/project
  remit mcp serve --listen 127.0.0.1:8123 -w ~/project`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.listen == "" {
				return s.mcpServeHere(cmd.Context(), q, f)
			}
			if cmd.Flags().Changed("grant") {
				return fault.New(fault.Usage, "--grant cannot be combined with --listen: each client presents its own grant").WithHint("leave out --grant")
			}
			return s.mcpListen(cmd.Context(), q, f)
		},
	}
	f.presented = s.presented(c)
	fl := c.Flags()
	fl.StringVarP(&q.Policy, "policy", "p", "", "policy `FILE` that limits the clients")
	fl.StringVarP(&f.dir, "workspace", "w", "", "workspace `DIR` (default: the current folder)")
	fl.StringVar(&f.answers, "answers", "", "`WHERE` approvals are given: client or approvals (default: client; under a grant: approvals)")
	fl.StringVar(&f.listen, "listen", "", "serve over HTTP on this loopback `ADDRESS`, such as 127.0.0.1:8123")
	fl.StringArrayVar(&f.hosts, "allow-host", nil, "with --listen, another host `NAME` that clients may use (repeatable)")
	fl.StringVar(&q.Server, "server", "", "serve only the MCP server `NAME`, under its own tool names")
	proxyFlag(c, &f.proxies, &q.Door.ProxyHeader)
	modeFlags(fl, &q.Planning, &f.frozen)
	fl.BoolVar(&q.Wait, "wait", false, "let calls wait for remit approvals, up to the policy's time limit")
	fl.BoolVar(&q.Changeset, "changeset", false, "hold writes until remit changes apply")
	return c
}

// mcpServeHere serves the one client that started this command.
func (s *session) mcpServeHere(ctx context.Context, q app.MCPRequest, f mcpServe) error {
	if len(f.hosts) > 0 {
		return fault.New(fault.Usage, "--allow-host needs --listen")
	}
	if len(f.proxies) > 0 {
		return fault.New(fault.Usage, "--proxy needs --listen")
	}
	if q.Door.ProxyHeader {
		return fault.New(fault.Usage, "--proxy-protocol needs --listen")
	}
	if isTerminal(s.In) {
		return fault.New(fault.Usage, "remit mcp serve is started by an MCP client, not from a terminal").
			WithHint("add it to your client's configuration; remit mcp serve --help has examples")
	}
	a, err := s.openMCP(&q, f)
	if err != nil {
		return err
	}
	if q.Grant, err = f.presented(); err != nil {
		return err
	}
	if q.Elicit, err = answersHere(f.answers, q.Grant); err != nil {
		return err
	}
	return s.serveMCP(ctx, a, q)
}

// openMCP checks the server, the workspace and the frozen plan of a request.
func (s *session) openMCP(q *app.MCPRequest, f mcpServe) (*app.App, error) {
	a, ws, err := s.openIn(f.dir)
	if err == nil && q.Server != "" {
		_, err = a.Servers.Find(q.Server)
	}
	if err == nil {
		q.Frozen, err = s.frozenFlag(a, f.frozen)
	}
	q.Workspace = ws
	return a, err
}

// mcpListen serves over HTTP.
func (s *session) mcpListen(ctx context.Context, q app.MCPRequest, f mcpServe) error {
	var err error
	if q.Door.Proxies, err = listen.Proxies(f.proxies); err == nil {
		err = checkProxyProtocol(q.Door.ProxyHeader, f.proxies)
	}
	if err != nil {
		return err
	}
	a, err := s.openMCP(&q, f)
	if err != nil {
		return err
	}
	if f.answers == "" {
		f.answers = "approvals"
	}
	if q.Elicit, err = answersHere(f.answers, grants.Presented{}); err != nil {
		return err
	}
	// A person that names hosts has TLS before it; the warning is below.
	l, err := listen.Open(ctx, listen.Address{Listen: f.listen, Example: "127.0.0.1:8123", Hosts: f.hosts, Secure: true})
	if err != nil {
		return err
	}
	s.errorf("serving MCP on http://%s  (stop with Ctrl-C)\n", l.Addr())
	if len(f.hosts) > 0 {
		s.errorf("%s reachable from other machines: tokens are sent unencrypted unless TLS terminates before it\n", s.paintErr(yellow, "!"))
	}
	s.trusting(f.proxies)
	q.Started = s.servingMCP
	if err := a.ServeMCPOverHTTP(ctx, q, l, f.hosts); err != nil {
		return err
	}
	return exit(130) // it ends only by an interrupt
}

// answersHere reads --answers.
func answersHere(who string, g grants.Presented) (bool, error) {
	switch who {
	case "":
		return g.Token == "", nil
	case "client":
		return true, nil
	case "approvals":
		return false, nil
	}
	return false, fault.New(fault.Usage, "--answers %q is not valid; expected client or approvals", who)
}

// serveMCP serves on standard input and output. Standard output carries only the
// protocol.
func (s *session) serveMCP(ctx context.Context, a *app.App, q app.MCPRequest) error {
	in, ok := s.In.(io.ReadCloser)
	if !ok {
		in = io.NopCloser(s.In)
	}
	q.Started = s.servingMCP
	err := a.ServeMCP(ctx, q, in, keepOpen{s.Out})
	if ctx.Err() != nil && err == nil {
		return exit(130)
	}
	return err
}

// servingMCP prints a client's run to standard error, which clients keep in their
// logs.
func (s *session) servingMCP(run *runner.Run, h policies.Hint) {
	s.errorf("%s is run %s\n", show(run.Grant.Holder()), run.ID)
	s.warn(h)
}

// keepOpen ignores Close: the stream belongs to the process.
type keepOpen struct{ io.Writer }

func (keepOpen) Close() error { return nil }
