package sandbox

// WorkVariable names the folder of its own that a tool's commands have, if it has
// one (policy.Chain.Own).
const WorkVariable = "REMIT_WORK"

// SetVariables are the variables that every sandbox sets itself, whatever a policy
// passes on.
func SetVariables() []string { return []string{"HOME", "PATH", "TMPDIR", WorkVariable} }
