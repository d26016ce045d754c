package cli

import (
	"context"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/service/policies"
	"github.com/remitrun/remit/internal/service/policyreview"
)

func (s *session) policyCmd() *cobra.Command {
	c := &cobra.Command{
		Use:     "policy",
		Short:   "Check, lint, explain, learn, compare, test and trust policies",
		Example: "  remit policy check remit.yaml",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(s.policyCheckCmd(), s.policyLintCmd(), s.policyExplainCmd(), s.policyLearnCmd(), s.policyDiffCmd(), s.policyTestCmd(), s.policyImportCmd(), s.policySchemaCmd(), s.policyTrustCmd())
	return c
}

// asList returns the problems of an error one by one.
func asList(err error) fault.List {
	switch e := err.(type) {
	case fault.List:
		return e
	case *fault.Error:
		return fault.List{e}
	}
	return fault.List{fault.Wrap(fault.PolicyInvalid, err, "%v", err)}
}

func (s *session) policySchemaCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "schema",
		Short:   "Print the JSON Schema of policies for editors",
		Example: "  remit policy schema > remit.schema.json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := s.Out.Write(policy.Schema())
			return err
		},
	}
}

func (s *session) policyTrustCmd() *cobra.Command {
	var dir, reviewed, tests string
	var forget bool
	c := &cobra.Command{
		Use:   "trust",
		Short: "Trust the workspace's remit.yaml in its present form",
		Long: `The remit.yaml of a workspace has no effect until you trust it, and again after
every change. A cloned repository therefore cannot give itself rights.

With --digest the file is trusted only if it still has the digest that you
reviewed. remit policy check prints it. With --tests it is trusted only if it
gives all answers that a file expects, as remit authority --tests checks them.
`,
		Example: `  remit policy trust
  remit policy trust --digest sha256:9f2c…
  remit policy trust --tests authority.yaml
  remit policy trust -w ~/project
  remit policy trust --forget`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			a, ws, err := s.openIn(dir)
			if err != nil {
				return err
			}
			if tests != "" {
				if reviewed, err = authorityHolds(a, ws, tests); err != nil {
					return err
				}
			}
			if forget {
				return s.distrust(a, ws)
			}
			p, digest, err := a.Policies.Trust(ws, reviewed)
			if err != nil {
				return err
			}
			mistakes, warnings, err := a.PolicyReview.Check(p)
			if err != nil {
				return err
			}
			s.warnOf(append(mistakes, warnings...))
			if s.json {
				return s.printJSON(map[string]string{"file": p.File(), "name": p.Name(), "digest": digest})
			}
			s.printf("%s %s is trusted: policy %q\n  %s\n", s.paint(green, "✓"), show(p.File()), p.Name(), digest)
			return nil
		},
	}
	c.Flags().StringVarP(&dir, "workspace", "w", "", "workspace `DIR` (default: the current folder)")
	c.Flags().StringVar(&reviewed, "digest", "", "trust only a file with this SHA-256 `DIGEST`")
	c.Flags().StringVar(&tests, "tests", "", "trust it only if it gives the expected answers in `FILE`")
	c.Flags().BoolVar(&forget, "forget", false, "stop trusting the file")
	c.MarkFlagsMutuallyExclusive("digest", "forget", "tests")
	return c
}

// distrust ends the trust in the remit.yaml of a workspace.
func (s *session) distrust(a *app.App, ws string) error {
	was, err := a.Policies.Distrust(ws)
	if err == nil && !was {
		s.printf("%s was not trusted\n", filepath.Join(ws, "remit.yaml"))
	} else if err == nil {
		s.printf("%s is no longer trusted\n", filepath.Join(ws, "remit.yaml"))
	}
	return err
}

// authorityHolds checks that the workspace's policy gives all expected answers. The digest is
// that of the policy that was asked, so that no other one is trusted.
func authorityHolds(a *app.App, ws, tests string) (digest string, err error) {
	file := filepath.Join(ws, "remit.yaml")
	p, err := policies.Read(file)
	if err != nil {
		return "", err
	}
	w, err := a.PolicyReview.WorldOf(p, ws)
	if err != nil {
		return "", err
	}
	results, failed, err := expectations(w, tests)
	if err != nil {
		return "", err
	}
	for _, r := range results {
		if !r.Pass {
			return "", fault.New(fault.PolicyInvalid, "%s -> %s is %s, and %s is expected (%s); %d of %s failed, so the policy is not trusted", r.From, r.To, r.Verdict, r.Expected, r.Where, failed, counted(len(results), "question")).
				At(fault.Pos{File: file}).WithHint("to see the ways: remit authority --tests %s -p %s", tests, file)
		}
	}
	return p.Digest().String(), nil
}

