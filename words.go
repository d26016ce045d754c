package remit

import (
	"bytes"
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/report"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/runs"
)

// Code numbers a kind of failure, as E1001 in messages. It is an error, so that
// errors.Is(err, remit.Denied) reads well. Numbers are never reused.
type Code = fault.Code

// Error is a failure with a Code, a message (Msg) that may be shown to an
// agent, a Hint at the way out, and for files the place (Pos) and the Field
// concerned. Its cause (Err) is for operators. Use [errors.As] to get at it.
type Error = fault.Error

// Pos is a place in a file. Line and Column count from 1; 0 means unknown.
type Pos = fault.Pos

// The codes that errors of this package carry.
const (
	Denied         = fault.Denied         // a rule denies the call, or none allows it
	NeedsApproval  = fault.NeedsApproval  // a rule asks, and the answer was no, or nobody was there
	PolicyInvalid  = fault.PolicyInvalid  // a policy cannot be read
	LimitReached   = fault.LimitReached   // a limit of the policy is used up
	HandleRefused  = fault.HandleRefused  // the call really reached for something that is not allowed
	ToolUnknown    = fault.ToolUnknown    // no tool has this ID
	ArgsInvalid    = fault.ArgsInvalid    // arguments do not fit the tool's schema
	ToolFailed     = fault.ToolFailed     // the tool ran and failed
	ToolTimeout    = fault.ToolTimeout    // the call's time ran out
	ToolCancelled  = fault.ToolCancelled  // the call's context ended
	ToolPanicked   = fault.ToolPanicked   // the tool crashed inside Remit
	SandboxMissing = fault.SandboxMissing // this machine cannot confine a process, so it was not started
	OutputInvalid  = fault.OutputInvalid  // the tool's output cannot be used
	NotFound       = fault.NotFound       // a file, host or command that the call names does not exist
	Conflict       = fault.Conflict       // a guard such as if_sha256 did not hold
	Interrupted    = fault.Interrupted    // the process ended before the call's outcome was known
	PlanInvalid    = fault.PlanInvalid    // a plan cannot be read or makes no sense
	PlanInput      = fault.PlanInput      // an input is missing, unknown or of the wrong type
	PlanReference  = fault.PlanReference  // an expression names a value that is not there
	ReplayMismatch = fault.ReplayMismatch // a replay differs from the record
	VerifyFailed   = fault.VerifyFailed   // the ledger was altered
	StoreFailed    = fault.StoreFailed    // the ledger cannot be read or written
	StoreCorrupt   = fault.StoreCorrupt   // the ledger's file is damaged
	StoreFull      = fault.StoreFull      // no space is left for the ledger
	StoreReadOnly  = fault.StoreReadOnly  // the ledger's file or folder cannot be written
	StoreVersion   = fault.StoreVersion   // the ledger was made by a newer Remit
	RunUnknown     = fault.RunUnknown     // no run has this ID
	StoreMissing   = fault.StoreMissing   // the ledger is missing, but its keys are there
	GrantExpired   = fault.GrantExpired   // the grant's time is over
	GrantRevoked   = fault.GrantRevoked   // the grant, or one that it derives from, was revoked
	GrantPaused    = fault.GrantPaused    // the grant, or one that it derives from, is paused
	BudgetSpent    = fault.BudgetSpent    // a budget of the grant is used up
	PlanOnly       = fault.PlanOnly       // the run only plans, and the call has side effects
	NotInPlan      = fault.NotInPlan      // the frozen plan does not have this call
	ToolDisabled   = fault.ToolDisabled   // the tool is switched off
	ToolChanged    = fault.ToolChanged    // the tool is not the one that the grant or the frozen plan pins
	Usage          = fault.Usage          // options or arguments that make no sense
	Internal       = fault.Internal       // a bug in Remit
)

// CodeOf is the code that an error carries, or [Internal] if it carries none.
func CodeOf(err error) Code { return fault.CodeOf(err) }

// Tool describes a callable tool.
type Tool struct {
	ID          string // as "fs.read"
	Title       string
	Description string          // the description for a model
	Input       json.RawMessage // JSON Schema (2020-12) of the arguments
	Output      json.RawMessage // JSON Schema of the output
	Risk        string          // low, medium, high or critical
	Effects     []string        // every side effect that a call may have, as "fs.write"
}

// Status says how a call or a run ended.
type Status string

// The statuses. A run has no Skipped and no Timeout.
const (
	StatusCompleted   Status = "completed"
	StatusDenied      Status = "denied"
	StatusFailed      Status = "failed"
	StatusTimeout     Status = "timeout"
	StatusCancelled   Status = "cancelled"
	StatusSkipped     Status = "skipped"     // a plan's step that did not run
	StatusInterrupted Status = "interrupted" // the process ended first
	StatusRunning     Status = "running"     // a run that has not ended
	StatusPending     Status = "pending"     // a call that has not ended
)

