package cli

import (
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/catalog"
)

func (s *session) toolsCmd() *cobra.Command {
	var f toolFlags
	c := &cobra.Command{
		Use:   "tools",
		Short: "List tools",
		Long: `Lists the tools of all sources: built-in, extensions, MCP servers, OpenAPI
documents and WebAssembly modules. Sources that fail and tools that are refused
are named below the list, or on standard error with --json. If a server does
not answer in time, its tools are listed from the last answer and marked [not
asked]; --wait 30s gives it more time.

A tool is remembered when it is first used or shown. If its description changes
later, it is disabled until remit tools accept accepts the change. Descriptions
come from the sources and are not trusted: [!] marks suspicious text, which
remit tool ID shows.
`,
		Example: `  remit tools
  remit tools --source mcp --max-risk medium --without network.http
  remit tools --search "issue create" --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			filter, err := f.filter()
			if err != nil {
				return err
			}
			a, err := s.open()
			if err != nil {
				return err
			}
			return s.printTools(a.Catalog().List(cmd.Context(), filter))
		},
	}
	fl := c.Flags()
	fl.StringVar(&f.Source, "source", "", "only tools of this `SOURCE`, such as mcp:github, or kind: builtin, extension, mcp, api, wasm")
	fl.StringVar(&f.risk, "max-risk", "", "only tools up to this `RISK`: low, medium, high or critical")
	fl.StringArrayVar(&f.without, "without", nil, "only tools without this side `EFFECT`, such as fs.delete (repeatable)")
	fl.BoolVar(&f.Enabled, "enabled", false, "only enabled tools")
	fl.DurationVar(&f.Wait, "wait", 200*time.Millisecond, "maximum time for servers to start and answer")
	fl.StringVar(&f.Search, "search", "", "only tools with all these `WORDS` in ID, title or description")
	c.AddCommand(s.toolsAcceptCmd(), s.toolsSwitchCmd(true), s.toolsSwitchCmd(false))
	return c
}

// toolFlags are the flags of remit tools that need parsing; the others are in the filter.
type toolFlags struct {
	catalog.Filter
	risk    string
	without []string
}

func (f toolFlags) filter() (catalog.Filter, error) {
	q := f.Filter
	if f.risk != "" {
		r, ok := tool.ParseRisk(f.risk)
		if !ok {
			return q, fault.New(fault.Usage, "--max-risk %q is not a valid risk", f.risk).WithHint("expected low, medium, high or critical")
		}
		q.MaxRisk = &r
	}
	var err error
	if q.Without, err = tool.ParseEffects(f.without); err != nil {
		return q, fault.New(fault.Usage, "--without: %v", err).WithHint("side effects have names such as fs.delete or network.http; remit tools lists them")
	}
	return q, nil
}

func (s *session) printTools(list catalog.Listing) error {
	if s.json {
		out := make([]catalog.Described, len(list.Tools))
		for i, t := range list.Tools {
			out[i] = t.Describe(false)
		}
		for _, line := range troubles(list) {
			s.errorf("%s\n", line)
		}
		return printPage(s, out, "")
	}
	var rows [][]cell
	for _, t := range list.Tools {
		p := t.Spec
		does := p.Title
		if does == "" {
			does = firstLine(p.Description)
		}
		rows = append(rows, []cell{{string(p.ID), bold}, {p.Risk.String(), riskColour(p.Risk)}, {orDash(p.Effects.String()), ""}, {marks(t) + does, ""}})
	}
	s.table([]string{"TOOL", "RISK", "SIDE EFFECTS", "DESCRIPTION"}, rows)
	for i, line := range troubles(list) {
		if i == 0 {
			s.printf("\n")
		}
		for _, part := range s.wrapped(line) {
			s.printf("%s\n", part)
		}
	}
	return nil
}

// marks returns the warnings that are shown before a tool's title.
func marks(t catalog.Tool) string {
	out := ""
	switch {
	case t.Changed:
		out = "[changed] "
	case t.Disabled != "":
		out = "[disabled] "
	}
	if t.Recalled {
		out += "[not asked] "
	}
	if len(t.Findings) > 0 {
		out += "[!] "
	}
	return out
}

// troubles returns a line for each failing source and refused tool.
func troubles(list catalog.Listing) []string {
	var out []string
	for _, f := range list.Failing {
		line := show(f.Source) + " fails"
		switch {
		case f.Late:
			line = show(f.Source) + " is still starting"
		case !f.Since.IsZero():
			line += " since " + when(f.Since, time.Now())
		}
		line += ": " + show(firstLine(reason(f.Err)))
		if n := len(f.Last); n > 0 {
			last := f.Last[:min(n, 5)]
			line += " (last seen tools: " + show(strings.Join(last, ", "))
			if n > len(last) {
				line += ", …"
			}
			line += ")"
		}
		out = append(out, line)
	}
	for _, r := range list.Refused {
		out = append(out, show(r.ID)+" refused: "+show(r.Why))
	}
	if list.More > 0 {
		out = append(out, counted(list.More, "more tool")+" refused")
	}
	return out
}

// reason returns the text of an error without its code, for the operator.
func reason(err error) string {
	if e, ok := errors.AsType[*fault.Error](err); ok {
		bare := *e
		bare.Code = 0
		return strings.TrimPrefix(bare.Error(), fault.Code(0).Error()+" ")
	}
	return err.Error()
}

func riskColour(r tool.Risk) colour {
	switch r {
	case tool.Low:
		return green
	case tool.Medium:
		return ""
	case tool.High:
		return yellow
	}
	return red
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