func (s *session) policyExplainCmd() *cobra.Command {
	var dir string
	var files []string
	var sensitive, flows bool
	c := &cobra.Command{
		Use:   "explain POLICY TOOL [ARGUMENT=VALUE...]",
		Short: "Show how a policy decides a call, and which rules apply",
		Long: `The call is a tool's ID and its arguments, or one JSON object {"tool": ...,
"args": {...}}; "-" reads that object from standard input. VALUE is text, or
JSON after ":=". A tool of an agent is agent:AGENT:TOOL, for example
agent:claude:Artifact: the files, URLs and commands in its arguments are decided
as by remit hook AGENT. mcp:SERVER:TOOL can be of a server that an agent runs.
Nothing is executed and the network is not used. With several -p, the policies
form a chain: each must allow the call.

--sensitive prints the file names that wildcards never match. --flows prints the
labels and flows of POLICY, with what flows: standard stands for.
`,
		Example: `  remit policy explain remit.yaml fs.read path=README.md
  remit policy explain remit.yaml shell.run 'argv:=["git","push","--force"]'
  remit policy explain remit.yaml \
    '{"tool":"http.get","args":{"url":"https://api.github.com/zen"}}'
  remit policy explain remit.yaml agent:claude:Artifact file_path=.env
  remit policy explain -p outer.yaml -p inner.yaml fs.read path=README.md
  remit policy explain --sensitive
  remit policy explain --flows remit.yaml`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if sensitive {
				return s.printSensitive()
			}
			if flows {
				return s.printFlows(append(files, args...))
			}
			chain := files
			if len(chain) == 0 && len(args) > 0 {
				chain, args = args[:1], args[1:]
			}
			if len(args) == 0 {
				return fault.New(fault.Usage, "POLICY and TOOL are missing").WithHint("see %s --help", cmd.CommandPath())
			}
			if ext := filepath.Ext(chain[0]); len(files) == 0 && ext != ".yaml" && ext != ".yml" && ext != ".json" && strings.Contains(args[0], "=") {
				return fault.New(fault.Usage, "%q is not a policy file", chain[0]).WithHint("name the policy before the tool: remit policy explain remit.yaml %s ...", chain[0])
			}
			return s.explain(cmd.Context(), dir, chain, args)
		},
	}
	c.Flags().StringVarP(&dir, "workspace", "w", "", "workspace `DIR` (default: the current folder)")
	c.Flags().StringArrayVarP(&files, "policy", "p", nil, "policy `FILE` (repeatable; all must allow)")
	c.Flags().BoolVar(&flows, "flows", false, "print the labels and flows of policies")
	c.Flags().BoolVar(&sensitive, "sensitive", false, "print the file names that wildcards never match")
	return c
}

// explain prints the decision of a chain of policy files on the call that arguments give.
func (s *session) explain(ctx context.Context, dir string, chain, args []string) error {
	id, given, err := s.readCall(args)
	if err != nil {
		return err
	}
	a, ws, err := s.openIn(dir)
	if err != nil {
		return err
	}
	ex, err := s.explainCall(ctx, func(id tool.ID, args tool.Args) (policyreview.Explanation, error) {
		return a.PolicyReview.Explain(ctx, chain, ws, id, args)
	}, ws, id, given)
	if err != nil {
		return err
	}
	return s.printExplanation(ex)
}

// printFlows prints the labels and flows of policies.
func (s *session) printFlows(files []string) error {
	if len(files) == 0 {
		return fault.New(fault.Usage, "POLICY is missing").WithHint("remit policy explain --flows remit.yaml")
	}
	out := map[string]string{}
	for _, file := range files {
		p, err := policies.Read(file)
		if err != nil {
			return err
		}
		if out[file] = string(p.PrintFlows()); s.json {
			continue
		}
		if out[file] == "" {
			s.printf("%s has no labels and no flows\n", show(file))
		}
		s.printf("%s", out[file])
	}
	if s.json {
		return s.printJSON(map[string]any{"flows": out})
	}
	return nil
}

func (s *session) printSensitive() error {
	if s.json {
		return s.printJSON(map[string][]string{"read": policy.Sensitive(false), "write": append(policy.Sensitive(true), policy.SensitiveAlone()...),
			"package_folders": policy.PackageFolders(), "examples": policy.Examples()})
	}
	s.printf("Wildcards in allow and ask never match these names; a pattern must spell them out.\n\nfor reading and writing:\n")
	reading := map[string]bool{}
	for _, n := range policy.Sensitive(false) {
		reading[n] = true
		s.printf("  %s\n", n)
	}
	s.printf("\nfor writing, also files that other programs execute:\n")
	for _, n := range policy.Sensitive(true) {
		if !reading[n] {
			s.printf("  %s\n", n)
		}
	}
	s.printf("\nfor writing, the name itself but not files in a folder of that name:\n")
	for _, n := range policy.SensitiveAlone() {
		s.printf("  %s\n", n)
	}
	s.printf("\nfolders of packages; in a package in one of them the names are ordinary, except in and below .git, .hg, .jj and .sl:\n")
	for _, n := range policy.PackageFolders() {
		s.printf("  %s\n", n)
	}
	s.printf("\nordinary although a name above matches: %s\n", strings.Join(policy.Examples(), ", "))
	return nil
}

