package ledger

// Parts of a RunStarted event's payload with the limits of the run besides its
// policies.
const (
	PartPhase  = "phase"  // "planning"; absent: execution
	PartFrozen = "frozen" // the frozen plan, as package frozen encodes it
)
