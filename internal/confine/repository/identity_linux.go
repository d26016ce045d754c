package repository

import "syscall"

// stat describes what a path leads to.
func stat(p string) (f file, ok bool) {
	var st syscall.Stat_t
	if syscall.Stat(p, &st) != nil {
		return f, false
	}
	f.of = identity{dev: st.Dev, ino: st.Ino, size: st.Size, mtime: st.Mtim.Nano(), ctime: st.Ctim.Nano()}
	f.folder, f.regular = st.Mode&syscall.S_IFMT == syscall.S_IFDIR, st.Mode&syscall.S_IFMT == syscall.S_IFREG
	return f, true
}
