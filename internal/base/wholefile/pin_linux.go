package wholefile

import "golang.org/x/sys/unix"

// pinLock is the lock of a pin, or the lock that would meet one.
func pinLock(kind int16) *unix.Flock_t {
	return &unix.Flock_t{Type: kind, Start: 1<<62 + 'r', Len: 1}
}

func lockPin(fd int) error {
	return unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, pinLock(unix.F_RDLCK))
}

// hasPin asks for locks of others without taking one itself.
func hasPin(fd int) bool {
	l := pinLock(unix.F_WRLCK)
	return unix.FcntlFlock(uintptr(fd), unix.F_OFD_GETLK, l) == nil && l.Type != unix.F_UNLCK
}
