// Package runner is the choke point: [Runner.Execute] is the only way a tool runs,
// whichever door the call came through. It takes a call through a list of stages
// (flight.stages): look up the tool, prepare the call, decide, reserve, ask for
// approval, record the intent, run under a permit, record the outcome. Start at
// [Runner.Execute].
//
// Its dependencies are small interfaces that it declares here: a catalog of tools, a
// recorder, the facts for the second step of a decision, an asker for approvals, and an
// executor. A replay exchanges the last three. Its [Recall] takes three more parts from the
// record: the tools of sources, the policies of one call, and the gates.
package runner

import (
	"context"
	"time"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/commitment"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
)

// Bounded is a tool with policies of its own, such as an extension's permissions. Its
// calls are decided, and run, under these policies besides the caller's grant.
type Bounded interface {
	Bounds() []*policy.Policy
}

// Owning is a tool with its own folder, in which the policies hold as in the workspace
// (policy.Chain.Owning). The path is absolute, clean and free of links; "": none.
type Owning interface {
	Own() string
}

// Running is a tool with its own folder of programs, which is searched last for the
// commands of its calls (policy.Chain.Running); "": none.
type Running interface {
	Programs() string
}

// Entry is a tool as the catalog lists it.
type Entry struct {
	Tool     permit.Tool
	Spec     *tool.Spec
	Source   string // the source of the tool, as "mcp:github"; "": built in
	Digest   tool.Digest
	Validate func(tool.Args) error // against Spec.Input; fault.ArgsInvalid
	Disabled string                // why the tool is disabled, for people; "" if enabled
}

// Catalog finds tools.
type Catalog interface {
	Lookup(id tool.ID) (Entry, error) // fault.ToolUnknown
}

// Recorder is the part of a store that the runner needs.
type Recorder interface {
	Append(ctx context.Context, entries ...ledger.Entry) (ledger.Seq, error)
}

// Leased is a Recorder whose right to act can end: that of one node among several.
type Leased interface {
	// HoldsLease returns an error once no call may begin here. lost is closed when the calls
	// that run must end.
	HoldsLease() (lost <-chan struct{}, err error)
}

// Facts looks up the facts for the second step of a decision: the real paths of files, the
// addresses of hosts, the executables of commands. It fills in the actions' fact fields.
type Facts interface {
	Fill(ctx context.Context, env tool.Env, limits policy.Limits, c Call, actions []tool.Action) error
	// Contents fills in the content of the files that the actions' commands name and
	// that the chain permits to write. An approval is bound to it.
	Contents(ctx context.Context, env tool.Env, chain policy.Chain, c Call, actions []tool.Action) error
}

// Mask knows the values of secrets, which must not appear in records or answers.
type Mask interface {
	// Active reports whether there are any secrets.
	Active() bool
	// Holds reports whether a text contains a secret, in any known spelling.
	Holds(text string) bool
	// Text replaces secrets by markers.
	Text(text string) string
}

// Executor runs a prepared call that was allowed and whose intent is recorded.
type Executor interface {
	Execute(ctx context.Context, p permit.Permit, c Call, prepared permit.Prepared) (tool.Result, error)
}

// Asker asks a person for approval and waits for the answer.
type Asker interface {
	Ask(ctx context.Context, q Question) (Answer, error)
}

// Question is a request for approval.
type Question struct {
	Run      *Run
	Call     Call
	Spec     *tool.Spec
	Digest   tool.Digest // of the tool
	Args     []byte      // as recorded: canonical JSON
	Actions  []tool.Action
	Decision policy.Decision
	Terms    policy.Terms // how many approvers are needed, how long it waits, ...
	// Within: the call is running, and needs approval of one more action, such as a
	// connection of a process that it started. A refusal does not end the call.
	Within bool
	// Ahead: the call is not made yet. Its caller requests the approval, so that the call can
	// use it later; Reason is the caller's, and untrusted.
	Ahead  bool
	Reason string
}

// Proposer is an Asker that can also propose a change of the policy to people, where the
// policy denies the call of a question. The proposal allows nothing.
type Proposer interface {
	Propose(ctx context.Context, q Question) (Proposal, error)
}

// Proposal is a filed proposal.
type Proposal struct {
	ID    string
	Until time.Time
}

// Answer is the answer to a Question. The zero Answer refuses.
type Answer struct {
	Yes    bool      `json:"yes"`
	By     string    `json:"by"`               // the person, as "user:ann"
	Where  string    `json:"where"`            // "terminal", ...
	Reason string    `json:"reason,omitempty"` // of a refusal, shown to the caller
	At     time.Time `json:"at"`
	// Session: the approval also covers further calls of the run.
	Session bool `json:"session,omitempty"`
}

