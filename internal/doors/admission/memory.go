package admission

import "runtime/debug"

// The number of MCP clients that a process serves by default: each has a run, and leaves up to
// clientMemory while it works.
const (
	clientMemory = 16 << 20
	leastClients = 64
	mostClients  = 4096
)

// Clients returns the default number of MCP clients, by the machine's memory or by GOMEMLIMIT, if that
// is less.
func Clients() int { return clientsFor(min(machineMemory(), debug.SetMemoryLimit(-1))) }

func clientsFor(memory int64) int {
	return int(min(max(memory/clientMemory, leastClients), mostClients))
}
