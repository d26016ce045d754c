package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/racetest"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// nest makes folders in each other, and a file in the last.
func nest(dir, name string, levels int) error {
	at, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	for range levels {
		err := unix.Mkdirat(at, name, 0o755)
		next, oerr := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		if err := errors.Join(err, oerr, unix.Close(at)); err != nil {
			return err
		}
		at = next
	}
	fd, err := unix.Openat(at, "last", unix.O_WRONLY|unix.O_CREAT, 0o644)
	return errors.Join(err, unix.Close(fd), unix.Close(at))
}

// crowd makes files with names of a length.
func crowd(dir string, files, bytes int) error {
	for i := range files {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%0*d", bytes, i)), nil, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func loops(dir string) error {
	return errors.Join(os.Mkdir(filepath.Join(dir, "a"), 0o755), os.Symlink("..", filepath.Join(dir, "a", "up")),
		os.Symlink("self", filepath.Join(dir, "self")), os.Symlink("/", filepath.Join(dir, "a", "all")))
}

// What a command made does not decide what its list costs, and a list that ends too
// early is an error.
func TestFilesOfAnyTree(t *testing.T) {
	racetest.Skip(t, "one goroutine walks")
	levels, many := 1000, 20_000
	if os.Getenv("REMIT_SOAK") != "" {
		levels, many = 10_000, 1_000_000
	}
	for _, c := range []struct {
		name  string
		fill  func(dir string) error
		files int    // that are listed
		why   string // in the error
	}{
		{"long and deep", func(dir string) error { return nest(dir, strings.Repeat("d", 200), levels) }, 0, "deeper than a path can name"},
		{"as deep as a path", func(dir string) error { return nest(dir, "d", 1000) }, 1, ""},
		{"many names", func(dir string) error { return crowd(dir, many, 12) }, 0, "more than 5000 files"},
		{"long names", func(dir string) error { return crowd(dir, 1000, 255) }, 1000, ""},
		{"links in a circle", loops, 3, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, err := os.MkdirTemp("", "remit-files-")
			if err == nil {
				err = c.fill(dir)
			}
			if err != nil {
				t.Fatal(err)
			}
			f, err := sandbox.OpenFolder(dir, io.NopCloser(nil), 1<<20, 5000)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := f.Close(); err != nil {
					t.Error(err)
				}
			}()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			list, err := f.Files(t.Context())
			runtime.ReadMemStats(&after)
			if len(list) != c.files || c.why == "" && err != nil || c.why != "" && (!errors.Is(err, fault.LimitReached) || !strings.Contains(err.Error(), c.why)) {
				t.Errorf("%d files, %v", len(list), err)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 48<<20 {
				t.Errorf("%d MiB were allocated", used>>20)
			}
			ctx, end := context.WithCancel(t.Context())
			end()
			if _, err := f.Files(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("a list that was cancelled: %v", err)
			}
		})
	}
}
