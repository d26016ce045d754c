package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/service/witnesses"
)

// witnessHelp is the help of remit witness.
const witnessHelp = `A witness remembers checkpoints of the ledger in another place, so that a ledger
that was rolled back or rewritten is found out (E4003). The section witnesses of
config.yaml names them: a file on other storage, the address of another Remit or
of any witness of the protocol c2sp.org/tlog-witness, or an address that takes
signed notes. remit serve sends checkpoints by itself.
`

func (s *session) witnessCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "witness",
		Short: "Show and use the witnesses of the ledger",
		Long:  witnessHelp,
		Example: `  remit witness
  remit witness send
  remit witness accept offsite
  remit witness key`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, st, err := s.reader(cmd.Context())
			if err != nil {
				return err
			}
			list, err := a.Witnesses.Status(cmd.Context(), st)
			if err != nil {
				return err
			}
			return s.printWitnesses(list)
		},
	}
	send := &cobra.Command{
		Use:   "send",
		Short: "Send the newest checkpoint to all witnesses now",
		Long: `Signs a checkpoint if events are new, and gives it to every witness. Each first
checks that the ledger extends its own copy. For a timer, where no remit serve
runs.
`,
		Example: "  remit witness send",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, err := s.open()
			if err != nil {
				return err
			}
			st, err := a.Store(cmd.Context())
			if err != nil {
				return err
			}
			results, err := a.Witnesses.Send(cmd.Context(), st)
			if err != nil {
				return err
			}
			return s.printWitnessed(results)
		},
	}
	c.AddCommand(send, s.witnessAcceptCmd(), s.witnessKeyCmd())
	return c
}

func (s *session) witnessAcceptCmd() *cobra.Command {
	var here bool
	c := &cobra.Command{
		Use:   "accept [NAME]",
		Short: "Go on with a ledger that lacks events that a witness has seen",
		Long: `Records that the ledger goes on although this witness has seen a history that it
does not have: events are lost for good. Look for a newer copy of the ledger
first. From then on the witness protects nothing: give it another file or
address in config.yaml.

--here accepts the ledger although this machine has seen another history of it
($REMIT_HOME/seen.note). From then on the machine notes what it sees now. Each
machine of a shared ledger has a note of its own.
`,
		Example: `  remit witness accept offsite
  remit witness accept --here`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if here == (len(args) == 1) {
				return fault.New(fault.Usage, "expected the name of a witness, or --here").WithHint("remit witness lists the witnesses")
			}
			a, err := s.open()
			if err != nil {
				return err
			}
			name := strings.Join(args, "")
			if here {
				name = witnesses.Here
			}
			d, err := a.Witnesses.Accept(cmd.Context(), name)
			if err != nil {
				return err
			}
			if s.json {
				return s.printJSON(map[string]any{"witness": name, "accepted": d != nil})
			}
			if d == nil {
				s.printf("%s %s agrees with the ledger, nothing was accepted\n", s.paint(green, "✓"), show(name))
				return nil
			}
			s.printf("%s recorded: %s disagrees, and the ledger goes on\n", s.paint(yellow, "!"), show(name))
			s.printf("  %s\n", show(d.Error()))
			if !here {
				s.printf("  give this witness another file or address in config.yaml\n")
			}
			return nil
		},
	}
	c.Flags().BoolVar(&here, "here", false, "accept the ledger although this machine has seen another history of it")
	return c
}

func (s *session) witnessKeyCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "key",
		Short: "Show the public key with which this Remit is a witness",
		Long: `remit serve is a witness of the ledgers whose public keys (keys/ledger.pub) are
listed under witness_of in config.yaml, at /witness. They name the key that
this command prints; it is made on first use.
`,
		Example: "  remit witness key",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			a, err := s.openAnyway()
			if err != nil {
				return err
			}
			key, err := a.Witnesses.PublicKey()
			if err != nil {
				return err
			}
			if s.json {
				return s.printJSON(map[string]string{"key": key})
			}
			s.printf("%s\n", key)
			return nil
		},
	}
}

func (s *session) printWitnesses(list []witnesses.Status) error {
	if s.json {
		return printPage(s, list, "")
	}
	if len(list) == 0 {
		s.printf("no witnesses; add the section witnesses to config.yaml\n")
	}
	for _, w := range list {
		sign := s.paint(green, "✓")
		if w.Behind {
			sign = s.paint(red, "✗")
		}
		s.item(sign, w.Name+": "+w.Detail())
	}
	return nil
}

// printWitnessed prints the results of sending. A failure makes the exit status 1.
func (s *session) printWitnessed(results []witnesses.Result) error {
	type view struct {
		Name  string `json:"witness"`
		Size  int64  `json:"events"`
		Error string `json:"error,omitempty"`
	}
	views, failed := []view{}, error(nil)
	for _, r := range results {
		v := view{Name: r.Name, Size: r.Size}
		if r.Err != nil {
			v.Error, failed = r.Err.Error(), exit(1)
		}
		views = append(views, v)
	}
	if s.json {
		if err := printPage(s, views, ""); err != nil {
			return err
		}
		return failed
	}
	for _, v := range views {
		if v.Error != "" {
			s.item(s.paint(red, "✗"), v.Name+": "+v.Error)
		} else {
			s.printf("%s %s has %d events\n", s.paint(green, "✓"), show(v.Name), v.Size)
		}
	}
	if len(views) == 0 {
		s.printf("no witnesses; add the section witnesses to config.yaml\n")
	}
	return failed
}
