// Package spawn is the small process that makes sandboxes, and the format
// of its orders: a list of system calls. The program's own
// binary is executed once more under another name; an init in this package
// takes that process over before anything else of the program runs. From there
// each sandbox is one raw clone whose child works through a [Program] and
// executes the command. The program itself is never forked, so neither its heap
// nor its threads make a start slow.
//
// Start at [Start], [Program] and [Spawner.Spawn]. Package sandbox chooses the
// calls, and explains why they confine; here is only the mechanism.
package spawn