// Result is how one call ended.
type Result struct {
	Run         string // the run's ID
	Index       int    // the call's place in its run, from 1
	Step        string // the plan step's ID, if any
	Tool        string
	Status      Status
	Output      json.RawMessage // canonical JSON (RFC 8785); nil if there is none
	OutputBytes int64           // the size of the output, also where Output was left out
	Decision    Decision
	SideEffects []SideEffect // the real effects of the call
	More        int          // side effects beyond those listed
	Started     time.Time
	Duration    time.Duration
	Err         *Error // why it did not complete; nil if it did
}

// Decode reads the output into a value, as [json.Unmarshal] does.
func (r Result) Decode(into any) error { return json.Unmarshal(r.Output, into) }

// SideEffect is one change or contact that a call really made.
type SideEffect struct {
	Effect string // as "fs.write"
	On     string // the path, URL or command
	Bytes  int64  // written, received, ...
}

// Decision is the policies' decision about a call; it is zero where there was none.
type Decision struct {
	Effect   string // "allow", "ask" or "deny"
	Rule     string // the deciding entry, as `files.read.deny[0] "**/*.bak"`, or "default"
	Policy   string // the name of the policy that it is of
	Line     int    // its line there; 0 for a default
	Reason   string
	Approved bool      // a person said yes
	Refusals []Refusal // every rule that denied or asked
}

// Refusal is one rule that kept a call from being allowed outright.
type Refusal struct {
	Effect string // "deny" or "ask"
	Rule   string
	Policy string
	Line   int
	Action string // the decided action, as `files.read "/etc/passwd"`
	Reason string
}

// Run is how a run went.
type Run struct {
	ID       string
	Name     string // of its plan or session; only from [Runtime.Runs]
	Status   Status
	Policies []string // names of the policies that bounded it, the root first; not from [Runtime.Runs]
	Counts   Counts
	Started  time.Time
	Duration time.Duration
	Hint     string // what should be known about the choice of the policy, if anything
}

// Counts is how many calls of a run ended in which way. Failed includes calls that timed out or
// were cancelled or interrupted.
type Counts struct{ Total, Completed, Denied, Failed, Skipped, Refused int }

// Explanation is the decision on a call that is not made.
type Explanation struct {
	Effect  string // allow, ask or deny
	Rule    string // that decided; "" if none did
	Reason  string
	Actions []string // the call's actions, as `files.write "/work/out/a.txt"`
	Rules   []ExplainedRule
}

// ExplainedRule is a rule that took part in a decision.
type ExplainedRule struct {
	Effect string
	Rule   string
	Where  string // file and line; "" for a policy that is in no file
	Action string // that it was about
}

// Replay is how a replay went.
type Replay struct {
	Run      string // the replay's own run
	Of       string // the run that was replayed
	Status   Status
	Calls    int
	Mismatch *Mismatch // the first difference, nil if there is none
}

// Mismatch is the first difference between a replay and the record.
type Mismatch struct {
	Index    int    // the call, from 1; 0: the run as a whole
	What     string // "plan", "arguments", "decision", "output", ...
	Recorded string // quoted, or a hash where the value may be large or private
	Now      string
}

// VerifyOptions says what to verify. The zero VerifyOptions verify the whole
// ledger.
type VerifyOptions struct {
	Run        string // only this run's part
	Checkpoint []byte // an older signed checkpoint, which the ledger must extend
}

// Verification is what Verify found.
type Verification struct {
	Events   uint64 // checked
	Runs     uint64 // checked
	Size     uint64 // events in the log
	Root     string // the log's root hash, base64
	Signed   uint64 // how many of the events the newest signed checkpoint covers
	Erased   uint64 // payloads that were erased on purpose
	Problems []Problem
}

// Problem is one record that is not as it was recorded.
type Problem struct {
	Table   string
	Key     string // which record of it
	Event   uint64 // the first event concerned, 0 if none
	Message string
}

func resultOf(run string, o runner.Outcome) (Result, error) {
	r := Result{
		Run: run, Index: o.Index, Tool: string(o.Tool), Status: Status(o.Status.String()), OutputBytes: int64(o.Size),
		Decision: decisionOf(o.Decision, o.Approved), Started: o.Created.UTC(), Duration: o.Duration, More: o.More,
	}
	for _, h := range o.Happened {
		r.SideEffects = append(r.SideEffects, SideEffect{h.Effect.String(), h.On, h.Bytes})
	}
	if o.Output != nil {
		out, err := canon.Marshal(o.Output)
		if err != nil {
			return r, fault.Wrap(fault.OutputInvalid, err, "%s returned what cannot be written as JSON", o.Tool)
		}
		r.Output = out
	}
	if o.Err == nil {
		return r, nil
	}
	r.Err = &Error{Code: fault.CodeOf(o.Err), Msg: fault.Message(o.Err), Err: o.Err}
	return r, r.Err
}

