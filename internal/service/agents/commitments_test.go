package agents_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/base/commitment"
	"github.com/remitrun/remit/internal/base/fault"
)

const hastyScript = `- text: all done
- tool_calls: [{name: fs_write, args: {path: out/report.json, content: '{"failed": 1}'}}]
- text: done now
- tool_calls: [{name: fs_write, args: {path: out/report.json, content: '{"failed": 0}'}}]
- text: really done
- text: still done
`

var reported = commitment.Commitment{JSON: "out/report.json", Equals: map[string]json.RawMessage{"/failed": json.RawMessage("0")}}

func notices(ms []agent.Message) (out []string) {
	for _, m := range ms {
		if m.Kind == agent.Notice {
			out = append(out, m.Text)
		}
	}
	return out
}

func TestATurnIsDoneWhenItsCommitmentsAreMet(t *testing.T) {
	p := newPlace(t, agentsPolicy, hastyScript)
	s := p.session(tester, p.agent(agent.Agent{Name: "Hasty", Capabilities: []agent.CapabilityRef{{Ref: "workspace"}},
		Commitments: []commitment.Commitment{{File: "answers.yaml"}, reported}}))
	turn, err := p.svc.Send(t.Context(), tester, s.ID.String(), "write the report", nil)
	if err != nil || turn.Reply != "really done" || turn.Session.State != agent.Idle {
		t.Fatalf("%q, %s, %v", turn.Reply, turn.Session.State, err)
	}
	got := notices(turn.Messages)
	if len(got) != 2 || !strings.Contains(got[0], "1 of 2 commitments") || !strings.Contains(got[0], "attempt 1 of 4") || !strings.Contains(got[0], "the file does not exist") ||
		!strings.Contains(got[1], `\"/failed\" is not 0`) || strings.Contains(got[1], "answers.yaml") {
		t.Errorf("notices: %q", got)
	}
	if turn, err = p.svc.Send(t.Context(), tester, s.ID.String(), "still?", nil); err != nil || turn.Reply != "still done" || len(turn.Messages) != 2 {
		t.Errorf("the next turn: %+v, %v", turn, err)
	}
	p.again()
	if res, err := p.app.Replays.Session(t.Context(), s.ID.String(), nil); err != nil || res.Difference != nil || res.Mismatch() != nil {
		t.Errorf("replay: %+v, %v, %v", res.Difference, res.Mismatch(), err)
	}
}

func TestATurnFailsWhenItsCommitmentsStayUnmet(t *testing.T) {
	p := newPlace(t, agentsPolicy, "- text: done\n- text: done, I say\n- text: and again\n")
	s := p.session(tester, p.agent(agent.Agent{Name: "Liar", Limits: agent.Limits{Attempts: 1}, Commitments: []commitment.Commitment{{File: "out/none"}}}))
	turn, err := p.svc.Send(t.Context(), tester, s.ID.String(), "write it", nil)
	if !errors.Is(err, fault.CommitmentUnmet) || turn.Session.State != agent.Failed || len(notices(turn.Messages)) != 1 {
		t.Fatalf("%v, %s, %q", err, turn.Session.State, notices(turn.Messages))
	}
	if e := turn.Session.Error; e == nil || e.Code != "E2013" {
		t.Errorf("the session says %+v", e)
	}
}

// A commitment is checked under the authority of the session, and gives it none.
func TestACommitmentNeedsAuthority(t *testing.T) {
	p := newPlace(t, strings.Replace(agentsPolicy, `read: {allow: ["**"]}`, `read: {allow: ["answers.yaml"]}`, 1), "- text: done\n- text: done\n")
	s := p.session(tester, p.agent(agent.Agent{Name: "Reader", Limits: agent.Limits{Attempts: 1}, Commitments: []commitment.Commitment{{File: "policy.yaml"}, {Run: []string{"true"}}}}))
	turn, err := p.svc.Send(t.Context(), tester, s.ID.String(), "go", nil)
	if got := notices(turn.Messages); !errors.Is(err, fault.CommitmentUnmet) || len(got) != 1 || strings.Count(got[0], "E1001") != 2 {
		t.Errorf("%v, %q", err, got)
	}
}

func TestASubAgentIsDoneWhenItsCommitmentsAreMet(t *testing.T) {
	p, s := family(t, agentsPolicy, `- tool_calls:
    - {name: spawn_agent, args: {name: helper, agent: Worker, task: write it, commitments: [{file: out/none}]}}
- tool_calls: [{name: wait, args: {}}]
- tool_calls: [{name: spawn_agent, args: {name: other, agent: Worker, task: write it, commitments: [{}]}}]
- text: it failed
`, strings.Repeat("- text: it is done\n", 5))
	turn, err := p.svc.Send(t.Context(), tester, s.ID.String(), "have it done", nil)
	if err != nil || turn.Reply != "it failed" {
		t.Fatalf("%q, %v", turn.Reply, err)
	}
	r := results(turn.Messages)
	if !strings.Contains(r[1].Text, `"status":"failed"`) || !strings.Contains(r[1].Text, "it is done") || !strings.Contains(r[1].Text, "E2013") {
		t.Errorf("wait gave %s", r[1].Text)
	}
	if !strings.Contains(r[2].Text, "exactly one of run, file and json") {
		t.Errorf("spawn gave %s", r[2].Text)
	}
	p.again()
	for _, one := range append(p.children(s), s) {
		if res, err := p.app.Replays.Session(t.Context(), one.ID.String(), nil); err != nil || res.Difference != nil || res.Mismatch() != nil {
			t.Errorf("replay of %s: %+v, %v, %v", one.Title, res.Difference, res.Mismatch(), err)
		}
	}
}
