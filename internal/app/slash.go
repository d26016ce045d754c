package app

import (
	"context"
	"strings"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/agents/chat"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/approval"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/grants"
	"github.com/remitrun/remit/internal/service/policies"
	"github.com/remitrun/remit/internal/service/runs"
	"github.com/remitrun/remit/internal/tools/builtin/analyze"
	"github.com/remitrun/remit/internal/tools/builtin/modelchat"
	"github.com/remitrun/remit/internal/tools/extension"
)

// SlashRequest asks for one slash command.
type SlashRequest struct {
	Line      string
	Policy    string // a policy file; "": the workspace's, if trusted
	Workspace string // absolute, as Workspace makes it
	Grant     grants.Presented
	Session   string // whose last response is analyzed, and kept; "": DefaultSession
	Model     string // of analyses that name none
	Changeset bool   // hold what is written, also where the policy does not say so
	Wait      bool   // wait for approvals where nobody is here to give them
	Here      func(ctx context.Context, c approval.Case) (store.Vote, error)
	Observe   func(runner.Notice)
	Started   func(run *runner.Run, h policies.Hint)
}

// SlashResult is what came of one.
type SlashResult struct {
	Route   chat.Route
	Help    string // what is to be shown; nothing was called
	Run     runs.Result
	Outcome runner.Outcome
}

// DefaultSession is whose last response is kept where nobody names a session.
const DefaultSession = "default"

// Slash carries one slash command out: a run of its own, with one call. An error
// means that there was no call: the line means nothing, or nothing may begin.
func (a *App) Slash(ctx context.Context, q SlashRequest) (SlashResult, error) {
	var out SlashResult
	router, err := a.Extensions.Router()
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
	key := a.sessionKey(q.Session, q.Workspace)
	c, err := a.SlashCall(out.Route, key, q.Model)
	if err != nil {
		return out, err
	}
	s, err := a.Runs.Begin(ctx, runs.Request{
		Name: runName(out.Route), Policy: q.Policy, Workspace: q.Workspace, Grant: q.Grant, Changeset: q.Changeset, Wait: q.Wait, Here: q.Here, Observe: q.Observe, Started: q.Started,
	})
	if err != nil {
		return out, err
	}
	out.Outcome, err = s.Call(ctx, c)
	eerr := s.End(context.WithoutCancel(ctx))
	if out.Run = s.Result(); err == nil {
		err = eerr
	}
	if err == nil {
		err = a.KeepResponse(key, out.Route, out.Run.ID, out.Outcome)
	}
	return out, err
}

// runName is what the run of a command is called: not its arguments, which may be
// secret and can be erased from the record.
func runName(r chat.Route) string {
	return strings.TrimSpace("/" + r.Command + " " + map[bool]string{false: r.Action}[r.Command == r.Action])
}

// SlashCall makes the call that a route means, bounded by what its extension
// declared. Session is the key of whose last response is analyzed; model is asked
// where the route names none.
func (a *App) SlashCall(r chat.Route, session, model string) (runner.Call, error) {
	c := runner.Call{Tool: r.Tool, Args: r.Input, Name: runName(r)}
	if r.Kind == extension.RunAnalyze {
		var err error
		if c.Tool, c.Args, err = a.analysis(r, session, model); err != nil {
			return c, err
		}
	}
	if r.Extension == "" || r.Kind == extension.RunExec || r.Kind == extension.RunWASM {
		return c, nil // whose own tools bring their bounds
	}
	bounds, err := a.Extensions.BoundsOf(r.Extension)
	if err != nil {
		return c, err
	}
	c.Bounds = []*policy.Policy{bounds.Calls}
	if r.Kind == extension.RunAnalyze {
		c.Bounds = []*policy.Policy{bounds.Analyses}
	}
	return c, nil
}

// defaultQuestion is asked of a response where nobody asks anything.
const defaultQuestion = "What does this output say? Give the main points."

// analysis makes the call that analyzes a session's last response.
func (a *App) analysis(r chat.Route, session, model string) (tool.ID, tool.Args, error) {
	last, ok, err := a.responses().Last(session)
	switch {
	case err != nil:
		return "", nil, err
	case !ok:
		return "", nil, fault.New(fault.CommandInvalid, "there is no response to analyze: nothing was called in this session and workspace in the last 24 hours").
			WithHint("call something first, as /http get URL")
	case r.Name == "schema" && last.IsJSON():
		return analyze.ID, tool.Args{"text": last.Content}, nil
	}
	if said, ok := r.Input["model"].(string); ok && said != "" {
		model = said
	}
	if model == "" {
		model = a.Home.Settings.Models.Default
	}
	if model == "" {
		return "", nil, fault.New(fault.ModelUnknown, "no model is named to analyze the response with").
			WithHint("name one with --model provider/model or --model scripted:FILE, or models.default of the settings")
	}
	question := chat.SchemaQuestion
	if r.Name == "response" {
		question = asked(r.Input["question"])
	}
	args := tool.Args{"model": model, "system": chat.AnalysisSystem, "messages": []any{map[string]any{"role": "user", "text": chat.Analysis(last, question)}}}
	if n, ok := r.Input["max_tokens"]; ok {
		args["max_tokens"] = n
	}
	return modelchat.ID, args, nil
}

// asked is a question as an action's argument of that name has it: text, or words.
func asked(v any) string {
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

// KeepResponse keeps what a command gave, if it gave something that can be analyzed.
// Analyses are not kept themselves.
func (a *App) KeepResponse(session string, r chat.Route, run uuid.UUID, o runner.Outcome) error {
	content := chat.Content(o.Output)
	if r.Kind == extension.RunAnalyze || content == "" {
		return nil
	}
	kept, cut := chat.Clip(a.Home.Redactor().Text(content))
	return a.responses().Keep(session, chat.Response{
		At: o.Created.Add(o.Duration).UTC(), Run: run.String(), Command: runName(r), Tool: string(o.Tool), Content: kept, Truncated: cut || o.Output["truncated"] == true,
	})
}
