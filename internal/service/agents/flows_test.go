package agents_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/service/slash"
)

const flowsPolicy = agentsPolicy + `labels: {private: {from: ["files private*"], kind: confidential}}
flows: {private: {only: ["files kept/**"]}}
`

// What a sub-agent read, its parent has seen. The label is there in the next turn, in another
// process, and in a fork; another session does not have it.
func TestASessionKeepsTheLabelsOfItsSubAgents(t *testing.T) {
	write := "- tool_calls: [{name: fs_write, args: {path: out/a, content: x}}]\n- text: tried\n"
	p := newPlace(t, flowsPolicy, write+`- tool_calls:
    - {name: spawn_agent, args: {name: helper, agent: Worker, task: read it}}
- tool_calls: [{name: wait, args: {}}]
`+write+write)
	p.write("private.txt", "the secret plan")
	p.write("worker.yaml", "- tool_calls: [{name: fs_read, args: {path: private.txt}}]\n- text: it is a plan\n")
	workspace := agent.CapabilityRef{Ref: "workspace"}
	p.agent(agent.Agent{Name: "Worker", Model: "scripted:worker.yaml", Capabilities: []agent.CapabilityRef{workspace}})
	a := p.agent(agent.Agent{Name: "Boss", Capabilities: []agent.CapabilityRef{{Ref: "subagents"}, workspace}})
	s := p.session(tester, a)
	say := func(id string) string {
		t.Helper()
		turn, err := p.svc.Send(t.Context(), tester, id, "go on", nil)
		if err != nil {
			t.Fatal(err)
		}
		list := results(turn.Messages)
		return list[len(list)-1].Text
	}
	if got := say(s.ID.String()); strings.Contains(got, "E6024") {
		t.Fatalf("before: %s", got)
	}
	if got := say(s.ID.String()); !strings.Contains(got, "E6024") {
		t.Fatalf("after the sub-agent's answer: %s", got)
	}
	p.close()
	p.open()
	fork, err := p.svc.Fork(t.Context(), tester, s.ID.String(), 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := say(s.ID.String()); !strings.Contains(got, "E6024") {
		t.Errorf("in the next process: %s", got)
	}
	if got := say(fork.ID.String()); !strings.Contains(got, "E6024") {
		t.Errorf("in a fork: %s", got)
	}
	if got := say(p.session(tester, a).ID.String()); strings.Contains(got, "E6024") {
		t.Errorf("in another session: %s", got)
	}
}

// Deleting a sub-agent's session, in another process, does not take its labels from its parent.
func TestADeletedSubAgentLeavesItsLabels(t *testing.T) {
	write := "- tool_calls: [{name: fs_write, args: {path: out/a, content: x}}]\n- text: tried\n"
	p := newPlace(t, flowsPolicy, "- tool_calls: [{name: spawn_agent, args: {name: helper, agent: Worker, task: read it}}]\n- tool_calls: [{name: wait, args: {}}]\n- text: read\n"+write)
	p.write("private.txt", "the secret plan")
	p.write("worker.yaml", "- tool_calls: [{name: fs_read, args: {path: private.txt}}]\n- text: it is a plan\n")
	workspace := agent.CapabilityRef{Ref: "workspace"}
	p.agent(agent.Agent{Name: "Worker", Model: "scripted:worker.yaml", Capabilities: []agent.CapabilityRef{workspace}})
	s := p.session(tester, p.agent(agent.Agent{Name: "Boss", Capabilities: []agent.CapabilityRef{{Ref: "subagents"}, workspace}})).ID.String()
	if m := p.last(s); !strings.Contains(m.Text, "it is a plan") {
		t.Fatal(m.Text)
	}
	p.again()
	if err := p.svc.DeleteSession(t.Context(), tester, p.kid(s)); err != nil {
		t.Fatal(err)
	}
	if m := p.last(s); !strings.Contains(m.Text, "E6024") {
		t.Errorf("after the sub-agent was deleted: %s", m.Text)
	}
}

// command carries out a slash command in a session, and tells the error of its call.
func (p *place) command(id, line string) string {
	p.t.Helper()
	res, err := p.app.Slash.Run(p.t.Context(), slash.Request{
		Line: line, Policy: filepath.Join(p.dir, "policy.yaml"), Workspace: p.dir, Session: id,
		History: func(ctx context.Context, do agent.Carry) error { return p.svc.Command(ctx, tester, id, do) },
	})
	if err != nil {
		p.t.Fatal(err)
	}
	if res.Outcome.Err == nil {
		return ""
	}
	return res.Outcome.Err.Error()
}

// A slash command's result is a message of its session, so its labels are the session's, and those
// of the session are the command's: also in another process, and in a fork.
func TestASlashCommandHasTheLabelsOfItsSession(t *testing.T) {
	write := "- tool_calls: [{name: fs_write, args: {path: out/a, content: x}}]\n- text: tried\n"
	p := newPlace(t, flowsPolicy, write+write)
	p.write("private.txt", "the secret plan")
	s := p.session(tester, p.agent(agent.Agent{Name: "Boss", Capabilities: []agent.CapabilityRef{{Ref: "workspace"}}})).ID.String()
	say := func(id string) string {
		t.Helper()
		turn, err := p.svc.Send(t.Context(), tester, id, "go on", nil)
		if err != nil {
			t.Fatal(err)
		}
		list := results(turn.Messages)
		return list[len(list)-1].Text
	}
	const afterwards = "/call fs.write path=out/b content=x"
	if got := p.command(s, afterwards); got != "" {
		t.Fatalf("before: %s", got)
	}
	if got := p.command(s, "/call fs.read path=private.txt"); got != "" {
		t.Fatal(got)
	}
	if got := p.command(s, afterwards); !strings.Contains(got, "the context has the label private") {
		t.Errorf("the next command: %q", got)
	}
	if got := say(s); !strings.Contains(got, "E6024") {
		t.Errorf("the agent: %s", got)
	}
	p.close()
	p.open()
	fork, err := p.svc.Fork(t.Context(), tester, s, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{s, fork.ID.String()} {
		if got := p.command(id, afterwards); !strings.Contains(got, "the context has the label private") {
			t.Errorf("in the next process: %q", got)
		}
		if got := say(id); !strings.Contains(got, "E6024") {
			t.Errorf("the agent in the next process: %s", got)
		}
	}
}
