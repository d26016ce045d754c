package wholefile

import "golang.org/x/sys/unix"

// Settle waits until all writes to an open folder's file system are on disk.
func Settle(dir int) error { return unix.Syncfs(dir) }
