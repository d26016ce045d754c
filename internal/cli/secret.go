package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/secret"
	"github.com/remitrun/remit/internal/service/secrets"
)

func (s *session) secretCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "secret",
		Short: "Manage secrets",
		Long: `A secret is a named value. The policy says which tool or host may use it, as a
header that Remit adds to a request, or as a variable of a confined process.
Callers, records, reports and logs never hold the value; in outputs it is
masked.

Values are stored in the operating system's keyring, or else encrypted in
$REMIT_HOME/secrets.age with a key in $REMIT_HOME/keys. This protects backups
without keys/ and against casual reading, but not against programs that run as
you outside of Remit.
`,
		Example: `  remit secret set github
  remit secret list
  remit secret remove github`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(s.secretSetCmd(), s.secretListCmd(), s.secretRemoveCmd())
	return c
}

func (s *session) secretSetCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "set NAME",
		Short: "Store a secret",
		Long: `On a terminal you are asked for the value, without echo. Otherwise it is read
from standard input; one line end at its end is removed. The value has 8 bytes
to 64 KiB of text, and replaces an earlier one of this name.
`,
		Example: `  remit secret set github
  gh auth token | remit secret set github`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := secret.CheckName(args[0]); err != nil {
				return fault.New(fault.Usage, "%v", err).WithHint("do not pass the value as an argument; it is asked for, or read from standard input")
			}
			a, err := s.open()
			if err != nil {
				return err
			}
			value, err := s.readSecret(args[0])
			if err != nil {
				return err
			}
			e, err := a.Secrets.Set(args[0], value)
			if err != nil {
				return err
			}
			if s.json {
				return s.printJSON(e)
			}
			s.printf("%s %s stored in %s\n", s.paint(green, "✓"), e.Name, placeOf(e.In))
			return nil
		},
	}
}

func placeOf(p secret.Place) string {
	if p == secret.Keyring {
		return "the system keyring"
	}
	return "secrets.age, encrypted"
}

// readSecret asks for a value without echo, or reads standard input.
func (s *session) readSecret(name string) (string, error) {
	if isTerminal(s.In) {
		f, _ := s.In.(*os.File)
		s.errorf("value of %s (not shown): ", name)
		b, err := term.ReadPassword(int(f.Fd()))
		s.errorf("\n")
		if err != nil {
			return "", fault.Wrap(fault.Usage, err, "the value cannot be read")
		}
		return string(b), nil
	}
	b, err := io.ReadAll(io.LimitReader(s.In, secret.MaxValue+3))
	if err != nil {
		return "", fault.Wrap(fault.Usage, err, "the value cannot be read from standard input")
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r"), nil
}

func (s *session) secretListCmd() *cobra.Command {
	var policyFile, dir string
	c := &cobra.Command{
		Use:   "list",
		Short: "List secrets, and which tools may use them",
		Long: `The uses are those that the policies of the workspace allow. All of these
policies must allow a use.
`,
		Example: `  remit secret list
  remit secret list -p policy.yaml`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			a, ws, err := s.openIn(dir)
			if err != nil {
				return err
			}
			list, err := a.Secrets.List(policyFile, ws)
			if err != nil {
				return err
			}
			return s.printSecrets(list)
		},
	}
	c.Flags().StringVarP(&policyFile, "policy", "p", "", "policy `FILE` that allows uses (default: the workspace's trusted remit.yaml)")
	c.Flags().StringVarP(&dir, "workspace", "w", "", "workspace `DIR` (default: the current folder)")
	return c
}

func (s *session) printSecrets(list []secrets.Stored) error {
	if s.json {
		if list == nil {
			list = []secrets.Stored{}
		}
		for i := range list {
			if list[i].Uses == nil {
				list[i].Uses = []secrets.Use{}
			}
		}
		return s.printJSON(list)
	}
	var rows [][]cell
	for _, e := range list {
		uses := []string{"no policy in force allows it"}
		if len(e.Uses) > 0 {
			uses = nil
		}
		for _, u := range e.Uses {
			uses = append(uses, describeUse(u))
		}
		for i, u := range uses {
			row := []cell{{}, {}, {}, {u, ""}}
			if i == 0 {
				row = []cell{{e.Name, bold}, {e.Set.Local().Format(time.DateTime), ""}, {string(e.In), ""}, {u, ""}}
			}
			rows = append(rows, row)
		}
	}
	s.tableOr("no secrets; store one with remit secret set NAME", []string{"SECRET", "SET", "STORE", "ALLOWED USES"}, rows)
	return nil
}

func describeUse(u secrets.Use) string {
	out := "any tool"
	if len(u.Tools) > 0 {
		out = strings.Join(u.Tools, ", ")
	}
	if u.Header != "" {
		out += " in the header " + u.Header
	}
	if len(u.Hosts) > 0 {
		out += " at " + strings.Join(u.Hosts, ", ")
	}
	if u.Env != "" {
		out += " as $" + u.Env + " in its processes"
	}
	return fmt.Sprintf("%s (%s %s:%d)", out, u.Policy, u.Rule, u.Line)
}

func (s *session) secretRemoveCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "remove NAME",
		Short:   "Delete a secret",
		Example: "  remit secret remove github",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			a, err := s.open()
			if err != nil {
				return err
			}
			if err := a.Secrets.Remove(args[0]); err != nil {
				return err
			}
			if s.json {
				return s.printJSON(map[string]any{"removed": args[0]})
			}
			s.printf("%s %s deleted\n", s.paint(green, "✓"), args[0])
			return nil
		},
	}
}
