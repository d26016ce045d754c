package cli

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/doors/listen"
	"github.com/remitrun/remit/internal/service/home"
)

// defaultListen is the default address of the service.
const defaultListen = "127.0.0.1:8642"

// serveHelp is the help of remit serve.
const serveHelp = `Serves the API at /v1 (agents, sessions, tools, runs, grants, approvals, audit,
policies), its description at /v1/openapi.json, and MCP clients at /mcp. Each
request presents a grant; the api section of the grant's policies lists its
operations. remit ui opens the web UI.

The first start creates the admin's grant. Its token is shown once and kept in
$REMIT_HOME/keys/admin.token, which only you can read. The grant's policy is
-p, or else the workspace's trusted remit.yaml, or else a built-in policy that
allows the API and models but no files, commands or network. If the policy has
no api section, one is added that allows the admin everything.

If that policy changes later, its old and new versions both limit the token,
grants derived from it, and resumed sessions. --new-token creates a token under
the new version only, and revokes the old token and all grants derived from it.

The service listens on loopback by default. Another address needs a certificate
(or --insecure-public, if TLS terminates before it) and --allow-host. SIGTERM
and Ctrl-C stop it: streams are notified, running turns get time to finish, and
unfinished turns can be resumed.

Limits on clients without a grant count by address. Behind a proxy, name its
address with --proxy: X-Forwarded-For then gives the client's. Name only proxies
that set or extend this header, and no networks with clients. The header
Forwarded does not count. With --proxy-protocol each connection of these
addresses must begin with a header of the PROXY protocol, version 1 or 2, which
gives the client's address.
`

func (s *session) serveCmd() *cobra.Command {
	var q app.ServeRequest
	var dir, database string
	var proxies []string
	var hide bool
	c := &cobra.Command{
		Use:   "serve",
		Short: "Serve the HTTP API, the web UI, and MCP over HTTP",
		Long:  serveHelp,
		Example: `  remit serve
  remit serve --listen 127.0.0.1:9000 -p policy.yaml -w ~/project
  remit serve --listen 0.0.0.0:443 --allow-host remit.example \
    --tls-cert cert.pem --tls-key key.pem`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if g, _ := s.lookup("REMIT_GRANT"); g != "" {
				return fault.New(fault.Denied, "a process that runs under a grant cannot start the service").WithHint("start it from a shell without REMIT_GRANT")
			}
			var err error
			if q.Limits.Proxies, err = listen.Proxies(proxies); err == nil {
				err = checkProxyProtocol(q.Limits.ProxyHeader, proxies)
			}
			if err != nil {
				return err
			}
			s.useDatabase(database)
			a, err := s.open()
			if err != nil {
				return err
			}
			if q.Workspace, err = home.Workspace(dir); err != nil {
				return err
			}
			if q.Limits.Rate < 0 {
				return fault.New(fault.Usage, "--rate must be above 0")
			}
			q.Ready = func(v app.Served) {
				if hide {
					v.Token = ""
				}
				s.serving(v)
				s.trusting(proxies)
			}
			s.warnOfUpdate(cmd.Context(), a.Home)
			if err := a.Serve(cmd.Context(), q); err != nil {
				return err
			}
			s.errorf("stopped\n")
			return nil // it ends only by a signal, which is success
		},
	}
	c.Flags().StringVar(&database, "db", "", "`URL` of a PostgreSQL database with the ledger (default: REMIT_DB, then config.yaml; see remit db)")
	c.Flags().StringVarP(&dir, "workspace", "w", "", "workspace `DIR` (default: the current folder)")
	c.Flags().BoolVar(&hide, "hide-token", false, "do not print the admin's token, which a log would keep")
	proxyFlag(c, &proxies, &q.Limits.ProxyHeader)
	serveFlags(c, &q)
	return c
}

