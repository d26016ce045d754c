package runner_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/agents/capability/testmath"
	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/catalog"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/record/ledger"
	fstool "github.com/remitrun/remit/internal/tools/builtin/fs"
	shelltool "github.com/remitrun/remit/internal/tools/builtin/shell"
)

// forgetful is a recorder that keeps nothing, so that only the runner is measured.
type forgetful struct{}

func (forgetful) Append(context.Context, ...ledger.Entry) (ledger.Seq, error) { return 1, nil }

// emptyBox is a sandbox in which every command succeeds at once.
type emptyBox struct{}

func (emptyBox) Run(context.Context, permit.Permit, sandbox.Command) (sandbox.Outcome, error) {
	return sandbox.Outcome{}, nil
}

const script = `set -eu
for f in a b c; do
	if test -f "$f"; then grep -c needle "$f" | sort -n > out.txt; fi
done
git status --short && go vet ./... || echo failed
`

// BenchmarkExecute is what a call costs around the work of its tool: one without
// arguments, one with typed arguments, and a shell script.
func BenchmarkExecute(b *testing.B) {
	part, err := testmath.New().Part(capability.Session{}, nil)
	if err != nil {
		b.Fatal(err)
	}
	tools := []permit.Tool{&probe{id: "probe"}, part.Tools[0].Tool, shelltool.New(emptyBox{})}
	tools = append(tools, fstool.Tools()...)
	cat, err := catalog.New(tools...)
	if err != nil {
		b.Fatal(err)
	}
	p, err := policy.Parse("bench.yaml", []byte("version: 1\ntools: {allow: ['*']}\ncommands: {allow: ['**']}\nfiles: {read: {allow: ['**']}, write: {allow: ['**']}}\n"))
	if err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	env := policy.Env{Workspace: dir, Path: []string{"/usr/bin"}}
	g, err := grant.Root(uuid.Must(uuid.NewV7()), "user:test", env, p)
	if err != nil {
		b.Fatal(err)
	}
	rn := &runner.Runner{Catalog: cat, Record: forgetful{}, Facts: still{}, Execs: runner.Direct{}}
	for name, c := range map[string]runner.Call{
		"plain":  {Tool: "probe"},
		"typed":  {Tool: "test_math.add", Args: tool.Args{"a": json.Number("1"), "b": json.Number("2.5")}},
		"script": {Tool: "shell.run", Args: tool.Args{"script": script}},
		"list":   {Tool: "fs.list", Args: tool.Args{"limit": json.Number("10")}},
	} {
		b.Run(name, func(b *testing.B) {
			run, ctx, err := rn.Start(b.Context(), runner.Info{ID: uuid.Must(uuid.NewV7()), Grant: g, Bound: env})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if o := rn.Execute(ctx, run, c); o.Err != nil {
					b.Fatal(o.Err)
				}
			}
			if err := rn.Finish(ctx, run, tool.Completed); err != nil {
				b.Fatal(err)
			}
		})
	}
}
