package runs

import (
	"context"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/confine/database"
	"github.com/remitrun/remit/internal/confine/files"
	"github.com/remitrun/remit/internal/confine/network"
	"github.com/remitrun/remit/internal/confine/repository"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// Facts looks up the facts for the second step of a decision, by the handle packages, so that the
// decision is about the same files and hosts that the handles will find.
type Facts struct {
	offline bool // ask no resolver
	box     Box
	held    permit.Held // the layers of a run whose writes are held
	secret  func(key string) (string, bool)
}

// Facts looks up without a run, and asks no resolver.
func (s *Runs) Facts() *Facts { return &Facts{offline: true, box: s.Box, secret: s.Secrets.Value} }

// Fill is the runner's hook.
func (f Facts) Fill(ctx context.Context, env tool.Env, limits policy.Limits, _ runner.Call, actions []tool.Action) error {
	return f.Look(ctx, env, limits, actions)
}

// Contents is the runner's hook for approvals.
func (f Facts) Contents(ctx context.Context, env tool.Env, chain policy.Chain, _ runner.Call, actions []tool.Action) error {
	return f.box.Contents(ctx, f.held, env.Workspace, chain, actions)
}

// Look looks up what the actions need of the world.
func (f Facts) Look(ctx context.Context, env tool.Env, limits policy.Limits, actions []tool.Action) error {
	leads := repository.New(env.Home, env.Workspace)
	for i := range actions {
		a := &actions[i]
		if a.Unknown != "" {
			continue
		}
		var err error
		switch a.Kind {
		case tool.FileRead, tool.FileWrite, tool.FileDelete:
			a.Real, err = files.RealPath(ctx, f.held, env, a)
			if err != nil && a.Argument != tool.NoArgument && ctx.Err() == nil {
				a.Real, err = "", nil // the command finds the same obstacle
			}
			if a.Kind != tool.FileRead && a.Real != "" {
				a.Lead = leads.Lead(a.Real)
			}
		case tool.Network:
			if !f.offline {
				a.Addrs, err = network.Resolve(ctx, a.Target.Host)
			}
		case tool.Command:
			if limits.Folders && filepath.IsAbs(a.Dir) {
				if _, a.RealDir, err = files.ResolveIn(ctx, f.held, env, a.Dir); err != nil {
					return err
				}
			}
			if !filepath.IsAbs(a.Dir) && strings.Contains(a.Argv[0], "/") && !filepath.IsAbs(a.Argv[0]) {
				a.Unknown = "the folder that " + strconv.Quote(a.Argv[0]) + " starts from is not known"
				continue
			}
			err = f.program(env, limits, a)
		case tool.TableRead, tool.TableWrite:
			err = database.Look(ctx, limits.Databases, f.secret, a)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// program looks up the file that a command starts.
func (f Facts) program(env tool.Env, limits policy.Limits, a *tool.Action) error {
	img, err := f.box.Image(limits, env.Workspace)
	if err != nil {
		return err
	}
	a.Exe, a.Names, err = sandbox.Lookup(img, slices.Concat(img.Limits(limits).Path, a.Search), a.Argv[0], a.Dir)
	if sandbox.Unrunnable(err) && !env.Foreign {
		return nil // its name decides; the shell says that it cannot run
	}
	if err != nil && img == nil {
		err = sandbox.TellWhere(err, env.Home, a.Argv[0])
	}
	return err
}
