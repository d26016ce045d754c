package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/authority/grant/token"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/grants"
)

// grantJSON is a grant as --json prints it, with the content of its token.
type grantJSON struct {
	grants.Described
	Token   string     `json:"token,omitempty"`
	File    string     `json:"file,omitempty"` // the file that the token was written to
	Root    string     `json:"root,omitempty"`
	Limits  string     `json:"limits,omitempty"` // in words
	Lines   []lineJSON `json:"says,omitempty"`
	Genuine *bool      `json:"genuine,omitempty"`
	Problem string     `json:"problem,omitempty"`
	Moot    []string   `json:"narrows_nothing,omitempty"` // added restrictions that have no effect
}

type lineJSON struct {
	Block int    `json:"block"` // -1: the token as a whole
	Label string `json:"label,omitempty"`
	Text  string `json:"text"`
}

// printToken shows a new token, or writes it to a file and shows its content.
func (s *session) printToken(done string, t grants.Token, file string) error {
	c, text := t.Claims, t.Text
	for _, m := range t.Moot {
		s.errorf("%s has no effect: %s\n", s.paintErr(yellow, "warning:"), show(m))
	}
	if file != "" {
		if err := grants.WriteSecret(file, text+"\n"); err != nil {
			return err
		}
		text = ""
	}
	if s.json {
		return s.printJSON(grantJSON{
			Described: grants.Described{ID: c.Leaf(), Holder: c.Holder(), NotBefore: c.NotBefore().UTC(), Expires: c.Expires().UTC()},
			Token:     text, File: file, Root: c.ID().String(), Limits: c.Budgets().String(), Moot: t.Moot,
		})
	}
	s.printf("%s grant %s %s\n", s.paint(green, "✓"), s.paint(bold, c.Leaf().String()), done)
	s.printf("  holder   %s\n  expires  %s\n  budgets  %s\n", show(c.Holder()), expiry(c.Expires()), show(c.Budgets().String()))
	if file != "" {
		s.printf("  token    in %s\n", show(file))
		return nil
	}
	s.printf("\n%s\n", text)
	return nil
}

func (s *session) grantInspectCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "inspect TOKEN|ID",
		Short: "Show the permissions of a grant and the use of its budgets",
		Long: `TOKEN may be @FILE. The exit status is 3 if the grant cannot be used now.
`,
		Example: "  remit grant inspect @docs.token",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := grants.ReadToken(args[0])
			if err != nil {
				return err
			}
			a, err := s.open()
			if err != nil {
				return err
			}
			in, err := a.Grants.Inspect(cmd.Context(), text)
			if err != nil {
				return err
			}
			if s.json {
				err = s.printJSON(inspectedJSON(in))
			} else {
				s.printInspected(in)
			}
			if err == nil && (in.Genuine != nil || in.Now != nil) {
				return exit(fault.GrantInvalid.Exit())
			}
			return err
		},
	}
}

func inspectedJSON(in grants.Inspected) grantJSON {
	var g grantJSON
	if in.Info != nil {
		g.Described, g.Limits = in.Info.Describe(), in.Info.Record.Budgets.String()
	}
	if c := in.Content; c != nil {
		genuine := in.Genuine == nil
		g.ID, g.Root, g.Holder, g.NotBefore, g.Expires = c.Leaf(), c.ID().String(), c.Holder(), c.NotBefore().UTC(), c.Expires().UTC()
		g.Limits, g.Genuine = c.Budgets().String(), &genuine
		for _, l := range in.Lines {
			g.Lines = append(g.Lines, lineJSON{l.Block, l.Label, l.Text})
		}
	}
	if err := errors.Join(in.Genuine, in.Now); err != nil {
		g.Problem = fault.Message(err)
	}
	return g
}

// standing is a grant's status in one word.
func standing(i grants.Info) string {
	switch {
	case i.Standing == store.Active && i.Expired:
		return "expired"
	case i.Standing == store.Active && time.Now().Before(i.Record.NotBefore):
		return "not yet"
	}
	return i.Standing.String()
}

func (s *session) printInspected(in grants.Inspected) {
	block := token.Whole - 1
	for _, l := range in.Lines {
		if l.Block != block {
			block = l.Block
			s.printf("%s\n", s.paint(bold, blockTitle(in.Content, block)))
		}
		s.printf("  %-10s %s\n", l.Label, show(l.Text))
	}
	if in.Info != nil {
		if in.Content == nil {
			s.printf("%s\n  %-10s %s\n", s.paint(bold, "grant "+in.Info.Record.ID.String()), "holder", show(in.Info.Record.Holder))
			if e := in.Info.Record.Expires; !e.IsZero() {
				s.printf("  %-10s %s\n", "expires", e.Local().Format(time.DateTime))
			}
		}
		s.printSpent(*in.Info)
	}
	switch {
	case in.Genuine != nil:
		s.printf("%s not a valid grant of this ledger: %s\n", s.paint(red, "✗"), show(fault.Message(in.Genuine)))
	case in.Now != nil:
		s.printf("%s cannot be used now: %s\n", s.paint(red, "✗"), show(fault.Message(in.Now)))
	default:
		s.printf("%s can be used\n", s.paint(green, "✓"))
	}
}

