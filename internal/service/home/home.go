// Package home is $REMIT_HOME: the configuration that Remit reads once, and the JSON files
// below it that hold what people added (servers, extensions, trusted policies). Each change
// of such a file is recorded in the ledger before it is made. Start at [Home].
package home

import (
	"context"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/redact"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/repository"
	"github.com/remitrun/remit/internal/record/store"
)

// Home is one $REMIT_HOME. Its fields are set before it is used and not changed. It must be
// closed.
type Home struct {
	Config

	// Ledger opens the ledger, which records each change.
	Ledger func(context.Context) (store.Backend, error)
	// Changed is called after each recorded change. Nil: nothing is called.
	Changed func()

	// Tell is called with the name and the target of each recorded change. Nil: nothing is called.
	Tell func(action, target string)

	logs logFiles
}

func (h *Home) changed() {
	if h.Changed != nil {
		h.Changed()
	}
}

// Env is the environment that policies are bound to.
func (h *Home) Env(workspace string) policy.Env {
	env := policy.Env{Workspace: workspace, Home: RealPath(h.UserHome), State: RealPath(h.Dir), Path: h.Path}
	if t, ok := repository.LinkedWorktree(workspace); ok && t.Main != "" && !repository.Overlap(t.Common, env.State) {
		env.Repository = t.Common
	}
	return env
}

// ToolEnv is the same for tools.
func (h *Home) ToolEnv(workspace string, limits policy.Limits) tool.Env {
	return limits.ToolEnv(workspace, RealPath(h.UserHome))
}

// NewID makes an ID that sorts by time.
func NewID() (uuid.UUID, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return id, fault.Wrap(fault.Internal, err, "no random numbers")
	}
	return id, nil
}

// Redactor hides secrets in output for people: it knows the values of the environment's variables
// that look secret.
func (h *Home) Redactor() *redact.Redactor { return redact.New(h.Secrets) }
