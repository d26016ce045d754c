package cli

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/spf13/cobra"

	slashes "github.com/remitrun/remit/internal/agents/chat"
	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/report"
	"github.com/remitrun/remit/internal/service/grants"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/slash"
)

func (s *session) slashCmd() *cobra.Command {
	var q slash.Request
	var dir, frozenFile string
	var presented func() (grants.Presented, error)
	c := &cobra.Command{
		Use:   `slash "/NAME …"`,
		Short: "Run one slash command",
		Long: `The line is split as a shell would, without expansions. It makes one call in a
run of its own: decided, confined and recorded like any other call. "/help"
lists the commands; "/NAME help" describes one.

The result is kept for a day as the session's last response, for commands that
analyze it.
`,
		Example: `  remit slash "/http get https://example.com/" -p policy.yaml
  remit slash "/git log --max-count 3" -p policy.yaml -w ~/project --json
  remit slash "/call fs.read path=notes.txt" -p policy.yaml
  remit slash "/help"`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: s.completeSlash,
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := s.open()
			if err != nil {
				return err
			}
			if q.Frozen, err = s.frozenFlag(a, frozenFile); err != nil {
				return err
			}
			q.Line = args[0]
			if q.Workspace, err = home.Workspace(dir); err != nil {
				return err
			}
			if q.Grant, err = presented(); err != nil {
				return err
			}
			return s.slash(cmd.Context(), a, q)
		},
	}
	presented = s.presented(c)
	fl := c.Flags()
	fl.StringVarP(&q.Policy, "policy", "p", "", "policy `FILE` to run under")
	fl.StringVarP(&dir, "workspace", "w", "", "workspace `DIR` (default: the current folder)")
	fl.StringVar(&q.Session, "session", "", "`SESSION` of the last response (default: one per workspace)")
	fl.StringVar(&q.Model, "model", "", "`MODEL` for analysis, as provider/model or scripted:FILE")
	fl.BoolVar(&q.Changeset, "changeset", false, "hold writes until remit changes apply")
	modeFlags(fl, &q.Planning, &frozenFile)
	fl.BoolVar(&q.Wait, "wait", false, "without a terminal, wait for remit approvals")
	return c
}

// slashJSON is the result of a slash command, as --json prints it.
type slashJSON struct {
	Route    *slashes.Route   `json:"route"`
	Help     string           `json:"help,omitempty"`
	RunID    string           `json:"run_id,omitempty"`
	Tool     string           `json:"tool,omitempty"`
	Status   string           `json:"status,omitempty"`
	Output   report.Value     `json:"output,omitzero"`
	Error    *report.Error    `json:"error,omitempty"`
	Decision *report.Decision `json:"decision,omitempty"`
	Duration float64          `json:"duration_ms"`
}

func (s *session) slash(ctx context.Context, a *app.App, q slash.Request) error {
	live := s.newProgress(a.Home.Redactor(), 1)
	q.Here = s.askAtTerminal(live)
	res, err := a.Slash.Run(ctx, q)
	live.stop()
	if err != nil {
		return err
	}
	switch {
	case s.json:
		if err := s.printSlashJSON(ctx, a, res); err != nil {
			return err
		}
	case res.Route.Help:
		s.printf("%s", showLines(res.Help))
	default:
		s.printSlash(res)
	}
	if res.Route.Help {
		return nil
	}
	if res.Run.Stopped != nil {
		return res.Run.Stopped
	}
	return runExit(ctx.Err() != nil, res.Run.Status)
}

func (s *session) printSlashJSON(ctx context.Context, a *app.App, res slash.Result) error {
	out := slashJSON{Route: &res.Route, Help: res.Help}
	if res.Route.Help {
		return s.printJSON(out)
	}
	_, steps, err := a.History.Steps(context.WithoutCancel(ctx), res.Run.ID.String())
	if err != nil {
		return err
	}
	for step, err := range steps {
		if err != nil {
			return err
		}
		out.Tool, out.Status, out.Output, out.Error, out.Duration = step.Tool, step.Status, step.Output, step.Error, step.DurationMS
		if step.Decision.Effect != "" {
			out.Decision = &step.Decision
		}
	}
	out.RunID = res.Run.ID.String()
	return s.printJSON(out)
}

// printSlash prints the result of a command: its text or JSON content, or else the
// whole output.
func (s *session) printSlash(res slash.Result) {
	content, aside := slashes.Content(res.Outcome.Output), ""
	if text, ok := res.Outcome.Output["stderr"].(string); ok {
		aside = strings.TrimRight(text, "\n")
	}
	if strings.TrimRight(content, "\n") == aside {
		content = ""
	}
	if pretty, ok := indentJSON(content); ok {
		content = pretty
	}
	switch content = strings.TrimRight(content, "\n"); {
	case content != "":
		s.printf("%s\n", showLines(content))
	case res.Outcome.Err == nil && aside == "":
		s.printf("%s /%s %s completed without output\n", s.paint(green, "✓"), res.Route.Command, res.Route.Action)
	}
	if strings.TrimSpace(aside) != "" {
		s.errorf("%s\n", showLines(aside))
	}
	if err := res.Outcome.Err; err != nil {
		sign, col := icon(res.Outcome.Status.String())
		s.errorf("%s %s %s\n", s.paintErr(col, sign), fault.CodeOf(err).Error(), show(fault.Message(err)))
		s.errorf("  %s\n", s.paintErr(dim, "remit report "+shortRunID(res.Run.ID.String())))
	}
	s.printHeld(res.Run)
}

func indentJSON(text string) (string, bool) {
	if t := strings.TrimSpace(text); t == "" || t[0] != '{' && t[0] != '[' {
		return "", false
	}
	var b strings.Builder
	var v any
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil || dec.More() {
		return "", false
	}
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return "", false
	}
	return b.String(), true
}

// completeSlash completes a slash command, as remit chat does.
func (s *session) completeSlash(_ *cobra.Command, args []string, begin string) ([]string, cobra.ShellCompDirective) {
	a, err := s.open()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	router, err := a.Extensions.Router()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	if begin == "" {
		begin = "/"
	}
	from, list := router.Complete(begin)
	out := make([]string, len(list))
	for i, c := range list {
		out[i] = begin[:from] + c.Text + "\t" + firstLine(c.Description)
	}
	return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}
