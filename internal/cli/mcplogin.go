package cli

import (
	"bufio"
	"strings"

	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/service/servers"
)

func (s *session) mcpLoginCmd() *cobra.Command {
	var q servers.LogIn
	var at []string
	var anywhere bool
	c := &cobra.Command{
		Use:   "login NAME",
		Short: "Log in to a remote MCP server",
		Long: `Logs in with OAuth 2.1 and PKCE. Remit prints a URL to open in your browser,
waits on loopback for the redirect, and stores the tokens as secrets. It adds
them to requests and renews them, and never shows them. The login is recorded
as a run, without the tokens.

If the server names an authorization server at another origin, you are asked
first; --at allows one origin in advance, --anywhere all.

--client-id and --client-secret name a client that is registered with the
service. Without them Remit registers itself, if the service allows it. With
--service the client's own credentials are used and no person signs in.
--client-secret is the name of a secret that remit secret set stored.
`,
		Example: `  remit mcp login tracker
  remit mcp login tracker --at https://auth.example.com
  remit mcp login reports --service --client-id remit \
    --client-secret reports-client`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := s.open()
			if err != nil {
				return err
			}
			if q.Service && (q.ClientID == "" || q.ClientSecret == "") {
				return fault.New(fault.Usage, "--service needs --client-id and --client-secret")
			}
			q.Show = func(url string) { s.errorf("open this URL in your browser to sign in:\n%s\n", show(url)) }
			q.Confirm = func(origin string) (bool, error) { return s.confirmOrigin(origin, at, anywhere) }
			if err := a.Servers.LogIn(cmd.Context(), args[0], q); err != nil {
				return err
			}
			s.say("%s logged in to %s  %s\n", s.paint(green, "✓"), args[0], s.paint(dim, "remit mcp test "+args[0]))
			return nil
		},
	}
	fl := c.Flags()
	fl.StringVar(&q.ClientID, "client-id", "", "`ID` of a registered client (default: Remit registers itself)")
	fl.StringVar(&q.ClientSecret, "client-secret", "", "`NAME` of the remit secret with the client's secret")
	fl.StringVar(&q.MetadataURL, "client-metadata", "", "`URL` of a client metadata document")
	fl.StringVar(&q.Redirect, "redirect", "", "loopback `URL` for the redirect (default: a free port)")
	fl.BoolVar(&q.Service, "service", false, "use client credentials; no person signs in")
	fl.StringArrayVar(&at, "at", nil, "allow the authorization server at this `ORIGIN`, such as https://auth.example.com (repeatable)")
	fl.BoolVar(&anywhere, "anywhere", false, "allow any authorization server that the MCP server names")
	return c
}

// confirmOrigin asks whether to log in at an origin.
func (s *session) confirmOrigin(origin string, at []string, anywhere bool) (bool, error) {
	for _, o := range at {
		if strings.TrimSuffix(o, "/") == origin {
			return true, nil
		}
	}
	if anywhere {
		return true, nil
	}
	if !isTerminal(s.In) {
		return false, fault.New(fault.Usage, "the server sends the login to %s, and no terminal is attached to confirm it", origin).WithHint("if you trust it, add --at %s", origin)
	}
	s.errorf("the server sends the login to %s\n  continue there? [y/N] ", show(origin))
	line, err := bufio.NewReader(s.In).ReadString('\n')
	if err != nil {
		return false, nil //nolint:nilerr // no answer means no
	}
	return strings.EqualFold(strings.TrimSpace(line), "y"), nil
}

func (s *session) mcpLogoutCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "logout NAME",
		Short:   "Delete the stored login of an MCP server",
		Long:    "The tokens stay valid at the server until they expire or are revoked there.\n",
		Example: "  remit mcp logout tracker",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			a, err := s.open()
			if err != nil {
				return err
			}
			if err := a.Servers.LogOut(args[0]); err != nil {
				return err
			}
			s.say("%s login of %s deleted\n", s.paint(green, "✓"), args[0])
			return nil
		},
	}
}
