package runs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/policies"
)

// ClientRequest names the session of a client: a program that carries out its tool calls
// itself and has each of them decided and recorded here first.
type ClientRequest struct {
	Client    string         // the program's name
	Session   string         // the client's own ID of its session
	Policy    string         // a policy file; "": the workspace's, if trusted
	Root      *policy.Policy // holds instead of Policy if not nil
	Workspace string         // absolute
	Asks      bool           // the client asks its user where the policy wants approval
	Advice    func(filed store.Approval) string
}

// ClientSession is the run of a client's session. It spans processes: each of them finds
// it in the ledger, under an ID that is derived from the session, workspace and policies.
type ClientSession struct {
	Active
	Hint policies.Hint

	runs  *Runs
	q     ClientRequest
	whole bool          // calls are needed, not only the number of the last one
	calls []ledger.Call // recorded so far
}

// maxSessions bounds how often one session can end and go on.
const maxSessions = 1000

// Client finds the run of a client's session, or with create begins it, for a new call.
// Without create, for a report or the end, an unknown session is fault.RunUnknown.
func (s *Runs) Client(ctx context.Context, q ClientRequest, create bool) (*ClientSession, context.Context, error) {
	in := runner.Info{Name: recordedName(q), Client: q.Client, ClientAsks: q.Asks}
	b, res, err := s.prepare(ctx, Request{Policy: q.Policy, Root: q.Root, Workspace: q.Workspace, Advice: q.Advice}, &in)
	if err != nil {
		return nil, nil, err
	}
	b.Runner.Catalog = s.Tools.ForClient() // starts no server
	c := &ClientSession{Active: b, Hint: res.Hint, runs: s, q: q, whole: !create || in.CountsCalls()}
	for n := range maxSessions {
		in.ID = clientRun(q, in, n)
		begun, err := b.store.Run(ctx, in.ID.String())
		switch {
		case errors.Is(err, fault.RunUnknown) && create:
			run, within, failed := b.Runner.Start(ctx, in)
			if c.Run = run; failed == nil {
				return c, within, nil
			}
			if begun, err = b.store.Run(ctx, in.ID.String()); err != nil {
				return nil, nil, failed // not because another process was faster
			}
		case err != nil:
			return nil, nil, err
		}
		if begun.Status != ledger.Running {
			if err := c.inherit(ctx, &in, begun); err != nil {
				return nil, nil, err
			}
			continue
		}
		ctx, err := c.resume(ctx, in, begun)
		return c, ctx, err
	}
	return nil, nil, fault.New(fault.LimitReached, "the session %.80q has ended too often", q.Session)
}

// inherit adds the labels of a run of the session that has ended to those of the next.
func (c *ClientSession) inherit(ctx context.Context, in *runner.Info, begun ledger.Run) error {
	if !in.Grant.Chain().HasFlows() {
		return nil
	}
	labels, err := store.RunLabels(ctx, c.store, begun)
	if err != nil {
		return err
	}
	if in.Context == nil {
		in.Context = &runner.Context{}
	}
	in.Context.Add(labels)
	return nil
}

// recordedName names the run: the client, and the beginning of its session's ID.
func recordedName(q ClientRequest) string {
	return fmt.Sprintf("%s %.8s", q.Client, q.Session)
}

// clientRun derives the ID of the n-th run of a session. Other policies make another run.
func clientRun(q ClientRequest, in runner.Info, n int) uuid.UUID {
	h := sha256.New()
	for _, part := range []string{"remit client 1", q.Client, q.Session, q.Workspace, in.Grant.Holder(), fmt.Sprint(n)} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	for _, r := range in.Grant.Chain() {
		d := r.Policy().Digest()
		h.Write(d[:])
	}
	id := uuid.UUID(h.Sum(nil)[:16])
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80 // version 8: made by the program
	return id
}

