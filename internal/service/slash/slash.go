// Package slash carries out slash commands, each as a run of its own with one call, and keeps
// the last response of each session for the commands that analyze it. Start at
// [Commands.Run].
package slash

import (
	"context"
	"strings"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/agents/chat"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/approval"
	"github.com/remitrun/remit/internal/call/frozen"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/extensions"
	"github.com/remitrun/remit/internal/service/grants"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/policies"
	"github.com/remitrun/remit/internal/service/runs"
	"github.com/remitrun/remit/internal/tools/builtin/analyze"
	"github.com/remitrun/remit/internal/tools/builtin/modelchat"
	"github.com/remitrun/remit/internal/tools/extension"
)

// Commands carries out the slash commands of the installed extensions. Its fields are set
// before it is used.
type Commands struct {
	Home       *home.Home
	Runs       *runs.Runs
	Extensions *extensions.Extensions
}

// Request asks for a slash command.
type Request struct {
	ID        uuid.UUID // of the run; zero: a new one
	Line      string
	Policy    string // a policy file; "": the workspace's, if trusted
	Workspace string // absolute, as Workspace makes it
	Grant     grants.Presented
	Session   string       // its last response is analyzed or replaced; "": the workspace's own
	Model     string       // for analyses that name none
	Changeset bool         // hold writes, also if the policy does not
	Planning  bool         // refuse a call with side effects
	Frozen    *frozen.Plan // refuse other calls; nil: do not
	Wait      bool         // wait for approvals also without a terminal
	Here      func(ctx context.Context, c approval.Case) (store.Vote, error)
	Observe   func(runner.Notice)
	Started   func(run *runner.Run, h policies.Hint)
	Advice    func(q store.Approval) string // as in runs.Request
	// History adds the result to a session's history, with do called meanwhile; nil: there is none.
	History func(ctx context.Context, do agent.Carry) error
}

// Result is the result of a slash command.
type Result struct {
	Route   chat.Route
	Help    string // the help that was asked for; nothing was called
	Run     runs.Result
	Outcome runner.Outcome
}

// Run carries out a slash command. An error means that there was no call: the line is not a
// command, or a run cannot begin.
func (s *Commands) Run(ctx context.Context, q Request) (Result, error) {
	var out Result
	router, err := s.Extensions.Router()
	if err != nil {
		return out, err
	}
	if out.Route, err = router.Route(q.Line); err != nil {
		return out, err
	}
	if out.Route.Help {
		out.Help, err = router.Help(out.Route.Topic)
		return out, err
	}
	if q.History == nil {
		return out, s.carryOut(ctx, q, &runner.Context{}, &out)
	}
	err = q.History(ctx, func(ctx context.Context, labels *runner.Context) (agent.CommandResult, error) {
		if err := s.carryOut(ctx, q, labels, &out); err != nil {
			return agent.CommandResult{}, err
		}
		return s.historyResult(out), nil
	})
	return out, err
}

// historyResult is a result as a session's history keeps it.
func (s *Commands) historyResult(r Result) agent.CommandResult {
	content := chat.Content(r.Outcome.Output)
	if r.Outcome.Err != nil {
		content = strings.TrimSpace(r.Outcome.Err.Error() + "\n" + content)
	}
	name := runName(r.Route)
	if r.Route.Extension == "" { // /call: its tool says more
		name += " " + string(r.Route.Tool)
	}
	return agent.CommandResult{Command: name, Run: r.Run.ID, Status: r.Outcome.Status.String(), Content: s.Home.Redactor().Text(content)}
}

// carryOut makes the call of a route, in a run of its own, which adds its labels to those of the
// session.
func (s *Commands) carryOut(ctx context.Context, q Request, labels *runner.Context, out *Result) error {
	key := sessionKey(q.Session, q.Workspace)
	c, err := s.call(out.Route, key, q.Model, labels)
	if err != nil {
		return err
	}
	run, err := s.Runs.Begin(ctx, runs.Request{
		ID: q.ID, Name: runName(out.Route), Policy: q.Policy, Workspace: q.Workspace, Grant: q.Grant, Changeset: q.Changeset, Planning: q.Planning, Frozen: q.Frozen, Wait: q.Wait, Here: q.Here, Observe: q.Observe, Started: q.Started, Advice: q.Advice, Context: labels,
		Single: q.History == nil && q.Grant.Token != "", // without a grant it is a command of the person at this machine
	})
	if err != nil {
		return err
	}
	out.Outcome, err = run.Call(ctx, c)
	eerr := run.End(context.WithoutCancel(ctx))
	if out.Run = run.Result(); err == nil {
		err = eerr
	}
	if err == nil {
		err = s.keep(key, out.Route, out.Run.ID, out.Outcome, labels)
	}
	return err
}

