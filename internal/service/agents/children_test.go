package agents_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/approvals"
	"github.com/remitrun/remit/internal/tools/model"
)

const parentScript = `- tool_calls:
    - {name: spawn_agent, args: {name: helper, agent: Worker, task: add two and two, policy: "version: 1\nname: less\nrest: inherit\ntools: {deny: [test_math.multiply]}\n"}}
- tool_calls: [{name: wait, args: {}}]
- text: the helper is done
- text: nothing more
`

const workerScript = `- tool_calls: [{name: add, args: {a: 2, b: 2}}, {name: multiply, args: {a: 2, b: 2}}]
- text: it is 4
- text: still 4
`

// family makes a parent's session whose agent can spawn workers.
func family(t *testing.T, policySource, parent, worker string) (*place, agent.Session) {
	t.Helper()
	p := newPlace(t, policySource, parent)
	p.write("worker.yaml", worker)
	p.agent(agent.Agent{Name: "Worker", Model: "scripted:worker.yaml", Capabilities: []agent.CapabilityRef{{Ref: "test_math"}}})
	a := p.agent(agent.Agent{Name: "Boss", Capabilities: []agent.CapabilityRef{{Ref: "subagents"}}})
	return p, p.session(tester, a)
}

func (p *place) children(of agent.Session) []agent.Session {
	p.t.Helper()
	list, err := p.svc.Sessions(p.t.Context(), agent.SessionFilter{}, [16]byte{}, 100)
	if err != nil {
		p.t.Fatal(err)
	}
	var out []agent.Session
	for _, s := range list {
		if s.Parent != nil && *s.Parent == of.ID {
			out = append(out, s)
		}
	}
	return out
}

// results gives the tool results of a conversation.
func results(ms []agent.Message) (out []agent.Message) {
	for _, m := range ms {
		if m.Role == model.ToolRole {
			out = append(out, m)
		}
	}
	return out
}

