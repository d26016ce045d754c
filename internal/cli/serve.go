package cli

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/service/home"
)

// defaultListen is where the service listens where nothing else is said.
const defaultListen = "127.0.0.1:8642"

func (s *session) serveCmd() *cobra.Command {
	var q app.ServeRequest
	var dir string
	c := &cobra.Command{
		Use:   "serve",
		Short: "Serve the HTTP API, and MCP over HTTP",
		Long: `Serves agents, sessions, tools, runs, grants, approvals, the audit and policies at /v1,
described by /v1/openapi.json, and MCP clients at /mcp. Every request presents a
grant; what it may ask for, the section api of the grant's policies says.

At the first start the admin's grant is made. It is shown once and kept in
$REMIT_HOME/keys/admin.token, which only you can read. It is under -p, else under the
workspace's trusted remit.yaml, else under a built-in policy that opens the API and
models, and nothing of this machine; a policy without a section api is given one that
allows all of it, for the admin alone. A policy that was changed since bounds the token,
all that derives from it and sessions that go on, besides the policy that the token was
made under. --new-token makes a new token under the present policy alone; it revokes
the old one, and with it all that derives from it.

It listens on loopback unless told otherwise. Other addresses need a certificate (or
--insecure-public, where something before it has TLS), and the names by which clients
call them. SIGTERM and Ctrl-C end it: streams are told, turns may finish for a while,
and those that do not can be resumed.
`,
		Example: `  remit serve
  remit serve --listen 127.0.0.1:9000 -p policy.yaml -w ~/project
  remit serve --listen 0.0.0.0:443 --allow-host remit.example --tls-cert cert.pem --tls-key key.pem`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if g, _ := s.lookup("REMIT_GRANT"); g != "" {
				return fault.New(fault.Denied, "whoever acts under a grant does not serve others").WithHint("start it from a shell without REMIT_GRANT")
			}
			a, err := s.open()
			if err != nil {
				return err
			}
			if q.Workspace, err = home.Workspace(dir); err != nil {
				return err
			}
			if q.Limits.Rate < 0 {
				return fault.New(fault.Usage, "--rate is a number above 0")
			}
			q.Ready = s.serving
			if err := a.Serve(cmd.Context(), q); err != nil {
				return err
			}
			s.errorf("ended\n")
			return nil // only a signal ends it, and that is how it is meant to end
		},
	}
	fl := c.Flags()
	fl.StringVar(&q.Listen, "listen", defaultListen, "the address and port")
	fl.StringVarP(&q.Policy, "policy", "p", "", "the policy of the admin's grant")
	fl.StringVarP(&dir, "workspace", "w", "", "the workspace (default: the current folder)")
	fl.BoolVar(&q.NewToken, "new-token", false, "make a new token for the admin and revoke the old one")
	fl.StringArrayVar(&q.Hosts, "allow-host", nil, "a name by which clients may call, besides loopback's (repeatable)")
	fl.StringVar(&q.Cert, "tls-cert", "", "the file of a certificate")
	fl.StringVar(&q.Key, "tls-key", "", "the file of its key")
	fl.BoolVar(&q.Public, "insecure-public", false, "listen on an address that others reach without TLS")
	fl.Float64Var(&q.Limits.Rate, "rate", 0, "requests a second of one grant (default 10000)")
	durationVar(c, &q.Limits.Drain, "drain", 20*time.Second, "how long what is under way may go on when the service is told to end")
	return c
}

// serving tells the person that requests are answered, and with which token.
func (s *session) serving(v app.Served) {
	if s.json {
		out := map[string]any{"url": v.URL, "token_file": v.File, "expires": v.Until, "policy": string(v.Policy.Source()), "policy_from": v.Why}
		if v.Token != "" {
			out["token"] = v.Token
		}
		if v.Older {
			out["older_token"] = true
		}
		if err := s.printJSON(out); err != nil {
			s.errorf("%v\n", err)
		}
		return
	}
	s.printf("%s serving on %s\n", s.paint(green, "✓"), v.URL)
	s.printf("  policy  %s\n", show(v.Why))
	for line := range strings.Lines(string(v.Policy.Source())) {
		s.printf("    %s\n", s.paint(dim, show(strings.TrimRight(line, "\r\n"))))
	}
	if v.Hint != "" {
		s.printf("  %s %s\n", s.paint(yellow, "!"), show(string(v.Hint)))
	}
	if v.Token != "" {
		s.printf("  token   of %s, until %s, shown this once and kept in %s:\n\n%s\n\n", show(v.Holder), v.Until.Local().Format(time.DateOnly), show(v.File), v.Token)
	} else {
		s.printf("  token   in %s, until %s\n", show(v.File), v.Until.Local().Format(time.DateOnly))
	}
	if v.Older {
		s.printf("  %s the token was made under another policy, which bounds it too; --new-token makes one under this policy alone and ends the old one\n", s.paint(yellow, "!"))
	}
	if v.Replace {
		s.printf("  %s the old token was revoked, and all that derives from it\n", s.paint(yellow, "!"))
	}
	if v.Public && !v.TLS {
		s.printf("  %s others than this machine may reach it: grants travel as they are unless TLS is before it\n", s.paint(yellow, "!"))
	}
	if v.Traced != "" {
		s.printf("  traces  to %s\n", show(v.Traced))
	}
}
