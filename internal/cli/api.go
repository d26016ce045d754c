package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/service/apis"
	"github.com/remitrun/remit/internal/service/servers"
	"github.com/remitrun/remit/internal/tools/source/openapi"
)

func (s *session) apiCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "api",
		Short: "Add tools from OpenAPI documents",
		Long: `Each operation of an added document is a tool with the ID api:NAME:OPERATION.
The policy decides its requests as it does those of any other tool. Credentials
come from remit secret and are added when a request leaves, so callers never
see them.
`,
		Example: `  remit api add petstore petstore.yaml
  remit api add github https://example.com/github.json --auth bearer=github
  remit api show petstore`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(s.apiAddCmd(), s.apiListCmd(), s.apiShowCmd(), s.apiRemoveCmd(), s.apiLoginCmd(), s.apiLogoutCmd())
	return c
}

func (s *session) apiAddCmd() *cobra.Command {
	var q apis.Addition
	var auth, scopes []string
	var tokenURL, authorizeURL string
	c := &cobra.Command{
		Use:   "add NAME FILE|URL",
		Short: "Add the operations of an OpenAPI document (3.0 or 3.1) as tools",
		Long: `The document is JSON or YAML. Remit keeps a copy; to take over later changes,
add it again with --replace. References to other documents are refused. A URL
is fetched by a recorded call that can reach only that URL.

--auth sets a credential for requests. SECRET is the name of a remit secret:
  bearer=SECRET           Authorization: Bearer ...
  basic=USER:SECRET       Authorization: Basic ...
  header=NAME:SECRET      another header, such as X-Api-Key
  query=NAME:SECRET       a query parameter
  oauth=CLIENT:SECRET     OAuth 2.0 client credentials, with --token-url
  login=CLIENT[:SECRET]   a person signs in, with --authorize-url and
                          --token-url; see remit api login
The secrets section of the policy must allow sending it to the host.
`,
		Example: `  remit api add petstore petstore.yaml
  remit api add github github.json --auth bearer=github`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			q.Name, q.From = args[0], args[1]
			var err error
			if q.Auth, err = parseAuths(args[0], auth, tokenURL, authorizeURL, scopes); err != nil {
				return err
			}
			a, err := s.open()
			if err != nil {
				return err
			}
			busy := s.startActivity("reading the document")
			one, err := a.APIs.Add(cmd.Context(), q)
			busy.stop()
			if err != nil {
				return err
			}
			if s.json {
				return s.printJSON(one)
			}
			s.printf("%s %s: %d tools, api:%s:…, at %s\n", s.paint(green, "✓"), one.Name, one.Operations, one.Name, show(one.Base))
			if len(one.Auth) == 0 && len(one.Wants) > 0 {
				s.printf("  the document names credentials; to set them, add it again with --replace --auth %s\n", show(strings.Join(one.Wants, ", or ")))
			}
			return nil
		},
	}
	fl := c.Flags()
	fl.StringVar(&q.Base, "base", "", "base `URL` of requests (default: the document's first server)")
	fl.StringArrayVar(&auth, "auth", nil, "`CREDENTIAL` for requests, see above (repeatable)")
	fl.StringVar(&tokenURL, "token-url", "", "`URL` that issues OAuth tokens")
	fl.StringVar(&authorizeURL, "authorize-url", "", "`URL` where people sign in")
	fl.StringSliceVar(&scopes, "scopes", nil, "OAuth `SCOPES` to request, separated by commas")
	fl.BoolVar(&q.Replace, "replace", false, "replace the API of this name")
	return c
}

// parseAuths parses the values of --auth, and adds the URLs and scopes to those that need them.
func parseAuths(api string, words []string, tokenURL, authorizeURL string, scopes []string) ([]openapi.Auth, error) {
	var out []openapi.Auth
	for _, text := range words {
		one, err := parseAuth(api, text)
		if err != nil {
			return nil, err
		}
		if one.Kind == openapi.OAuth || one.Kind == openapi.Login {
			one.TokenURL, one.Scopes = tokenURL, scopes
		}
		if one.Kind == openapi.Login {
			one.AuthorizeURL = authorizeURL
		}
		if err := one.Check(); err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

// parseAuth parses the value of --auth, for an API of this name.
func parseAuth(api, text string) (openapi.Auth, error) {
	kind, rest, ok := strings.Cut(text, "=")
	a := openapi.Auth{Kind: kind, Secret: rest}
	switch kind {
	case openapi.Bearer:
	case openapi.Login:
		a.Name, a.ClientSecret, _ = strings.Cut(rest, ":")
		a.Secret = apis.LoginSecret(api)
	default:
		i := strings.LastIndex(rest, ":")
		if i < 0 {
			ok, i = false, 0
		}
		a.Name, a.Secret = rest[:i], strings.TrimPrefix(rest[i:], ":")
	}
	if !ok || a.Secret == "" {
		return a, fault.New(fault.Usage, "--auth %q is not a valid credential", kind).
			WithHint("expected bearer=SECRET, basic=USER:SECRET, header=NAME:SECRET, query=NAME:SECRET, oauth=CLIENT:SECRET or login=CLIENT[:SECRET]")
	}
	return a, nil
}

func (s *session) apiLoginCmd() *cobra.Command {
	var q apis.LogIn
	c := &cobra.Command{
		Use:   "login NAME",
		Short: "Sign in at the service of an API",
		Long: `For an API that was added with --auth login=CLIENT. Remit prints a URL to open
in your browser, waits on loopback for the redirect, and stores the tokens as
the secret api-login-NAME. It adds them to requests and renews them, and never
shows them. The sign-in is recorded as a run, without the tokens.

The service must know the redirect URL: either any port of 127.0.0.1 with the
path /callback, or the one that --redirect names.
`,
		Example: `  remit api login drive
  remit api login drive --redirect http://127.0.0.1:8765/callback`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := s.open()
			if err != nil {
				return err
			}
			q.Show = func(url string) { s.errorf("open this URL in your browser to sign in:\n%s\n", show(url)) }
			if err := a.APIs.LogIn(cmd.Context(), args[0], q); err != nil {
				return err
			}
			s.say("%s signed in for %s; a policy lets calls use it with secrets: {name: %s}\n", s.paint(green, "✓"), args[0], apis.LoginSecret(args[0]))
			return nil
		},
	}
	c.Flags().StringVar(&q.Redirect, "redirect", "", "loopback `URL` for the redirect (default: a free port)")
	return c
}

func (s *session) apiLogoutCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "logout NAME",
		Short:   "Delete the stored sign-in of an API",
		Long:    "The tokens stay valid at the service until they expire or are revoked there.\n",
		Example: "  remit api logout drive",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			a, err := s.open()
			if err != nil {
				return err
			}
			if err := a.APIs.LogOut(args[0]); err != nil {
				return err
			}
			s.say("%s sign-in of %s deleted\n", s.paint(green, "✓"), args[0])
			return nil
		},
	}
}

