package agent

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/remitrun/remit/internal/base/fault"
)

// Two tables say all that can happen to a session. sessionTable has the states that are recorded
// and that clients see. turnTable has the phases of a session's goroutine: the present work of this
// process on the session. A pair without an entry is refused.

// State is the state of a session.
type State string

// The states of a session.
const (
	Idle      State = "idle"      // waits for a message
	Working   State = "working"   // a turn is under way
	Waiting   State = "waiting"   // a turn waits for a person's approval
	Paused    State = "paused"    // a turn is held until Resume
	Failed    State = "failed"    // the last turn ended with an error; a message starts the next one
	Cancelled State = "cancelled" // the last turn was cancelled; a message starts the next one
	Ended     State = "ended"     // takes no more messages
)

// change is something that happens to a session and is recorded.
type change string

const (
	messageSent      change = "message"  // a message starts a turn
	turnResumed      change = "resume"   // somebody continues the turn
	turnRecovered    change = "recover"  // Remit itself continues a turn that its end interrupted
	approvalAsked    change = "ask"      // a call waits for a person
	approvalAnswered change = "answer"   // no call waits for a person any more
	turnHeld         change = "hold"     // the turn stops before its next step
	turnContinued    change = "continue" // the turn that was held goes on
	turnFinished     change = "finish"   // the model is done
	turnFailed       change = "fail"     // the turn ended with an error
	turnCancelled    change = "cancel"   // the turn was cancelled
	turnAbandoned    change = "abandon"  // an interrupted turn will not be continued
	sessionEnded     change = "end"      // the session is over for good
)

// sessionTable gives a session's next state. A change that leaves the state of a
// session without a turn as it is has nothing to do there.
var sessionTable = table[State, change]{
	name:   "session",
	states: []State{Idle, Working, Waiting, Paused, Failed, Cancelled, Ended},
	changes: []change{
		messageSent, turnResumed, turnRecovered, approvalAsked, approvalAnswered, turnHeld, turnContinued,
		turnFinished, turnFailed, turnCancelled, turnAbandoned, sessionEnded,
	},
	next: map[State]map[change]State{
		Idle: {messageSent: Working, turnResumed: Idle, turnRecovered: Idle, turnAbandoned: Idle, sessionEnded: Ended},
		Working: {
			messageSent: Working, turnResumed: Working, turnRecovered: Working, // its process ended
			approvalAsked: Waiting, approvalAnswered: Working, turnHeld: Paused,
			turnFinished: Idle, turnFailed: Failed, turnCancelled: Cancelled, turnAbandoned: Cancelled, sessionEnded: Ended,
		},
		Waiting: {
			messageSent: Working, turnResumed: Working, turnRecovered: Working, // its process ended
			approvalAsked: Waiting, approvalAnswered: Working, turnHeld: Paused,
			turnFinished: Idle, turnFailed: Failed, turnCancelled: Cancelled, turnAbandoned: Cancelled, sessionEnded: Ended,
		},
		Paused: {
			messageSent: Working, turnResumed: Working, turnRecovered: Paused, // its process ended
			turnHeld: Paused, turnContinued: Working,
			turnFinished: Idle, turnFailed: Failed, turnCancelled: Cancelled, turnAbandoned: Cancelled, sessionEnded: Ended,
		},
		Failed:    {messageSent: Working, turnResumed: Working, turnRecovered: Failed, turnAbandoned: Failed, sessionEnded: Ended},
		Cancelled: {messageSent: Working, turnResumed: Working, turnRecovered: Cancelled, turnAbandoned: Cancelled, sessionEnded: Ended},
		Ended:     {turnRecovered: Ended, turnAbandoned: Ended, sessionEnded: Ended},
	},
	refuse: func(s State, c change) error {
		if s == Ended {
			return fault.New(fault.SessionEnded, "the session has ended").WithHint("start another session, or fork this one")
		}
		return fault.New(fault.Conflict, "the change %q is not possible while the session is %s", c, s)
	},
}

// interrupted reports whether a recorded state needs a process that works on it.
func (s State) interrupted() bool { return s == Working || s == Waiting || s == Paused }

// phase is the present work of a session's goroutine.
type phase string

