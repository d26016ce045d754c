package replay

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
)

// Tool returns the tool of a recorded call as it was then, if a source brought it: its source may
// be gone since, and the tool or the decisions about it may have changed.
func (r *Recording) Tool(ctx context.Context, c runner.Call) (runner.Entry, bool, error) {
	rec, ok := r.calls[c.Index]
	if !ok || rec.Tool != c.Tool {
		return runner.Entry{}, false, nil // a mismatch of its own
	}
	if beforeTool(rec) {
		return runner.Entry{}, false, r.failure(ctx, rec)
	}
	return r.toolOf(ctx, rec)
}

// beforeTool reports whether a call was refused for its arguments before its tool was
// looked up, as one that contains a secret. The secret is not in the record.
func beforeTool(c ledger.Call) bool { return c.Digest.IsZero() && c.Code == fault.ArgsInvalid }

func (r *Recording) toolOf(ctx context.Context, c ledger.Call) (runner.Entry, bool, error) {
	p, there := c.Parts[ledger.PartTool]
	if !there {
		return runner.Entry{}, false, nil
	}
	b, err := r.src.Load(ctx, p)
	if err != nil {
		return runner.Entry{}, false, err
	}
	var used ledger.ToolUsed
	if err := json.Unmarshal(b, &used); err != nil {
		return runner.Entry{}, false, fault.Wrap(fault.ReplayMismatch, err, "the recorded tool of call %d cannot be read", c.Index)
	}
	t := &past{tool.Spec{ID: c.Tool, Source: used.Kind, Risk: c.Risk, Effects: tool.EffectSet(used.Effects...)}, used.Actions}
	return runner.Entry{Tool: t, Spec: &t.spec, Source: used.Source, Digest: c.Digest, Validate: func(tool.Args) error {
		if undecided(c) {
			return r.failure(ctx, c)
		}
		return nil
	}}, true, nil
}

// undecided reports whether a call was refused for its arguments, before anything
// was decided.
func undecided(c ledger.Call) bool {
	return beforeIntent(c) && c.Effect == policy.Deny && c.Rule == ""
}

// past is a tool as a recorded call used it. The arguments are compared with the recorded ones.
type past struct {
	spec    tool.Spec
	actions []tool.Action
}

func (t *past) Spec() *tool.Spec { return &t.spec }

// Prepare returns the recorded actions. There is nothing to run: a replay's executor
// answers from the record.
func (t *past) Prepare(tool.Env, tool.Args) (permit.Prepared, error) {
	return permit.Prepared{Actions: slices.Clone(t.actions)}, nil
}
