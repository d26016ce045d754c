// Package garbage sets how often garbage is collected. Start at [Later] and [Less].
package garbage

import (
	"runtime"
	"runtime/debug"
)

// While a service answers requests its heap grows to five times the live heap before it is
// collected, not to twice: a few MB are live, and each request of an MCP client leaves some 200 KB,
// nearly all of them the MCP SDK's buffers.
const (
	usualGarbage   = 100 // percent of the live heap; Go's own default
	serviceGarbage = 400
	startGarbage   = 401 // until the first collection
)

// Later has the first collection of garbage wait for a heap of 16 MB instead of 4 MB,
// which most commands never reach. After it all is as usual.
func Later() {
	if was := debug.SetGCPercent(startGarbage); was != usualGarbage {
		debug.SetGCPercent(was)
		return
	}
	runtime.AddCleanup(new([64]byte), func(percent int) {
		if was := debug.SetGCPercent(percent); was != startGarbage {
			debug.SetGCPercent(was) // the service's
		}
	}, usualGarbage)
}

// Less holds until the function that it gives is called. A setting of the environment (GOGC) that
// is not the default stays unchanged.
func Less() (restore func()) {
	was := debug.SetGCPercent(serviceGarbage)
	if was == usualGarbage || was == startGarbage {
		return func() { debug.SetGCPercent(usualGarbage) }
	}
	debug.SetGCPercent(was)
	return func() {}
}