// serveFlags adds the flags of a request to serve.
func serveFlags(c *cobra.Command, q *app.ServeRequest) {
	fl := c.Flags()
	fl.StringVar(&q.Listen, "listen", defaultListen, "`ADDRESS` and port")
	fl.StringVarP(&q.Policy, "policy", "p", "", "policy `FILE` of the admin's grant")
	fl.BoolVar(&q.NewToken, "new-token", false, "create a new admin token and revoke the old one")
	fl.StringArrayVar(&q.Hosts, "allow-host", nil, "another host `NAME` that clients may use (repeatable)")
	fl.StringVar(&q.Cert, "tls-cert", "", "certificate `FILE`")
	fl.StringVar(&q.Key, "tls-key", "", "`FILE` with the certificate's key")
	fl.BoolVar(&q.Public, "insecure-public", false, "allow a public address without TLS")
	fl.StringVar(&q.Workers, "workers", "", "also take workers at this `ADDRESS` and port, as 127.0.0.1:8643")
	fl.Float64Var(&q.Limits.Rate, "rate", 0, "maximum requests per second per grant, over all processes of the ledger (default 10000 per process)")
	durationVar(c, &q.Limits.Drain, "drain", 20*time.Second, "time for running turns to finish when the service stops")
}

// proxyFlag adds --proxy and --proxy-protocol, which commands that serve over HTTP have.
func proxyFlag(c *cobra.Command, to *[]string, header *bool) {
	c.Flags().BoolVar(header, "proxy-protocol", false, "connections from --proxy begin with a header of the PROXY protocol, version 1 or 2")
	c.Flags().StringArrayVar(to, "proxy", nil, "address or `NETWORK` of a proxy whose X-Forwarded-For counts, as 10.0.0.0/24 (repeatable)")
}

// checkProxyProtocol refuses --proxy-protocol where no address is trusted.
func checkProxyProtocol(header bool, proxies []string) error {
	if header && len(proxies) == 0 {
		return fault.New(fault.Usage, "--proxy-protocol needs --proxy").WithHint("name the address of the proxy with --proxy")
	}
	return nil
}

// trusting warns of proxies, which choose the clients' addresses.
func (s *session) trusting(proxies []string) {
	if len(proxies) > 0 {
		s.errorf("%s X-Forwarded-For counts from %s: clients there can choose their address in limits and records\n", s.paintErr(yellow, "!"), strings.Join(proxies, ", "))
	}
}

// serving prints that the service is ready, its policy and its token.
func (s *session) serving(v app.Served) {
	if s.json {
		out := map[string]any{"url": v.URL, "ui": v.UI, "token_file": v.File, "expires": v.Until, "policy": string(v.Policy.Source()), "policy_from": v.Why}
		if v.Token != "" {
			out["token"] = v.Token
		}
		if v.Older {
			out["older_token"] = true
		}
		if v.Workers != "" {
			out["workers"] = v.Workers
		}
		if err := s.printJSON(out); err != nil {
			s.errorf("%v\n", err)
		}
		return
	}
	s.printf("%s serving on %s\n", s.paint(green, "✓"), v.URL)
	s.printf("  web UI  remit ui opens it\n")
	if v.Workers != "" {
		s.printf("  workers %s\n", v.Workers)
	}
	s.printf("  policy  %s\n", show(v.Why))
	for line := range strings.Lines(string(v.Policy.Source())) {
		s.printf("    %s\n", s.paint(dim, show(strings.TrimRight(line, "\r\n"))))
	}
	if v.Hint != "" {
		s.printf("  %s %s\n", s.paint(yellow, "!"), show(string(v.Hint)))
	}
	if v.Token != "" {
		s.printf("  token   of %s, valid until %s, shown once and kept in %s:\n\n%s\n\n", show(v.Holder), v.Until.Local().Format(time.DateOnly), show(v.File), v.Token)
	} else {
		s.printf("  token   in %s, valid until %s\n", show(v.File), v.Until.Local().Format(time.DateOnly))
	}
	if v.Older {
		s.printf("  %s the token was created under an older policy, which still limits it; --new-token replaces it\n", s.paint(yellow, "!"))
	}
	if v.Replace {
		s.printf("  %s the old token and all grants derived from it were revoked\n", s.paint(yellow, "!"))
	}
	if v.Public && !v.TLS {
		s.printf("  %s reachable from other machines: tokens are sent unencrypted unless TLS terminates before it\n", s.paint(yellow, "!"))
	}
	if v.Traced != "" {
		s.printf("  traces  to %s\n", show(v.Traced))
	}
}
