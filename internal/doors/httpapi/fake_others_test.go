package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/authority/reach"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/approval"
	"github.com/remitrun/remit/internal/call/catalog"
	"github.com/remitrun/remit/internal/doors/httpapi"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/changes"
	"github.com/remitrun/remit/internal/service/filelabels"
	"github.com/remitrun/remit/internal/service/grants"
	"github.com/remitrun/remit/internal/service/history"
	"github.com/remitrun/remit/internal/service/policyreview"
	"github.com/remitrun/remit/internal/service/queue"
	"github.com/remitrun/remit/internal/service/replays"
)

// others is what is known besides agents.
type others struct{ w *world }

func (o others) Capabilities(context.Context) ([]capability.Info, error) {
	return []capability.Info{{ID: "current_time", Name: "Current Time", Status: capability.Available}, {ID: "web_fetch", Name: "Web", Status: capability.Available}}, nil
}

func (o others) Capability(_ context.Context, id string) (httpapi.CapabilityDetail, error) {
	return httpapi.CapabilityDetail{Prompt: "use " + id}, nil
}

func (o others) CompleteCommand(_ context.Context, line string) (httpapi.CommandCompletions, error) {
	return httpapi.CommandCompletions{Items: []httpapi.CommandCompletion{{Text: line + "elp"}}}, nil
}

func (o others) CommandHelp(_ context.Context, topic string) (string, error) {
	if topic != "" {
		return "", fault.New(fault.CommandUnknown, "unknown command /%s", topic)
	}
	return "/help\n", nil
}

func (o others) RunCommand(_ context.Context, who *httpapi.Caller, line, scope string, _ httpapi.CallMode, _ httpapi.CommandHistory) (httpapi.CommandResult, error) {
	if line == "/help" {
		return httpapi.CommandResult{Command: "help", Help: "/help\n"}, nil
	}
	out, err := json.Marshal(who.Name + " " + line + " of " + scope)
	return httpapi.CommandResult{Command: "call", Call: &httpapi.Invocation{Run: "run-1", Call: 1, Tool: "time.now", Status: "completed", Output: out}}, err
}

func (o others) Tools(context.Context, httpapi.ToolQuery) (httpapi.ToolList, error) {
	return httpapi.ToolList{Items: []catalog.Described{{ID: "time.now", Risk: "low", Effects: []string{}}}, Total: 1}, nil
}

func (o others) Tool(_ context.Context, id string) (catalog.Described, error) {
	if id != "time.now" {
		return catalog.Described{}, fault.New(fault.ToolUnknown, "no tool has the ID %q", id)
	}
	return catalog.Described{ID: tool.ID(id), Risk: "low", Effects: []string{}}, nil
}

func (o others) Invoke(ctx context.Context, _ *httpapi.Caller, id string, args map[string]any, mode httpapi.CallMode) (httpapi.Invocation, error) {
	if id != "time.now" {
		return httpapi.Invocation{}, httpapi.Refusal(fault.New(fault.ToolUnknown, "no tool has the ID %q", id), "run-1", 1, "", "")
	}
	if o.w.answering != nil && mode.Pause != nil {
		resume := mode.Pause()
		o.w.answering()
		if err := resume(ctx); err != nil {
			return httpapi.Invocation{}, err
		}
	}
	if o.w.invoking != nil {
		o.w.invoking()
	}
	out, err := json.Marshal(args)
	return httpapi.Invocation{Run: "run-1", Call: 1, Tool: id, Status: "completed", Output: out}, err
}

func (o others) Runs(_ context.Context, _ httpapi.RunQuery, before uint64, limit int) ([]ledger.Run, bool, error) {
	var out []ledger.Run
	for i := uint64(5); i > 0; i-- {
		if (before == 0 || i < before) && len(out) < limit {
			out = append(out, ledger.Run{ID: uuid.NewSHA1(uuid.Nil, []byte{byte(i)}), Seq: ledger.Seq(i), Status: "completed"})
		}
	}
	return out, true, nil
}

func (o others) Run(_ context.Context, id string) (ledger.Run, error) {
	if id != someID {
		return ledger.Run{}, fault.New(fault.RunUnknown, "no run has the ID %q", id)
	}
	return ledger.Run{ID: uuid.MustParse(id), Status: "completed"}, nil
}

func (o others) Calls(_ context.Context, _ string, from, limit int) ([]json.RawMessage, error) {
	var out []json.RawMessage
	for i := from; i <= 3 && len(out) < limit; i++ {
		out = append(out, json.RawMessage(fmt.Sprintf(`{"index":%d}`, i)))
	}
	return out, nil
}

