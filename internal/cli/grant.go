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
		Short: "Issue, narrow, delegate, inspect and revoke grants",
		Long: `A grant is a token that gives another process limited authority: which calls,
for how long, with which budgets. It is signed by this ledger. Its holder can
narrow it offline, but never widen it. Budgets, delegations and revocations are
kept in the ledger, and only this ledger accepts the token.
`,
		Example: `  remit grant issue -p policy.yaml --holder agent:docs --expires 1h \
    -o docs.token
  remit run plan.yaml --grant @docs.token -w .`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(s.grantIssueCmd(), s.grantNarrowCmd(), s.grantDelegateCmd(), s.grantInspectCmd(), s.grantListCmd(),
		s.grantStandingCmd("revoke", store.Revoked), s.grantStandingCmd("pause", store.Paused), s.grantStandingCmd("resume", store.Active),
		s.grantKeysCmd(), s.grantKeygenCmd(), s.grantProofCmd())
	return c
}

// presented adds the grant flags to a command that makes calls. The function that it
// returns reads them and the environment.
func (s *session) presented(c *cobra.Command) func() (grants.Presented, error) {
	var text, key string
	fl := c.Flags()
	fl.StringVar(&text, "grant", "", "run under this `GRANT`: a token or @FILE (default: $REMIT_GRANT)")
	fl.StringVar(&key, "grant-key", "", "`FILE` with the holder's private key, for a bound grant (default: $REMIT_GRANT_KEY)")
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

// termFlags are the flags for the terms of a grant.
type termFlags struct {
	grants.Terms
	dir, notBefore, money  string
	out                    string
	perTool, perKind, pins []string
	children, depth        int
	changed                func(flag string) bool // the flag was given
}

func (f *termFlags) add(c *cobra.Command, life string) {
	fl := c.Flags()
	f.changed = fl.Changed
	fl.StringArrayVarP(&f.Policies, "policy", "p", nil, "policy `FILE` that limits it (repeatable; all apply)")
	fl.StringArrayVar(&f.Read, "read", nil, "allow reading only this `FILE` (repeatable; @LIST names a list of files)")
	fl.StringArrayVar(&f.Write, "write", nil, "allow writing only this `FILE` (repeatable; @LIST as above)")
	fl.StringVarP(&f.dir, "workspace", "w", "", "workspace `DIR` with the trusted policy (default: the current folder)")
	durationVar(c, &f.Expires, "expires", 0, "lifetime, such as 1h30m or 7d (default: "+life+")")
	fl.StringVar(&f.notBefore, "not-before", "", "start `TIME`, such as 2026-01-31T09:00:00Z (default: now)")
	fl.StringVar(&f.HolderKey, "holder-key", "", "bind it to this public `KEY` (see remit grant keygen)")
	fl.Int64Var(&f.Budgets.Calls, "calls", 0, "maximum number of calls")
	fl.Int64Var(&f.Budgets.EachTool, "calls-per-tool", 0, "maximum number of calls per tool")
	fl.StringArrayVar(&f.perTool, "per-tool", nil, "maximum number of calls of matching tools, as `PATTERN=N` (repeatable)")
	fl.StringArrayVar(&f.perKind, "per-kind", nil, "maximum number of calls that do something of a kind, as `KIND=N` (repeatable)")
	fl.Int64Var(&f.Budgets.BytesIn, "bytes-in", 0, "maximum number of bytes received over the network")
	fl.Int64Var(&f.Budgets.BytesOut, "bytes-out", 0, "maximum number of bytes sent over the network")
	fl.Int64Var(&f.Budgets.Tokens, "tokens", 0, "maximum number of model tokens")
	fl.Int64Var(&f.Budgets.TokensIn, "tokens-in", 0, "maximum number of tokens sent to models")
	fl.Int64Var(&f.Budgets.TokensOut, "tokens-out", 0, "maximum number of tokens of models' answers")
	fl.StringVar(&f.money, "money", "", "maximum `AMOUNT` for models in US dollars, such as 1.50")
	durationVar(c, &f.Budgets.Time, "time", 0, "maximum total time of calls")
	fl.IntVar(&f.children, "children", 0, "maximum number of grants delegated from it (default: no limit)")
	fl.IntVar(&f.depth, "depth", 0, "maximum depth of delegation (default: no limit)")
	fl.StringArrayVar(&f.pins, "pin", nil, "allow this `TOOL` only as it is defined now (repeatable)")
	fl.StringVarP(&f.out, "output", "o", "", "write the token to this new `FILE`, which only you can read")
	fl.BoolVar(&f.Bind, "bind", false, "valid only in this workspace")
	fl.BoolVar(&f.Sealed, "seal", false, "prevent narrowing and delegation")
}

// terms reads the flags.
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
		return t, fault.New(fault.Usage, "--expires %s is not a valid lifetime", t.Expires).WithHint("expected a time above 0, such as 1h")
	}
	if f.notBefore != "" {
		if t.NotBefore, err = time.Parse(time.RFC3339, f.notBefore); err != nil {
			return t, fault.New(fault.Usage, "--not-before %q is not a valid time", f.notBefore).WithHint("expected a time such as 2026-01-31T09:00:00Z")
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
			return t, fault.New(fault.Usage, "--per-tool %q is not PATTERN=N", pair).WithHint("for example http.*=20")
		}
		t.Budgets.PerTool = append(t.Budgets.PerTool, grant.ToolBudget{Tool: name, Calls: calls})
	}
	for _, pair := range f.perKind {
		name, n, ok := strings.Cut(pair, "=")
		calls, err := strconv.ParseInt(n, 10, 64)
		if !ok || err != nil || calls < 0 {
			return t, fault.New(fault.Usage, "--per-kind %q is not KIND=N", pair).WithHint("for example files.write=20; the kinds are %s", strings.Join(grant.Kinds(), ", "))
		}
		t.Budgets.PerKind = append(t.Budgets.PerKind, grant.KindBudget{Kind: name, Calls: calls})
	}
	t.Budgets = t.Budgets.Min(grant.Budgets{}) // sorts
	if f.changed("children") {
		t.Budgets.Children = &f.children
	}
	if f.changed("depth") {
		t.Budgets.Depth = &f.depth
	}
	for _, id := range f.pins {
		t.Pins = append(t.Pins, tool.ID(id))
	}
	return t, t.Budgets.Check()
}

