package cli

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/service/agents"
)

// capabilityJSON is one capability as --json prints it.
type capabilityJSON struct {
	capability.Info

	File     string               `json:"file,omitempty"`
	Prompt   string               `json:"prompt,omitempty"`
	Tools    []capabilityToolJSON `json:"tools"`
	Warnings []string             `json:"warnings,omitempty"`
	Problem  string               `json:"problem,omitempty"`
}

type capabilityToolJSON struct {
	Name        string          `json:"name"`
	ID          tool.ID         `json:"id"`
	Description string          `json:"description,omitempty"`
	Risk        string          `json:"risk,omitempty"`
	SideEffects *tool.Effects   `json:"side_effects,omitempty"`
	Defaults    tool.Args       `json:"defaults,omitempty"`
	Input       json.RawMessage `json:"input_schema,omitempty"`
	Output      json.RawMessage `json:"output_schema,omitempty"`
}

// capabilitiesJSON is the list of them.
type capabilitiesJSON struct {
	Items  []capability.Info `json:"items"`
	Total  int               `json:"total"`
	Broken []brokenJSON      `json:"broken,omitempty"`
}

type brokenJSON struct {
	ID    string `json:"id,omitempty"`
	File  string `json:"file"`
	Error string `json:"error"`
}

func (s *session) capabilitiesCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "capabilities [ID]",
		Short: "List the capabilities of agents, or describe one",
		Long: `A capability adds to an agent: text for its prompt, tools, a configuration, and
other capabilities that it requires. It does not grant authority. The
description of one lists the authority that its tools need; a policy decides.

Your own capabilities are YAML files in $REMIT_HOME/capabilities. An invalid
file is reported below the list and does not affect the others.
`,
		Example: `  remit capabilities
  remit capabilities web_fetch
  remit capabilities schema > capability.schema.json`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: s.completeCapabilities,
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := s.open()
			if err != nil {
				return err
			}
			if len(args) == 0 {
				reg, err := a.Agents.Capabilities()
				if err != nil {
					return err
				}
				return s.printCapabilities(reg.List())
			}
			v, err := a.Agents.Capability(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return s.printCapability(v)
		},
	}
	c.AddCommand(&cobra.Command{
		Use:     "schema",
		Short:   "Print the JSON Schema of capability files",
		Long:    "Editors use the schema to complete and check files in $REMIT_HOME/capabilities.\n",
		Example: "  remit capabilities schema > capability.schema.json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			s.printf("%s", agents.CapabilitySchema())
			return nil
		},
	})
	return c
}

func (s *session) completeCapabilities(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	a, err := s.open()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	reg, err := a.Agents.Capabilities()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var out []string
	list, _ := reg.List()
	for _, c := range list {
		out = append(out, c.Info().ID)
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

func (s *session) printCapabilities(list []capability.Capability, broken []capability.Broken) error {
	if s.json {
		out := capabilitiesJSON{Items: []capability.Info{}, Total: len(list)}
		for _, c := range list {
			out.Items = append(out.Items, c.Info())
		}
		for _, b := range broken {
			out.Broken = append(out.Broken, brokenJSON{b.ID, b.File, b.Err.Error()})
		}
		return s.printJSON(out)
	}
	var rows [][]cell
	for _, c := range list {
		info := c.Info()
		status := colour("")
		if info.Status != capability.Available {
			status = yellow
		}
		rows = append(rows, []cell{{show(info.ID), bold}, {string(info.Status), status}, {show(orDash(info.Category)), ""}, {show(firstLine(info.Description)), ""}})
	}
	s.table([]string{"CAPABILITY", "STATUS", "CATEGORY", "ADDS"}, rows)
	for i, b := range broken {
		if i == 0 {
			s.printf("\n")
		}
		s.printf("%s is not valid:\n", show(b.File))
		for line := range strings.Lines(b.Err.Error()) {
			s.printf("  %s\n", show(strings.TrimSuffix(line, "\n")))
		}
	}
	return nil
}

func (s *session) printCapability(v agents.CapabilityView) error {
	if s.json {
		return s.printJSON(describeCapability(v))
	}
	i := v.Info
	s.printf("%s  %s\n\n", s.paint(bold, show(i.ID)), show(i.Name))
	for _, line := range wrap(show(i.Description), s.width()) {
		s.printf("%s\n", line)
	}
	s.printf("\nstatus    %s\nversion   %s\ncategory  %s\nrequires  %s\nwants     %s\n", i.Status, show(i.Version), show(orDash(i.Category)),
		show(orDash(strings.Join(i.Requires, ", "))), show(orDash(strings.Join(i.Wants, ", "))))
	if i.ReadOnly {
		s.printf("read-only a call of its tools that could have a side effect is denied\n")
	}
	if v.File != "" {
		s.printf("file      %s\n", show(v.File))
	}
	for _, w := range v.Warnings {
		s.printf("note      %s\n", show(w))
	}
	if v.Problem != nil {
		s.printf("problem   %s\n", s.paint(yellow, show(v.Problem.Error())))
	}
	s.printCapabilityTools(v.Tools)
	if v.Prompt != "" {
		s.printf("\n%s\n", s.paint(bold, "prompt"))
		for line := range strings.SplitSeq(showLines(strings.TrimSpace(v.Prompt)), "\n") {
			s.printf("%s\n", strings.TrimRight("  "+line, " "))
		}
	}
	if len(i.Config) > 0 {
		s.printf("\n")
		s.printSchema("configuration", i.Config)
	}
	return nil
}

func (s *session) printCapabilityTools(tools []agents.CapabilityTool) {
	if len(tools) == 0 {
		return
	}
	s.printf("\n")
	var rows [][]cell
	for _, t := range tools {
		row := []cell{{show(t.Name), bold}, {show(string(t.ID)), ""}, {"-", ""}, {"-", ""}}
		if t.Spec != nil {
			row[2], row[3] = cell{t.Spec.Risk.String(), riskColour(t.Spec.Risk)}, cell{orDash(t.Spec.Effects.String()), ""}
		}
		if len(t.Defaults) > 0 {
			raw, err := json.Marshal(t.Defaults)
			if err != nil {
				raw = []byte(fmt.Sprint(t.Defaults))
			}
			row[3].text += "  defaults " + show(string(raw))
		}
		rows = append(rows, row)
	}
	s.table([]string{"TOOL", "ID", "RISK", "SIDE EFFECTS"}, rows)
}

func describeCapability(v agents.CapabilityView) capabilityJSON {
	out := capabilityJSON{Info: v.Info, File: v.File, Prompt: v.Prompt, Tools: []capabilityToolJSON{}, Warnings: v.Warnings}
	if v.Problem != nil {
		out.Problem = v.Problem.Error()
	}
	for _, t := range v.Tools {
		one := capabilityToolJSON{Name: t.Name, ID: t.ID, Defaults: t.Defaults}
		if p := t.Spec; p != nil {
			one.Description, one.Risk, one.SideEffects, one.Input, one.Output = p.Description, p.Risk.String(), &p.Effects, p.Input, p.Output
		}
		out.Tools = append(out.Tools, one)
	}
	return out
}