func (o others) Pictures(_ context.Context, _ string, index int) ([]history.Picture, error) {
	if index != 2 {
		return nil, nil
	}
	return []history.Picture{{Name: "/plot.png", PNG: []byte("\x89PNG")}}, nil
}

func (o others) Report(_ context.Context, _, format string, w io.Writer) error {
	_, err := io.WriteString(w, `{"format":"`+format+`"}`)
	return err
}

func (o others) Replay(_ context.Context, id string) (httpapi.Replayed, error) {
	return httpapi.Replayed{Run: someID, Of: id, Status: "completed", OK: true, Calls: 3}, nil
}

func (o others) ReplaySession(_ context.Context, id string) (replays.SessionSummary, error) {
	return replays.SessionSummary{Session: uuid.MustParse(id), OK: true, Runs: 2, Calls: 3, Messages: 8}, nil
}

func (o others) Verify(context.Context, string) (store.VerifyReport, error) {
	return store.VerifyReport{OK: true, Problems: []store.Discrepancy{}}, nil
}

func (o others) CollectPlan(context.Context, string) (httpapi.CollectedPlan, error) {
	return httpapi.CollectedPlan{Plan: "steps: []", LeftOut: []string{}}, nil
}

func (o others) Freeze(_ context.Context, plan string, _ map[string]json.RawMessage) (json.RawMessage, error) {
	return json.RawMessage(`{"version":1}`), nil
}

func (o others) Open(_ context.Context, _ *httpapi.Caller, _ httpapi.NewRun, over func()) (string, error) {
	over()
	return someID, nil
}

func (others) End(context.Context, uuid.UUID, bool) (bool, error) { return false, nil }

func (o others) Start(_ context.Context, _ *httpapi.Caller, q httpapi.NewRun, started func(string)) error {
	if q.Plan == "" {
		return fault.New(fault.ArgsInvalid, "the plan is missing").In("body.plan")
	}
	started(someID)
	return nil
}

func (o others) Grants(context.Context, store.GrantFilter) ([]grants.Info, error) {
	return []grants.Info{{Record: store.GrantRecord{ID: uuid.MustParse(someID), Holder: "agent:docs", Seq: 1}}}, nil
}

func (o others) Grant(_ context.Context, id string) (grants.Info, error) {
	if id != someID {
		return grants.Info{}, fault.New(fault.GrantUnknown, "no grant has the ID %q", id)
	}
	return grants.Info{Record: store.GrantRecord{ID: uuid.MustParse(id)}}, nil
}

func (o others) Narrow(_ context.Context, who *httpapi.Caller, t httpapi.GrantTerms) (httpapi.NewGrant, error) {
	return httpapi.NewGrant{Token: "new", ID: someID, Holder: t.Holder}, nil
}

func (o others) Set(ctx context.Context, _ *httpapi.Caller, id, _, _ string) error {
	_, err := o.Grant(ctx, id)
	return err
}

func (o others) Questions(context.Context, bool, uint64, int) ([]store.Approval, error) {
	return []store.Approval{{ID: uuid.MustParse(someID), State: store.Waiting, Holder: "agent:docs", RunID: uuid.MustParse(someID), Votes: []store.Vote{}, Seq: 1}}, nil
}

func (o others) Question(_ context.Context, id string) (store.Approval, error) {
	if id != someID {
		return store.Approval{}, fault.New(fault.ApprovalGone, "no question has the ID %q", id)
	}
	return store.Approval{ID: uuid.MustParse(id), State: store.Waiting, Holder: "agent:docs", RunID: uuid.MustParse(someID), Votes: []store.Vote{}}, nil
}

func (o others) QuestionHistory(ctx context.Context, id string, v approval.Viewer) (approval.History, error) {
	q, err := o.Question(ctx, id)
	if err != nil {
		return approval.History{}, err
	}
	var h approval.History
	if ok, err := v.SeesQuestion(ctx, q); err != nil || !ok {
		return h, err
	}
	h.Tool.Asked = 1
	ok, err := v.SeesRun(ctx, someID)
	if ok {
		h.Covers = &approval.Covered{Calls: 1}
	}
	return h, err
}

func (o others) Answer(ctx context.Context, who *httpapi.Caller, id string, a httpapi.Answer) (store.Approval, error) {
	q, err := o.Question(ctx, id)
	q.Votes = []store.Vote{{By: who.Person, Yes: a.Yes}}
	return q, err
}

