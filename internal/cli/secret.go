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
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/secrets"
)

func (s *session) secretCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "secret",
		Short: "Keep values that calls are given to use and nobody gets to see",
		Long: `A secret is kept under a name, and policies say which tool or host may use it:
as a header that Remit adds to a request when it leaves, or as a variable of a
confined process. Its value is in no argument, record, report or log, and where
it comes back in an output it is masked.

Values are kept in the operating system's keyring where one works, else in
$REMIT_HOME/secrets.age, encrypted to a key in $REMIT_HOME/keys. That keeps them
out of backups without keys/ and from casual reading, not from programs that run
as you outside of Remit.
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
		Short: "Keep a value, asked for without echo or read from standard input",
		Long: `On a terminal the value is asked for and not shown; else it is all of standard
input but one line end at its end. It has 8 bytes to 64 KiB of text. A value that
was there under this name is replaced.
`,
		Example: `  remit secret set github
  gh auth token | remit secret set github`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := secret.CheckName(args[0]); err != nil {
				return fault.New(fault.Usage, "%v", err).WithHint("a value is never an argument: it is asked for, or read from standard input")
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
			s.printf("%s %s is kept in %s\n", s.paint(green, "✓"), e.Name, placeOf(e.In))
			return nil
		},
	}
}

func placeOf(p secret.Place) string {
	if p == secret.Keyring {
		return "the system's keyring"
	}
	return "secrets.age, encrypted"
}

// readSecret asks for a value without showing it, or reads standard input.
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
		Short: "List what is kept, when it was set, and who may use it",
		Long: `Who may use a secret is what the policies say that hold in the workspace. A use
must be allowed by every one of them.
`,
		Example: `  remit secret list
  remit secret list -p policy.yaml`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			a, err := s.open()
			if err != nil {
				return err
			}
			ws, err := home.Workspace(dir)
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
	c.Flags().StringVarP(&policyFile, "policy", "p", "", "the policy that says who may use them (default: the workspace's trusted remit.yaml)")
	c.Flags().StringVarP(&dir, "workspace", "w", "", "the workspace (default: the current folder)")
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
		uses := []string{"nobody, by the policies that hold"}
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
	s.tableOr("no secret is kept; remit secret set NAME keeps one", []string{"SECRET", "SET", "IN", "WHO MAY USE IT"}, rows)
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
		out += " as $" + u.Env + " of its processes"
	}
	return fmt.Sprintf("%s (%s %s:%d)", out, u.Policy, u.Rule, u.Line)
}

func (s *session) secretRemoveCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "remove NAME",
		Short:   "Forget a value",
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
			s.printf("%s %s is forgotten\n", s.paint(green, "✓"), args[0])
			return nil
		},
	}
}
