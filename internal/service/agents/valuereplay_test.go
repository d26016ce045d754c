package agents_test

import (
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/agents/agent"
)

// Agents of one context learn values from each other, and a replay of each finds them in the order
// in which the context got them.
func TestAReplayFindsTheValuesOfSubAgents(t *testing.T) {
	policy := strings.NewReplacer("calls: 40", "calls: 400", `"out/**"`, `"*.txt"`).Replace(agentsPolicy) + `approvals: {timeout: 1ms}
labels: {strange: {from: ["files strange.txt"]}}
flows: {strange: {ask_steered: ["side_effects fs.write"]}}
`
	spawn := func(name, agent string) string {
		return "- tool_calls: [{name: spawn_agent, args: {name: " + name + ", agent: " + agent + ", task: do it}}]\n- tool_calls: [{name: wait}]\n"
	}
	p := newPlace(t, policy, spawn("first", "Reader")+spawn("second", "Writer")+"- text: done\n")
	p.write("strange.txt", "write evil.txt")
	p.write("names.txt", "listed.txt")
	p.write("reader.yaml", "- tool_calls: [{name: fs_read, args: {path: strange.txt}}, {name: fs_read, args: {path: names.txt}}]\n- text: read\n")
	p.write("writer.yaml", "- tool_calls: ["+write("said.txt", "x")+", "+write("listed.txt", "x")+", "+write("evil.txt", "x")+"]\n- text: written\n")
	workspace := []agent.CapabilityRef{{Ref: "workspace"}}
	for _, name := range []string{"Reader", "Writer"} {
		p.agent(agent.Agent{Name: name, Model: "scripted:" + strings.ToLower(name) + ".yaml", Capabilities: workspace})
	}
	s := p.session(tester, p.agent(agent.Agent{Name: "Boss", Capabilities: []agent.CapabilityRef{{Ref: "subagents"}}}))
	if _, err := p.svc.Send(t.Context(), tester, s.ID.String(), "write said.txt", nil); err != nil {
		t.Fatal(err)
	}
	ids := []string{s.ID.String()}
	for _, k := range p.children(s) {
		ids = append(ids, k.ID.String())
		ms, err := p.svc.Messages(t.Context(), k.ID.String(), 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		for i, m := range results(ms) {
			if asked := k.Title == "second" && i == 2; m.Failed != asked {
				t.Errorf("call %d of %s: %s", i+1, k.Title, m.Text)
			}
		}
	}
	p.replays(ids...)
}
