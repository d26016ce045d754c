package cli

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/near"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/clients"
)

// exitHelp is the part of every command's help that lists exit statuses; ownExits comes before
// it where the command's own text names some.
const (
	exitHelp = `
Exit status: 0 done · 1 a call failed · 2 invalid arguments, plan or policy
3 denied · 4 verification or replay mismatch · 5 ledger error · 130 interrupted`
	ownExits = "\nOtherwise the exit statuses are those of every command.\n"
)

// prepare completes the help and the argument checks of a command and its
// subcommands.
func prepare(c *cobra.Command) {
	exits := exitHelp
	if strings.Contains(c.Long, "xit status") {
		exits = ownExits + exitHelp
	}
	c.Long = strings.TrimSpace(c.Short+".\n\n"+strings.TrimSpace(c.Long)) + "\n" + exits
	args := c.Args
	if args == nil {
		args = cobra.ArbitraryArgs
	}
	c.Args = func(cmd *cobra.Command, a []string) error {
		if err := args(cmd, a); err != nil {
			if own := (*fault.Error)(nil); errors.As(err, &own) {
				return err
			}
			return misused(cmd, a)
		}
		err := cmd.ValidateRequiredFlags()
		if err == nil {
			err = cmd.ValidateFlagGroups()
		}
		if err != nil {
			return badFlag(cmd, err)
		}
		return nil
	}
	for _, sub := range c.Commands() {
		prepare(sub)
	}
}

// listThemselves are the commands with others below them that list without one.
var listThemselves = []string{"approvals", "keys", "queue", "schedule", "witness"}

// misused is the error for arguments that a command does not take.
func misused(cmd *cobra.Command, words []string) error {
	if cmd.HasSubCommands() && len(words) > 0 && !hasOperands(cmd.Use) {
		e := fault.New(fault.Usage, "%s has no command %q", cmd.CommandPath(), words[0])
		if ext := filepath.Ext(words[0]); !cmd.HasParent() && (ext == ".yaml" || ext == ".yml" || ext == ".json") {
			return e.WithHint("to execute a plan: remit run %s", words[0])
		}
		if words[0] == "list" && slices.Contains(listThemselves, cmd.Name()) {
			return e.WithHint("%s alone lists them", cmd.CommandPath())
		}
		var known []string
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				known = append(append(known, sub.Name()), sub.Aliases...)
			}
		}
		if n := near.Word(words[0], known); n != "" {
			return e.WithHint("did you mean %q?", n)
		}
		return e.WithHint("see %s --help", cmd.CommandPath())
	}
	_, names, _ := strings.Cut(strings.TrimSuffix(cmd.UseLine(), " [flags]"), " ")
	var e *fault.Error
	switch want, optional := operands(cmd.Use); {
	case len(words) < len(want):
		e = fault.New(fault.Usage, "%s is missing", want[len(words)])
	case len(want) == 0 && !optional:
		e = fault.New(fault.Usage, "%s takes no arguments, but got %q", cmd.CommandPath(), words[0])
	default:
		e = fault.New(fault.Usage, "%q is one argument too many", words[len(words)-1])
	}
	if hint := wayOf(cmd, words); hint != "" {
		return e.WithHint("%s", hint)
	}
	return e.WithHint("usage: remit %s; see %s --help", names, cmd.CommandPath())
}

// wayOf is what a person most likely meant who misused a command, or "".
func wayOf(cmd *cobra.Command, words []string) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(cmd.Use, cmd.Name()+" "), " ")
	first, _, _ = strings.Cut(first, "|")
	switch path := strings.TrimPrefix(cmd.CommandPath(), "remit "); {
	case first == "RUN" && len(words) == 0:
		return "the newest: remit " + path + " last; remit runs lists all"
	case path == "tool" && len(words) > 1:
		return "remit tool " + words[0] + " describes it; to see how a policy decides a call: remit policy explain remit.yaml " + strings.Join(words, " ")
	case strings.HasPrefix(path, "agents ") && first == "AGENT" && len(words) == 0:
		return "remit " + path + " " + strings.Join(clients.Names(), "|")
	case path == "sh" && len(words) > 0:
		return "the script is one argument behind -c: remit sh -c '...'"
	case path == "policy trust":
		return "it trusts the remit.yaml of the current folder; of another one with -w DIR"
	}
	return ""
}

func hasOperands(use string) bool {
	required, _ := operands(use)
	return len(required) > 0
}

// operands returns the required operands of a usage line, and whether it has
// optional ones: a group in brackets that does not hold flags. Quoted words are
// one operand.
func operands(use string) (required []string, optional bool) {
	_, rest, _ := strings.Cut(use, " ")
	for rest = strings.TrimSpace(rest); rest != ""; rest = strings.TrimSpace(rest) {
		end := strings.IndexByte(rest, ' ')
		switch rest[0] {
		case '[':
			end = strings.IndexByte(rest, ']') + 1
			optional = optional || !strings.HasPrefix(rest, "[-")
		case '"':
			end = strings.IndexByte(rest[1:], '"') + 2
		}
		if end <= 0 {
			end = len(rest)
		}
		if rest[0] != '[' {
			required = append(required, strings.TrimSuffix(rest[:end], "..."))
		}
		rest = rest[end:]
	}
	return required, optional
}