// readCall reads a call from arguments, or from one JSON object.
func (s *session) readCall(words []string) (tool.ID, tool.Args, error) {
	if text := words[0]; text == "-" || strings.HasPrefix(strings.TrimSpace(text), "{") {
		if len(words) > 1 {
			return "", nil, fault.New(fault.Usage, "no arguments may follow a call in JSON")
		}
		if text == "-" {
			b, err := io.ReadAll(io.LimitReader(s.In, 1<<20))
			if err != nil {
				return "", nil, fault.Wrap(fault.Usage, err, "standard input cannot be read")
			}
			text = string(b)
		}
		return callFromJSON(text)
	}
	args := tool.Args{}
	for _, w := range words[1:] {
		name, value, ok := strings.Cut(w, "=")
		if !ok || name == "" || name == ":" {
			return "", nil, fault.New(fault.Usage, "%q is not a valid argument", w).WithHint("expected name=text or name:=JSON")
		}
		if plain, isJSON := strings.CutSuffix(name, ":"); isJSON {
			v, err := canon.Decode([]byte(value))
			if err != nil {
				return "", nil, fault.New(fault.Usage, "the value of %s is not JSON: %v", plain, err)
			}
			args[plain] = v
			continue
		}
		args[name] = value
	}
	return tool.ID(words[0]), args, nil
}

func callFromJSON(text string) (tool.ID, tool.Args, error) {
	v, err := canon.Decode([]byte(text))
	if err != nil {
		return "", nil, fault.New(fault.Usage, "the call is not JSON: %v", err)
	}
	m, _ := v.(map[string]any)
	id, _ := m["tool"].(string)
	args, ok := m["args"].(map[string]any)
	if m["args"] == nil {
		args, ok = map[string]any{}, true
	}
	if id == "" || !ok || len(m) > 2 {
		return "", nil, fault.New(fault.Usage, `not a valid call; expected {"tool": "ID", "args": {...}}`)
	}
	return tool.ID(id), args, nil
}

func (s *session) printExplanation(ex policyreview.Explanation) error {
	status := exit(0)
	if ex.Effect != policy.Allow.String() {
		status = exit(fault.Denied.Exit())
	}
	if s.json {
		if err := s.printJSON(ex); err != nil || status == 0 {
			return err
		}
		return status
	}
	col := map[string]colour{"allow": green, "ask": yellow, "deny": red}
	s.printf("%s  %s\n", s.paint(col[ex.Effect], strings.ToUpper(ex.Effect)), show(ex.Reason))
	s.printf("\nactions:\n")
	if len(ex.Actions) == 0 {
		s.printf("  only the use of the tool\n")
	}
	for _, act := range ex.Actions {
		s.printf("  %s\n", show(act))
	}
	s.printf("\nrules that apply:\n")
	s.printRules(ex.Rules)
	if status != 0 {
		return status
	}
	return nil
}

// printRules prints the rules that apply to a call, with their policies if there are
// several.
func (s *session) printRules(rules []policyreview.Rule) {
	col := map[string]colour{"allow": green, "ask": yellow, "deny": red}
	head, several := []string{"EFFECT", "RULE", "WHERE", "ON"}, false
	for _, r := range rules {
		several = several || r.Link > 0
	}
	if several {
		head = []string{"POLICY", "EFFECT", "RULE", "WHERE", "ON"}
	}
	var rows [][]cell
	for _, r := range rules {
		rule := ruleText(r.Effect, r.Rule)
		if r.Rule == "default" && r.Effect == policy.Allow.String() && strings.HasPrefix(r.Action, "files.") {
			rule = "(the sandbox decides)" // a file that a command names
		}
		row := []cell{{r.Effect, col[r.Effect]}, {rule, ""}, {r.Where, dim}, {r.Action, ""}}
		if several {
			row = append([]cell{{itoa(r.Link) + " " + r.Policy, bold}}, row...)
		}
		rows = append(rows, row)
	}
	s.tableWhole(head, rows)
}

// ruleText is a rule as tables show it. The rule that policies call default is explained: it denies
// every action that no rule allows, and allows built-in tools where tools.allow is absent.
func ruleText(effect, rule string) string {
	switch {
	case rule != "default":
		return rule
	case effect == policy.Allow.String():
		return "(built-in tool)"
	case effect == policy.Ask.String():
		return "(typed command)"
	}
	return "(no rule allows it)"
}

// refusalText says why an action was refused: by which rule, if one denies it, and the
// reason.
func refusalText(rule, reason string) string {
	switch {
	case reason == "":
		return ruleText(policy.Deny.String(), rule)
	case rule == "default":
		return reason
	}
	return rule + ": " + reason
}