// runName names the run of a command, without its arguments: they may be secret, and
// arguments can be erased from the record.
func runName(r chat.Route) string {
	return strings.TrimSpace("/" + r.Command + " " + map[bool]string{false: r.Action}[r.Command == r.Action])
}

// call makes the call of a route, within the permissions that its extension declares.
// session is the key of the response to analyze, whose labels are added; model is the default for
// analyses.
func (s *Commands) call(r chat.Route, session, model string, labels *runner.Context) (runner.Call, error) {
	c := runner.Call{Tool: r.Tool, Args: r.Input, Name: runName(r)}
	if r.Kind == extension.RunAnalyze {
		var err error
		if c.Tool, c.Args, err = s.analysis(r, session, model, labels); err != nil {
			return c, err
		}
	}
	if r.Extension == "" || r.Kind == extension.RunExec || r.Kind == extension.RunWASM {
		return c, nil // its own tools have their bounds
	}
	bounds, err := s.Extensions.BoundsOf(r.Extension)
	if err != nil {
		return c, err
	}
	c.Bounds = []*policy.Policy{bounds.Calls}
	if r.Kind == extension.RunAnalyze {
		c.Bounds = []*policy.Policy{bounds.Analyses}
	}
	return c, nil
}

// defaultQuestion is asked about a response if the command has no question.
const defaultQuestion = "What does this output say? Give the main points."

// analysis makes the call that analyzes a session's last response.
func (s *Commands) analysis(r chat.Route, session, model string, labels *runner.Context) (tool.ID, tool.Args, error) {
	last, ok, err := s.responses().lastResponse(session)
	switch {
	case err != nil:
		return "", nil, err
	case !ok:
		return "", nil, fault.New(fault.CommandInvalid, "no response to analyze: nothing was called in this session and workspace in the last 24 hours").
			WithHint("call something first, as /http get URL")
	}
	labels.Add(last.Labels)
	if r.Name == "schema" && last.IsJSON() {
		return analyze.ID, tool.Args{"text": last.Content}, nil
	}
	if said, ok := r.Input["model"].(string); ok && said != "" {
		model = said
	}
	if model == "" {
		model = s.Home.Settings.Models.Default
	}
	if model == "" {
		return "", nil, fault.New(fault.ModelUnknown, "no model to analyze the response with").
			WithHint("name one with --model provider/model or --model scripted:FILE, or models.default of the settings")
	}
	question := chat.SchemaQuestion
	if r.Name == "response" {
		question = questionArgument(r.Input["question"])
	}
	args := tool.Args{"model": model, "system": chat.AnalysisSystem, "messages": []any{map[string]any{"role": "user", "text": chat.Analysis(last, question)}}}
	if n, ok := r.Input["max_tokens"]; ok {
		args["max_tokens"] = n
	}
	return modelchat.ID, args, nil
}

// questionArgument reads the argument that has the question: a text, or a list of words.
func questionArgument(v any) string {
	words, many := v.([]any)
	if !many {
		words = []any{v}
	}
	var parts []string
	for _, w := range words {
		if s, ok := w.(string); ok && strings.TrimSpace(s) != "" {
			parts = append(parts, s)
		}
	}
	if len(parts) == 0 {
		return defaultQuestion
	}
	return strings.Join(parts, " ")
}

// keep keeps a command's output if it can be analyzed. Analyses are not kept.
func (s *Commands) keep(session string, r chat.Route, run uuid.UUID, o runner.Outcome, labels *runner.Context) error {
	content := chat.Content(o.Output)
	if r.Kind == extension.RunAnalyze || content == "" {
		return nil
	}
	kept, cut := chat.Clip(s.Home.Redactor().Text(content))
	return s.responses().keep(session, chat.Response{
		At: o.Created.Add(o.Duration).UTC(), Run: run.String(), Command: runName(r), Tool: string(o.Tool), Content: kept, Truncated: cut || o.Output["truncated"] == true, Labels: labels.Labels(),
	})
}
