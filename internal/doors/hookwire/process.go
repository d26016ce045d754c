package hookwire

import "time"

// Times of a call.
const (
	DecisionTime = 20 * time.Second // for a decision; agents wait for at least 30 seconds
	AnswerTime   = DecisionTime + time.Second
	SendTime     = 2 * time.Second
	GreetingTime = time.Second // until the greeting comes
	// RetryTime is how long after its start a client may still run remit hook itself, which has its
	// own DecisionTime.
	RetryTime = 5 * time.Second
)

// How a person has calls decided without the keeper. The flag is one of remit hook.
const (
	AloneVariable = "REMIT_NO_KEEPER"
	AloneFlag     = "no-keeper"
)

// LockFile is in $REMIT_HOME. The keeper holds its lock.
const LockFile = "keeper.lock"

// processVariables are variables that parts of a process read once or by themselves. A keeper
// serves only clients with the same values.
var processVariables = []string{
	"GODEBUG", "HTTP_PROXY", "HTTPS_PROXY", "LOCALDOMAIN", "NO_PROXY", "REQUEST_METHOD", "RES_OPTIONS", "SSL_CERT_DIR", "SSL_CERT_FILE", "TMPDIR", "TZ", "ZONEINFO",
	"http_proxy", "https_proxy", "no_proxy",
}

// KeeperEnv is the environment of a keeper that a client starts. It has nothing else of the
// client's, which may come from files of a workspace.
func KeeperEnv(lookup func(name string) (string, bool)) []string {
	var env []string
	for _, name := range append([]string{"HOME"}, processVariables...) {
		if value, ok := lookup(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// SameProcess reports whether a process with one environment works as one with the other does.
func SameProcess(one, other func(name string) (string, bool)) bool {
	for _, name := range processVariables {
		a, hasA := one(name)
		if b, hasB := other(name); a != b || hasA != hasB {
			return false
		}
	}
	return true
}
