package sandbox

import "syscall"

// changed is when a file was last changed, in nanoseconds.
func changed(s *syscall.Stat_t) int64 { return s.Ctimespec.Nano() }
