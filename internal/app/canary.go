package app

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/service/clients"
)

// runLine runs the command line of a hook, as an agent would.
func runLine(ctx context.Context, line, dir string, input []byte) (clients.Ran, error) {
	c := exec.CommandContext(ctx, "/bin/sh", "-c", line)
	c.Dir, c.Stdin, c.WaitDelay = dir, bytes.NewReader(input), time.Second
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	err := c.Run()
	if ctx.Err() != nil {
		return clients.Ran{}, context.Cause(ctx)
	}
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		return clients.Ran{}, fault.Wrap(fault.Internal, err, "the hook cannot be started: %v", err)
	}
	return clients.Ran{Out: out.String(), Err: errs.String(), Status: c.ProcessState.ExitCode()}, nil
}
