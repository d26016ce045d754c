// Package remit runs AI agents' tool calls within their remit, inside a Go program. It is the same
// engine as the remit command: every call is decided by policy, recorded before it acts, confined
// by the operating system while it acts, and can be verified and replayed afterwards. There is no
// other way to a tool, and calls made here also show in `remit runs` and `remit report`.
//
// Start at [Open]. An agent loop begins a [Session] and makes one call after
// the other; a fixed list of steps is a plan, see [Runtime.RunPlan]:
//
//	rt, err := remit.Open(ctx, remit.Options{Policy: "remit-policy.yaml", Workspace: "project"})
//	...
//	defer rt.Close()
//	s, err := rt.Begin(ctx, "summarise")
//	...
//	res, err := s.Call(ctx, "fs.read", map[string]any{"path": "README.md"})
//
// Without a policy everything is denied. Each call gives a [Result], and an
// error unless it completed; branch on the error's code:
//
//	if errors.Is(err, remit.Denied) { ... }
//
// Agents are kept by a runtime too: [Runtime.Agents] opens them. An [Agent] is a prompt,
// capabilities and a model; an [AgentSession] is a conversation with one, whose model
// and tools are called by the same way. A program adds its own tools as Go functions,
// here for agents, and with [Options.Tools] for plans and sessions as well:
//
//	agents, err := rt.Agents(ctx, remit.Capability{ID: "harbour", Description: "Knows the harbour.", Tools: ...})
//	...
//	session, err := agents.StartSession(ctx, "Harbour master", "Aurora")
//	...
//	turn, err := session.Send(ctx, "Where is Aurora?", nil)
//
// Commands are run by a small helper process that this package starts from the
// program's own binary: importing the package lets the binary take that part,
// before main is reached. Nothing is started until a command is to run.
package remit
