package cli

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/catalog"
	"github.com/remitrun/remit/internal/service/home"
)

func (s *session) toolCmd() *cobra.Command {
	var diff bool
	c := &cobra.Command{
		Use:   "tool ID",
		Short: "Describe a tool: its arguments, output, risk and side effects",
		Long: `Risk and side effects are shown with the evidence for them. For a tool of a
source it also shows when the tool was first seen and accepted, and suspicious
text in its description. --diff shows how the tool changed since it was
accepted.
`,
		Example: `  remit tool fs.read
  remit tool mcp:github:get_issue --diff`,
		Args: cobra.ExactArgs(1),

		ValidArgsFunction: s.completeTools,
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := s.open()
			if err != nil {
				return err
			}
			if diff {
				change, err := a.Catalog().Difference(cmd.Context(), home.Person(), tool.ID(args[0]))
				if err != nil {
					return err
				}
				return s.printToolChange(change, "")
			}
			t, err := a.Catalog().Describe(cmd.Context(), tool.ID(args[0]))
			if err != nil {
				return err
			}
			if s.json {
				return s.printJSON(t.Describe(true))
			}
			s.printTool(t)
			return nil
		},
	}
	c.Flags().BoolVar(&diff, "diff", false, "show how the tool changed since it was accepted")
	c.AddCommand(s.toolNewCmd())
	return c
}

func (s *session) printTool(t catalog.Tool) {
	p := t.Spec
	s.printf("%s  %s\n\n", s.paint(bold, string(p.ID)), show(p.Title))
	for _, text := range strings.Split(p.Description, "\n") {
		for _, line := range wrap(show(text), s.width()) {
			s.printf("%s\n", line)
		}
	}
	s.printf("\nrisk          %s\n", p.Risk)
	if t.Source != catalog.BuiltIn {
		for _, r := range t.Verdict.Reasons {
			effects := ""
			if r.Effects != 0 {
				effects = ": " + r.Effects.String()
			}
			s.printf("              %s, because %s%s\n", r.Risk, show(r.Why), effects)
		}
	}
	s.printf("side effects  %s\nsource        %s, version %s\ndigest        %s\n", orDash(p.Effects.String()), sourceOf(t), orDash(show(p.Version)), t.Digest)
	if !t.First.IsZero() {
		now := time.Now()
		s.printf("seen          first %s, last %s\n", when(t.First, now), when(t.Last, now))
	}
	if !t.Accepted.IsZero() {
		s.printf("accepted      %s\n", when(t.Accepted, time.Now()))
	}
	if t.Disabled != "" {
		s.printf("disabled      %s\n", s.paint(yellow, show(t.Disabled)))
		s.printf("              %s\n", s.paint(dim, wayOn(t)))
	}
	s.printFindings(t)
	s.printf("\n")
	s.printSchema("arguments", p.Input)
}

// wayOn returns the command that enables a tool.
func wayOn(t catalog.Tool) string {
	if t.Changed {
		return "review with remit tool " + show(string(t.Spec.ID)) + " --diff, then remit tools accept " + show(string(t.Spec.ID))
	}
	return "remit tools enable " + show(string(t.Spec.ID))
}

func sourceOf(t catalog.Tool) string {
	if t.Source == catalog.BuiltIn {
		return t.Spec.Source
	}
	return t.Spec.Source + " (" + show(t.Source) + ")"
}

// printFindings quotes suspicious text of a tool.
func (s *session) printFindings(t catalog.Tool) {
	if len(t.Findings) == 0 {
		return
	}
	s.printf("\n%s\n", s.paint(red, "suspicious text; it comes from the tool's source and is not verified"))
	for _, f := range t.Findings {
		s.printf("  %s, in its %s: %s\n", f.Kind, show(f.Where), show(f.Why))
		s.block("", "“"+show(f.Quote)+"”")
	}
}

// printToolChange prints how a tool changed, after a line with the result.
func (s *session) printToolChange(c catalog.Change, done string) error {
	if s.json {
		return s.printJSON(toolChangeOf(c))
	}
	if c.Is == nil {
		if c.Was == nil {
			s.printf("%s is built in, or was never used: no accepted version to compare with\n", show(string(c.ID)))
			return nil
		}
		s.printf("%s has not changed since it was accepted\n", show(string(c.ID)))
		return nil
	}
	if done != "" {
		s.printf("%s %s, %s\n", done, show(string(c.ID)), c.Is.Digest)
	}
	s.printDifference("accepted", "now", c.Diff())
	return nil
}

// toolChangeJSON is how a tool changed, as --json prints it.
type toolChangeJSON struct {
	ID   tool.ID          `json:"id"`
	Was  *catalog.Version `json:"accepted"`
	Is   *catalog.Version `json:"now"`
	Diff string           `json:"diff"`
}

