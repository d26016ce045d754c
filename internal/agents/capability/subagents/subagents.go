// Package subagents has the capability subagents: tools that delegate work, and a part of
// the agent's authority, to sub-agents. Start at [New].
package subagents

import (
	"context"
	_ "embed" // the prompt
	"encoding/json"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/commitment"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/tools/typed"
)

//go:embed prompt.md
var prompt string

// How long a call of wait waits.
const (
	defaultWait = 60 * time.Second
	mostWait    = 600 * time.Second
)

// Capability is the capability subagents.
type Capability struct{}

// New makes the capability.
func New() Capability { return Capability{} }

// Info describes the capability.
func (Capability) Info() capability.Info {
	return capability.Info{ID: "subagents", Name: "Sub-Agents", Description: "Hand tasks to sub-agents, each with a part of this agent's own authority and budgets.",
		Status: capability.Available, Icon: "users", Category: "AI", Version: "1", Wants: []string{"agents.spawn", "agents.depth", "delegate"}}
}

const (
	which      = `"agent":{"type":"string","minLength":1,"maxLength":200,"description":"The sub-agent's name or ID."}`
	policy     = `"policy":{"type":"string","minLength":1,"maxLength":65536,"description":"A policy (YAML or JSON) that narrows its authority further. It can only take away."}`
	quarantine = `"quarantine":{"type":"boolean","description":"For work on text that strangers wrote: it has a context of its own, and only a typed answer comes back. Needs answer. Default: as the agent is defined; false does not end a quarantine that its definition demands."},
		"answer":{"type":"object","description":"JSON Schema, with type object, of a quarantined sub-agent's answer. Booleans, numbers, enumerations, dates and short IDs come back as values, other texts as references. Leave it out if the agent is defined with an answer."},`
	// commitments are as commitment.Commitment reads them.
	commitments = `"commitments":{"type":"array","maxItems":20,"description":"Conditions that must hold before it counts as done; unmet ones are given back to it.",
		"items":{"type":"object","additionalProperties":false,"properties":{
			"run":{"type":"array","minItems":1,"items":{"type":"string"},"description":"A command and its arguments, under the sub-agent's own authority."},
			"exit":{"type":"integer","minimum":0,"maximum":255,"description":"The exit status that the command must end with; default 0."},
			"cwd":{"type":"string","minLength":1,"description":"Where the command starts."},
			"file":{"type":"string","minLength":1,"description":"A file that must exist."},
			"json":{"type":"string","minLength":1,"description":"A file that must have valid JSON."},
			"equals":{"type":"object","description":"Values that the JSON must have, by their JSON pointers."}}}}`
	child = `"id":{"type":"string"},"name":{"type":"string"},"status":{"enum":["pending","working","idle","failed","stopped"]},"reply":{"type":"string"},"answer":{"type":"object"},"error":{"type":"string"}`
)

var (
	childSchema = typed.Object(child, "id", "name", "status")
	listSchema  = typed.Object(`"agents":{"type":"array","items":{"type":"object","additionalProperties":false,"required":["id","name","status"],"properties":{`+child+`}}},
		"count":{"type":"integer"},"working":{"type":"integer"}`, "agents", "count", "working")
)

// session has the session that the tools belong to.
type session struct{ children capability.Children }

// Part offers the tools.
func (Capability) Part(s capability.Session, _ json.RawMessage) (capability.Part, error) {
	x := session{s.Children}
	keep, look := tool.EffectSet(tool.DatabaseWrite), tool.EffectSet(tool.DatabaseRead)
	return capability.Part{Prompt: prompt, Tools: []capability.Offer{
		own("spawn_agent", "Spawn a sub-agent", tool.Medium, keep,
			"Starts a sub-agent on a task. It works on its own, with a part of your authority, and sees nothing of this conversation: say in the task all that it needs to know. wait gives its answer.",
			typed.Object(`"name":{"type":"string","minLength":1,"maxLength":100,"description":"How you call it, as tests or reviewer; unique among your sub-agents."},
				"task":{"type":"string","minLength":1,"maxLength":100000,"description":"What it is to do, and what its answer should hold."},
				"agent":{"type":"string","minLength":1,"maxLength":200,"description":"The agent (name or ID) that it is; default: the same as you."},`+policy+`,
				"pending":{"type":"boolean","description":"It gets no authority, and does nothing, until delegate; default false."},`+quarantine+commitments, "name", "task"), childSchema, x.spawn),
		own("delegate", "Delegate authority", tool.Medium, keep,
			"Gives authority to a sub-agent that was spawned as pending, and lets it begin. It never has more than you have.",
			typed.Object(which+","+policy, "agent"), childSchema, x.delegate),
		own("send_message", "Message a sub-agent", tool.Medium, keep,
			"Sends another message to a sub-agent, which then goes on working.",
			typed.Object(which+`,"message":{"type":"string","minLength":1,"maxLength":100000,"description":"What to tell it."}`, "agent", "message"), childSchema, x.send),
		own("wait", "Wait for sub-agents", tool.Low, look,
			"Waits until sub-agents have nothing more to do, and gives their answers. After the timeout it says which are still working.",
			typed.Object(`"agents":{"type":"array","maxItems":100,"items":{"type":"string","minLength":1,"maxLength":200},"description":"Names or IDs; default: all."},
				"timeout_seconds":{"type":"integer","minimum":1,"maximum":600,"description":"Default 60."}`), listSchema, x.wait),
		own("list_agents", "List sub-agents", tool.Low, look, "Lists your sub-agents, what they are doing, and their last answers.", typed.Object(""), listSchema, x.list),
		own("stop_agent", "Stop a sub-agent", tool.Medium, keep, "Ends a sub-agent, and all that it spawned, for good.", typed.Object(which, "agent"), childSchema, x.stop),
	}}, nil
}

