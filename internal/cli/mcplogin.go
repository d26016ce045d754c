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
		Short: "Log in at an MCP server elsewhere",
		Long: `Logs in as the server asks for it (OAuth 2.1 with PKCE): prints a URL where you sign
in, waits on loopback for your browser to come back, and keeps the tokens among the
secrets. They are added to the server's requests and renewed by themselves, and are
never shown. The login is a run in the ledger, without them.

Requests go to the server's own origin. Where it says that the login is elsewhere,
you are asked first; --at answers for one origin, --anywhere for all.

--client-id and --client-secret name a client that is registered there; without
them Remit registers itself where the server allows that. --service uses these
credentials themselves (client credentials), and no person signs in. The secret is
one that remit secret set keeps, by its name.
`,
		Example: `  remit mcp login tracker
  remit mcp login tracker --at https://auth.example.com
  remit mcp login reports --service --client-id remit --client-secret reports-client`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := s.open()
			if err != nil {
				return err
			}
			if q.Service && (q.ClientID == "" || q.ClientSecret == "") {
				return fault.New(fault.Usage, "--service needs --client-id and --client-secret")
			}
			q.Show = func(url string) { s.errorf("sign in here, in your browser:\n%s\n", show(url)) }
			q.Confirm = func(origin string) (bool, error) { return s.confirmOrigin(origin, at, anywhere) }
			if err := a.Servers.LogIn(cmd.Context(), args[0], q); err != nil {
				return err
			}
			s.say("%s logged in at %s  %s\n", s.paint(green, "✓"), args[0], s.paint(dim, "remit mcp test "+args[0]))
			return nil
		},
	}
	fl := c.Flags()
	fl.StringVar(&q.ClientID, "client-id", "", "a client that is registered there (default: Remit registers itself)")
	fl.StringVar(&q.ClientSecret, "client-secret", "", "the name of the stored secret of that client")
	fl.StringVar(&q.MetadataURL, "client-metadata", "", "the URL where the client describes itself, for servers that read that")
	fl.StringVar(&q.Redirect, "redirect", "", "the URL of loopback where your browser comes back (default: a free port)")
	fl.BoolVar(&q.Service, "service", false, "use the client's own credentials; no person signs in")
	fl.StringArrayVar(&at, "at", nil, "an origin where the login may be, as https://auth.example.com (repeatable)")
	fl.BoolVar(&anywhere, "anywhere", false, "let the login be wherever the server says")
	return c
}

// confirmOrigin asks whether the login may go on at an origin.
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
		return false, fault.New(fault.Usage, "the server says that the login is at %s, and nobody is here to confirm it", origin).WithHint("--at %s", origin)
	}
	s.errorf("the server says that the login is at %s\n  go on there? [y/N] ", show(origin))
	line, err := bufio.NewReader(s.In).ReadString('\n')
	if err != nil {
		return false, nil //nolint:nilerr // no answer is a no
	}
	return strings.EqualFold(strings.TrimSpace(line), "y"), nil
}

func (s *session) mcpLogoutCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "logout NAME",
		Short:   "Forget a login at an MCP server; the server is not told",
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
			s.say("%s the login at %s is forgotten\n", s.paint(green, "✓"), args[0])
			return nil
		},
	}
}
