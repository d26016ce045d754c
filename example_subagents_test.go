package remit_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/remitrun/remit"
)

// An agent hands a task to a sub-agent, whose grant is handed on from its own: the
// policy says to whom, how deep, and what of it.
func ExampleAgentSession_Children() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "remit-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	for name, answers := range map[string]string{
		"boss.yaml": `
- tool_calls: [{name: spawn_agent, args: {name: helper, agent: Adder, task: What is 2 + 3?}}]
- tool_calls: [{name: wait}]
- text: The helper says 5.
`,
		"adder.yaml": `
- tool_calls: [{name: add, args: {a: 2, b: 3}}]
- text: It is 5.
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(answers), 0o600); err != nil {
			log.Fatal(err)
		}
	}
	rt, err := remit.Open(ctx, remit.Options{Home: filepath.Join(dir, ".home"), Workspace: dir, PolicySource: []byte(`
version: 1
name: adding
files: {read: {allow: ["*.yaml"]}}
models: {allow: ["scripted:*"], tokens: 100000}
agents: {spawn: 1, depth: 1}
delegate: {actions: [files.read, models, tools], to: ["agent:adder"]}
`)})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = rt.Close() }()
	agents, err := rt.Agents(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, a := range []remit.Agent{
		{Name: "Adder", Model: "scripted:adder.yaml", Capabilities: remit.Uses("test_math")},
		{Name: "Boss", Model: "scripted:boss.yaml", Capabilities: remit.Uses("subagents")},
	} {
		if _, err := agents.Create(ctx, a); err != nil {
			log.Fatal(err)
		}
	}
	session, err := agents.StartSession(ctx, "Boss", "sums")
	if err != nil {
		log.Fatal(err)
	}
	turn, err := session.Send(ctx, "Have somebody add 2 and 3.", nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(turn.Reply)
	children, err := session.Children(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range children {
		fmt.Println(c.Title, c.State, c.Messages)
	}
	if err := agents.Close(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// The helper says 5.
	// helper idle 4
}
