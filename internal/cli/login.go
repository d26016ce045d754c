package cli

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/confine/secret"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/logins"
)

// loggedIn is what remit login prints with --json.
type loggedIn struct {
	URL    string     `json:"url"`
	Secret string     `json:"secret,omitempty"`
	File   string     `json:"file,omitempty"`
	Until  *time.Time `json:"expires_at,omitempty"`
}

func (s *session) loginCmd() *cobra.Command {
	var policyFile, name, file string
	var lasts time.Duration
	var bare bool
	c := &cobra.Command{
		Use:   "login URL",
		Short: "Get a grant of a service, confirmed in a browser elsewhere",
		Long: `Shows a code and an address of the service (remit serve). Open the address in a
browser on any machine, sign in there, and enter the code: you see the request,
can narrow it, and confirm. The grant derives from that of the browser.

The token is stored as a secret named login-HOST, for policies and MCP servers
(secret: {header: Authorization, store: login-HOST, prefix: "Bearer "}). --file
writes it to a file that only you can read, for curl and other clients; --print
prints it and nothing else.
`,
		Example: `  remit login https://remit.example
  remit login https://remit.example --policy ci.yaml --lasts 2h
  TOKEN=$(remit login https://remit.example --print)`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			origin, err := logins.Origin(args[0])
			if err != nil {
				return err
			}
			q := logins.LogInRequest{URL: origin, Show: s.showCode}
			if q.Request, err = loginRequest(policyFile, lasts); err != nil {
				return err
			}
			if name == "" {
				name = secretFor(origin)
			}
			if err := secret.CheckName(name); err != nil {
				return fault.New(fault.Usage, "%v", err)
			}
			got, err := logins.LogIn(cmd.Context(), q)
			if err != nil {
				return err
			}
			if bare {
				s.printf("%s\n", show(got.Token))
				return nil
			}
			return s.keepLogin(origin, name, file, got)
		},
	}
	fl := c.Flags()
	fl.StringVarP(&policyFile, "policy", "p", "", "policy `FILE` that is enough; you can change it in the browser")
	durationVar(c, &lasts, "lasts", 0, "time for which you want to be signed in, as 2h or 7d (default 8h)")
	fl.StringVar(&name, "name", "", "`NAME` of the secret (default: login-HOST)")
	fl.StringVar(&file, "file", "", "write the token to this `FILE` instead")
	fl.BoolVar(&bare, "print", false, "print the token instead, and nothing else")
	c.MarkFlagsMutuallyExclusive("name", "file", "print")
	return c
}

// loginRequest is this machine's request for a sign-in.
func loginRequest(policyFile string, lasts time.Duration) (logins.Request, error) {
	q := logins.Request{Client: "remit", Lasts: lasts, Device: strings.TrimPrefix(home.Person(), "user:")}
	if host, err := os.Hostname(); err == nil {
		q.Device += "@" + host
	}
	if policyFile != "" {
		b, err := readSmall(policyFile)
		if err != nil {
			return q, err
		}
		q.Policy = string(b)
	}
	return q, nil
}

// showCode tells the user where to confirm. It is not output: --print prints the token alone.
func (s *session) showCode(code, address, complete string) {
	s.errorf("open this address in a browser, on any machine:\n  %s\nand enter the code\n  %s\n", show(address), s.paint(bold, show(code)))
	if complete != "" {
		s.errorf("or open both at once:\n  %s\n", show(complete))
	}
	s.errorf("waiting ...\n")
}

// keepLogin stores the token of a service.
func (s *session) keepLogin(origin, name, file string, got logins.Given) error {
	out := loggedIn{URL: origin}
	if !got.Until.IsZero() {
		until := got.Until.UTC().Truncate(time.Second)
		out.Until = &until
	}
	if file != "" {
		path, err := filepath.Abs(file)
		if err == nil {
			err = wholefile.Replace(path, []byte(got.Token+"\n"))
		}
		if err != nil {
			return fault.Wrap(fault.StoreFailed, err, "the token cannot be written to %q: %v", file, wholefile.Cause(err))
		}
		out.File = file
	} else {
		a, err := s.open()
		if err != nil {
			return err
		}
		e, err := a.Secrets.Set(name, got.Token)
		if err != nil {
			return err
		}
		out.Secret = e.Name
	}
	if s.json {
		return s.printJSON(out)
	}
	s.printf("%s logged in to %s\n", s.paint(green, "✓"), show(origin))
	switch {
	case out.File != "":
		s.printf("  the token is in %s, for you alone\n", show(file))
	default:
		s.printf("  the token is the secret %s\n", out.Secret)
	}
	if out.Until != nil {
		s.printf("  until %s\n", out.Until.Format(time.RFC3339))
	}
	return nil
}

// secretFor names the secret with the token of a service.
func secretFor(origin string) string {
	u, err := url.Parse(origin)
	if err != nil {
		return ""
	}
	words := strings.FieldsFunc(strings.ToLower(u.Host), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	return "login-" + strings.Join(words, "-")
}
