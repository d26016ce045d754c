package agents_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/agents"
	"github.com/remitrun/remit/internal/service/approvals"
	"github.com/remitrun/remit/internal/service/grants"
	"github.com/remitrun/remit/internal/service/home"
)

// place is a folder with a policy and a script of answers, and Remit's state.
type place struct {
	t       *testing.T
	homeDir string
	dir     string
	app     *app.App
	svc     *agent.Service
}

const agentsPolicy = `version: 1
name: agents
files: {read: {allow: ["**"]}, write: {allow: ["out/**"]}}
models: {allow: ["scripted:*"], tokens: 100000}
tools: {allow: ["*"]}
agents: {spawn: 2, depth: 1}
delegate: {actions: [files.read, files.write, models, tools], to: ["agent:*"]}
limits: {calls: 40}
`

func newPlace(t *testing.T, policySource, script string) *place {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p := &place{t: t, homeDir: t.TempDir(), dir: dir}
	p.write("policy.yaml", policySource)
	p.write("answers.yaml", script)
	p.open()
	t.Cleanup(p.close)
	return p
}

func (p *place) write(name, text string) string {
	p.t.Helper()
	file := filepath.Join(p.dir, name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
	return file
}

func (p *place) open() {
	p.t.Helper()
	cfg, err := home.FromEnv([]string{"REMIT_HOME=" + p.homeDir, "HOME=" + p.homeDir, "USER=tester"})
	if err != nil {
		p.t.Fatal(err)
	}
	if p.app, err = app.New(cfg, app.Own{}); err != nil {
		p.t.Fatal(err)
	}
	if p.svc, err = p.app.Agents.Start(context.Background(), agents.Request{Policy: filepath.Join(p.dir, "policy.yaml"), Workspace: p.dir}); err != nil {
		p.t.Fatal(err)
	}
}

func (p *place) close() {
	if p.app == nil {
		return
	}
	if err := errors.Join(p.svc.Close(context.Background()), p.app.Close()); err != nil {
		p.t.Error(err)
	}
	p.app = nil
}

func (p *place) again() { p.t.Helper(); p.close(); p.open() }

var tester = agent.Caller{Name: home.Person()}

func (p *place) agent(a agent.Agent) agent.Agent {
	p.t.Helper()
	if a.Model == "" {
		a.Model = "scripted:answers.yaml"
	}
	out, err := p.svc.CreateAgent(context.Background(), tester, a)
	if err != nil {
		p.t.Fatal(err)
	}
	return out
}

func (p *place) session(by agent.Caller, of agent.Agent) agent.Session {
	p.t.Helper()
	s, err := p.svc.CreateSession(context.Background(), by, of.ID.String(), "", agent.Mode{})
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

const sums = `- tool_calls: [{name: add, args: {a: 2, b: 3}}, {name: write_file, args: {path: /note.txt, content: five}}]
- text: it is 5
- tool_calls: [{name: read_file, args: {path: /note.txt}}]
- text: it says five
`

var mathAgent = agent.Agent{Name: "Sums", SystemPrompt: "Add up.", Capabilities: []agent.CapabilityRef{{Ref: "test_math"}, {Ref: "session_file_system"}}}

func TestASessionWorksAndIsReplayedWithoutModel(t *testing.T) {
	p := newPlace(t, agentsPolicy, sums)
	s := p.session(tester, p.agent(mathAgent))
	turn, err := p.svc.Send(t.Context(), tester, s.ID.String(), "what is 2 + 3?", nil)
	if err != nil || turn.Reply != "it is 5" {
		t.Fatalf("got %q, %v; %+v", turn.Reply, err, turn.Messages)
	}
	if b, _, err := p.svc.ReadFile(t.Context(), s.ID.String(), "/note.txt"); err != nil || string(b) != "five" {
		t.Errorf("the file: %q, %v", b, err)
	}
	calls, err := p.svc.MessageCalls(t.Context(), s.ID.String(), 1, 4)
	if err != nil || len(calls) != 2 || calls[0].Message != 2 || calls[1].Tool != "session_file_system.write_file" || calls[1].Status != "completed" || calls[1].Effect != "allow" || calls[1].Run == "" {
		t.Errorf("the calls of the messages: %+v, %v", calls, err)
	}
	p.again()
	if turn, err = p.svc.Send(t.Context(), tester, s.ID.String(), "and the note?", nil); err != nil || turn.Reply != "it says five" {
		t.Fatalf("after a restart: %q, %v", turn.Reply, err)
	}
	if calls, err = p.svc.MessageCalls(t.Context(), s.ID.String(), 6, 9); err != nil || len(calls) != 1 || calls[0].Message != 7 {
		t.Errorf("the calls of the second run: %+v, %v", calls, err)
	}
	e, err := p.svc.Effective(t.Context(), s.Agent.String())
	if err != nil || e.Problem != nil || !strings.HasSuffix(e.SystemPrompt, "Add up.") || len(e.Capabilities) != 2 || len(e.Tools) < 5 || e.Tools[0].Capability != "test_math" || e.Tools[0].Risk == "" {
		t.Errorf("the effective agent: %+v, %v", e, err)
	}
	p.close()
	if err := os.Remove(filepath.Join(p.dir, "answers.yaml")); err != nil {
		t.Fatal(err)
	}
	p.open()
	res, err := p.app.Replays.Session(t.Context(), s.ID.String(), nil)
	if err != nil || res.Difference != nil || res.Mismatch() != nil || res.Messages != 9 || len(res.Runs) != 2 {
		t.Fatalf("replay: %+v, %v, %v", res, res.Mismatch(), err)
	}
	for _, r := range res.Runs { // and each of its runs by itself
		if one, err := p.app.Replays.Run(t.Context(), r.Of.String(), nil); err != nil || one.Mismatch != nil {
			t.Errorf("replay of run %s: %v, %v", r.Of, one.Mismatch, err)
		}
	}
	stricter, err := policy.Parse("stricter.yaml", []byte(strings.Replace(agentsPolicy, `allow: ["*"]}`, `allow: ["*"], deny: ["session_file_system.*"]}`, 1)))
	if err != nil {
		t.Fatal(err)
	}
	changed, judged, err := p.app.Replays.RejudgeSession(t.Context(), s.ID.String(), stricter)
	if err != nil || judged != 7 || len(changed) != 2 || changed[0].Tool != "session_file_system.write_file" {
		t.Errorf("under a stricter policy: %+v of %d, %v", changed, judged, err)
	}
	st, err := p.app.Store(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if rep, err := st.Verify(t.Context(), store.VerifyOptions{}); err != nil || len(rep.Problems) > 0 {
		t.Errorf("the ledger: %v, %+v", err, rep.Problems)
	}
}

func TestASessionGoesOnFromACall(t *testing.T) {
	p := newPlace(t, agentsPolicy, sums)
	s := p.session(tester, p.agent(mathAgent))
	if _, err := p.svc.Send(t.Context(), tester, s.ID.String(), "what is 2 + 3?", nil); err != nil {
		t.Fatal(err)
	}
	for from, want := range map[string]int{"3": 1, "1": 2} { // the write, and the first answer
		p.again()
		fork, err := p.app.Replays.ContinueFrom(t.Context(), s.ID.String(), from, filepath.Join(p.dir, "policy.yaml"), nil)
		if err != nil || fork.State != agent.Idle || fork.Last != 5 || fork.ID == s.ID {
			t.Fatalf("from call %s: %+v, %v", from, fork, err)
		}
		_, runs, err := p.app.Replays.SessionRuns(t.Context(), fork.ID.String())
		if err != nil || len(runs) != 1 || runs[0].Completed < want {
			t.Errorf("from call %s: %+v, %v", from, runs, err)
		}
		if b, _, err := p.svc.ReadFile(t.Context(), fork.ID.String(), "/note.txt"); err != nil || string(b) != "five" {
			t.Errorf("from call %s: the file %q, %v", from, b, err)
		}
	}
	for _, from := range []string{"99", "x", "00000000/1"} {
		if _, err := p.app.Replays.ContinueFrom(t.Context(), s.ID.String(), from, "", nil); !errors.Is(err, fault.MessageUnknown) {
			t.Errorf("from %s: %v", from, err)
		}
	}
}

func TestASessionIsBoundedByItsAgentAndItsGrant(t *testing.T) {
	p := newPlace(t, agentsPolicy, sums)
	a := mathAgent
	a.Policy = "version: 1\nrest: inherit\ntools: {allow: ['model.chat', 'test_math.*']}\n"
	s := p.session(tester, p.agent(a))
	turn, err := p.svc.Send(t.Context(), tester, s.ID.String(), "what is 2 + 3?", nil)
	if err != nil {
		t.Fatal(err)
	}
	if m := turn.Messages[3]; !m.Failed || !strings.Contains(m.Text, "E1001") || turn.Messages[2].Failed {
		t.Errorf("add: %+v; write: %+v", turn.Messages[2], m)
	}
	if s, err = p.svc.Session(t.Context(), s.ID.String()); err != nil {
		t.Fatal(err)
	}
	if _, err := p.app.Grants.SetStanding(t.Context(), s.Grant, store.Revoked, "enough"); err != nil {
		t.Fatal(err)
	}
	for range 2 { // also in another process: what is revoked stays so
		if _, err := p.svc.Send(t.Context(), tester, s.ID.String(), "go on", nil); !errors.Is(err, fault.GrantRevoked) {
			t.Errorf("after it was revoked: %v", err)
		}
		p.again()
	}
}

func TestBudgetsSpanTheRunsOfASession(t *testing.T) {
	p := newPlace(t, strings.Replace(agentsPolicy, "calls: 40", "calls: 3", 1), sums)
	s := p.session(tester, p.agent(mathAgent))
	if _, err := p.svc.Send(t.Context(), tester, s.ID.String(), "what is 2 + 3?", nil); !errors.Is(err, fault.LimitReached) && !errors.Is(err, fault.BudgetSpent) {
		t.Fatalf("the fourth call: %v", err)
	}
	p.again()
	if _, err := p.svc.Send(t.Context(), tester, s.ID.String(), "go on", nil); !errors.Is(err, fault.BudgetSpent) {
		t.Fatalf("in another run: %v", err)
	}
}

func TestASessionUnderAGrantNeedsIt(t *testing.T) {
	p := newPlace(t, agentsPolicy, sums)
	issue := func() agent.Caller {
		tok, err := p.app.Grants.Issue(t.Context(), grants.Terms{Policies: []string{filepath.Join(p.dir, "policy.yaml")}, Workspace: p.dir, Holder: "client:one", Expires: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		return agent.Caller{Name: "client:one", Token: tok.Text}
	}
	one, other := issue(), issue()
	s := p.session(one, p.agent(mathAgent))
	if turn, err := p.svc.Send(t.Context(), one, s.ID.String(), "what is 2 + 3?", nil); err != nil || turn.Reply != "it is 5" {
		t.Fatalf("got %q, %v", turn.Reply, err)
	}
	for name, by := range map[string]agent.Caller{"without a grant": tester, "with another": other} {
		if _, err := p.svc.Send(t.Context(), by, s.ID.String(), "and?", nil); !errors.Is(err, fault.GrantHolder) {
			t.Errorf("%s: %v", name, err)
		}
	}
	narrow, err := p.app.Grants.Narrow(one.Token, grants.Terms{Workspace: p.dir, Policies: []string{p.write("narrow.yaml", "version: 1\nname: narrow\nrest: inherit\ntools: {allow: [model.chat]}\n")}})
	if err != nil {
		t.Fatal(err)
	}
	p.write("answers.yaml", strings.Replace(sums, "it says five", "narrowed", 1))
	turn, err := p.svc.Send(t.Context(), agent.Caller{Name: "client:one", Token: narrow.Text}, s.ID.String(), "and?", nil)
	if err != nil || turn.Reply != "narrowed" || !turn.Messages[2].Failed {
		t.Errorf("with a narrower one: %q, %v", turn.Reply, err)
	}
}

func TestAQuestionOfASessionIsAnsweredFromElsewhere(t *testing.T) {
	p := newPlace(t, strings.Replace(agentsPolicy, `tools: {allow: ["*"]}`, `tools: {allow: ["*"], ask: ["session_file_system.write_file"]}`, 1), sums)
	s := p.session(tester, p.agent(mathAgent))
	asked, answered := make(chan string, 1), make(chan error, 1)
	go func() {
		_, err := p.app.Approvals.Answer(context.Background(), <-asked, approvals.Here(true, false, ""))
		answered <- err
	}()
	turn, err := p.svc.Send(t.Context(), tester, s.ID.String(), "what is 2 + 3?", func(e agent.Event) {
		if e.Type == agent.ApprovalDue {
			asked <- e.Question
		}
	})
	if err != nil || turn.Reply != "it is 5" || turn.Messages[3].Failed {
		t.Fatalf("got %q, %v, %+v", turn.Reply, err, turn.Messages)
	}
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

func TestNoSecretGetsIntoAConversation(t *testing.T) {
	p := newPlace(t, agentsPolicy, sums)
	if _, err := p.app.Secrets.Set("github-token", "ghp_0123456789abcdefXYZ"); err != nil {
		t.Fatal(err)
	}
	a := mathAgent
	a.Model, a.SystemPrompt = "scripted:answers.yaml", "The token is ghp_0123456789abcdefXYZ."
	if _, err := p.svc.CreateAgent(t.Context(), tester, a); !errors.Is(err, fault.AgentInvalid) {
		t.Errorf("in a prompt: %v", err)
	}
	s := p.session(tester, p.agent(mathAgent))
	if _, err := p.svc.Send(t.Context(), tester, s.ID.String(), "use ghp_0123456789abcdefXYZ", nil); !errors.Is(err, fault.AgentInvalid) || strings.Contains(err.Error(), "ghp_") {
		t.Errorf("in a message: %v", err)
	}
	if ms, err := p.svc.Messages(t.Context(), s.ID.String(), 1, 0); err != nil || len(ms) != 0 {
		t.Errorf("%+v, %v", ms, err)
	}
}

func TestATimeLimitIsForOneTurn(t *testing.T) {
	p := newPlace(t, strings.Replace(agentsPolicy, "calls: 40", "calls: 40, time: 60s", 1), sums)
	s := p.session(tester, p.agent(mathAgent))
	for _, text := range []string{"what is 2 + 3?", "and the note?"} {
		if _, err := p.svc.Send(t.Context(), tester, s.ID.String(), text, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, runs, err := p.app.Replays.SessionRuns(t.Context(), s.ID.String()); err != nil || len(runs) != 2 {
		t.Errorf("%d runs, %v", len(runs), err)
	}
}
