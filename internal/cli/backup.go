package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/service/backups"
)

func (s *session) backupCmd() *cobra.Command {
	var keysFor string
	c := &cobra.Command{
		Use:   "backup FILE|FOLDER",
		Short: "Back up the ledger and its settings to a file",
		Long: `Writes a tar archive with the ledger, from a file or from PostgreSQL, and the
other files of $REMIT_HOME. Other processes may go on writing: the backup has
one state of the ledger. Its copy is verified before the file gets its name. In
a folder, the file is named after the ledger and the time.

Without the ledger's keys a backup can be neither restored nor forged. Keep a
copy of $REMIT_HOME/keys elsewhere, or have the keys in the backup with
--keys-for, encrypted for an age recipient.

Not in a backup: logs, secrets in the system's keyring, held and undoable
changes of runs (changes/ and undo/), and what lies beside $REMIT_HOME.
`,
		Example: `  remit backup /backups
  remit backup /backups/remit.tar --keys-for age1...`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := s.open()
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("keys-for") && !strings.HasPrefix(keysFor, "age1") {
				return fault.New(fault.Usage, "%.80q is not an age recipient", keysFor).WithHint("make one with: age-keygen -o FILE; it prints the recipient, age1...")
			}
			busy := s.startActivity("backing up")
			out, err := a.Backups.Write(cmd.Context(), args[0], keysFor)
			busy.stop()
			if err != nil {
				return err
			}
			if s.json {
				return s.printJSON(out)
			}
			s.printf("%s %s\n", s.paint(green, "✓"), show(out.File))
			s.printBackup(out)
			return nil
		},
	}
	c.Flags().StringVar(&keysFor, "keys-for", "", "also back up the keys, encrypted for this age `RECIPIENT`")
	return c
}

// printBackup describes a backup.
func (s *session) printBackup(c backups.Contents) {
	s.printf("  ledger  %s\n", show(c.Origin))
	s.printf("  made    %s\n", minute(c.Made))
	s.printf("  events  %d, root %s\n", c.Events, show(c.Root))
	keys := "not in it: keep a copy of $REMIT_HOME/keys"
	if c.Keys {
		keys = "in it, encrypted"
	}
	s.printf("  keys    %s\n", keys)
}

func (s *session) restoreCmd() *cobra.Command {
	var from backups.Source
	var check bool
	c := &cobra.Command{
		Use:   "restore FILE",
		Short: "Restore a backup into an empty $REMIT_HOME",
		Long: `Restores a backup into a $REMIT_HOME that is empty, and into the database of
REMIT_DB if that is set; it must have no ledger. A ledger can move between a
file and PostgreSQL this way. The ledger is verified first, and its roots,
checkpoints and proofs are the same as before. If the process is killed, nothing
is restored, or the next remit restore finishes.

Grants from before are refused until a person accepts them: they may have been
revoked, and their budgets spent, since the backup. remit grant resume accepts
one, and remit grant resume --restored all of them. Policies of the person need
no grant.

Stop everything that still uses the original. Two ledgers with the same keys
that both go on are two histories, and verification will say so.
`,
		Example: `  REMIT_HOME=/srv/remit remit restore /backups/remit.tar --keys /safe/keys
  remit restore /backups/remit.tar --identity backup.key
  remit restore /backups/remit.tar --check`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			from.File = args[0]
			return s.restore(cmd.Context(), from, check)
		},
	}
	f := c.Flags()
	f.StringVar(&from.Identity, "identity", "", "`FILE` with the age identity that decrypts the keys")
	f.StringVar(&from.Keys, "keys", "", "`FOLDER` with a copy of the ledger's keys")
	f.BoolVar(&check, "check", false, "only verify the backup; the keys are those here, unless given")
	c.MarkFlagsMutuallyExclusive("identity", "keys")
	return c
}

// restore restores a backup, or only verifies it.
func (s *session) restore(ctx context.Context, from backups.Source, check bool) error {
	a, err := s.openAnyway()
	if err != nil {
		return err
	}
	do, done := a.Backups.Restore, "restored and verified"
	if check {
		do, done = a.Backups.Check, "the backup is whole, and its ledger was not altered"
	}
	busy := s.startActivity("restoring")
	out, err := do(ctx, from)
	busy.stop()
	if err != nil {
		return err
	}
	if s.json {
		return s.printJSON(out)
	}
	if out.Finished {
		s.printf("%s an interrupted restore was finished; %s was not read\n", s.paint(green, "✓"), show(from.File))
		return nil
	}
	s.printf("%s %s\n", s.paint(green, "✓"), done)
	s.printBackup(out.Contents)
	if !check {
		s.printf("  grants  refused until they are accepted: remit grant resume ID, or --restored for all\n")
	}
	return nil
}
