package policy

import (
	"strconv"
)

// Violation is a kind of violation of a policy.
type Violation uint8

// The kinds of violations.
const (
	PathViolation    Violation = iota // a file that may not be read or written
	HostViolation                     // a host, URL or address that may not be reached
	CommandViolation                  // a command that may not be started
	ToolViolation                     // a tool that may not be called, or not so
	BudgetViolation                   // more than a limit or a budget allows
	DepthViolation                    // more children, or deeper ones, than may be
	GrantViolation                    // a grant that is forged, expired or revoked
	DigestViolation                   // a tool that is not the one that was pinned
	PlanViolation                     // a call that is not in the frozen plan
	ModeViolation                     // a call with side effects while the run only plans
	FlowViolation                     // data that a label keeps from going there
	numViolations
)

var violationNames = [numViolations]string{"path", "host", "command", "tool", "budget", "depth", "grant", "digest", "plan", "mode", "flow"}

// String gives the word that policies use.
func (v Violation) String() string {
	if v < numViolations {
		return violationNames[v]
	}
	return "violation(" + strconv.Itoa(int(v)) + ")"
}

// Response is the response to a violation besides its refusal. A greater one is
// stricter and includes the smaller ones.
type Response uint8

// The responses.
const (
	LogViolation    Response = iota // it is recorded and logged
	NotifyViolation                 // it is shown to the person who watches
	PauseGrant                      // the grant is paused until a person resumes it
	RevokeGrant                     // the grant is revoked
	numResponses
)

var responseNames = [numResponses]string{"log", "notify", "pause", "revoke"}

// String gives the word that policies use.
func (r Response) String() string {
	if r < numResponses {
		return responseNames[r]
	}
	return "response(" + strconv.Itoa(int(r)) + ")"
}

// violations makes the setting of the responses, by kind of violation.
func violations(into *[numViolations]string) setting {
	settings := make([]setting, numViolations)
	for v, name := range violationNames {
		settings[v] = choice(name, &into[v], responseNames[:]...)
	}
	return mapping("violations", settings...)
}