// resume continues a run that an earlier process began.
func (c *ClientSession) resume(ctx context.Context, in runner.Info, begun ledger.Run) (context.Context, error) {
	last, err := c.store.LastCall(ctx, begun.Seq)
	if err != nil {
		return nil, err
	}
	c.calls = nil
	if c.whole {
		for call, err := range c.store.Calls(ctx, begun.Seq) {
			if err != nil {
				return nil, err
			}
			c.calls = append(c.calls, call)
		}
	}
	stopped, err := c.stopped(ctx, in, begun)
	if err != nil {
		return nil, err
	}
	c.Run, ctx, err = c.Runner.Resume(ctx, in, begun, last, c.calls, stopped)
	return ctx, err
}

// stopped says why the policy's response to a violation ended the run; nil: it did not.
func (c *ClientSession) stopped(ctx context.Context, in runner.Info, begun ledger.Run) (error, error) {
	if !in.Grant.Chain().Terms().Stops() || begun.Denied == 0 {
		return nil, nil
	}
	filter := store.EventFilter{Marks: [][]store.Mark{{store.KindMark(ledger.Violation)}}}
	for ev, err := range c.store.Find(ctx, filter) {
		if err != nil {
			return nil, err
		}
		if ev.Seq < begun.Seq {
			break
		}
		if e := ev.Event; e.Kind == ledger.Violation && e.Run == begun.Seq && e.Standing > 0 {
			return fault.New(fault.GrantRevoked, "the policy ended this session after a violation (violations.%s)", e.Violated), nil
		}
	}
	return nil, nil
}

// Authorize takes calls to their decision, all or none: the client may carry them out if
// all outcomes are Pending. If one is refused, the others are withdrawn. Search are files and
// folders of which the client reads everything.
func (c *ClientSession) Authorize(ctx context.Context, search []string, calls ...runner.Call) (out []runner.Outcome, err error) {
	if len(calls) > 0 {
		if err := c.withdrawRepeated(ctx, calls[0].Step); err != nil {
			return nil, err
		}
	}
	var refused error
	for _, path := range search {
		if refused = c.unreadable(ctx, path, mayNotSearch); refused != nil {
			break
		}
	}
	var left []ledger.Call
	for _, call := range calls {
		if call.Args, err = Plain(call.Args); err != nil {
			return out, err
		}
		o, err := c.record(ctx, func() runner.Outcome {
			if refused != nil {
				return c.Runner.Refuse(ctx, c.Run, call, refused)
			}
			return c.Runner.Execute(ctx, c.Run, call)
		})
		if err != nil {
			return out, err
		}
		out = append(out, o)
		if o.Status == tool.Pending {
			left = append(left, ledger.Call{Index: o.Index})
			continue
		}
		why := fault.New(fault.ToolCancelled, "another part of the same request was refused")
		return out, c.Runner.Withdraw(context.WithoutCancel(ctx), c.Run, left, why)
	}
	return out, nil
}

// repeatedWithin is among how many of the last calls one is looked for that the client asks about again.
const repeatedWithin = 64

// withdrawRepeated records that calls with the client's own ID of the call were not carried out: the
// client asks about them again, as it does when a hook's answer was late. Each call of the client
// then has one intent that waits for its report.
func (c *ClientSession) withdrawRepeated(ctx context.Context, id string) error {
	if id == "" {
		return nil
	}
	last, err := c.store.LastCall(ctx, c.Run.Seq)
	if err != nil || last == 0 {
		return err
	}
	var left []ledger.Call
	for call, err := range c.store.CallsFrom(ctx, c.Run.Seq, max(1, last-repeatedWithin+1)) {
		if err != nil {
			return err
		}
		if call.Step == id {
			left = append(left, call) // Withdraw takes pending ones
		}
	}
	return c.Runner.Withdraw(ctx, c.Run, left, fault.New(fault.ToolCancelled, "%s asked again about the same call, and the later entry has the decision", c.q.Client))
}

// maxTries bounds how often a call is decided again because another process recorded one
// meanwhile.
const maxTries = 200

// Refuse records a call that cannot be judged, and why.
func (c *ClientSession) Refuse(ctx context.Context, call runner.Call, why error) (runner.Outcome, error) {
	return c.record(ctx, func() runner.Outcome { return c.Runner.Refuse(ctx, c.Run, call, why) })
}