func toolChangeOf(c catalog.Change) toolChangeJSON {
	return toolChangeJSON{c.ID, c.Was, c.Is, c.Diff().Text}
}

func (s *session) toolsAcceptCmd() *cobra.Command {
	var sources []string
	var look bool
	c := &cobra.Command{
		Use:   "accept [ID...]",
		Short: "Accept changed tools",
		Long: `A tool whose description has changed since it was accepted is disabled. This
accepts the version that remit tool ID --diff, or --diff here, has shown to you.
A version that was shown to another person is not accepted, and neither are
later changes. Grants and approvals for the old version stay invalid.
`,
		Example: `  remit tools accept mcp:github:get_issue
  remit tools accept --source mcp:github --diff
  remit tools accept --source mcp:github`,
		ValidArgsFunction: s.completeTools,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args)+len(sources) == 0 {
				return fault.New(fault.Usage, "ID is missing").WithHint("name tools, or all tools of a source with --source")
			}
			a, err := s.open()
			if err != nil {
				return err
			}
			ids, err := a.Extensions.ChangedTools(cmd.Context(), toolIDs(args), sources)
			if err != nil {
				return err
			}
			word, change := "accepted", a.Extensions.AcceptTools
			if look {
				word, change = "changed", a.Extensions.ShowTools
			}
			done, err := change(cmd.Context(), home.Person(), ids)
			if s.json && err == nil {
				out := make([]toolChangeJSON, len(done))
				for i, c := range done {
					out[i] = toolChangeOf(c)
				}
				return s.printJSON(out)
			}
			if len(done) == 0 && err == nil {
				s.printf("no tool of %s changed since it was accepted\n", show(strings.Join(sources, ", ")))
			}
			for _, c := range done {
				if perr := s.printToolChange(c, word); err == nil {
					err = perr
				}
			}
			return err
		},
	}
	c.Flags().StringArrayVar(&sources, "source", nil, "accept all changed tools of this `SOURCE` (repeatable)")
	c.Flags().BoolVar(&look, "diff", false, "show how the tools changed, and accept none")
	return c
}

func (s *session) toolsSwitchCmd(on bool) *cobra.Command {
	name, did := "disable", "disabled"
	c := &cobra.Command{Short: "Disable tools, whatever policies allow",
		Long: "Calls of a disabled tool are refused, and clients do not see it.\n"}
	if on {
		name, did = "enable", "enabled"
		c.Short, c.Long = "Enable disabled tools", "A tool that changed since it was accepted needs remit tools accept instead.\n"
	}
	c.Use = name + " ID..."
	c.Example = "  remit tools " + name + " shell.run"
	c.Args, c.ValidArgsFunction = cobra.MinimumNArgs(1), s.completeTools
	c.RunE = func(cmd *cobra.Command, args []string) error {
		a, err := s.open()
		if err != nil {
			return err
		}
		out := []map[string]any{}
		for _, id := range toolIDs(args) {
			changed, err := a.Extensions.SwitchTool(cmd.Context(), id, on)
			if err != nil {
				return err
			}
			out = append(out, map[string]any{"id": id, "enabled": on, "changed": changed})
			word := did
			if !changed {
				word = "was already " + did
			}
			if !s.json {
				s.printf("%s %s\n", show(string(id)), word)
			}
		}
		if s.json {
			return s.printJSON(out)
		}
		return nil
	}
	return c
}

func toolIDs(args []string) []tool.ID {
	out := make([]tool.ID, len(args))
	for i, a := range args {
		out[i] = tool.ID(a)
	}
	return out
}

// printSchema prints an object schema as a table of its properties. Sources may use
// other schemas, which it only names.
func (s *session) printSchema(what string, src []byte) {
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
	}
	if json.Unmarshal(src, &schema) != nil {
		s.printf("%s: not an object schema; see --json\n", what)
		return
	}
	var rows [][]cell
	for _, name := range sortedKeys(schema.Properties) {
		var p struct {
			Type        any `json:"type"`
			Description any `json:"description"`
		}
		_ = json.Unmarshal(schema.Properties[name], &p) // true and false are valid schemas without properties
		text, _ := p.Description.(string)
		need := ""
		for _, r := range schema.Required {
			if r == name {
				need = "yes"
			}
		}
		rows = append(rows, []cell{{name, bold}, {typeName(p.Type), ""}, {need, yellow}, {text, ""}})
	}
	s.tableWhole([]string{strings.ToUpper(what), "TYPE", "REQUIRED", "DESCRIPTION"}, rows)
}

func typeName(t any) string {
	switch t := t.(type) {
	case string:
		return t
	case []any:
		var names []string
		for _, x := range t {
			names = append(names, typeName(x))
		}
		return strings.Join(names, "|")
	}
	return "any"
}
