package app

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/approval"
	"github.com/remitrun/remit/internal/call/catalog"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/doors/httpapi"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/report"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/history"
	"github.com/remitrun/remit/internal/service/replays"
	"github.com/remitrun/remit/internal/service/runs"
)

// served is what the API serves besides agents, in the API's words.
type served struct {
	app            *App
	workspace      string
	observe        func(runner.Notice)
	*runs.OpenRuns // its End implements httpapi.Runs

	capabilities *capability.Registry
}

// Capabilities implements httpapi.Capabilities.
func (s *served) Capabilities(context.Context) ([]capability.Info, error) {
	list, _ := s.capabilities.List() // broken ones are told at start
	out := make([]capability.Info, len(list))
	for i, c := range list {
		out[i] = c.Info()
	}
	return out, nil
}

// Capability implements httpapi.Capabilities.
func (s *served) Capability(ctx context.Context, id string) (httpapi.CapabilityDetail, error) {
	v, err := s.app.Agents.Capability(ctx, id)
	if err != nil {
		return httpapi.CapabilityDetail{}, err
	}
	out := httpapi.CapabilityDetail{Prompt: v.Prompt, Warnings: v.Warnings}
	if v.Problem != nil {
		out.Problem = fault.Message(v.Problem)
	}
	for _, t := range v.Tools {
		one := httpapi.CapabilityTool{Name: t.Name, ID: string(t.ID)}
		if t.Spec != nil {
			one.Description, one.Risk = t.Spec.Description, t.Spec.Risk.String()
			for _, e := range t.Spec.Effects.List() {
				one.Effects = append(one.Effects, e.String())
			}
		}
		out.Tools = append(out.Tools, one)
	}
	return out, nil
}

// Tools implements httpapi.Tools.
func (s *served) Tools(ctx context.Context, q httpapi.ToolQuery) (httpapi.ToolList, error) {
	f := catalog.Filter{Source: q.Source, Enabled: q.Enabled, Search: q.Search}
	if q.MaxRisk != "" {
		r, _ := tool.ParseRisk(q.MaxRisk) // the API takes no other
		f.MaxRisk = &r
	}
	var err error
	without := strings.FieldsFunc(strings.Join(q.Without, ","), func(r rune) bool { return r == ',' })
	if f.Without, err = tool.ParseEffects(without); err != nil {
		return httpapi.ToolList{}, fault.New(fault.ArgsInvalid, "%v", err).In("query.without")
	}
	if q.Refresh {
		s.app.catalog.Refresh()
	}
	l := s.app.catalog.List(ctx, f)
	out := httpapi.ToolList{Items: []catalog.Described{}, Total: len(l.Tools)}
	for _, t := range l.Tools {
		out.Items = append(out.Items, t.Describe(q.Schemas))
	}
	for _, x := range l.Failing {
		out.Failing = append(out.Failing, httpapi.FailingSource{Source: x.Source, Error: fault.Message(x.Err)})
	}
	return out, nil
}

// Tool implements httpapi.Tools. To look is not to accept.
func (s *served) Tool(ctx context.Context, id string) (catalog.Described, error) {
	parsed, err := tool.ParseID(id)
	if err != nil {
		return catalog.Described{}, err
	}
	for _, t := range s.app.catalog.List(ctx, catalog.Filter{}).Tools {
		if t.Spec.ID == parsed {
			return t.Describe(true), nil
		}
	}
	return catalog.Described{}, fault.New(fault.ToolUnknown, "no tool has the ID %q", id).WithHint("GET /v1/tools lists them")
}

// Invoke implements httpapi.Tools.
func (s *served) Invoke(ctx context.Context, who *httpapi.Caller, id string, args map[string]any, mode httpapi.CallMode) (httpapi.Invocation, error) {
	c := runner.Call{Tool: tool.ID(id), Args: args, AnswerBy: mode.AnswerBy, Pause: mode.Pause}
	if mode.In != uuid.Nil {
		o, err := s.OpenRuns.Call(ctx, mode.In, who.Presented(), who.Leaf, c)
		if err != nil {
			return httpapi.Invocation{}, err
		}
		return invocation(mode.In, o, approval.Filed(o.Err))
	}
	bound, err := runs.ParseFrozen(mode.Frozen)
	if err != nil {
		return httpapi.Invocation{}, err
	}
	run, err := s.app.Runs.Begin(ctx, runs.Request{
		ID: mode.Run, Name: "api", Single: true, Workspace: s.workspace, Grant: who.Presented(), Observe: s.observe, Planning: mode.Planning, Frozen: bound, Advice: adviceOn,
	})
	if err != nil {
		return httpapi.Invocation{}, err
	}
	o, err := run.Call(ctx, c)
	if eerr := run.End(context.WithoutCancel(ctx)); err == nil {
		err = eerr
	}
	if err != nil {
		return httpapi.Invocation{}, err
	}
	return invocation(run.Run.ID, o, approval.Filed(o.Err))
}

