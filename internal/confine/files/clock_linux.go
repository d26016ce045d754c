package files

import (
	"time"

	"golang.org/x/sys/unix"
)

// stampClock reads the clock that the kernel stamps files with.
func stampClock() time.Time {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &ts) != nil {
		return time.Now().Add(-stampLag)
	}
	return time.Unix(ts.Unix())
}

// stampLag is more than the time by which stamps may be late.
const stampLag = time.Second