// helperTools are the tools with runs of a single call that no person or agent began.
func helperTools() []tool.ID { return append(servers.HelperTools(), apis.HelperTools()...) }

func (s *session) apiListCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the added OpenAPI documents",
		Example: "  remit api list",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			a, err := s.open()
			if err != nil {
				return err
			}
			list, err := a.APIs.List()
			if err != nil {
				return err
			}
			if s.json {
				if list == nil {
					list = []apis.API{}
				}
				return s.printJSON(list)
			}
			var rows [][]cell
			for _, one := range list {
				rows = append(rows, []cell{{one.Name, bold}, {fmt.Sprint(one.Operations), ""}, {one.Base, ""}, {orDash(authText(one.Auth)), ""}, {one.Title, ""}})
			}
			s.tableOr("no APIs; add one with remit api add NAME FILE", []string{"API", "TOOLS", "URL", "CREDENTIAL", "TITLE"}, rows)
			return nil
		},
	}
}

func authText(list []openapi.Auth) string {
	var out []string
	for _, a := range list {
		text := a.Kind + " " + a.Secret
		if a.Kind == openapi.Login {
			text = a.Kind + " " + a.Name
		}
		if a.Kind == openapi.Header || a.Kind == openapi.Query {
			text = a.Kind + " " + a.Name + " " + a.Secret
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

func (s *session) apiShowCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "show NAME",
		Short:   "Show an API: its URL, credentials and tools",
		Example: "  remit api show petstore",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			a, err := s.open()
			if err != nil {
				return err
			}
			one, err := a.APIs.Find(args[0])
			if err != nil {
				return err
			}
			doc, err := a.APIs.Document(one)
			if err != nil {
				return err
			}
			return s.printAPI(one, doc)
		},
	}
}

// operationJSON is an operation as --json prints it.
type operationJSON struct {
	ID     string `json:"id"`
	Method string `json:"method"`
	Path   string `json:"path"`
	Title  string `json:"title"`
}

func (s *session) printAPI(one apis.API, doc *openapi.Document) error {
	if s.json {
		list := make([]operationJSON, len(doc.Operations))
		for i, op := range doc.Operations {
			list[i] = operationJSON{"api:" + one.Name + ":" + op.Name, op.Method, op.Path, op.Title}
		}
		return s.printJSON(struct {
			apis.API

			Tools []operationJSON `json:"tools"`
		}{one, list})
	}
	s.printf("%s  %s %s\n\n", s.paint(bold, one.Name), show(one.Title), show(one.Version))
	s.printf("from        %s\nadded       %s\nurl         %s\ncredential  %s\n\n", show(one.From), one.Added.Local().Format(time.DateTime), show(one.Base), orDash(show(authText(one.Auth))))
	var rows [][]cell
	for _, op := range doc.Operations {
		rows = append(rows, []cell{{"api:" + one.Name + ":" + op.Name, bold}, {op.Method, methodColour(op.Method)}, {op.Path, ""}, {op.Title, ""}})
	}
	s.table([]string{"TOOL", "METHOD", "PATH", "DESCRIPTION"}, rows)
	return nil
}

func methodColour(method string) colour {
	switch method {
	case "GET", "HEAD", "OPTIONS", "TRACE":
		return ""
	case "DELETE":
		return red
	}
	return yellow
}

func (s *session) apiRemoveCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "remove NAME",
		Short:   "Remove an API and its tools",
		Example: "  remit api remove petstore",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			a, err := s.open()
			if err != nil {
				return err
			}
			if err := a.APIs.Remove(args[0]); err != nil {
				return err
			}
			if s.json {
				return s.printJSON(map[string]any{"removed": args[0]})
			}
			s.printf("%s %s removed\n", s.paint(green, "✓"), args[0])
			return nil
		},
	}
}
