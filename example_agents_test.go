package remit_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/remitrun/remit"
)

const harbourPolicy = `
version: 1
name: harbour
files: {read: {allow: ["answers.yaml"]}}
models: {allow: ["scripted:*"], tokens: 100000}
tools: {allow: ["model.chat", "harbour.*", "session_file_system.*"]}
`

// The scripted model says these, one after the other. A real one is named as
// "anthropic/claude-sonnet-4-5".
const harbourAnswers = `
- tool_calls: [{name: berth, args: {ship: Aurora}}]
- tool_calls: [{name: write_file, args: {path: /aurora.txt, content: berth 7}}, {name: delete_file, args: {path: /aurora.txt}}]
- text: Aurora lies at berth 7. I could not delete anything.
`

// A program gives an agent a tool of its own: a Go function. Every call of it, and
// of the model, is decided and recorded, and the session can be replayed without
// either.
func ExampleRuntime_Agents() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "remit-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := os.WriteFile(filepath.Join(dir, "answers.yaml"), []byte(harbourAnswers), 0o600); err != nil {
		log.Fatal(err)
	}
	rt, err := remit.Open(ctx, remit.Options{Home: filepath.Join(dir, ".home"), Workspace: dir, PolicySource: []byte(harbourPolicy)})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = rt.Close() }()

	type ship struct{ Ship string }
	berth := remit.Func("berth", "Tells at which berth a ship lies.",
		`{"type": "object", "properties": {"ship": {"type": "string"}}, "required": ["ship"], "additionalProperties": false}`,
		func(_ context.Context, s ship) (any, error) { return map[string]any{"ship": s.Ship, "berth": 7}, nil })
	agents, err := rt.Agents(ctx, remit.Capability{
		ID: "harbour", Description: "Knows the harbour.", Prompt: "Ask berth where a ship lies.", Tools: []remit.AgentTool{berth.Harmless()},
	})
	if err != nil {
		log.Fatal(err)
	}
	master, err := agents.Create(ctx, remit.Agent{
		Name: "Harbour master", SystemPrompt: "Answer briefly.", Model: "scripted:answers.yaml",
		Capabilities: remit.Uses("harbour", "session_file_system"),
		Policy:       "version: 1\nrest: inherit\ntools: {allow: ['*'], deny: [session_file_system.delete_file]}\n",
	})
	if err != nil {
		log.Fatal(err)
	}
	session, err := agents.StartSession(ctx, master.ID, "Aurora")
	if err != nil {
		log.Fatal(err)
	}
	turn, err := session.Send(ctx, "Where is Aurora?", func(e remit.AgentEvent) {
		if e.Kind == remit.EventToolResult {
			fmt.Println(e.Call.Tool, e.Call.Status)
		}
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(turn.Reply)

	if err := agents.Close(ctx); err != nil { // what ran has ended, and can be replayed
		log.Fatal(err)
	}
	again, err := agents.Replay(ctx, session.ID())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d messages and %d calls replayed\n", again.Messages, again.Calls)
	// Unordered output:
	// harbour.berth completed
	// session_file_system.write_file completed
	// session_file_system.delete_file denied
	// Aurora lies at berth 7. I could not delete anything.
	// 7 messages and 6 calls replayed
}

// A grant is authority as a token. It can be narrowed, and nothing that derives from
// it can do more.
func ExampleRuntime_NarrowGrant() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "remit-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	home := filepath.Join(dir, ".home")
	owner, err := remit.Open(ctx, remit.Options{Home: home, Workspace: dir})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = owner.Close() }()
	wide, err := owner.IssueGrant(ctx, remit.GrantTerms{Policies: [][]byte{[]byte(policy)}, Calls: 100})
	if err != nil {
		log.Fatal(err)
	}
	narrow, err := owner.NarrowGrant(ctx, wide, remit.GrantTerms{Policies: [][]byte{[]byte("version: 1\nrest: inherit\nfiles: {write: {}}\n")}, Calls: 1})
	if err != nil {
		log.Fatal(err)
	}

	holder, err := remit.Open(ctx, remit.Options{Home: home, Workspace: dir, Grant: narrow})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = holder.Close() }()
	s, err := holder.Begin(ctx, "narrowed")
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range []struct {
		tool string
		args map[string]any
	}{
		{"fs.write", map[string]any{"path": "out/a.txt", "content": "a"}},
		{"fs.list", map[string]any{"path": "."}},
		{"fs.list", map[string]any{"path": "."}},
	} {
		_, err := s.Call(ctx, c.tool, c.args)
		fmt.Println(c.tool, err == nil, remit.CodeOf(err) == remit.Denied, remit.CodeOf(err) == remit.BudgetSpent)
	}
	if _, err := s.End(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// fs.write false true false
	// fs.list true false false
	// fs.list false false true
}