// adviceOn says how to go on with a call that a person must approve.
func adviceOn(q store.Approval) string {
	id := q.ID.String()
	return "a person answers with POST /v1/approvals/" + id + "/approve, or remit approvals approve " + id + "; then make exactly the same call again, before " +
		q.Until.UTC().Format(time.RFC3339)
}

func invocation(run uuid.UUID, o runner.Outcome, question string) (httpapi.Invocation, error) {
	out := httpapi.Invocation{
		Run: run.String(), Call: o.Index, Tool: string(o.Tool), Status: o.Status.String(), At: o.Created.UTC(), Duration: float64(o.Duration.Microseconds()) / 1000,
	}
	if o.Decision.Rule != nil {
		out.Rule = o.Decision.Rule.String()
	}
	code := fault.CodeOf(o.Err)
	unasked := o.Status == tool.StatusInterrupted && o.Decision.Effect == policy.Ask && !o.Approved // the service ended while it waited
	if unasked || o.Status == tool.StatusDenied || o.Err != nil && (code == fault.ToolUnknown || code == fault.ArgsInvalid || code == fault.ToolDisabled || code == fault.ToolChanged) {
		return out, httpapi.Refusal(o.Err, out.Run, out.Call, out.Rule, question)
	}
	if o.Err != nil {
		out.Error = &agent.Problem{Code: code.Error(), Message: fault.Message(o.Err)}
	}
	if o.Output != nil {
		b, err := json.Marshal(o.Output)
		if err != nil {
			return out, fault.Wrap(fault.Internal, err, "an output cannot be written")
		}
		out.Output = b
	}
	return out, nil
}

// Runs implements httpapi.Runs.
func (s *served) Runs(ctx context.Context, q httpapi.RunQuery, before uint64, limit int) (runs []ledger.Run, checked bool, err error) {
	st, err := s.app.Reader(ctx)
	if err != nil {
		return nil, false, err
	}
	f := store.RunFilter{Status: q.Status, Since: q.Since, Until: q.Until, Failed: q.Failed, Denied: q.Denied, Tool: tool.ID(q.Tool), Before: ledger.Seq(before), Limit: limit}
	switch q.Mode {
	case "run":
		f.Mode = ledger.Live
	case "replay":
		f.Mode = ledger.Replay
	}
	return st.CheckedRuns(ctx, f)
}

// Run implements httpapi.Runs.
func (s *served) Run(ctx context.Context, id string) (ledger.Run, error) {
	st, err := s.app.Reader(ctx)
	if err != nil {
		return ledger.Run{}, err
	}
	return st.Run(ctx, id)
}

// Calls implements httpapi.Runs: calls as reports show them, without secrets.
func (s *served) Calls(ctx context.Context, id string, from, limit int) ([]json.RawMessage, error) {
	return s.app.History.MaskedCalls(ctx, id, from, limit)
}

// Pictures implements httpapi.Runs.
func (s *served) Pictures(ctx context.Context, id string, index int) ([]history.Picture, error) {
	return s.app.History.Pictures(ctx, id, index)
}

// Replay implements httpapi.Runs.
func (s *served) Replay(ctx context.Context, id string) (httpapi.Replayed, error) {
	res, err := s.app.Replays.Run(ctx, id, nil)
	return httpapi.Replayed{Run: res.ID.String(), Of: res.Of.String(), Status: res.Status.String(), OK: res.Mismatch == nil, Calls: res.Calls, Mismatch: res.Mismatch}, err
}

// ReplaySession implements httpapi.Runs.
func (s *served) ReplaySession(ctx context.Context, id string) (replays.SessionSummary, error) {
	res, err := s.app.Replays.Session(ctx, id, nil)
	return res.Summary(), err
}

// Report implements httpapi.Runs.
func (s *served) Report(ctx context.Context, id, format string, w io.Writer) error {
	d, err := s.app.History.VerifiedReport(ctx, id)
	if err != nil {
		return err
	}
	return report.Write(w, format, d, report.Options{})
}

// Verify implements httpapi.Runs.
func (s *served) Verify(ctx context.Context, id string) (store.VerifyReport, error) {
	st, err := s.app.Reader(ctx)
	if err != nil {
		return store.VerifyReport{}, err
	}
	run, err := uuid.Parse(id)
	if err != nil {
		return store.VerifyReport{}, fault.New(fault.RunUnknown, "no run has the ID %q", id)
	}
	return st.Verify(ctx, store.VerifyOptions{Run: run})
}