// dollars reads an amount of US dollars, in millionths.
func dollars(text string) (int64, error) {
	whole, part, _ := strings.Cut(text, ".")
	if len(part) <= 6 {
		n, err := strconv.ParseUint(whole+(part + "000000")[:6], 10, 50)
		if err == nil && n > 0 {
			return int64(n), nil //nolint:gosec // 50 bits fit
		}
	}
	return 0, fault.New(fault.Usage, "--money %q is not a valid amount of US dollars", text).WithHint("expected an amount such as 1.50")
}

// makes runs a command that creates a token from the flags and, if given, from a
// parent token.
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
		Long: `Prints the grant's ID and its token. The token carries the authority:
pass it in a file or in REMIT_GRANT, not on a command line. Limits in the
policies (limits, models.tokens, agents) become budgets of the grant, shared by
all runs under it.
`,
		Example: `  remit grant issue -p policy.yaml --holder agent:docs --expires 1h
  remit grant issue -p policy.yaml --calls 100 -o docs.token`,
		Args: cobra.NoArgs,
		RunE: s.makes(&f, "issued", func(ctx context.Context, a *app.App, t grants.Terms, _ string) (grants.Token, error) {
			return a.Grants.Issue(ctx, t)
		}),
	}
	f.add(c, "24h")
	c.Flags().StringVar(&f.Holder, "holder", "", "`NAME` of the holder, such as agent:docs (default: you)")
	c.Flags().StringArrayVar(&f.To, "to", nil, "`PATTERN` of holders that it may be delegated to, if the policy allows (repeatable; default: any)")
	c.Flags().StringVar(&f.Note, "note", "", "its purpose as `TEXT`; kept in the ledger")
	return c
}

func (s *session) grantNarrowCmd() *cobra.Command {
	var f termFlags
	c := &cobra.Command{
		Use:   "narrow TOKEN",
		Short: "Narrow a grant by another policy",
		Long: `The new token allows only what the old one and the policy both allow. This
needs no ledger and leaves no record. TOKEN may be @FILE.
`,
		Example: "  remit grant narrow @docs.token -p read-only.yaml -o narrow.token",
		Args:    cobra.ExactArgs(1),
		RunE: s.makes(&f, "narrowed", func(_ context.Context, a *app.App, t grants.Terms, text string) (grants.Token, error) {
			return a.Grants.Narrow(text, t)
		}),
	}
	f.add(c, "as before")
	c.Flags().StringVar(&f.KeyFile, "grant-key", "", "`FILE` with the present holder's private key, to bind the grant to another key")
	return c
}