func TestASubAgentWorksWithAPartOfItsParentsAuthority(t *testing.T) {
	p, s := family(t, agentsPolicy, parentScript, workerScript)
	turn, err := p.svc.Send(t.Context(), tester, s.ID.String(), "have it done", nil)
	if err != nil || turn.Reply != "the helper is done" {
		t.Fatalf("%q, %v, %+v", turn.Reply, err, results(turn.Messages))
	}
	if r := results(turn.Messages); !strings.Contains(r[1].Text, `"reply":"it is 4"`) || !strings.Contains(r[1].Text, `"status":"idle"`) {
		t.Errorf("wait gave %s", r[1].Text)
	}
	kids := p.children(s)
	if len(kids) != 1 || kids[0].Title != "helper" {
		t.Fatalf("children: %+v", kids)
	}
	ms, err := p.svc.Messages(t.Context(), kids[0].ID.String(), 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	if r := results(ms); r[0].Failed || !r[1].Failed || !strings.Contains(r[1].Text, "E1001") {
		t.Errorf("the child's calls: %+v", r)
	}
	infos, err := p.app.Grants.List(t.Context(), store.GrantFilter{})
	if err != nil {
		t.Fatal(err)
	}
	parent, err := p.svc.Session(t.Context(), s.ID.String())
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, g := range infos {
		found = found || g.Record.ID.String() == kids[0].Grant && g.Record.Parent.String() == parent.Grant && g.Record.Holder == "agent:worker"
	}
	if !found {
		t.Errorf("the child's grant %s does not descend from %s: %+v", kids[0].Grant, parent.Grant, infos)
	}
	p.again()
	for _, id := range []string{s.ID.String(), kids[0].ID.String()} {
		if res, err := p.app.Replays.Session(t.Context(), id, nil); err != nil || res.Difference != nil || res.Mismatch() != nil {
			t.Errorf("replay of %s: %+v, %v, %v", id, res.Difference, res.Mismatch(), err)
		}
	}
	if err := p.svc.DeleteSession(t.Context(), tester, s.ID.String()); err != nil {
		t.Fatal(err)
	}
	if kids := p.children(s); len(kids) != 0 {
		t.Errorf("children of a session that ended: %+v", kids)
	}
}

func TestPoliciesLimitSubAgents(t *testing.T) {
	again := strings.Repeat("    - {name: spawn_agent, args: {name: hN, agent: Worker, task: add}}\n", 3)
	for i := range 3 {
		again = strings.Replace(again, "hN", string(rune('a'+i)), 1)
	}
	three := "- tool_calls:\n" + again + "- text: done\n"
	grand := "- tool_calls: [{name: spawn_agent, args: {name: deeper, task: go on}}]\n- text: done\n"
	for name, k := range map[string]struct {
		policy, parent, worker string
		want                   []string // of the parent's results; "": it was spawned
		deeper                 string
	}{
		"two and no third":      {agentsPolicy, three, workerScript, []string{"", "", "E6012"}, ""},
		"no delegation":         {strings.Replace(agentsPolicy, "delegate:", "# ", 1), three, workerScript, []string{"E6013", "E6013", "E6013"}, ""},
		"not to them":           {strings.Replace(agentsPolicy, `["agent:*"]`, `["agent:docs"]`, 1), three, workerScript, []string{"E6013", "E6013", "E6013"}, ""},
		"not this deep":         {agentsPolicy, strings.Replace(parentScript, "agent: Worker, ", "agent: Boss, ", 1), "", []string{""}, "E6013"},
		"a policy that is none": {agentsPolicy, strings.Replace(grand, "task: go on", `task: go, policy: "version: 9"`, 1), "", []string{"E1003"}, ""},
		"an agent that is none": {agentsPolicy, strings.Replace(grand, "task: go on", `task: go, agent: Nobody`, 1), "", []string{"E8002"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			worker := k.worker
			if worker == "" {
				worker = workerScript
			}
			p, s := family(t, k.policy, k.parent, worker)
			turn, err := p.svc.Send(t.Context(), tester, s.ID.String(), "go", nil)
			if err != nil {
				t.Fatal(err)
			}
			r := results(turn.Messages)
			for i, want := range k.want {
				if r[i].Failed != (want != "") || !strings.Contains(r[i].Text, want) {
					t.Errorf("call %d: want %q, got %s", i+1, want, r[i].Text)
				}
			}
			if k.deeper == "" {
				return
			}
			kid := p.children(s)[0]
			if err := p.svc.Wait(t.Context(), kid.ID.String()); err != nil {
				t.Fatal(err)
			}
			ms, err := p.svc.Messages(t.Context(), kid.ID.String(), 1, 0)
			if err != nil {
				t.Fatal(err)
			}
			if got := results(ms); len(got) == 0 || !strings.Contains(got[0].Text, k.deeper) {
				t.Errorf("the child's call: %+v", got)
			}
		})
	}
}

func TestABudgetIsSharedWithSubAgents(t *testing.T) {
	many := "- tool_calls:\n" + strings.Repeat("    - {name: add, args: {a: 1, b: 2}}\n", 12) + "- text: done\n"
	p, s := family(t, strings.Replace(agentsPolicy, "calls: 40", "calls: 10", 1), parentScript, many)
	turn, err := p.svc.Send(t.Context(), tester, s.ID.String(), "go", nil)
	if err == nil {
		t.Errorf("the parent came to an end: %q", turn.Reply)
	}
	total := 0
	for _, id := range []string{s.ID.String(), p.children(s)[0].ID.String()} {
		_, runs, err := p.app.Replays.SessionRuns(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range runs {
			st, err := p.app.Store(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for c, err := range st.Calls(t.Context(), r.Seq) {
				if err != nil {
					t.Fatal(err)
				}
				if c.Status.String() == "completed" {
					total++
				}
			}
		}
	}
	if total > 10 || total < 5 {
		t.Errorf("%d calls were made of 10", total)
	}
}

func TestAPendingSubAgentBeginsWhenItIsGivenAuthority(t *testing.T) {
	script := `- tool_calls: [{name: spawn_agent, args: {name: later, agent: Worker, task: add, pending: true}}]
- tool_calls: [{name: list_agents, args: {}}]
- tool_calls: [{name: send_message, args: {agent: later, message: now}}]
- tool_calls: [{name: delegate, args: {agent: later}}]
- tool_calls: [{name: wait, args: {agents: [later]}}]
- tool_calls: [{name: stop_agent, args: {agent: later}}]
- text: done
`
	p, s := family(t, agentsPolicy, script, workerScript)
	turn, err := p.svc.Send(t.Context(), tester, s.ID.String(), "go", nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{`"status":"pending"`, `"status":"pending"`, "E6013", `"status":"`, "it is 4", `"status":"stopped"`} {
		if r := results(turn.Messages)[i]; !strings.Contains(r.Text, want) {
			t.Errorf("call %d: want %s, got %s", i+1, want, r.Text)
		}
	}
	if kids := p.children(s); len(kids) != 1 || kids[0].State != agent.Ended {
		t.Errorf("%+v", kids)
	}
}

// A parent that waits for one sub-agent leaves another alone that a person has
// cancelled meanwhile.
func TestWaitingStartsNothingAgain(t *testing.T) {
	parent := `- tool_calls:
    - {name: spawn_agent, args: {name: slow, agent: Worker, task: add}}
    - {name: spawn_agent, args: {name: unwanted, agent: Worker, task: add}}
- tool_calls: [{name: wait, args: {agents: [slow, unwanted]}}]
- text: done
`
	p, s := family(t, strings.Replace(agentsPolicy, `tools: {allow: ["*"]}`, `tools: {allow: ["*"], ask: [test_math.multiply]}`, 1), parent, workerScript)
	due, waits := make(chan struct{}, 9), make(chan struct{}, 1)
	ended := make(chan error, 1)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	go func() {
		_, err := p.svc.Send(ctx, tester, s.ID.String(), "go", func(e agent.Event) {
			switch {
			case e.Type == agent.ApprovalDue:
				due <- struct{}{}
			case e.Type == agent.CallStarted && e.Call.Name == "wait":
				waits <- struct{}{}
			}
		})
		ended <- err
	}()
	for range 2 {
		<-due
	}
	<-waits
	time.Sleep(50 * time.Millisecond) // so that it has most likely looked at both
	kids := map[string]agent.Session{}
	for _, k := range p.children(s) {
		kids[k.Title] = k
	}
	left, err := p.svc.Cancel(t.Context(), tester, kids["unwanted"].ID.String())
	if err != nil || left.State != agent.Cancelled {
		t.Fatalf("%+v, %v", left, err)
	}
	asked, err := p.app.Approvals.List(t.Context(), store.QuestionFilter{State: store.Waiting})
	if err != nil || len(asked) != 1 {
		t.Fatalf("%+v, %v", asked, err)
	}
	if _, err := p.app.Approvals.Answer(t.Context(), asked[0].ID.String(), approvals.Here(true, false, "")); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if now, err := p.svc.Session(t.Context(), left.ID.String()); err != nil || now.State != agent.Cancelled || now.Version != left.Version {
		t.Errorf("it is %+v, it was %+v, %v", now, left, err)
	}
}
