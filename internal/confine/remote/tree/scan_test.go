package tree_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/racetest"
	"github.com/remitrun/remit/internal/base/walk"
	"github.com/remitrun/remit/internal/base/walk/walktest"
	"github.com/remitrun/remit/internal/confine/remote/tree"
)

func scan(ctx context.Context, t *testing.T, dir string) (*tree.Snapshot, error) {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }() // only read
	return tree.Scan(ctx, root, func(string) bool { return true })
}

// A scan takes bounded memory and files, whatever a command left. What is too deep is named.
func TestScanOfAHostileFolder(t *testing.T) {
	racetest.Skip(t, "one goroutine walks")
	dir := walktest.Hostile(t)
	var s *tree.Snapshot
	walktest.Check(t, walktest.Bounds{MiB: 64, Files: 450}, func(ctx context.Context) error {
		found, err := scan(ctx, t, dir)
		if errors.Is(err, fault.ToolCancelled) {
			return context.Canceled
		}
		s = cmp.Or(s, found) // of the first
		return err
	})
	if s == nil || s.Missing < 4 {
		t.Fatalf("%+v", s)
	}
	for _, p := range s.Omitted {
		if p == "" || len(p) > 4095+256 {
			t.Errorf("%d bytes are named as left out", len(p))
		}
	}
	for p := range s.Nodes {
		if strings.HasPrefix(p, "special files/") || len(p) > 4095 {
			t.Errorf("%.100s would be sent", p)
		}
	}
}

// Long paths, names and targets count, not only how many there are.
func TestScanIsBoundedByBytes(t *testing.T) {
	dir := walktest.Folder(t)
	walktest.CrowdBelow(t, dir, 15, 20)
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }() // only read
	for i := range 20 {
		if err := root.Symlink(strings.Repeat("t/", 2047), fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	const links, paths = 20 * 4094, 20 * 16 * 256
	for bytes, want := range map[int]error{1 << 20: nil, paths + 255*20: fault.LimitReached, links: fault.LimitReached, 0: fault.LimitReached} {
		if err := tree.ScanWithin(t.Context(), root, walk.Budget{Names: 1000, Bytes: bytes}); !errors.Is(err, want) {
			t.Errorf("with %d bytes: %v, want %v", bytes, err, want)
		}
	}
}

// No scan leaves the folder by a link that replaces a folder under way.
func TestScanOfAChangingFolder(t *testing.T) {
	dir, ctx := walktest.Swapping(t)
	for range 20 {
		s, err := scan(ctx, t, dir)
		if err != nil {
			t.Fatal(err)
		}
		for p := range s.Nodes {
			if strings.HasSuffix(p, "secret") {
				t.Errorf("the scan went outside, to %s", p)
			}
		}
	}
}

// Whenever its context ends, a scan says so and does not take a part for the whole.
func TestScanEnds(t *testing.T) {
	dir := walktest.Folder(t)
	walktest.CrowdBelow(t, dir, 3, 3)
	walktest.Ends(t, func(ctx context.Context) error {
		_, err := scan(ctx, t, dir)
		if errors.Is(err, fault.ToolCancelled) {
			return context.Canceled
		}
		return err
	})
}
