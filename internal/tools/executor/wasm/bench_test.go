package wasm_test

import (
	"context"
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/permit/permittest"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/catalog"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/store/sqlite"
	"github.com/remitrun/remit/internal/tools/executor/wasm"
)

// small is a module that reads its request and answers.
func small() []byte {
	const answer = `{"result":{"words":3}}`
	le := binary.LittleEndian.AppendUint32
	data := le(le(le(le(nil, 1024), 4096), 80), uint32(len(answer)))
	var body []byte
	for i, fd := range []int32{0, 1} {
		for _, n := range []int32{fd, 64 + 8*int32(i), 1, 0} {
			body = append(body, sint(n)...)
		}
		body = append(body, 0x10, byte(i), 0x1a)
	}
	return asm{imports: []string{"fd_read:1", "fd_write:1"}, data: string(data) + answer, body: body}.bytes()
}

// noFacts looks nothing up: the tools need nothing from the world.
type noFacts struct{}

func (noFacts) Fill(context.Context, tool.Env, policy.Limits, runner.Call, []tool.Action) error {
	return nil
}

func (noFacts) Contents(context.Context, tool.Env, policy.Chain, runner.Call, []tool.Action) error {
	return nil
}

// BenchmarkCall measures warm calls: by the executor alone, and through the runner
// with decision and record.
func BenchmarkCall(b *testing.B) {
	w := newWorld(b)
	for name, code := range map[string]func() []byte{"small": small, "go": func() []byte { return build(b, "../../../../examples/wasm") }} {
		m := "version: 1\ntools:\n- {function: count, description: Counts words., input: {type: object, additionalProperties: false, properties: {text: {type: string}}}}\n"
		tl := w.tool(b, code(), m)
		args := tool.Args{"text": "one two three"}
		p := w.permit(b, open)
		if _, err := permittest.Run(b.Context(), tl, p, args); err != nil {
			b.Fatal(err)
		}
		b.Run("executor/"+name, func(b *testing.B) {
			for b.Loop() {
				if _, err := permittest.Run(b.Context(), tl, p, args); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("runner/"+name, func(b *testing.B) { throughRunner(b, tl, args) })
		if name == "small" {
			b.Run("runner/nothing", func(b *testing.B) { throughRunner(b, nothing{tl}, args) })
		}
	}
}

// nothing is a tool like another that does nothing: what the runner costs by itself.
type nothing struct{ *wasm.Tool }

func (nothing) Run(context.Context, permit.Permit, tool.Args) (tool.Result, error) {
	return tool.Result{Output: map[string]any{"words": 3}}, nil
}

func throughRunner(b *testing.B, tl permit.Tool, args tool.Args) {
	pol, err := policy.Parse("p.yaml", []byte("version: 1\nname: p\ntools: {allow: [\"wasm:*\"]}\n"))
	must(b, err)
	rules, err := pol.Bind(policy.Env{Workspace: "/w"})
	must(b, err)
	cat, err := catalog.New(tl)
	must(b, err)
	st, err := sqlite.Open(b.Context(), sqlite.Options{Home: b.TempDir(), Durability: sqlite.Power})
	must(b, err)
	defer func() { must(b, st.Close()) }()
	rn := &runner.Runner{Catalog: cat, Record: st, Facts: noFacts{}, Execs: runner.Direct{}}
	id, err := uuid.NewV7()
	must(b, err)
	run, ctx, err := rn.Start(b.Context(), runner.Info{
		ID: id, Name: "bench", Grant: grant.New(grant.Terms{ID: id, Holder: "user:bench", Policies: policy.Chain{rules}}), Bound: policy.Env{Workspace: "/w"},
	})
	must(b, err)
	var took []time.Duration
	for b.Loop() {
		begin := time.Now()
		if o := rn.Execute(ctx, run, runner.Call{Tool: tl.Spec().ID, Args: args}); o.Status != tool.Completed {
			b.Fatal(o.Status, o.Err, o.Fatal)
		}
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2]), "p50-ns")
	must(b, rn.Finish(context.WithoutCancel(ctx), run, tool.Completed))
}