func (s *session) grantDelegateCmd() *cobra.Command {
	var f termFlags
	var key string
	c := &cobra.Command{
		Use:   "delegate TOKEN",
		Short: "Delegate a grant to another holder",
		Long: `Creates and records a grant for another holder, if the policy's delegate
section allows it. It never allows more than TOKEN, and its use also counts
against TOKEN's budgets. TOKEN may be @FILE.
`,
		Example: `  remit grant delegate @docs.token --holder agent:reader -p read-only.yaml \
    --calls 20 -o reader.token`,
		Args: cobra.ExactArgs(1),
		RunE: s.makes(&f, "delegated", func(ctx context.Context, a *app.App, t grants.Terms, text string) (grants.Token, error) {
			return a.Grants.Delegate(ctx, grants.Presented{Token: text, KeyFile: key}, t)
		}),
	}
	f.add(c, "as before")
	c.Flags().StringVar(&f.Holder, "holder", "", "`NAME` of the new holder, such as agent:reader")
	c.Flags().StringArrayVar(&f.To, "to", nil, "`PATTERN` of holders that it may be delegated to in turn (repeatable; default: as before)")
	c.Flags().StringVar(&f.Note, "note", "", "its purpose as `TEXT`; kept in the ledger")
	c.Flags().StringVar(&key, "grant-key", "", "`FILE` with the holder's private key, for a bound grant")
	return c
}

func (s *session) grantListCmd() *cobra.Command {
	var holder string
	var limit int
	c := &cobra.Command{
		Use:     "list",
		Short:   "List issued and delegated grants, newest first",
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
				out := make([]grants.Described, len(list))
				for i := range list {
					out[i] = list[i].Describe()
				}
				return printPage(s, out, "")
			}
			s.printGrants(list)
			return nil
		},
	}
	c.Flags().StringVar(&holder, "holder", "", "only grants of this `HOLDER`")
	c.Flags().IntVar(&limit, "limit", 20, "maximum number of grants")
	return c
}

func (s *session) printGrants(list []grants.Info) {
	if len(list) == 0 {
		s.printf("no grants; create one with remit grant issue\n")
		return
	}
	rows := make([][]cell, len(list))
	for i, g := range list {
		parent := ""
		if g.Record.Parent != uuid.Nil {
			parent = shortRunID(g.Record.Parent.String())
		}
		colours := map[string]colour{"active": green, "revoked": red, "paused": yellow}
		word := standing(g)
		rows[i] = []cell{
			{text: shortRunID(g.Record.ID.String())}, {text: word, colour: colours[word]}, {text: g.Record.Holder}, {text: parent},
			{text: when(g.Record.Issued, time.Now())}, {text: expiry(g.Record.Expires)}, {text: g.Record.Budgets.String()},
		}
	}
	s.table([]string{"GRANT", "STATUS", "HOLDER", "PARENT", "ISSUED", "EXPIRES", "BUDGETS"}, rows)
}

// standingWords describes the commands that change the standing of a grant.
var standingWords = map[store.Standing]struct{ short, done, long string }{
	store.Revoked: {"Revoke a grant and its descendants permanently", "revoked",
		`Running calls are stopped together with their processes, unless the policy says
on_revoke: finish. New calls are refused at once, in other processes within a
second.
`},
	store.Paused: {"Pause a grant and its descendants", "paused", `New calls are refused until it is resumed. Running calls continue.
`},
	store.Active: {"Resume a paused grant", "resumed",
		`A grant from before the ledger was restored from a backup is refused until it is
resumed: it may have been revoked, and its budget spent, since the backup.
--restored resumes all of them.
`},
}

func (s *session) grantStandingCmd(verb string, to store.Standing) *cobra.Command {
	var reason string
	var restored bool
	c := &cobra.Command{
		Use:     verb + " ID|TOKEN",
		Short:   standingWords[to].short,
		Long:    standingWords[to].long,
		Example: "  remit grant " + verb + " 0199c1d2-7a3b",
		Args: func(c *cobra.Command, args []string) error {
			if restored {
				return cobra.NoArgs(c, args)
			}
			return cobra.ExactArgs(1)(c, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if restored {
				return s.acceptRestored(cmd.Context(), reason)
			}
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
				return s.printJSON(map[string]string{"id": id.String(), "standing": to.String()})
			}
			s.printf("%s grant %s %s\n", s.paint(green, "✓"), id, standingWords[to].done)
			return nil
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "`REASON` to keep in the ledger")
	if to == store.Active {
		c.Use = verb + " ID|TOKEN|--restored"
		c.Flags().BoolVar(&restored, "restored", false, "resume all grants from before the ledger was restored")
	}
	return c
}

func (s *session) acceptRestored(ctx context.Context, reason string) error {
	a, err := s.open()
	if err == nil {
		err = a.Grants.AcceptRestored(ctx, reason)
	}
	if err != nil {
		return err
	}
	if s.json {
		return s.printJSON(map[string]string{"id": store.RestoreMark.String(), "standing": store.Active.String()})
	}
	s.printf("%s all grants from before the restore can be used\n", s.paint(green, "✓"))
	return nil
}