// badFlag is the error for a flag that cannot be parsed.
func badFlag(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	text, _, _ := strings.Cut(err.Error(), ": strconv.") // strconv's own text names Go functions
	hint := "see " + cmd.CommandPath() + " --help"
	if _, both, ok := strings.Cut(text, "none of the others can be; ["); ok { // cobra's text for flags that exclude each other
		names, _, _ := strings.Cut(both, "]")
		text = "--" + strings.Join(strings.Fields(names), " and --") + " exclude each other"
	}
	switch {
	case errors.As(err, &unknown):
		if strings.Contains(cmd.Use, " -- ") {
			hint = "flags of COMMAND stand behind --: remit " + strings.TrimPrefix(cmd.UseLine(), "remit ")
		}
		if n := nearFlag(cmd, unknown); n != "" {
			hint = n
		}
	case errors.As(err, &invalid):
		if want := expected[invalid.GetFlag().Value.Type()]; want != "" {
			text += "; expected " + want
		}
	}
	return fault.New(fault.Usage, "%s", text).WithHint("%s", hint)
}

// expected says what a flag of a type takes.
var expected = map[string]string{
	"bool": "true or false", "int": "a number", "int32": "a number", "int64": "a number",
	"uint": "a number of at least 0", "uint32": "a number of at least 0", "uint64": "a number of at least 0",
}

// nearFlag suggests a known flag similar to an unknown one, or returns "".
func nearFlag(cmd *cobra.Command, unknown *pflag.NotExistError) string {
	if unknown.GetSpecifiedShortnames() != "" {
		return ""
	}
	if unknown.GetSpecifiedName() == "version" {
		return `did you mean "remit version"?`
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if n := near.Word(unknown.GetSpecifiedName(), names); n != "" {
		return fmt.Sprintf("did you mean %q?", "--"+n)
	}
	return ""
}

// helpCmd is `remit help COMMAND`. full prints the whole help of a command.
func (s *session) helpCmd(full func(*cobra.Command, []string)) *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use:   "help [COMMAND...]",
		Short: "Show the help of a command",
		Example: `  remit help policy explain
  remit help --all`,
		RunE: func(cmd *cobra.Command, words []string) error {
			if all && len(words) > 0 {
				return fault.New(fault.Usage, "--all takes no command, but got %q", words[0]).WithHint("see remit help %s", words[0])
			}
			found, rest, err := cmd.Root().Find(words)
			if err != nil || len(rest) > 0 && found.HasSubCommands() {
				return misused(orRoot(found, cmd), append(rest, words...))
			}
			found.InitDefaultHelpFlag()
			if all {
				full(found, nil)
				return nil
			}
			return found.Help()
		},
	}
	c.Flags().BoolVar(&all, "all", false, "list all commands, with examples and exit statuses")
	return c
}

// printOverview prints the root's help: the common commands, the names of the rare ones,
// and where to read more. It fits a terminal of 40 lines.
func printOverview(root *cobra.Command, groups []group) {
	var b strings.Builder
	_, about, _ := strings.Cut(root.Long, "\n\n")
	about, _, _ = strings.Cut(about, exitHelp)
	fmt.Fprintf(&b, "%s\n\n%s\n\n", strings.TrimSpace(about), root.Example)
	for _, g := range groups {
		fmt.Fprintf(&b, "%s:\n", g.name)
		for _, common := range g.common {
			for _, c := range root.Commands() {
				if c.Name() == common.name {
					fmt.Fprintf(&b, "  %-10s %s\n", c.Name(), c.Short)
				}
			}
		}
		var rare []string
		for _, c := range root.Commands() {
			if c.GroupID == g.name && !isCommon(g, c) {
				rare = append(rare, c.Name())
			}
		}
		if len(rare) > 0 {
			fmt.Fprintf(&b, "  also: %s\n", strings.Join(rare, ", "))
		}
	}
	b.WriteString("\nremit help COMMAND explains a command, remit help --all lists all commands.\n")
	_, _ = io.WriteString(root.OutOrStdout(), b.String())
}

func isCommon(g group, c *cobra.Command) bool {
	return slices.ContainsFunc(g.common, func(x command) bool { return x.name == c.Name() })
}

func orRoot(c, cmd *cobra.Command) *cobra.Command {
	if c == nil {
		return cmd.Root()
	}
	return c
}

// completion gives cobra's completion command an example and a help of its own.
func completion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() != "completion" {
			continue
		}
		c.Example = "  remit completion bash > ~/.local/share/bash-completion/completions/remit"
		c.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		for _, sub := range c.Commands() {
			sub.Example = "  remit completion " + sub.Name()
		}
	}
}

// completeRuns completes a run ID with the newest runs.
func (s *session) completeRuns(cmd *cobra.Command, words []string, _ string) ([]string, cobra.ShellCompDirective) {
	a, err := s.open()
	if err != nil || len(words) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	st, err := a.Reader(cmd.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	runs, err := st.Runs(cmd.Context(), store.RunFilter{Limit: 20})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var out []string
	for _, r := range runs {
		out = append(out, cobra.CompletionWithDesc(r.ID.String(), show(r.Name)+" "+r.Status))
	}
	return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// completeTools completes a tool ID, without asking any source.
func (s *session) completeTools(cmd *cobra.Command, words []string, _ string) ([]string, cobra.ShellCompDirective) {
	a, err := s.open()
	if err != nil || len(words) > 0 && cmd.Name() == "tool" {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []string
	for _, id := range a.Catalog().Known() {
		if !strings.Contains(id, ":") { // built in: the title of another tool would have to be asked of its source
			if t, ok := a.Catalog().Spec(tool.ID(id)); ok {
				id = cobra.CompletionWithDesc(id, t.Title)
			}
		}
		out = append(out, id)
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
