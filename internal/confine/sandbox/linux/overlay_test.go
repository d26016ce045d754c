//go:build linux && (amd64 || arm64)

package linux_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/confine/sandbox/linux"
)

// An overlay shows both layers as one, and what is written stays in the upper one.
func TestOverlay(t *testing.T) {
	for _, way := range []string{"usual", "user"} {
		t.Run(way, func(t *testing.T) {
			dir, err := filepath.EvalSymlinks(t.TempDir())
			must(t, err)
			for _, d := range []string{"base/a:b,c\\d", "upper", "work"} {
				must(t, os.MkdirAll(filepath.Join(dir, d), 0o755))
			}
			must(t, os.WriteFile(filepath.Join(dir, "base/f"), []byte("base"), 0o644))
			must(t, os.WriteFile(filepath.Join(dir, "base/gone"), []byte("base"), 0o644))
			box := linux.New(linux.Config{})
			defer box.Close()
			mount := box.Overlay
			if way == "user" {
				mount = box.OverlayThere
			}
			fd, err := mount(dir+"/base", dir+"/upper", dir+"/work")
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				must(t, errors.Join(unix.Close(fd), os.Chmod(dir+"/work/work", 0o700))) // so that it can be removed
				for _, d := range []string{"incompat", "incompat/volatile"} {
					_ = os.Chmod(dir+"/work/work/"+d, 0o700) // it may not be there
				}
			}()
			f, err := unix.Openat(fd, "f", unix.O_WRONLY|unix.O_TRUNC, 0)
			must(t, err)
			_, err = unix.Write(f, []byte("changed"))
			must(t, errors.Join(err, unix.Close(f), unix.Unlinkat(fd, "gone", 0), unix.Mkdirat(fd, "new", 0o755),
				unix.Renameat2(fd, "f", fd, "new/f", unix.RENAME_NOREPLACE)))
			for name, want := range map[string]string{"base/f": "base", "base/gone": "base", "upper/new/f": "changed"} {
				if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != want {
					t.Errorf("%s holds %q (%v), want %q", name, b, err, want)
				}
			}
			var st unix.Stat_t
			must(t, unix.Lstat(dir+"/upper/gone", &st))
			if st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev != 0 {
				t.Errorf("a deleted file is mode %o, device %x", st.Mode, st.Rdev)
			}
		})
	}
}
