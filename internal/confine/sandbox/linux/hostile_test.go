//go:build linux && (amd64 || arm64)

package linux_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/racetest"
	"github.com/remitrun/remit/internal/base/walk/walktest"
	"github.com/remitrun/remit/internal/confine/sandbox/linux"
)

// A survey before a command takes bounded memory and files, whatever an earlier one left.
func TestSurveyOfAHostileFolder(t *testing.T) {
	racetest.Skip(t, oneByOne)
	chain, dir := newWorld(t, openPolicy).p.Chain(), walktest.Hostile(t, "as deep as a path") // the kernel takes long for its paths; others are as deep
	walktest.Check(t, walktest.Bounds{MiB: 32, Files: 10}, func(ctx context.Context) error {
		names, err := linux.SurveyNames(ctx, chain, dir)
		if errors.Is(err, fault.ToolCancelled) {
			return context.Canceled
		}
		if err == nil && len(names) < 2500 {
			t.Errorf("it found %d folders", len(names))
		}
		return err
	})
}

// A survey does not leave the folder by a link that replaces a folder under way.
func TestSurveyOfAChangingFolder(t *testing.T) {
	chain := newWorld(t, openPolicy).p.Chain()
	dir, ctx := walktest.Swapping(t)
	for range 20 {
		if names, err := linux.SurveyNames(ctx, chain, dir); err != nil || slices.Contains(names, "secret") {
			t.Errorf("%v; it went outside: %t", err, slices.Contains(names, "secret"))
		}
	}
}

// Whenever its context ends, a survey says so and does not take a part for the whole.
func TestSurveyEnds(t *testing.T) {
	chain, dir := newWorld(t, openPolicy).p.Chain(), walktest.Folder(t)
	walktest.CrowdBelow(t, dir, 3, 3)
	walktest.Ends(t, func(ctx context.Context) error {
		_, err := linux.SurveyNames(ctx, chain, dir)
		if errors.Is(err, fault.ToolCancelled) {
			return context.Canceled
		}
		return err
	})
}
