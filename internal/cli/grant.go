package cli

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/grants"
	"github.com/remitrun/remit/internal/service/home"
)

func (s *session) grantCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "grant",
		Short: "Issue, narrow, hand on, inspect and revoke grants",
		Long: `A grant is authority that can be handed to another process: a token that says
who may do what until when, signed by this ledger. Whoever has one can narrow it
without asking anyone; nobody can widen one. Budgets, revocation and what was
handed on to whom are kept in the ledger, which alone accepts it.
`,
		Example: `  remit grant issue -p policy.yaml --holder agent:docs --expires 1h -o docs.token
  remit run plan.yaml --grant @docs.token -w .`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(s.grantIssueCmd(), s.grantNarrowCmd(), s.grantDelegateCmd(), s.grantInspectCmd(), s.grantListCmd(),
		s.grantStandingCmd("revoke", store.Revoked), s.grantStandingCmd("pause", store.Paused), s.grantStandingCmd("resume", store.Active),
		s.grantKeysCmd(), s.grantKeygenCmd())
	return c
}

// presented adds the flags of commands that make calls, and gives what they and
// the environment say.
func (s *session) presented(c *cobra.Command) func() (grants.Presented, error) {
	var text, key string
	fl := c.Flags()
	fl.StringVar(&text, "grant", "", "run under this grant: a token, or @FILE (default: $REMIT_GRANT)")
	fl.StringVar(&key, "grant-key", "", "the private key that the grant is bound to: a file (default: $REMIT_GRANT_KEY)")
	return func() (grants.Presented, error) {
		if text == "" {
			text, _ = s.lookup("REMIT_GRANT")
		}
		if key == "" {
			key, _ = s.lookup("REMIT_GRANT_KEY")
		}
		if text == "" {
			return grants.Presented{}, nil
		}
		t, err := grants.ReadToken(text)
		return grants.Presented{Token: t, KeyFile: key}, err
	}
}

// termFlags are the flags that say what a grant comes to.
type termFlags struct {
	grants.Terms
	dir, notBefore, money string
	out                   string
	perTool, pins         []string
	children, depth       int
	changed               func(flag string) bool // the flag was given
}

func (f *termFlags) add(c *cobra.Command, life string) {
	fl := c.Flags()
	f.changed = fl.Changed
	fl.StringArrayVarP(&f.Policies, "policy", "p", nil, "a policy that bounds it (repeatable: all of them do)")
	fl.StringArrayVar(&f.Read, "read", nil, "leave of all files this one to read (repeatable; @LIST: those that a file lists, a line each)")
	fl.StringArrayVar(&f.Write, "write", nil, "leave of all files this one to write (repeatable; @LIST as well)")
	fl.StringVarP(&f.dir, "workspace", "w", "", "the folder where a policy is looked for (default: the current one)")
	durationVar(c, &f.Expires, "expires", 0, "how long it lasts, as 1h30m or 7d (default: "+life+")")
	fl.StringVar(&f.notBefore, "not-before", "", "from when on it holds, as 2026-01-31T09:00:00Z (default: at once)")
	fl.StringVar(&f.HolderKey, "holder-key", "", "the public key whose owner alone may use it (see remit grant keygen)")
	fl.Int64Var(&f.Budgets.Calls, "calls", 0, "at most so many calls")
	fl.Int64Var(&f.Budgets.EachTool, "calls-per-tool", 0, "at most so many calls of each tool")
	fl.StringArrayVar(&f.perTool, "per-tool", nil, "at most so many calls of some tools, as http.*=20 (repeatable)")
	fl.Int64Var(&f.Budgets.BytesIn, "bytes-in", 0, "at most so many bytes received over the network")
	fl.Int64Var(&f.Budgets.BytesOut, "bytes-out", 0, "at most so many bytes sent over the network")
	fl.Int64Var(&f.Budgets.Tokens, "tokens", 0, "at most so many model tokens")
	fl.StringVar(&f.money, "money", "", "at most so many US dollars for models, as 1.50")
	durationVar(c, &f.Budgets.Time, "time", 0, "at most so much time of calls, added up")
	fl.IntVar(&f.children, "children", -1, "at most so many grants handed on below it")
	fl.IntVar(&f.depth, "depth", -1, "how far it may be handed on")
	fl.StringArrayVar(&f.pins, "pin", nil, "a tool that may only be used as it is now (repeatable)")
	fl.StringVarP(&f.out, "output", "o", "", "write the token to this new file, which only you can read")
	fl.BoolVar(&f.Bind, "bind", false, "good for this workspace alone")
	fl.BoolVar(&f.Sealed, "seal", false, "nobody can narrow it or hand it on")
}

