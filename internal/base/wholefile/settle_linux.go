package wholefile

import "golang.org/x/sys/unix"

// Settle waits until what was written to an open folder's file system is on disk.
func Settle(dir int) error { return unix.Syncfs(dir) }