// record has one call decided and recorded. If another process of the session recorded a
// call meanwhile, the ledger refuses this one, and it is decided again after the other.
func (c *ClientSession) record(ctx context.Context, decide func() runner.Outcome) (runner.Outcome, error) {
	for range maxTries {
		o := decide()
		if o.Fatal == nil {
			return o, nil
		}
		begun, err := c.store.Run(ctx, c.Run.ID.String())
		if err != nil || begun.Status != ledger.Running {
			return o, errors.Join(o.Fatal, err)
		}
		_, err = c.store.Call(ctx, c.Run.Seq, o.Index)
		if errors.Is(err, fault.RunUnknown) {
			return o, o.Fatal // no other call took the index
		}
		if err == nil {
			_, err = c.resume(ctx, c.Run.Info, begun)
		}
		if err != nil {
			return o, err
		}
	}
	return runner.Outcome{}, fault.New(fault.StoreFailed, "other calls of the session were recorded faster %d times", maxTries)
}

// ClientReport is a client's word on how a call ended: all calls with the ID, or without
// one the oldest calls of the same tools and arguments.
type ClientReport struct {
	ID     string
	Calls  []runner.Call
	Failed string // why it failed; "": it completed
	Output map[string]any
}

// Report records a client's word on its calls, and says how many it was about.
func (c *ClientSession) Report(ctx context.Context, w ClientReport) (int, error) {
	var about []int
	for _, call := range c.calls {
		if w.ID != "" && call.Step == w.ID && call.Status == tool.Pending {
			about = append(about, call.Index)
		}
	}
	for _, call := range w.Calls {
		if w.ID != "" {
			break
		}
		i, err := c.pending(ctx, call, about)
		if err != nil {
			return 0, err
		}
		if i > 0 {
			about = append(about, i)
		}
	}
	for _, i := range about {
		if err := c.Runner.Report(ctx, c.Run, runner.Report{Index: i, Failed: w.Failed, Output: w.Output}); err != nil {
			return 0, err
		}
	}
	return len(about), nil
}

// pending finds the oldest call of the same tool and arguments that waits for its report, except
// the calls in found; 0: there is none.
func (c *ClientSession) pending(ctx context.Context, want runner.Call, found []int) (int, error) {
	args, err := canon.Marshal(map[string]any(want.Args))
	if err != nil {
		return 0, fault.New(fault.ArgsInvalid, "the arguments cannot be written as JSON: %v", err)
	}
	for _, call := range c.calls {
		if call.Status != tool.Pending || call.Tool != want.Tool || call.Step != "" || slices.Contains(found, call.Index) {
			continue
		}
		was, err := c.store.Load(ctx, call.Parts[ledger.PartArgs])
		if err != nil {
			return 0, err
		}
		if bytes.Equal(was, args) {
			return call.Index, nil
		}
	}
	return 0, nil
}

// End records the end of the session. Calls without a report become interrupted: the record does not know
// how they ended.
func (c *ClientSession) End(ctx context.Context) error {
	why := fault.New(fault.Interrupted, "%s did not report an outcome", c.q.Client)
	if err := errors.Join(c.Runner.Withdraw(ctx, c.Run, c.calls, why), c.closeQuestions(ctx)); err != nil {
		return err
	}
	status := tool.Completed
	for _, call := range c.calls {
		switch {
		case call.Status == tool.StatusDenied:
			status = tool.StatusDenied
		case status == tool.Completed && call.Status != tool.Completed:
			status = tool.Failed
		}
	}
	return c.Runner.Finish(ctx, c.Run, status)
}

// closeQuestions ends the questions of the session that wait: its commands are gone.
func (c *ClientSession) closeQuestions(ctx context.Context) error {
	_, st, err := c.runs.Grants.Open(ctx)
	if err != nil {
		return err
	}
	list, err := st.Questions(ctx, store.QuestionFilter{State: store.Waiting, Run: c.Run.Seq, Limit: maxClosed})
	for _, q := range list {
		closed := st.CloseQuestion(ctx, q.ID, store.Closing{By: "remit", Why: "the session of " + c.q.Client + " has ended", At: st.Now()})
		if !errors.Is(closed, fault.ApprovalGone) {
			err = errors.Join(err, closed)
		}
	}
	return err
}

// maxClosed bounds the questions that are closed at once. Others lapse.
const maxClosed = 500