func blockTitle(c *token.Content, block int) string {
	if block == token.Whole {
		return "in total"
	}
	links := c.Links()
	if block == 0 {
		return "issued as " + links[0].Grant.String()
	}
	return fmt.Sprintf("block %d, %s", block, links[block].Grant)
}

// printSpent shows the use of a grant's own budgets.
func (s *session) printSpent(i grants.Info) {
	for n, m := range i.Spent {
		label := ""
		if n == 0 {
			label = "used"
		}
		left := ""
		if m.Leased > 0 {
			left = fmt.Sprintf(", %s reserved by running runs", amount(m.ID.What, m.Leased))
		}
		s.printf("  %-10s %s: %s of %s%s\n", label, show(strings.ReplaceAll(m.ID.What, "_", " ")), amount(m.ID.What, m.Spent), amount(m.ID.What, m.Limit), left)
	}
}

// amount prints a meter's value in its unit.
func amount(what string, n int64) string {
	switch what {
	case grant.MeterTime:
		return (time.Duration(n) * time.Microsecond).Round(time.Millisecond).String()
	case grant.MeterMoney:
		return grant.MoneyText(n)
	}
	return strconv.FormatInt(n, 10)
}

func (s *session) grantKeysCmd() *cobra.Command {
	c := &cobra.Command{
		Use:     "keys",
		Short:   "List, export and rotate the signing keys of grants",
		Long:    "The public keys verify the tokens of this ledger. --json exports them.\n",
		Example: "  remit grant keys --json > ledger-keys.json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			a, err := s.open()
			if err != nil {
				return err
			}
			keys, err := a.Grants.Keys()
			if err != nil {
				return err
			}
			return s.printKeys(keys)
		},
	}
	c.AddCommand(&cobra.Command{
		Use:   "rotate",
		Short: "Create a new signing key for grants",
		Long: `Grants signed with the old key stay valid until they expire.
`,
		Example: "  remit grant keys rotate",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, err := s.open()
			if err != nil {
				return err
			}
			until, err := a.Grants.LastExpiry(cmd.Context())
			if err != nil {
				return err
			}
			keys, err := a.Grants.RotateKey(until)
			if err != nil {
				return err
			}
			return s.printKeys(keys)
		},
	})
	return c
}

func (s *session) printKeys(keys []grants.Key) error {
	if s.json {
		if keys == nil {
			keys = []grants.Key{}
		}
		return s.printJSON(keys)
	}
	if len(keys) == 0 {
		s.printf("no keys; the first remit grant issue creates one\n")
		return nil
	}
	rows := make([][]cell, len(keys))
	for i, k := range keys {
		until := "signing"
		if !k.NotAfter.IsZero() {
			until = "valid until " + k.NotAfter.Local().Format(time.DateTime)
		}
		rows[i] = []cell{{text: k.Public}, {text: k.Made.Local().Format(time.DateTime)}, {text: until}}
	}
	s.table([]string{"PUBLIC KEY", "CREATED", "STATUS"}, rows)
	return nil
}

func (s *session) grantKeygenCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "keygen FILE",
		Short: "Create a key pair for the holder of a grant",
		Long: `Writes the private key to a new FILE that only you can read, and prints the
public key for remit grant issue --holder-key. A grant that is bound to the
public key can be used only with the private key.
`,
		Example: "  remit grant keygen docs.key",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			pub, err := grants.NewHolderKey(args[0])
			if err != nil {
				return err
			}
			if s.json {
				return s.printJSON(map[string]string{"file": args[0], "public": pub})
			}
			s.printf("%s\n", pub)
			return nil
		},
	}
}

func (s *session) grantProofCmd() *cobra.Command {
	var presented func() (grants.Presented, error)
	c := &cobra.Command{
		Use:   "proof METHOD URL",
		Short: "Prove possession of a bound grant's key for one HTTP request",
		Long: `Prints the value of the header DPoP (RFC 9449) for one request to remit serve or
remit mcp serve --listen under a grant that is bound to a key. Send it with
Authorization: DPoP TOKEN. It counts once, within 30 seconds, for that method
and URL; a query is left out.
`,
		Example: `  remit grant proof GET https://remit.example/v1/runs --grant @docs.token \
    --grant-key docs.key`,
		Args: cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			p, err := presented()
			if err != nil {
				return err
			}
			if p.Token == "" || p.KeyFile == "" {
				return fault.New(fault.Usage, "a proof needs a grant and its key").WithHint("name them with --grant @FILE --grant-key FILE")
			}
			proof, err := grants.RequestProof(p, args[0], args[1])
			if err != nil {
				return err
			}
			if s.json {
				return s.printJSON(map[string]string{"dpop": proof, "authorization": "DPoP " + p.Token})
			}
			s.printf("%s\n", proof)
			return nil
		},
	}
	presented = s.presented(c)
	return c
}

// expiry prints when a grant expires.
func expiry(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.Local().Format(time.DateTime)
}
