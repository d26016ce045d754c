package seatbelt

import (
	"context"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// fill looks at the files that a command's policies speak of.
func fill(ctx context.Context, in *sandbox.Inputs) error {
	return sandbox.Survey{
		Roots:  slices.Concat(sandbox.RootsOf(in.Chain, tool.FileRead), sandbox.RootsOf(in.Chain, tool.FileWrite), []string{in.Chain.Repository()}),
		System: unwritable(in.Chain, in.System),
		Keep:   []string{in.State, in.Chain.Own()},
		Real:   canonical,
		Skip:   func(string) bool { return false },
		Open: func(dir string) (*os.File, error) {
			return os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		},
	}.Fill(ctx, in)
}
