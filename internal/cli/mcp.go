package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/service/grants"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/policies"
)

func (s *session) mcpCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "mcp",
		Short: "Let MCP clients use the tools",
		Long: `remit mcp serve makes Remit an MCP server: a client such as Claude Code or Codex
sees the tools that its grant could allow, and every call is decided, recorded and
confined as from any other door.
`,
		Example: "  remit mcp serve -p policy.yaml -w ~/project",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(s.mcpServeCmd(), s.mcpAddCmd(), s.mcpListCmd(), s.mcpShowCmd(), s.mcpTestCmd(), s.mcpLoginCmd(), s.mcpLogoutCmd(), s.mcpRemoveCmd(), s.mcpImportCmd())
	return c
}

// mcpServe are the flags of remit mcp serve that are not of the request itself.
type mcpServe struct {
	dir, answers, listen string
	hosts                []string
	presented            func() (grants.Presented, error)
}

func (s *session) mcpServeCmd() *cobra.Command {
	var q app.MCPRequest
	var f mcpServe
	c := &cobra.Command{
		Use:   "serve",
		Short: "Serve the tools to MCP clients",
		Long: `An MCP client starts this command and talks to it on standard input and output. The
connection is one run in the ledger. Tools of which the policy denies every call are
not listed. A denied call is an error that tells the model the rule and what is
allowed instead.

With --listen it serves many clients over HTTP, each under the grant that it
presents as its bearer token and in a run of its own; -p narrows them all. It
listens on loopback alone, and refuses requests that name another host or come from
a web page of another origin.

With --server one MCP server stands behind the gateway alone, and its tools,
resources and prompts have the names that it gives them: for clients that were
made for that server. Every call is decided and recorded as ever, by its ID.

Where the policy asks, the person at the client is asked, if the client can show
them a form (elicitation). The answer is worth as much as the client is: with
--answers approvals questions are left to remit approvals, as they always are
under a grant, and where the policy wants an admin or several people. A call that
nobody answers at the client comes back with the command that answers it.
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
				return fault.New(fault.Usage, "with --listen every client presents a grant of its own").WithHint("leave out --grant")
			}
			return s.mcpListen(cmd.Context(), q, f)
		},
	}
	f.presented = s.presented(c)
	fl := c.Flags()
	fl.StringVarP(&q.Policy, "policy", "p", "", "the policy that the client is under")
	fl.StringVarP(&f.dir, "workspace", "w", "", "the workspace (default: the current folder)")
	fl.StringVar(&f.answers, "answers", "", "who answers what the policy asks: client or approvals (default: client; under a grant, approvals)")
	fl.StringVar(&f.listen, "listen", "", "serve over HTTP on this address of loopback, as 127.0.0.1:8123")
	fl.StringArrayVar(&f.hosts, "allow-host", nil, "with --listen, a name by which clients may call besides loopback's (repeatable)")
	fl.StringVar(&q.Server, "server", "", "serve this MCP server alone, under its own names for tools, resources and prompts")
	fl.BoolVar(&q.Wait, "wait", false, "let calls wait for remit approvals, as long as the policy gives")
	fl.BoolVar(&q.Changeset, "changeset", false, "hold what is written until it is applied with remit changes")
	return c
}

// mcpServeHere serves the one client that started this command.
func (s *session) mcpServeHere(ctx context.Context, q app.MCPRequest, f mcpServe) error {
	if len(f.hosts) > 0 {
		return fault.New(fault.Usage, "--allow-host is for --listen")
	}
	if isTerminal(s.In) {
		return fault.New(fault.Usage, "an MCP client starts this command and talks to it; a terminal cannot").
			WithHint("put it into your client's configuration, as in the examples of --help")
	}
	a, err := s.openMCP(&q, f.dir)
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

// openMCP opens what is served, once it is known to be there.
func (s *session) openMCP(q *app.MCPRequest, dir string) (*app.App, error) {
	a, err := s.open()
	if err == nil && q.Server != "" {
		_, err = a.Servers.Find(q.Server)
	}
	if err == nil {
		q.Workspace, err = home.Workspace(dir)
	}
	return a, err
}

// mcpListen serves over HTTP.
func (s *session) mcpListen(ctx context.Context, q app.MCPRequest, f mcpServe) error {
	a, err := s.openMCP(&q, f.dir)
	if err != nil {
		return err
	}
	if f.answers == "" {
		f.answers = "approvals"
	}
	if q.Elicit, err = answersHere(f.answers, grants.Presented{}); err != nil {
		return err
	}
	l, err := app.ListenMCP(ctx, f.listen, f.hosts)
	if err != nil {
		return err
	}
	s.errorf("serving MCP on http://%s  (stop with Ctrl-C)\n", l.Addr())
	if len(f.hosts) > 0 {
		s.errorf("%s others than this machine may reach it: tokens travel as they are unless TLS is before it\n", s.paintErr(yellow, "!"))
	}
	q.Started = s.servingMCP
	if err := a.ServeMCPOverHTTP(ctx, q, l, f.hosts); err != nil {
		return err
	}
	return exit(130) // only an interrupt ends it
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
	return false, fault.New(fault.Usage, "--answers %q is neither client nor approvals", who)
}

// serveMCP serves on this process's own streams. Nothing but the protocol goes to
// standard output.
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

// servingMCP tells on standard error, which clients keep in their logs, which run a
// client is.
func (s *session) servingMCP(run *runner.Run, h policies.Hint) {
	s.errorf("%s is run %s\n", show(run.Grant.Holder()), run.ID)
	if h != "" {
		s.errorf("%s %s\n", s.paintErr(yellow, "!"), show(string(h)))
	}
}

// keepOpen is a stream that others close.
type keepOpen struct{ io.Writer }

func (keepOpen) Close() error { return nil }
