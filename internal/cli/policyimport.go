package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/authority/policy/translate"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/service/home"
)

func (s *session) policyImportCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "import AGENT FILE",
		Short: "Translate another agent's permission rules into a policy",
		Long: `Reads the permission rules of AGENT from FILE, for
` + strings.Join(translate.Agents(), ", ") + `,
and prints a policy. It allows nothing that the rules deny, ask about
or do not allow. Each rule that is not carried over is named with its reason:
rules that a policy cannot express, that allow everything, or that have no
effect in the source. An unknown key counts as a refusal: the actions
of its table are asked about. Review the policy before you use it.

FILE is settings.json of Claude Code, config.toml or a .rules file of Codex,
opencode.json, settings.json of VS Code or Zed, or a policy of Gemini CLI
or Capsule. Plans of Capsule run as they are.
`,
		Example: `  remit policy import claude .claude/settings.json > remit.yaml
  remit policy import codex ~/.codex/rules/default.rules --json`,
		Args:      cobra.ExactArgs(2),
		ValidArgs: translate.Agents(),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := translate.Known(args[0]); err != nil {
				return err
			}
			src, err := wholefile.Read(args[1], translate.MaxSource)
			if err != nil {
				return fault.Wrap(fault.Usage, err, "%v", wholefile.Cause(err)).At(fault.Pos{File: args[1]}).
					WithHint("%s", home.NearFile(args[1], "name an existing file of "+args[0]+"'s rules"))
			}
			res, err := translate.Translate(args[0], args[1], src)
			if err != nil {
				return err
			}
			if s.json {
				return s.printJSON(map[string]any{"policy": string(res.Policy), "dropped": res.Dropped})
			}
			s.printf("%s", res.Policy)
			for _, d := range res.Dropped {
				s.errorf("%s %s: %s\n", s.paintErr(yellow, "!"), show(d.Rule), show(d.Reason))
			}
			return nil
		},
	}
}