// terms gives what the flags say.
func (f *termFlags) terms() (grants.Terms, error) {
	t := f.Terms
	ws, err := home.Workspace(f.dir)
	if err != nil {
		return t, err
	}
	t.Workspace = ws
	if t.Read, err = grants.ReadNames(t.Read); err != nil {
		return t, err
	}
	if t.Write, err = grants.ReadNames(t.Write); err != nil {
		return t, err
	}
	if t.Expires < 0 || t.Expires == 0 && f.changed("expires") {
		return t, fault.New(fault.Usage, "--expires %s lies in the past", t.Expires).WithHint("write how long it lasts, as 1h")
	}
	if f.notBefore != "" {
		if t.NotBefore, err = time.Parse(time.RFC3339, f.notBefore); err != nil {
			return t, fault.New(fault.Usage, "--not-before %q is no time", f.notBefore).WithHint("write it as 2026-01-31T09:00:00Z")
		}
	}
	if f.money != "" {
		if t.Budgets.Money, err = dollars(f.money); err != nil {
			return t, err
		}
	}
	for _, pair := range f.perTool {
		name, n, ok := strings.Cut(pair, "=")
		calls, err := strconv.ParseInt(n, 10, 64)
		if !ok || err != nil || calls < 0 {
			return t, fault.New(fault.Usage, "--per-tool %q is not PATTERN=NUMBER", pair).WithHint("write it as http.*=20")
		}
		t.Budgets.PerTool = append(t.Budgets.PerTool, grant.ToolBudget{Tool: name, Calls: calls})
	}
	t.Budgets = t.Budgets.Min(grant.Budgets{}) // sorts
	if f.children >= 0 {
		t.Budgets.Children = &f.children
	}
	if f.depth >= 0 {
		t.Budgets.Depth = &f.depth
	}
	for _, id := range f.pins {
		t.Pins = append(t.Pins, tool.ID(id))
	}
	return t, t.Budgets.Check()
}

// dollars reads an amount of money in millionths.
func dollars(text string) (int64, error) {
	whole, part, _ := strings.Cut(text, ".")
	if len(part) <= 6 {
		n, err := strconv.ParseUint(whole+(part + "000000")[:6], 10, 50)
		if err == nil && n > 0 {
			return int64(n), nil //nolint:gosec // 50 bits fit
		}
	}
	return 0, fault.New(fault.Usage, "--money %q is no amount of US dollars", text).WithHint("write it as 1.50")
}

// makes runs a command that gives a token, of terms and perhaps of a token.
func (s *session) makes(f *termFlags, done string, from func(ctx context.Context, a *app.App, t grants.Terms, text string) (grants.Token, error)) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		t, err := f.terms()
		if err != nil {
			return err
		}
		text := ""
		if len(args) > 0 {
			if text, err = grants.ReadToken(args[0]); err != nil {
				return err
			}
		}
		a, err := s.open()
		if err != nil {
			return err
		}
		tok, err := from(cmd.Context(), a, t, text)
		if err != nil {
			return err
		}
		return s.printToken(done, tok, f.out)
	}
}

func (s *session) grantIssueCmd() *cobra.Command {
	var f termFlags
	c := &cobra.Command{
		Use:   "issue",
		Short: "Issue a grant from policies",
		Long: `Prints the grant's ID and its token. The token is the authority: give it to its
holder and to nobody else, by a file or REMIT_GRANT rather than on a command line.
What the policies limit (limits, models.tokens, agents) is the grant's budget,
over all runs under it.
`,
		Example: `  remit grant issue -p policy.yaml --holder agent:docs --expires 1h
  remit grant issue -p policy.yaml --calls 100 -o docs.token`,
		Args: cobra.NoArgs,
		RunE: s.makes(&f, "issued", func(ctx context.Context, a *app.App, t grants.Terms, _ string) (grants.Token, error) {
			return a.Grants.Issue(ctx, t)
		}),
	}
	f.add(c, "24h")
	c.Flags().StringVar(&f.Holder, "holder", "", "who holds it, as agent:docs (default: you)")
	c.Flags().StringArrayVar(&f.To, "to", nil, "patterns of holders that it may be handed on to, where a policy's delegate lets it (repeatable; default: any)")
	c.Flags().StringVar(&f.Note, "note", "", "what it is for; kept in the ledger")
	return c
}

func (s *session) grantNarrowCmd() *cobra.Command {
	var f termFlags
	c := &cobra.Command{
		Use:   "narrow TOKEN",
		Short: "Narrow a grant by a further policy",
		Long: `Appends a block to the token: what it allows is what it allowed before and what
the policy allows too. This needs no ledger and tells nobody. TOKEN may be @FILE.
`,
		Example: "  remit grant narrow @docs.token -p read-only.yaml -o narrow.token",
		Args:    cobra.ExactArgs(1),
		RunE: s.makes(&f, "narrowed", func(_ context.Context, a *app.App, t grants.Terms, text string) (grants.Token, error) {
			return a.Grants.Narrow(text, t)
		}),
	}
	f.add(c, "as before")
	c.Flags().StringVar(&f.KeyFile, "grant-key", "", "the private key that the grant is bound to, to bind it to another one: a file")
	return c
}