func own[A any](name, title string, risk tool.Risk, effects tool.Effects, description string, in, out json.RawMessage,
	run func(context.Context, permit.Permit, A) (map[string]any, error)) capability.Offer {
	return capability.Own(name, typed.Func(tool.Spec{ID: tool.ID("subagents." + name), Title: title, Description: description,
		Version: "1", Risk: risk, Effects: effects, Input: in, Output: out}, run))
}

// have fails if the session can have no sub-agents.
func (s session) have() error {
	if s.children == nil {
		return fault.New(fault.ToolFailed, "the session can have no sub-agents").WithHint("use the tool in a session of an agent")
	}
	return nil
}

type spawnArgs struct {
	Name    string `json:"name"`
	Agent   string `json:"agent"`
	Task    string `json:"task"`
	Policy  string `json:"policy"`
	Pending bool   `json:"pending"`

	Quarantine bool            `json:"quarantine"`
	Answer     json.RawMessage `json:"answer"`

	Commitments []commitment.Commitment `json:"commitments"`
}

func (s session) spawn(ctx context.Context, p permit.Permit, a spawnArgs) (map[string]any, error) {
	if err := s.have(); err != nil {
		return nil, err
	}
	for field, v := range map[string]string{"name": a.Name, "task": a.Task} {
		if strings.TrimSpace(v) == "" {
			return nil, fault.New(fault.ArgsInvalid, "the text is empty").In(field)
		}
	}
	return one(s.children.Spawn(ctx, p, capability.SpawnRequest(a)))
}

type agentArgs struct {
	Agent   string `json:"agent"`
	Policy  string `json:"policy"`
	Message string `json:"message"`
}

func (s session) delegate(ctx context.Context, p permit.Permit, a agentArgs) (map[string]any, error) {
	if err := s.have(); err != nil {
		return nil, err
	}
	return one(s.children.Delegate(ctx, p, a.Agent, a.Policy))
}

func (s session) send(ctx context.Context, p permit.Permit, a agentArgs) (map[string]any, error) {
	if err := s.have(); err != nil {
		return nil, err
	}
	return one(s.children.Send(ctx, p, a.Agent, a.Message))
}

func (s session) stop(ctx context.Context, p permit.Permit, a agentArgs) (map[string]any, error) {
	if err := s.have(); err != nil {
		return nil, err
	}
	return one(s.children.Stop(ctx, p, a.Agent))
}

type waitArgs struct {
	Agents  []string `json:"agents"`
	Timeout int      `json:"timeout_seconds"`
}

func (s session) wait(ctx context.Context, p permit.Permit, a waitArgs) (map[string]any, error) {
	if err := s.have(); err != nil {
		return nil, err
	}
	most := defaultWait
	if a.Timeout > 0 {
		most = min(time.Duration(a.Timeout)*time.Second, mostWait)
	}
	list, err := s.children.Wait(ctx, p, a.Agents, most)
	if err != nil {
		return nil, err
	}
	return several(list), nil
}

func (s session) list(ctx context.Context, p permit.Permit, _ struct{}) (map[string]any, error) {
	if err := s.have(); err != nil {
		return nil, err
	}
	list, err := s.children.List(ctx, p)
	if err != nil {
		return nil, err
	}
	return several(list), nil
}

func one(c capability.Child, err error) (map[string]any, error) {
	if err != nil {
		return nil, err
	}
	return show(c), nil
}

func show(c capability.Child) map[string]any {
	out := map[string]any{"id": c.ID, "name": c.Name, "status": c.Status}
	if c.Reply != "" {
		out["reply"] = c.Reply
	}
	if c.Answer != nil {
		out["answer"] = c.Answer
	}
	if c.Error != "" {
		out["error"] = c.Error
	}
	return out
}

func several(list []capability.Child) map[string]any {
	agents, working := make([]any, len(list)), 0
	for i, c := range list {
		agents[i] = show(c)
		if c.Status == "working" {
			working++
		}
	}
	return map[string]any{"agents": agents, "count": len(list), "working": working}
}
