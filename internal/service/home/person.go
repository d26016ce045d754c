package home

import (
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// Person is who uses this process: "user:" and the name of the account.
func Person() string { return "user:" + account() }

// account is the name of the account that this process runs under, or its number. The
// environment does not say: with another $USER one person would count as two. (Where
// the account has no name, user.Current believes $USER.)
func account() string {
	uid := strconv.Itoa(os.Getuid())
	if u, err := user.LookupId(uid); err == nil && u.Username != "" {
		return u.Username
	}
	return uid
}

// OwnedByUs reports whether a folder is this process's own user's.
func OwnedByUs(dir string) bool {
	st, err := os.Stat(dir)
	if err != nil {
		return false
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	return ok && int(sys.Uid) == os.Getuid()
}