// Call is one request to run one tool.
type Call struct {
	Index int     // in the run, from 1, in plan order; 0: the next free index
	Step  string  // the plan step's id, if any
	Name  string  // the plan step's name, if any
	Tool  tool.ID // as asked; the tool may not exist
	Args  tool.Args
	// Long: the call has no time limit but the policy's own (commands.timeout,
	// limits.time).
	Long bool
	// Agent: an agent's session makes the call. Step is then no step of a plan.
	Agent bool
	// Thought: an agent's session asks its model. Neither the phase of the run nor its frozen
	// plan is about such calls; the policies are.
	Thought bool
	// AnswerBy is the deadline for a person's answer. Zero: the call does not wait unless the asker
	// does.
	AnswerBy time.Time
	// Pause is called when the call starts to wait for an answer before its tool runs; resume, before
	// the approval is used. An error of resume refuses the call and keeps the approval. Nil: nothing is
	// called.
	Pause func() (resume func(context.Context) error)
	// Bounds are policies of this call alone, besides the run's grant. They are recorded
	// with it.
	Bounds []*policy.Policy
	// Release: the call carries out one that waited for review in another run. Only the review
	// of held changes sets it; nil: it does not.
	Release *ledger.HeldCall
	// Commitment is the condition that the call checks: a call that shows that it does not
	// hold fails. nil: none.
	Commitment *commitment.Commitment
}

// Outcome is how a call ended.
type Outcome struct {
	Index  int
	Tool   tool.ID
	Digest tool.Digest // of the tool; zero if the call was refused before the lookup
	Args   []byte      // as recorded: canonical JSON; nil if the call was refused before they were encoded
	Status tool.Status
	Output map[string]any // nil if none
	Size   int            // of the output as JSON, in bytes
	// ShowsKeys reports whether the policies show a model the known formats of keys in the output, see [policy.Chain.ShowsKeys].
	ShowsKeys bool
	Decision  policy.Decision // zero if none was made
	Approved  bool            // by a person
	Waits     bool            // for review: nothing was carried out, and Output says so
	Err       error           // a *fault.Error unless Status is Completed
	Labels    []string        // that the call added to its context
	// References are the outputs that arguments refer to.
	References []ledger.Reference
	Happened   []tool.Happened // the side effects that took place
	More       int             // side effects beyond those listed
	Attempts   ledger.Attempts // actions that were refused while the allowed call ran
	// Violations are the refused actions by kind, with the policy's response, which was
	// carried out.
	Violations []Violation
	Created    time.Time
	Duration   time.Duration
	Seq        ledger.Seq // of the event with the outcome and the output
	// Fatal is set if the record could not be written. The run must stop: no call runs
	// without a record.
	Fatal error
}

// Notice says that a call entered a state. Outcome is set for Ended. Observers are called
// from the call's goroutine and must return quickly.
type Notice struct {
	Run     *Run
	Call    Call
	Entry   Entry // the zero Entry if the tool is unknown
	State   ledger.State
	Outcome *Outcome
}

// Runner executes calls. Catalog, Record, Facts and Execs are required; with
// one of them missing every call is denied.
type Runner struct {
	Catalog Catalog
	Record  Recorder
	Facts   Facts
	Execs   Executor
	Ask     Asker            // nil: calls that need approval are denied
	Observe func(Notice)     // nil: none
	Now     func() time.Time // nil: time.Now
	Mask    Mask             // nil: no secrets
	Files   FileLabels       // nil: files have the labels of their paths alone

	Hooks        []Hook       // called around calls, in order
	Sources      *Sources     // nil: sources have no limits
	Authority    Authority    // nil: grants kept in the ledger are refused
	GrantStopper GrantStopper // nil: if a policy stops a grant, the run ends with an error
}

// DefaultTimeout is the time limit of a call where nothing else sets one.
const DefaultTimeout = 300 * time.Second

const (
	recordTimeout = 30 * time.Second // to write the outcome after the call has ended
	abandonAfter  = 5 * time.Second  // how long a tool may go on after its context ended
)

// Execute runs one call through all stages. Refusals and failures are recorded too, and
// returned in the Outcome. In the run of a client, the last stage leaves an allowed call to
// the client: its status is then Pending, until Report.
func (r *Runner) Execute(ctx context.Context, run *Run, c Call) Outcome {
	f := r.begin(run, c)
	return f.finish(ctx, f.stages(ctx))
}

func (r *Runner) now() time.Time {
	if r.Now != nil {
		return r.Now()
	}
	return time.Now()
}

// Direct is the executor that runs the tools themselves.
type Direct struct{}

// Execute runs the call as it was prepared.
func (Direct) Execute(ctx context.Context, p permit.Permit, c Call, prepared permit.Prepared) (tool.Result, error) {
	if prepared.Run == nil {
		return tool.Result{}, fault.New(fault.Internal, "the tool %q is only in the record, so it cannot run", c.Tool)
	}
	return prepared.Run(ctx, p)
}
