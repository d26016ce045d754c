//go:build !linux

package files

import "golang.org/x/sys/unix"

const dirFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC | unix.O_NOFOLLOW

const anyFlags = unix.O_RDONLY

func openDir(real string) (int, error) { return walkDir(real) }

func isPlain(string) bool { return false }

func renameNew(fromDir int, from string, toDir int, to string) error {
	return renameByLink(fromDir, from, toDir, to)
}

// onProc: only Linux has links that lead into processes.
func onProc(string) bool { return false }

// openBeneath: only Linux has layers.
func openBeneath(int, string, uint64) (int, error) { return -1, unix.ENOSYS }
