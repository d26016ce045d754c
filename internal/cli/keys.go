package cli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/base/fault"
)

// keysHelp is the help of remit keys.
const keysHelp = `Lists the keys in $REMIT_HOME/keys: what signs the ledger's checkpoints, what
signs grants, and what secrets.age is encrypted for. Private parts are never
shown. A wrong keys/ledger.pub is replaced from the signing key. If that fails,
the list says so. remit grant keys rotate replaces the key of grants, remit keys
rotate the others.
`

func (s *session) keysCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "keys",
		Short: "List and rotate the keys of the ledger and of secrets",
		Long:  keysHelp,
		Example: `  remit keys
  remit keys rotate ledger
  remit keys rotate secrets`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, st, err := s.reader(cmd.Context())
			if err != nil {
				return err
			}
			list, err := a.Keys.List(cmd.Context(), st)
			if err != nil {
				return err
			}
			if s.json {
				return printPage(s, list, "")
			}
			rows := make([][]cell, len(list))
			for i, k := range list {
				since := ""
				if !k.Since.IsZero() {
					since = k.Since.Local().Format(time.DateTime)
				}
				rows[i] = []cell{{k.Of, ""}, {k.ID, ""}, {k.State, ""}, {since, ""}}
			}
			s.table([]string{"OF", "KEY", "STATE", "SINCE"}, rows)
			for _, k := range list {
				if k.Warning != "" {
					s.printf("%s %s\n", s.paint(yellow, "!"), show(k.Warning))
				}
			}
			return nil
		},
	}
	c.AddCommand(s.keysRotateCmd())
	return c
}

func (s *session) keysRotateCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "rotate ledger|secrets",
		Short: "Replace the key of the ledger or of secrets",
		Long: `ledger: makes a new key that signs checkpoints and proofs from now on. Older
signatures stay valid: both keys sign the rotation, so a reader that trusts the
one can trust the other. The old private key is removed. Processes of this
$REMIT_HOME learn of it by themselves. Nodes with a $REMIT_HOME of their own
sign nothing until they have the folder keys. Give the new keys/ledger.pub to
witnesses.

secrets: encrypts secrets.age for a new key, and removes the old one. Copies of
the old file can still be decrypted with copies of the old key: where these got
lost, replace the secrets themselves.
`,
		Example: `  remit keys rotate ledger
  remit keys rotate secrets`,
		Args:      cobra.ExactArgs(1),
		ValidArgs: []string{"ledger", "secrets"},
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := s.open()
			if err != nil {
				return err
			}
			switch args[0] {
			case "ledger":
				r, err := a.Keys.RotateLedger(cmd.Context())
				if err != nil {
					return err
				}
				if s.json {
					return s.printJSON(map[string]any{"of": "ledger", "old": r.Old, "public": r.New, "events": r.Size})
				}
				s.printf("%s the ledger has a new key, after %d events\n", s.paint(green, "✓"), r.Size)
				s.printf("  public  %s\n", r.New)
				s.printf("  copy the folder keys to other nodes, and keep a copy apart from backups\n")
				return nil
			case "secrets":
				name, err := a.Keys.RotateSecrets()
				if err != nil {
					return err
				}
				if s.json {
					return s.printJSON(map[string]any{"of": "secrets", "key": name})
				}
				s.printf("%s secrets.age is encrypted for a new key, %s\n", s.paint(green, "✓"), name)
				return nil
			}
			return fault.New(fault.Usage, "%q is not a key that can be rotated here; expected ledger or secrets", args[0]).
				ForOperator("the key of grants: remit grant keys rotate")
		},
	}
}