// decisionOf tells a decision. A call that never came to one has the zero
// decision, which denies.
func decisionOf(d policy.Decision, approved bool) Decision {
	if d.Rule == nil {
		return Decision{}
	}
	out := Decision{Effect: d.Effect.String(), Rule: d.Rule.String(), Reason: d.Reason, Approved: approved}
	if d.Rule != nil {
		out.Policy, out.Line = d.Rule.Policy, d.Rule.Line
	}
	for _, x := range d.Refusals {
		ref := Refusal{Effect: x.Effect.String(), Rule: x.Rule.String(), Action: x.Action, Reason: x.Reason}
		if x.Rule != nil {
			ref.Policy, ref.Line = x.Rule.Policy, x.Rule.Line
		}
		out.Refusals = append(out.Refusals, ref)
	}
	return out
}

// recorded makes a result of a call as the record has it.
func recorded(run string, s report.Step) Result {
	r := Result{
		Run: run, Index: s.Index, Step: s.ID, Tool: s.Tool, Status: Status(s.Status), Output: s.Output.JSON, OutputBytes: s.Output.Bytes,
		Started: s.StartedAt, Duration: time.Duration(s.DurationMS * float64(time.Millisecond)), More: s.SideEffects.More,
		Decision: Decision{
			Effect: s.Decision.Effect, Rule: s.Decision.Rule, Policy: s.Decision.Policy, Line: s.Decision.Line,
			Reason: s.Decision.Reason, Approved: s.Decision.Approved,
		},
	}
	if r.Output != nil {
		r.OutputBytes = int64(len(r.Output))
	}
	for _, h := range s.SideEffects.Happened {
		r.SideEffects = append(r.SideEffects, SideEffect{h.Effect, h.On, h.Bytes})
	}
	for _, x := range s.Decision.Refusals {
		r.Decision.Refusals = append(r.Decision.Refusals, Refusal{x.Effect, x.Rule, x.Policy, x.Line, x.Action, x.Reason})
	}
	if s.Error != nil {
		r.Err = &Error{Code: Internal, Msg: s.Error.Message}
		if n, err := strconv.Atoi(strings.TrimPrefix(s.Error.Code, "E")); err == nil {
			r.Err.Code = Code(n)
		}
	}
	return r
}

func runOf(res runs.Result) Run {
	r := Run{
		ID: res.ID.String(), Status: Status(res.Status.String()), Counts: Counts(res.Counts), Started: res.Started,
		Duration: res.Duration, Hint: string(res.Hint),
	}
	if res.Status == tool.Pending {
		r.Status = StatusRunning
	}
	if res.ID == uuid.Nil {
		return Run{}
	}
	for _, p := range res.Policies {
		r.Policies = append(r.Policies, p.Name())
	}
	return r
}

// recordedRun is a run as the ledger tells it.
func recordedRun(r ledger.Run) Run {
	out := Run{
		ID: r.ID.String(), Name: r.Name, Status: Status(r.Status), Started: r.Started,
		Counts: Counts{Total: r.Total, Completed: r.Completed, Denied: r.Denied, Failed: r.Failed, Refused: r.Refused},
	}
	if !r.Ended.IsZero() {
		out.Duration, out.Counts.Skipped = r.Ended.Sub(r.Started), r.Total-r.Completed-r.Denied-r.Failed
	}
	return out
}

func verify(ctx context.Context, st store.Store, o VerifyOptions) (Verification, error) {
	opts := store.VerifyOptions{Checkpoint: o.Checkpoint}
	if o.Run != "" {
		run, err := st.Run(ctx, o.Run)
		if err != nil {
			return Verification{}, err
		}
		opts.Run = run.ID
	}
	rep, err := st.Verify(ctx, opts)
	out := Verification{Events: rep.Events, Runs: rep.Runs, Size: rep.Size, Root: rep.Root, Signed: rep.Signed, Erased: rep.Erased}
	for _, p := range rep.Problems {
		out.Problems = append(out.Problems, Problem{p.Table, p.Key, uint64(p.Seq), p.Message})
	}
	if err == nil && len(out.Problems) > 0 {
		p := out.Problems[0]
		err = fault.New(fault.VerifyFailed, "the ledger was altered: %s %s: %s", p.Table, p.Key, p.Message)
	}
	return out, err
}

// copyJSON copies a JSON value, its numbers as they are written.
func copyJSON(from, to any) error {
	b, err := canon.Marshal(from)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	return d.Decode(to)
}
