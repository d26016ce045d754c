//go:build linux

package wholefile_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/wholefile"
)

func TestAPinnedFileStaysUnderItsName(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	inode := func() uint64 {
		var st unix.Stat_t
		if err := unix.Stat(name, &st); err != nil {
			t.Fatal(err)
		}
		return st.Ino
	}
	put := map[string]func(text string) error{
		"Replace": func(text string) error { return wholefile.Replace(name, []byte(text)) },
		"Rename": func(text string) error {
			if err := os.WriteFile(name+".new", []byte(text), 0o600); err != nil {
				return err
			}
			return wholefile.Rename(name+".new", name)
		},
	}
	for what, do := range put {
		if err := os.WriteFile(name, []byte("a long first content"), 0o600); err != nil {
			t.Fatal(err)
		}
		before := inode()
		fd, err := wholefile.Pin(name)
		if err != nil {
			t.Fatal(err)
		}
		again, err := wholefile.Pin(name)
		if err != nil {
			t.Fatal(err)
		}
		for n, one := range []int{fd, again, -1} {
			pinned := one >= 0
			if got := wholefile.PinnedPath(name); got != pinned {
				t.Errorf("%s, %d pins closed: pinned is %v", what, n, got)
			}
			if err := do("second"); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			if b, err := os.ReadFile(name); err != nil || string(b) != "second" {
				t.Errorf("%s: %q, %v", what, b, err)
			}
			if same := inode() == before; same != pinned {
				t.Errorf("%s, %d pins closed: the same file: %v", what, n, same)
			}
			if pinned {
				if err := unix.Close(one); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if wholefile.PinnedPath(name + ".none") {
		t.Error("a file that is not there is pinned")
	}
}
