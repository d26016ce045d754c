package home

import (
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// Person is who uses this process, as the operating system knows them: nobody
// becomes a second approver by setting a variable.
func Person() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return "user:" + u.Username
	}
	return "user:" + strconv.Itoa(os.Getuid())
}

// ownedByUs reports whether a folder is this process's own user's.
func OwnedByUs(dir string) bool {
	st, err := os.Stat(dir)
	if err != nil {
		return false
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	return ok && int(sys.Uid) == os.Getuid()
}
