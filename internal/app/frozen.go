package app

import (
	"context"

	"github.com/remitrun/remit/internal/call/replay"
	"github.com/remitrun/remit/internal/call/runner"
)

// recalled gives a replay what bounded the recorded run besides its policies.
func recalled(ctx context.Context, rec *replay.Recording, in *runner.Info) error {
	planning, err := rec.Planning(ctx)
	if err != nil {
		return err
	}
	if planning {
		in.Phase = runner.Planning
	}
	in.Frozen, err = rec.Frozen(ctx)
	return err
}
