package agents_test

import (
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/agents/agent"
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
