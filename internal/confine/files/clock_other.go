//go:build !linux

package files

import "time"

// stampClock is a time that is certainly before the next stamp of a file.
func stampClock() time.Time { return time.Now().Add(-time.Second) }
