//go:build !linux

package repository

import (
	"os"
	"time"
)

// stat describes what a path leads to. Its content is read each time.
func stat(p string) (f file, ok bool) {
	st, err := os.Stat(p)
	if err != nil {
		return f, false
	}
	f.of = identity{size: st.Size(), mtime: st.ModTime().UnixNano(), ctime: time.Now().UnixNano()}
	f.folder, f.regular = st.IsDir(), st.Mode().IsRegular()
	return f, true
}