const (
	phaseFree     phase = "free"     // nothing
	phaseStarting phase = "starting" // a turn is being prepared: its grant, its run, its message
	phaseWorking  phase = "working"  // a turn's steps are carried out
	phaseWaiting  phase = "waiting"  // the same; at least one of its calls waits for a person
	phasePaused   phase = "paused"   // a turn is held before its next step
	phaseStopping phase = "stopping" // a turn was told to end, and has not ended yet
	phaseReserved phase = "reserved" // no turn, and none may start: the session is being cancelled or ended
)

// step is what moves a session's goroutine from one phase to another.
type step string

const (
	stepClaim    step = "claim"    // a turn takes the session
	stepStart    step = "start"    // its first step can be made
	stepAsk      step = "ask"      // a call waits for a person
	stepAnswer   step = "answer"   // no call waits for a person any more
	stepHold     step = "hold"     // the turn stops before its next step
	stepContinue step = "continue" // the turn that was held goes on
	stepStop     step = "stop"     // work under way is told to end
	stepFinish   step = "finish"   // the turn is over
	stepReserve  step = "reserve"  // turns are kept from starting
	stepRelease  step = "release"  // turns may start again
)

// turnTable gives the next phase of a session's goroutine.
var turnTable = table[phase, step]{
	name:    "turn",
	states:  []phase{phaseFree, phaseStarting, phaseWorking, phaseWaiting, phasePaused, phaseStopping, phaseReserved},
	changes: []step{stepClaim, stepStart, stepAsk, stepAnswer, stepHold, stepContinue, stepStop, stepFinish, stepReserve, stepRelease},
	next: map[phase]map[step]phase{
		phaseFree:     {stepClaim: phaseStarting, stepReserve: phaseReserved},
		phaseStarting: {stepStart: phaseWorking, stepStop: phaseStopping, stepFinish: phaseFree},
		phaseWorking:  {stepAsk: phaseWaiting, stepHold: phasePaused, stepStop: phaseStopping, stepFinish: phaseFree},
		phaseWaiting:  {stepAsk: phaseWaiting, stepAnswer: phaseWorking, stepStop: phaseStopping, stepFinish: phaseFree},
		phasePaused:   {stepContinue: phaseWorking, stepStop: phaseStopping, stepFinish: phaseFree},
		phaseStopping: {
			stepStart: phaseStopping, stepAsk: phaseStopping, stepAnswer: phaseStopping, stepContinue: phaseStopping,
			stepStop: phaseStopping, stepFinish: phaseFree,
		},
		phaseReserved: {stepStop: phaseReserved, stepRelease: phaseFree},
	},
	refuse: func(p phase, s step) error {
		if s == stepClaim || s == stepReserve {
			return errBusy("the session is at work")
		}
		return fault.New(fault.Conflict, "the step %q is not possible while the turn is %s", s, p)
	},
}

// errBusy is the error for a session that somebody else works on.
func errBusy(why string) error {
	return fault.New(fault.SessionBusy, "%s", why).WithHint("wait until the turn has ended, or cancel it")
}

// table says which state follows on which. The zero table refuses everything.
type table[S, C ~string] struct {
	name    string
	states  []S
	changes []C
	next    map[S]map[C]S
	refuse  func(S, C) error
}

// nextState gives the state that a change leads to.
func (t *table[S, C]) nextState(s S, c C) (S, error) {
	if to, ok := t.next[s][c]; ok {
		return to, nil
	}
	if t.refuse == nil || !slices.Contains(t.states, s) {
		return s, fault.New(fault.StoreCorrupt, "%q is not a valid state of a %s", s, t.name)
	}
	return s, t.refuse(s, c)
}

// String prints the table: a line for each state, a column for each change.
func (t *table[S, C]) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s", t.name)
	for _, c := range t.changes {
		fmt.Fprintf(&b, "\t%s", c)
	}
	for _, s := range t.states {
		fmt.Fprintf(&b, "\n%s", s)
		for _, c := range t.changes {
			to, err := t.nextState(s, c)
			if err != nil {
				to = "-"
			}
			fmt.Fprintf(&b, "\t%s", to)
		}
	}
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	_, _ = w.Write([]byte(b.String() + "\n")) // to memory
	_ = w.Flush()
	return out.String()
}
