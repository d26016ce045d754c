// Package calls measures what the runner and the ledger cost around a tool
// that does nothing. Start at [New].
package calls

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/catalog"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/store/sqlite"
)

// The tools: both do nothing, but only one says that it does no more than read.
const (
	Read  tool.ID = "bench.read"
	Write tool.ID = "bench.write"
)

// noop is a tool that gives a small answer.
type noop struct{ spec tool.Spec }

func newNoop(id tool.ID, effect tool.Effect, risk tool.Risk) *noop {
	return &noop{tool.Spec{
		ID: id, Title: "Nothing", Description: "Answers at once.", Version: "1", Source: "builtin", Risk: risk,
		Effects: tool.EffectSet(effect),
		Input: json.RawMessage(`{"type": "object", "additionalProperties": false, "required": ["key"],
			"properties": {"key": {"type": "string", "maxLength": 200}, "limit": {"type": "integer", "minimum": 1}}}`),
		Output: json.RawMessage(`{"type": "object"}`),
	}}
}

func (t *noop) Spec() *tool.Spec { return &t.spec }

func (t *noop) Prepare(_ tool.Env, args tool.Args) (permit.Prepared, error) {
	return permit.Prepared{Run: func(context.Context, permit.Permit) (tool.Result, error) {
		return tool.Result{Output: map[string]any{"key": args["key"], "rows": 3, "state": "open"}}, nil
	}}, nil
}

// noFacts looks nothing up: the tools need nothing from the world.
type noFacts struct{}

func (noFacts) Fill(context.Context, tool.Env, policy.Limits, runner.Call, []tool.Action) error {
	return nil
}

func (noFacts) Contents(context.Context, tool.Env, policy.Chain, runner.Call, []tool.Action) error {
	return nil
}

// Bench is a runner on a ledger of its own, with a run begun.
type Bench struct {
	Home   string
	Store  *sqlite.Store
	runner *runner.Runner
	run    *runner.Run
}

// New makes a ledger in a new folder beneath dir and begins a run under chain.
func New(dir string, chain policy.Chain) (*Bench, error) {
	home, err := os.MkdirTemp(dir, "ledger-")
	if err != nil {
		return nil, err
	}
	cat, err := catalog.New(newNoop(Read, tool.DatabaseRead, tool.Low), newNoop(Write, tool.DatabaseWrite, tool.Medium))
	if err != nil {
		return nil, err
	}
	st, err := sqlite.Open(context.Background(), sqlite.Options{Home: home, Durability: sqlite.Power})
	if err != nil {
		return nil, err
	}
	b := &Bench{Home: home, Store: st, runner: &runner.Runner{Catalog: cat, Record: st, Facts: noFacts{}, Execs: runner.Direct{}}}
	return b, b.Begin(chain)
}

// Begin begins another run.
func (b *Bench) Begin(chain policy.Chain) error {
	id, err := uuid.NewV7()
	if err != nil {
		return err
	}
	b.run, _, err = b.runner.Start(context.Background(), runner.Info{
		ID: id, Name: "bench", Grant: grant.New(grant.Terms{ID: id, Holder: "user:bench", Policies: chain}), Bound: policy.Env{Workspace: "/w"},
	})
	return err
}

// Finish ends the run.
func (b *Bench) Finish() error {
	return b.runner.Finish(context.Background(), b.run, tool.Completed)
}

// Call makes the nth call of a tool.
func (b *Bench) Call(id tool.ID, n int) error {
	o := b.runner.Execute(context.Background(), b.run, runner.Call{Tool: id, Args: tool.Args{
		"key": "customer/" + strconv.Itoa(n), "limit": json.Number("20"),
	}})
	if o.Err != nil || o.Fatal != nil || o.Status != tool.Completed {
		return fmt.Errorf("call %d of %s: %v, %w", n, id, o.Status, errors.Join(o.Err, o.Fatal))
	}
	return nil
}

// Close ends the run and closes the ledger.
func (b *Bench) Close() error { return errors.Join(b.Finish(), b.Store.Close()) }

// Size is how many bytes the closed ledger's database has.
func (b *Bench) Size() (int64, error) {
	var sum int64
	files, err := filepath.Glob(filepath.Join(b.Home, sqlite.File+"*"))
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			return 0, err
		}
		sum += info.Size()
	}
	return sum, err
}
