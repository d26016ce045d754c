// Package runner is the choke point: [Runner.Execute] is the only way a tool
// runs, whoever asks. It takes a call through the states of DESIGN's path:
// resolve, validate, decide, record the intent, execute under a permit,
// process, record the result. Start at [Runner.Execute]; flight.stages reads as
// that list.
//
// What it needs of others it declares here as small interfaces: a catalog of
// tools, a recorder, facts about the world for the second step of a decision,
// somebody to ask, and an executor. A replay swaps the last three and keeps
// everything else.
package runner

import (
	"context"
	"time"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
)

// Bounded is a tool that may do less than the grant of its caller: an extension's,
// which did not declare all permissions. Its calls are decided, and run, under
// these further policies besides.
type Bounded interface {
	Bounds() []*policy.Policy
}

// Owning is a tool with a folder of its own, where the policies hold as in the
// workspace (policy.Chain.Owning): absolute, clean and free of links; "": it has
// none.
type Owning interface {
	Own() string
}

// Running is a tool with programs of its own in a folder, which is looked in last for
// what its calls start (policy.Chain.Running); "": it has none.
type Running interface {
	Programs() string
}

// Entry is a tool as the catalog lists it.
type Entry struct {
	Tool     permit.Tool
	Spec     *tool.Spec
	Source   string // that brought it, as "mcp:github"; "": none, as it is built in
	Digest   tool.Digest
	Validate func(tool.Args) error // against Spec.Input; fault.ArgsInvalid
	Disabled string                // why the tool is switched off, for people; "": it is on
}

// Catalog finds tools.
type Catalog interface {
	Lookup(id tool.ID) (Entry, error) // fault.ToolUnknown
}

// Recorder is all the runner needs of a store.
type Recorder interface {
	Append(ctx context.Context, entries ...ledger.Entry) (ledger.Seq, error)
}

// Facts looks up what the second step of a decision needs: where paths really
// lead, which addresses a host has, which file a command is. It fills in the
// actions' fact fields.
type Facts interface {
	Fill(ctx context.Context, env tool.Env, limits policy.Limits, c Call, actions []tool.Action) error
	// Contents fills in the content of the files that the actions' commands name and
	// that the chain permits to be written. A question is bound to it.
	Contents(ctx context.Context, env tool.Env, chain policy.Chain, c Call, actions []tool.Action) error
}

// Mask knows values that nobody may be told: secrets that calls are given to use.
type Mask interface {
	// Active reports whether there is any.
	Active() bool
	// Holds reports whether a text holds one, in whatever spelling is known.
	Holds(text string) bool
	// Text puts markers in their place.
	Text(text string) string
}

// Executor carries out a call that was allowed and whose intent is recorded.
type Executor interface {
	Execute(ctx context.Context, p permit.Permit, c Call, prepared permit.Prepared) (tool.Result, error)
}

// Asker puts a question that a policy asks to a person and waits for the answer.
type Asker interface {
	Ask(ctx context.Context, q Question) (Answer, error)
}

// Question is what a person is asked.
type Question struct {
	Run      *Run
	Call     Call
	Spec     *tool.Spec
	Digest   tool.Digest // of the tool
	Args     []byte      // as they are recorded: canonical JSON
	Actions  []tool.Action
	Decision policy.Decision
	Terms    policy.Terms // how many must say yes, how long it waits, ...
	// Within: the call runs, and wants to do what Actions says: a connection of a
	// process that it started. A no keeps it from that and does not end it.
	Within bool
}

// Answer is what the person said. The zero Answer says no.
type Answer struct {
	Yes    bool      `json:"yes"`
	By     string    `json:"by"`               // who answered, as "user:ann"
	Where  string    `json:"where"`            // "terminal", ...
	Reason string    `json:"reason,omitempty"` // told to the caller with a no
	At     time.Time `json:"at"`
}

// Call is one request to run one tool.
type Call struct {
	Index int     // place in the run, from 1, in plan order; 0: the next free one
	Step  string  // the plan step's id, if any
	Name  string  // the plan step's name, if any
	Tool  tool.ID // as asked; may name no tool
	Args  tool.Args
	// Long: the call takes as long as it takes. Only what the policy itself says
	// (commands.timeout, limits.time) ends it.
	Long bool
	// Bounds are policies that bound this one call besides the run's grant; nil:
	// none. They are recorded with it.
	Bounds []*policy.Policy
}

// Outcome is how a call ended.
type Outcome struct {
	Index    int
	Tool     tool.ID
	Digest   tool.Digest // of the tool; zero if the call was refused before it was looked up
	Args     []byte      // as recorded: canonical JSON; nil if the call was refused before they were looked at
	Status   tool.Status
	Output   map[string]any  // nil if none
	Size     int             // of the output as JSON, in bytes
	Decision policy.Decision // zero where it did not come to one
	Approved bool            // a person said yes
	Err      error           // a *fault.Error unless Status is Completed
	Happened []tool.Happened // the side effects that really happened
	More     int             // side effects beyond those listed
	Attempts ledger.Attempts // what was refused while the call ran, though it was allowed itself
	// Violations are what the call was refused, by kind, with what the policy wants
	// done about it; that was done.
	Violations []Violation
	Created    time.Time
	Duration   time.Duration
	Seq        ledger.Seq // of the event that tells the outcome and holds the output
	// Fatal is set when the record could not be written. The run must stop: a
	// call is not run without a record.
	Fatal error
}

// Notice tells an observer that a call entered a state. Outcome is set for
// Ended. Observers are called from the call's goroutine and must be quick.
type Notice struct {
	Run     *Run
	Call    Call
	Spec    *tool.Spec // nil if the tool is unknown
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
	Ask     Asker            // nil: a policy's ask is a denial
	Observe func(Notice)     // nil: nobody watches
	Now     func() time.Time // nil: time.Now
	Mask    Mask             // nil: no value is hidden

	Sources   *Sources                            // nil: sources have no limits of their own
	Authority Authority                           // nil: grants that the ledger keeps are refused
	Standings Standings                           // stops grants that the ledger keeps; nil: where a policy wants that, the run ends with an error
	Violated  func(run *Run, c Call, v Violation) // nil, or told of violations that the policy wants somebody to know of
}

// DefaultTimeout bounds a call where nothing else says so.
const DefaultTimeout = 300 * time.Second

const (
	recordTimeout = 30 * time.Second // to write an outcome after the call is over
	abandonAfter  = 5 * time.Second  // how long a tool may go on after its context ended
)

// Execute takes one call all the way. It never returns early: whatever happens
// is recorded, refusals included, and told in the Outcome.
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

// Direct executes calls for real: the tool itself runs.
type Direct struct{}

// Execute runs the call as it was prepared.
func (Direct) Execute(ctx context.Context, p permit.Permit, c Call, prepared permit.Prepared) (tool.Result, error) {
	if prepared.Run == nil {
		return tool.Result{}, fault.New(fault.Internal, "the tool %q is only in the record, so it cannot run", c.Tool)
	}
	return prepared.Run(ctx, p)
}