func (o others) Audit(context.Context, history.AuditQuery) ([]history.AuditEvent, ledger.Seq, error) {
	return []history.AuditEvent{{Seq: 1, Event: "run_started", Status: "running"}}, 0, nil
}

func (o others) Result(context.Context, string, int) (history.CallResult, error) {
	return history.CallResult{}, fault.New(fault.RunUnknown, "no run")
}

func (o others) Follow(_ context.Context, after *ledger.Seq, emit func(*history.Batch) error) error {
	first := ledger.Seq(1)
	if after != nil {
		first = *after + 1
	}
	for seq := first; seq <= 2; seq++ {
		if err := emit(&history.Batch{Events: []history.AuditEvent{{Seq: seq, Event: "run_started", Status: "running"}}}); err != nil {
			return err
		}
	}
	return nil
}

func (o others) Check(_ context.Context, text string) (httpapi.PolicySummary, error) {
	if !strings.HasPrefix(text, "version: 1") {
		return httpapi.PolicySummary{}, fault.List{fault.New(fault.PolicyInvalid, "version is missing").At(fault.Pos{File: "/home/x/p.yaml", Line: 1, Column: 1}).In("version")}
	}
	return httpapi.PolicySummary{OK: true}, nil
}

func (o others) Explain(_ context.Context, _ *httpapi.Caller, _, id string, _ map[string]any) (policyreview.Explanation, error) {
	if id != "time.now" {
		return policyreview.Explanation{}, fault.New(fault.ToolUnknown, "no tool has the ID %q", id)
	}
	return policyreview.Explanation{Tool: tool.ID(id), Effect: "deny", Actions: []string{}, Rules: []policyreview.Rule{}}, nil
}

func (o others) Authority(_ context.Context, who *httpapi.Caller, everybody bool, from, to string) (policyreview.Authority, error) {
	if from == "nowhere" {
		return policyreview.Authority{}, fault.New(fault.Usage, "%q is neither a principal nor a section with an entry", from)
	}
	holders := []string{who.Name}
	if everybody {
		holders = append(holders, "agent:other")
	}
	return policyreview.Authority{Holders: holders, Overview: &reach.Overview{To: []string{"network *"}, Rows: []reach.OverviewRow{{From: "files **", Verdicts: []reach.Verdict{reach.Reachable}}}}}, nil
}

func (o others) DryRun(_ context.Context, _, run string) (httpapi.DryRun, error) {
	return httpapi.DryRun{Run: run, Changed: []replays.Rejudged{}}, nil
}

func (o others) Changesets(context.Context) ([]changes.Held, error) {
	return []changes.Held{{Run: someID, State: "review"}, {Run: uuid.Nil.String(), State: "applied"}}, nil
}

func (o others) Changeset(_ context.Context, run string, _ bool) (changes.Described, error) {
	return changes.Described{Run: run, State: "review", Changes: []changes.DescribedChange{}}, nil
}

func (o others) Apply(ctx context.Context, _, run, digest string, _ changes.Decision, _ []string) (changes.Described, error) {
	d, err := o.Changeset(ctx, run, false)
	if is, _ := d.Digest(); digest != "" && digest != is {
		err = fault.New(fault.Conflict, "the changes are not those that were shown")
	}
	return d, err
}

func (o others) Discard(ctx context.Context, _, run string) (changes.Described, error) {
	return o.Changeset(ctx, run, false)
}

func (o others) Undo(_ context.Context, _, run string, _ []string) (changes.Undone, error) {
	return changes.Undone{Run: run}, nil
}

func (o others) Labels(_ context.Context, q filelabels.Query) ([]filelabels.Item, store.LabelPlace, error) {
	var out []filelabels.Item
	for i := range 3 {
		path := "/" + strings.Repeat("x", 4000) + strconv.Itoa(i)
		at := store.LabelPlace{Label: "web", Key: ledger.PathKey(path)}
		if q.After.Key >= at.Key || q.Label != "" && q.Label != at.Label || q.Below != "" && q.Below != path {
			continue
		}
		if len(out) == q.Limit {
			return out, q.After, nil
		}
		out, q.After = append(out, filelabels.Item{Path: path, Label: at.Label}), at
	}
	return out, store.LabelPlace{}, nil
}

func (o others) ClearLabels(_ context.Context, who, path string) (int, error) {
	if path != "/a/b" || who != "user:ann" {
		return 0, fault.New(fault.NotFound, "no labels are recorded for %q", path)
	}
	return 2, nil
}

