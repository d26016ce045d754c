package changeset_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/racetest"
	"github.com/remitrun/remit/internal/base/walk/walktest"
	"github.com/remitrun/remit/internal/confine/changeset"
)

// opened opens a folder as the layers of a changeset are.
func opened(t *testing.T, dir string) int {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	must(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) }) // it was only read
	return fd
}

// compare compares an upper layer with a folder, and expects an error that says what is too much.
func compare(ctx context.Context, t *testing.T, upper, base int, says string) error {
	t.Helper()
	_, err := changeset.Diff(ctx, upper, base, anything)
	if says == "" || err != nil && errors.Is(err, context.Canceled) {
		return err
	}
	if !errors.Is(err, fault.LimitReached) || !strings.Contains(err.Error(), says) {
		t.Errorf("got %v, want an error that says %q", err, says)
	}
	return nil
}

// The walks of this package take bounded memory and files, whatever a command left.
func TestHostileLayers(t *testing.T) {
	racetest.Skip(t, "one goroutine walks")
	dir, base := walktest.Hostile(t), opened(t, walktest.Folder(t))
	bounds := walktest.Bounds{MiB: 4, Files: 300}
	t.Run("meter", func(t *testing.T) {
		walktest.Check(t, bounds, func(ctx context.Context) error {
			_, names, err := changeset.Usage(ctx, dir)
			if err == nil && names < 20_000 {
				t.Errorf("%d names were counted", names)
			}
			return err
		})
	})
	t.Run("temporary files", func(t *testing.T) {
		left := filepath.Join(dir, "many names", ".remit-ABCDEFGHIJKLMNOPQRSTUVWXYZ.tmp")
		must(t, os.WriteFile(left, nil, 0o600))
		walktest.Uses(t, bounds, func() { must(t, changeset.ClearFolder(filepath.Dir(left))) })
		if _, err := os.Lstat(left); err == nil {
			t.Error("it is still there")
		}
	})
	for name, says := range map[string]string{"short and deep": `"d/d/d/d`, "long and deep": `"nnnnn`, "many names": "", "closed folders": "", "special files": "", "links in a circle": ""} {
		t.Run("diff of "+name, func(t *testing.T) {
			upper := opened(t, filepath.Join(dir, name))
			keeps := walktest.Bounds{MiB: 48, Files: 450}
			if name != "many names" && says == "" {
				walktest.Uses(t, keeps, func() { must(t, compare(t.Context(), t, upper, base, says)) })
				return
			}
			walktest.Check(t, keeps, func(ctx context.Context) error { return compare(ctx, t, upper, base, says) })
		})
	}
}

// Long paths count, not only names, on both sides.
func TestLongPathsOfLayersAreBounded(t *testing.T) {
	racetest.Skip(t, "one goroutine walks")
	dir, empty := walktest.Folder(t), walktest.Folder(t)
	walktest.CrowdBelow(t, dir, 15, 33_000)
	must(t, unix.Mknod(filepath.Join(empty, strings.Repeat("n", 255)), unix.S_IFCHR, 0)) // a whiteout
	for name, sides := range map[string][2]string{"added": {dir, empty}, "deleted": {empty, dir}} {
		t.Run(name, func(t *testing.T) {
			if name == "added" {
				sides[1] = walktest.Folder(t)
			}
			upper, base := opened(t, sides[0]), opened(t, sides[1])
			walktest.Uses(t, walktest.Bounds{MiB: 200, Files: 450}, func() {
				must(t, compare(t.Context(), t, upper, base, "128 MiB of names, paths and links"))
			})
		})
	}
}

// No walk leaves the layer by a link that replaces a folder under way.
func TestChangingLayers(t *testing.T) {
	dir, ctx := walktest.Swapping(t)
	upper, base := opened(t, dir), opened(t, walktest.Folder(t))
	for range 20 {
		list, err := changeset.Diff(ctx, upper, base, anything)
		if err != nil && !strings.Contains(err.Error(), "no such file") {
			t.Error(err)
		}
		for _, c := range list {
			if strings.HasSuffix(c.Path, "secret") {
				t.Errorf("the walk went outside, to %s", c.Path)
			}
		}
		if _, names, err := changeset.Usage(ctx, dir); err != nil || names > 150 {
			t.Errorf("%d names, %v", names, err)
		}
	}
}

// Whenever its context ends, a walk says so and does not take a part for the whole.
func TestWalksOfLayersEnd(t *testing.T) {
	dir, base := walktest.Folder(t), walktest.Folder(t)
	walktest.CrowdBelow(t, dir, 3, 3)
	walktest.CrowdBelow(t, base, 3, 2)
	must(t, unix.Mknod(filepath.Join(dir, "gone"), unix.S_IFCHR, 0), os.MkdirAll(filepath.Join(base, "gone", "in"), 0o755)) // a whiteout
	upper, lower := opened(t, dir), opened(t, base)
	walktest.Ends(t, func(ctx context.Context) error {
		_, err := changeset.Diff(ctx, upper, lower, anything)
		return err
	})
	walktest.Ends(t, func(ctx context.Context) error {
		_, _, err := changeset.Usage(ctx, dir)
		return err
	})
}
