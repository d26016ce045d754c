//go:build linux && (amd64 || arm64)

package linux_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/racetest"
)

// fill makes folders with files in them, and a secret in the last folder.
func fill(t testing.TB, dir string, folders, files int) {
	t.Helper()
	for i := range folders {
		in := filepath.Join(dir, fmt.Sprintf("part%d", i/100), fmt.Sprintf("folder%d", i))
		must(t, os.MkdirAll(in, 0o755))
		at, err := unix.Open(in, unix.O_PATH|unix.O_DIRECTORY, 0)
		must(t, err)
		for k := range files {
			must(t, unix.Mknodat(at, fmt.Sprintf("file%d.txt", k), unix.S_IFREG|0o644, 0))
		}
		must(t, unix.Close(at))
		if i == folders-1 {
			must(t, os.WriteFile(filepath.Join(in, ".env"), []byte("secret"), 0o644))
		}
	}
}

// Every allowed file of a large workspace is reachable, and no denied one.
func TestALargeWorkspaceIsWhole(t *testing.T) {
	racetest.Skip(t, "find walks the files")
	folders, files := 100, 600
	if os.Getenv("REMIT_SOAK") != "" {
		folders, files = 2000, 500
	}
	w := newWorld(t, strings.Replace(openPolicy, `"out/**"`, `"**"`, 1))
	fill(t, w.dir, folders, files)
	out := w.sh("find . -type f | wc -l; find . -name '.env' -exec cat {} +")
	if got, want := string(out.Stdout.Data), fmt.Sprintf("%d\n", folders*files+1); got != want {
		t.Errorf("find saw %q, want %q: %s", got, want, strings.Join(out.Notes, "\n"))
	}
	if text := strings.Join(out.Notes, "\n"); strings.Contains(text, "sight") || len(text) > 1000 {
		t.Errorf("notes: %s", text)
	}
}

func BenchmarkLargeWorkspace(b *testing.B) {
	for _, files := range []int{0, 500} {
		b.Run(fmt.Sprint(400*files), func(b *testing.B) {
			w := newWorld(b, strings.Replace(openPolicy, `"out/**"`, `"**"`, 1))
			fill(b, w.dir, 400, files)
			w.sh("true")
			for b.Loop() {
				w.sh("true")
			}
		})
	}
}
