package app

import "runtime/debug"

// While a service answers requests its heap grows to five times what is in use
// before it is collected, not to twice: a few MB are in use, and each request of
// an MCP client leaves some 200 KB, nearly all of them the MCP SDK's buffers.
const (
	usualGarbage   = 100 // percent of what is in use; Go's own default
	serviceGarbage = 400
)

// collectLess holds until the function that it gives is called. What the
// environment says (GOGC), if it is not the default, stays as it is.
func collectLess() (restore func()) {
	was := debug.SetGCPercent(serviceGarbage)
	if was == usualGarbage {
		return func() { debug.SetGCPercent(was) }
	}
	debug.SetGCPercent(was)
	return func() {}
}