func (s *session) grantDelegateCmd() *cobra.Command {
	var f termFlags
	var key string
	c := &cobra.Command{
		Use:   "delegate TOKEN",
		Short: "Hand a grant on to another holder",
		Long: `Gives a token for another holder, as far as the policies' delegate lets this one,
and records it. It never allows more than TOKEN does, and what it spends is spent
from TOKEN's budgets too. TOKEN may be @FILE.
`,
		Example: "  remit grant delegate @docs.token --holder agent:reader -p read-only.yaml --calls 20 -o reader.token",
		Args:    cobra.ExactArgs(1),
		RunE: s.makes(&f, "handed on", func(ctx context.Context, a *app.App, t grants.Terms, text string) (grants.Token, error) {
			return a.Grants.Delegate(ctx, grants.Presented{Token: text, KeyFile: key}, t)
		}),
	}
	f.add(c, "as before")
	c.Flags().StringVar(&f.Holder, "holder", "", "to whom, as agent:reader")
	c.Flags().StringArrayVar(&f.To, "to", nil, "patterns of holders that it may be handed on to further (repeatable; default: as before)")
	c.Flags().StringVar(&f.Note, "note", "", "what it is for; kept in the ledger")
	c.Flags().StringVar(&key, "grant-key", "", "the private key that the grant is bound to: a file")
	return c
}

func (s *session) grantListCmd() *cobra.Command {
	var holder string
	var limit int
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the grants that were issued or handed on, newest first",
		Example: "  remit grant list --holder agent:docs",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, err := s.open()
			if err != nil {
				return err
			}
			list, err := a.Grants.List(cmd.Context(), store.GrantFilter{Holder: holder, Limit: limit})
			if err != nil {
				return err
			}
			if s.json {
				out := make([]grantJSON, len(list))
				for i := range list {
					out[i] = infoJSON(list[i])
				}
				return s.printJSON(out)
			}
			s.printGrants(list)
			return nil
		},
	}
	c.Flags().StringVar(&holder, "holder", "", "only those that this one was given")
	c.Flags().IntVar(&limit, "limit", 20, "at most so many")
	return c
}

func (s *session) printGrants(list []grants.Info) {
	if len(list) == 0 {
		s.printf("no grants so far (remit grant issue makes one)\n")
		return
	}
	rows := make([][]cell, len(list))
	for i, g := range list {
		parent := ""
		if g.Record.Parent != uuid.Nil {
			parent = short(g.Record.Parent.String())
		}
		colours := map[string]colour{"active": green, "revoked": red, "paused": yellow}
		word := standing(g)
		rows[i] = []cell{
			{text: short(g.Record.ID.String())}, {text: word, colour: colours[word]}, {text: g.Record.Holder}, {text: parent},
			{text: when(g.Record.Issued, time.Now())}, {text: expiry(g.Record.Expires)}, {text: g.Record.Budgets.String()},
		}
	}
	s.table([]string{"GRANT", "STATUS", "HOLDER", "FROM", "ISSUED", "EXPIRES", "BUDGETS"}, rows)
}

func (s *session) grantStandingCmd(verb string, to store.Standing) *cobra.Command {
	words := map[store.Standing][2]string{
		store.Revoked: {"Revoke a grant and all that descends from it, for good", "revoked"},
		store.Paused:  {"Pause a grant and all that descends from it", "paused"},
		store.Active:  {"Resume a grant that was paused", "resumed"},
	}
	long := map[store.Standing]string{
		store.Revoked: `Calls that are under way are ended, with their process trees, unless the policy
says on_revoke: finish; new ones are refused at once, by other processes within a
second.
`,
		store.Paused: `New calls are refused until it is resumed; calls that are under way go on.
`,
	}
	var reason string
	c := &cobra.Command{
		Use:     verb + " ID|TOKEN",
		Short:   words[to][0],
		Long:    long[to],
		Example: "  remit grant " + verb + " 0199c1d2-7a3b",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := grants.ReadToken(args[0])
			if err != nil {
				return err
			}
			a, err := s.open()
			if err != nil {
				return err
			}
			id, err := a.Grants.SetStanding(cmd.Context(), name, to, reason)
			if err != nil {
				return err
			}
			if s.json {
				return s.printJSON(map[string]string{"id": id.String(), "status": to.String()})
			}
			s.printf("%s grant %s %s\n", s.paint(green, "✓"), id, words[to][1])
			return nil
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "why; kept in the ledger")
	return c
}
