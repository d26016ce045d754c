package subagents_test

import (
	"context"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/agents/capability/capabilitytest"
	"github.com/remitrun/remit/internal/agents/capability/subagents"
	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/permit/permittest"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

const policy = "version: 1\n"

// children remembers what it was asked for, and knows one sub-agent.
type children struct {
	asked []any
	child capability.Child
}

func newChildren() *children {
	return &children{child: capability.Child{ID: "0199", Name: "tests", Status: "working"}}
}

func (c *children) one(name string, asked ...any) (capability.Child, error) {
	c.asked = append(c.asked, asked...)
	if name != c.child.Name && name != c.child.ID {
		return capability.Child{}, fault.New(fault.NotFound, "there is no sub-agent %q", name)
	}
	return c.child, nil
}

func (c *children) Spawn(_ context.Context, _ permit.Permit, q capability.SpawnRequest) (capability.Child, error) {
	c.child.Name = q.Name
	return c.one(q.Name, "spawn", q)
}

func (c *children) Send(_ context.Context, _ permit.Permit, child, text string) (capability.Child, error) {
	return c.one(child, "send", child, text)
}

func (c *children) Wait(_ context.Context, _ permit.Permit, names []string, most time.Duration) ([]capability.Child, error) {
	c.asked = append(c.asked, "wait", names, most)
	return []capability.Child{c.child, {ID: "2", Name: "docs", Status: "idle", Reply: "done"}}, nil
}

func (c *children) List(context.Context, permit.Permit) ([]capability.Child, error) {
	return []capability.Child{c.child}, nil
}

func (c *children) Stop(_ context.Context, _ permit.Permit, child string) (capability.Child, error) {
	return c.one(child, "stop", child)
}

func (c *children) Delegate(_ context.Context, _ permit.Permit, child, policy string) (capability.Child, error) {
	return c.one(child, "delegate", child, policy)
}

func TestConformance(t *testing.T) {
	one := tool.Args{"agent": "tests"}
	capabilitytest.Capability(t, subagents.New(), capabilitytest.Case{World: permittest.World{Policy: policy},
		Session: func() capability.Session { return capability.Session{Children: newChildren()} },
		Calls: map[string][]tool.Args{
			"spawn_agent": {{"name": "docs", "task": "Write them."}, {"name": "docs", "task": "Write them.", "agent": "writer", "policy": "version: 1\nrest: inherit\n", "pending": true}},
			"delegate":    {{"agent": "tests"}, {"agent": "tests", "policy": "version: 1\n"}}, "send_message": {{"agent": "tests", "message": "And?"}},
			"wait": {{}, {"agents": []any{"tests"}, "timeout_seconds": json.Number("5")}}, "list_agents": {{}}, "stop_agent": {one},
		}})
}

func TestTools(t *testing.T) {
	working := map[string]any{"id": "0199", "name": "tests", "status": "working"}
	tests := map[string]struct {
		tool  string
		args  tool.Args
		asked []any
		want  map[string]any
		code  fault.Code
	}{
		"spawn": {"spawn_agent", tool.Args{"name": "tests", "task": "Run them.", "policy": "version: 1\n", "pending": true},
			[]any{"spawn", capability.SpawnRequest{Name: "tests", Task: "Run them.", Policy: "version: 1\n", Pending: true}}, working, 0},
		"spawn without a task": {"spawn_agent", tool.Args{"name": "tests", "task": " "}, nil, nil, fault.ArgsInvalid},
		"delegate":             {"delegate", tool.Args{"agent": "tests", "policy": "p"}, []any{"delegate", "tests", "p"}, working, 0},
		"send":                 {"send_message", tool.Args{"agent": "0199", "message": "And?"}, []any{"send", "0199", "And?"}, working, 0},
		"send to nobody":       {"send_message", tool.Args{"agent": "x", "message": "And?"}, []any{"send", "x", "And?"}, nil, fault.NotFound},
		"wait": {"wait", tool.Args{"agents": []any{"tests", "docs"}, "timeout_seconds": json.Number("7")}, []any{"wait", []string{"tests", "docs"}, 7 * time.Second},
			map[string]any{"agents": []any{working, map[string]any{"id": "2", "name": "docs", "status": "idle", "reply": "done"}}, "count": 2, "working": 1}, 0},
		"list": {"list_agents", tool.Args{}, nil, map[string]any{"agents": []any{working}, "count": 1, "working": 1}, 0},
		"stop": {"stop_agent", tool.Args{"agent": "tests"}, []any{"stop", "tests"}, working, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := newChildren()
			got, err := run(t, capability.Session{Children: c}, tt.tool, tt.args)
			if tt.code != 0 && fault.CodeOf(err) != tt.code || tt.code == 0 && err != nil {
				t.Fatalf("got %v, %v", got, err)
			}
			if !reflect.DeepEqual(c.asked, tt.asked) || tt.code == 0 && !reflect.DeepEqual(got, tt.want) {
				t.Errorf("asked %v, got %v\nwant  %v and %v", c.asked, got, tt.asked, tt.want)
			}
		})
	}
}

func run(t *testing.T, s capability.Session, name string, args tool.Args) (map[string]any, error) {
	t.Helper()
	part, err := subagents.New().Part(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range part.Tools {
		if o.Name == name {
			res, err := permittest.Run(t.Context(), o.Tool, permittest.PermitFor(t, t.TempDir(), policy), args)
			return res.Output, err
		}
	}
	t.Fatalf("no tool %q", name)
	return nil, nil
}

func TestWithoutChildren(t *testing.T) {
	for _, name := range []string{"spawn_agent", "delegate", "send_message", "wait", "list_agents", "stop_agent"} {
		if _, err := run(t, capability.Session{}, name, tool.Args{}); fault.CodeOf(err) != fault.ToolFailed {
			t.Errorf("%s: %v", name, err)
		}
	}
}
