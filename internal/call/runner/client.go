package runner

import (
	"context"
	"errors"
	"unicode/utf8"

	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
)

// maxClient is the longest name of a client, in bytes.
const maxClient = 64

// checkClient refuses a run whose calls a client cannot carry out as the policies say.
func (in *Info) checkClient() error {
	switch {
	case in.Client == "":
		if in.ClientAsks {
			return fault.New(fault.Internal, "only a client can ask its user")
		}
		return nil
	case len(in.Client) > maxClient || !utf8.ValidString(in.Client):
		return fault.New(fault.Internal, "%.80q is not a valid name of a client", in.Client)
	case in.Grant.Kept():
		return fault.New(fault.Internal, "a client's run cannot be under a grant with budgets: its use cannot be measured")
	case in.Held != nil || in.Grant.Chain().Limits().Hold:
		return fault.New(fault.Denied, "the policy holds writes for review (files.write.hold), which is impossible when %s writes by itself", in.Client).
			ForOperator("run the agent with remit exec, or use a policy that does not hold writes")
	}
	return nil
}

// Resume continues a client's run that an earlier process began, after its call with the
// index last. Of its calls so far it needs only those that count against the limits of the
// run, see CountsCalls. A concurrent process may record a call first: then the ledger refuses
// this run's next call, and the run must be resumed anew.
func (r *Runner) Resume(ctx context.Context, in Info, begun ledger.Run, last int, calls []ledger.Call, stopped error) (*Run, context.Context, error) {
	run, err := newRun(in, begun.Started)
	if err != nil {
		return nil, nil, err
	}
	if in.Client == "" || begun.Client != in.Client || begun.Status != ledger.Running {
		return nil, nil, fault.New(fault.Internal, "run %s cannot be continued", begun.ID)
	}
	run.Seq, run.ended, run.last = begun.Seq, stopped, last
	for _, c := range calls {
		run.last = max(run.last, c.Index)
		run.Context.Add(c.Labels)
		if c.Intent > 0 {
			run.limiter.add(c.Tool, 1)
		}
	}
	run.Context.Add(begun.Labels)
	run.Context.goOn(run.last)
	ctx, run.cancel = r.Within(ctx, run)
	return run, ctx, nil
}

// CountsCalls reports whether the policies limit the number of the run's calls, or label
// their data.
func (in *Info) CountsCalls() bool {
	l := in.Grant.Chain().Limits()
	return in.Grant.Chain().HasFlows() || l.Calls > 0 || l.CallsPerTool > 0 || len(l.PerTool) > 0
}

// Report is a client's word on how a call ended that it carried out.
type Report struct {
	Index  int
	Failed string // why it failed; "": it completed
	Output map[string]any
}

// Report records a client's report of a call. The record marks it as the client's word.
func (r *Runner) Report(ctx context.Context, run *Run, w Report) error {
	ev := ledger.Event{Kind: ledger.CallOutcome, Run: run.Seq, Call: uint32(w.Index), At: r.now().UnixMicro(), Client: run.Client, Status: tool.Completed}
	pay := ledger.Payload{}
	if w.Failed != "" {
		ev.Status, ev.Code = tool.Failed, fault.ToolFailed
		pay[ledger.PartError] = []byte(r.masked(w.Failed))
	}
	if w.Output != nil {
		out, err := canon.Marshal(w.Output)
		if err != nil {
			return fault.Wrap(fault.OutputInvalid, err, "the reported output is not valid JSON")
		}
		if len(out) > maxOutput {
			return fault.New(fault.OutputInvalid, "the reported output has %d bytes; the limit is %d", len(out), maxOutput)
		}
		out = []byte(r.masked(string(out)))
		if _, err := canon.Decode(out); err != nil {
			return fault.New(fault.OutputInvalid, "the reported output has a secret that cannot be masked")
		}
		pay[ledger.PartOutput] = out
	}
	_, err := r.Record.Append(ctx, ledger.Entry{Event: ev, Payload: pay})
	return err
}

// masked replaces secrets in a client's text.
func (r *Runner) masked(s string) string {
	if r.Mask == nil || !r.Mask.Active() {
		return s
	}
	return r.Mask.Text(s)
}

// Withdraw records that calls that were left to the client did not run, or that nobody
// knows whether they did.
func (r *Runner) Withdraw(ctx context.Context, run *Run, calls []ledger.Call, why error) error {
	var errs []error
	for _, c := range calls {
		if c.Status != tool.Pending {
			continue
		}
		status := tool.StatusInterrupted
		if errors.Is(why, fault.ToolCancelled) {
			status = tool.Cancelled
		}
		_, err := r.Record.Append(ctx, ledger.Entry{
			Event:   ledger.Event{Kind: ledger.CallOutcome, Run: run.Seq, Call: uint32(c.Index), At: r.now().UnixMicro(), Status: status, Code: fault.CodeOf(why)},
			Payload: ledger.Payload{ledger.PartError: []byte(fault.Message(why))},
		})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