func (o others) Parts(context.Context) (httpapi.PartList, error) {
	return httpapi.PartList{Notifications: []string{"desktop"}}, nil
}

func (o others) Change(_ context.Context, _, id string) (httpapi.ToolChange, error) {
	if id != "time.now" {
		return httpapi.ToolChange{}, fault.New(fault.ToolUnknown, "no tool has the ID %q", id)
	}
	return httpapi.ToolChange{Tool: id, Changed: true, Digest: "sha256:1"}, nil
}

func (o others) Accept(ctx context.Context, person, id, digest string) (httpapi.ToolChange, error) {
	c, err := o.Change(ctx, person, id)
	if err == nil && digest != c.Digest {
		err = fault.New(fault.Conflict, "the tool is not the one that was shown")
	}
	return c, err
}

func (o others) Learn(context.Context, []string) (httpapi.LearnedPolicy, error) {
	return httpapi.LearnedPolicy{Policy: "version: 1\n", Widened: []string{}}, nil
}

func (o others) VerifyAll(ctx context.Context) (store.VerifyReport, error) {
	return o.Verify(ctx, someID)
}

// queued is the queue of the tests: a run of the grant that asks, and one of another.
type queued struct{ others }

func (q queued) Submit(_ context.Context, s queue.Submission) (store.QueuedRun, bool, error) {
	if s.Unique == "full" {
		return store.QueuedRun{}, false, fault.New(fault.QueueFull, "the queue is full: 7 runs wait, and at most 7 may")
	}
	run, err := q.Find(context.Background(), someID)
	return run, true, err
}

func (q queued) SubmitMessage(ctx context.Context, m queue.Message) (store.QueuedRun, bool, error) {
	r, fresh, err := q.Submit(ctx, queue.Submission{Grant: m.Grant, Options: m.Options})
	r.Session = m.Session
	return r, fresh, err
}

func (q queued) ScheduleMessage(ctx context.Context, n queue.NewSchedule, m queue.Message) (store.Schedule, error) {
	c, err := q.SubmitSchedule(ctx, n, queue.Submission{})
	c.Session = m.Session
	return c, err
}

func (q queued) List(_ context.Context, f store.QueueFilter) ([]store.QueuedRun, error) {
	run, err := q.Find(context.Background(), someID)
	list := []store.QueuedRun{run, {ID: uuid.NewSHA1(uuid.Nil, []byte("other")), Status: "waiting"}}
	return list[min(f.From, 2):], err
}

func (q queued) Find(_ context.Context, id string) (store.QueuedRun, error) {
	if id != someID {
		return store.QueuedRun{}, fault.New(fault.RunUnknown, "no queued run has the ID %q", id)
	}
	return store.QueuedRun{ID: uuid.MustParse(id), Status: "waiting", Name: "nightly", Priority: 2}, nil
}

func (q queued) Requeue(ctx context.Context, id, by string) (store.QueuedRun, error) {
	return q.Cancel(ctx, id, by)
}

func (q queued) Cancel(ctx context.Context, id, by string) (store.QueuedRun, error) {
	run, err := q.Find(ctx, id)
	run.Status, run.By = "cancelled", by
	return run, err
}

func (q queued) State(context.Context) (queue.State, error) { return queue.State{Waiting: 2}, nil }

func (q queued) Pause(context.Context, bool, string) error { return nil }

func (q queued) Schedules(context.Context) ([]store.Schedule, error) {
	return []store.Schedule{{ID: uuid.MustParse(someID), Name: "nightly", Cron: "0 3 * * *", Zone: "UTC", Priority: 2, Grant: uuid.MustParse(someID)},
		{ID: uuid.NewSHA1(uuid.Nil, []byte("other")), Name: "other"}}, nil
}

func (q queued) SubmitSchedule(_ context.Context, n queue.NewSchedule, _ queue.Submission) (store.Schedule, error) {
	if _, err := queue.Next(n.Cron, n.Zone, time.Unix(0, 0)); err != nil {
		return store.Schedule{}, err
	}
	all, err := q.Schedules(context.Background())
	return all[0], err
}

func (q queued) ChangeSchedule(_ context.Context, _, by string, change func(*store.Schedule)) (store.Schedule, error) {
	all, err := q.Schedules(context.Background())
	change(&all[0])
	all[0].By = by
	return all[0], err
}

func (q queued) RunSchedule(ctx context.Context, _ string) (store.QueuedRun, error) {
	return q.Find(ctx, someID)
}
