package remit_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/remitrun/remit"
)

const shipPolicy = `
version: 1
name: ships
tools: {allow: ["harbour.berth"], ask: ["harbour.move"]}
`

// A program's own functions are tools like any other: decided by policy, recorded, and
// answered from the record in a replay.
func ExampleOptions_tools() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "remit-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()

	type ship struct{ Ship string }
	const schema = `{"type": "object", "properties": {"ship": {"type": "string"}}, "required": ["ship"]}`
	berths := map[string]int{"Aurora": 7}
	rt, err := remit.Open(ctx, remit.Options{
		Home: filepath.Join(dir, ".home"), Workspace: dir, PolicySource: []byte(shipPolicy),
		Tools: []remit.AgentTool{
			remit.Func("harbour.berth", "Tells where a ship is.", schema, func(_ context.Context, s ship) (any, error) {
				return berths[s.Ship], nil
			}).Harmless(),
			remit.Func("harbour.move", "Moves a ship to berth 1.", schema, func(_ context.Context, s ship) (any, error) {
				berths[s.Ship] = 1
				return "moved", nil
			}),
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = rt.Close() }()

	ex, err := rt.Explain(ctx, "harbour.move", map[string]any{"ship": "Aurora"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(ex.Effect, ex.Rule)

	plan := []byte(`
version: 1
steps:
  - {id: where, tool: harbour.berth, args: {ship: Aurora}}
  - {id: move, tool: harbour.move, args: {ship: Aurora}}
`)
	run, err := rt.RunPlanSource(ctx, "plan.yaml", plan, nil)
	if err != nil {
		log.Fatal(err)
	}
	for call, err := range rt.Calls(ctx, run.ID) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(call.Tool, call.Status)
	}
	for r, err := range rt.Runs(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(r.Name, r.Status, r.Counts.Completed, "completed", r.Counts.Denied, "denied")
	}
	fmt.Println(berths)
	// Output:
	// ask tools.ask[0] "harbour.move"
	// harbour.berth completed
	// harbour.move denied
	// plan denied 1 completed 1 denied
	// map[Aurora:7]
}
