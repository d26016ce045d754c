package remittest_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/remitrun/remit"
	"github.com/remitrun/remit/remittest"
)

const policy = `
version: 1
name: harbour
models: {allow: ["test/*"]}
tools: {allow: [model.chat, time.now, harbour.berth]}
`

// An agent is tested as it is in the program: only its model and its tools are the test's.
func TestAnAgentWithoutAModel(t *testing.T) {
	model := remittest.NewModel(t,
		remittest.Call("berth", map[string]any{"ship": "Aurora"}),
		remittest.Call("move", map[string]any{"ship": "Aurora"}),
		remittest.Say("Aurora is at berth 7, and I may not move her."))
	berth := remittest.NewTool("harbour.berth", remittest.Return(7))
	move := remittest.NewTool("harbour.move", remittest.Return("moved"))
	rt := remittest.Open(t, remit.Options{
		PolicySource: []byte(policy), Models: []remit.ModelProvider{model.Provider()},
		Tools: []remit.AgentTool{berth.AgentTool().Harmless(), move.AgentTool()},
	})
	agents, err := rt.Agents(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = agents.Close(t.Context()) }()
	_, err = agents.Create(t.Context(), remit.Agent{Name: "Harbour master", SystemPrompt: "Be brief.", Model: remittest.ModelID, Capabilities: remit.Uses("harbour")})
	if err != nil {
		t.Fatal(err)
	}
	session, err := agents.StartSession(t.Context(), "Harbour master", "")
	if err != nil {
		t.Fatal(err)
	}
	turn, err := session.Send(t.Context(), "Move Aurora to berth 1.", nil)
	if err != nil || turn.Reply != "Aurora is at berth 7, and I may not move her." {
		t.Fatalf("%q, %v", turn.Reply, err)
	}
	if got := berth.Calls(); len(got) != 1 || got[0]["ship"] != "Aurora" || len(move.Calls()) != 0 {
		t.Errorf("berth was called with %v, move with %v", got, move.Calls())
	}
	asked := model.Requests()
	if len(asked) != 3 || !strings.Contains(asked[0].System, "Be brief.") || asked[0].Tools[1].Name != "move" {
		t.Fatalf("the model was asked %d times, first with %q", len(asked), asked[0].System)
	}
	last := asked[2].Messages[len(asked[2].Messages)-1]
	if last.Role != "tool" || !last.Failed || !strings.Contains(last.Text, "E1001") {
		t.Errorf("the model was told %+v of the denied call", last)
	}
	if calls := remittest.Calls(t, rt, turn.Session.Run); len(calls) != 5 {
		t.Errorf("%d calls are recorded", len(calls))
	}
}

// Time passes as the test says.
func TestTenMinutesPassAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		home, workspace := t.TempDir(), t.TempDir()
		issuer := remittest.Open(t, remit.Options{Home: home, Workspace: workspace})
		token, err := issuer.IssueGrant(t.Context(), remit.GrantTerms{Policies: [][]byte{[]byte(policy)}, Expires: 10 * time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		rt := remittest.Open(t, remit.Options{Home: home, Workspace: workspace, Grant: token})
		s, err := rt.Begin(t.Context(), "ten minutes")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _, _ = s.End(t.Context()) }()
		if _, err := s.Call(t.Context(), "time.now", nil); err != nil {
			t.Errorf("at first: %v", err)
		}
		time.Sleep(10 * time.Minute)
		if _, err := s.Call(t.Context(), "time.now", nil); !errors.Is(err, remit.GrantExpired) {
			t.Errorf("ten minutes later: %v", err)
		}
	})
}

// A tool that fails is told to the model, and a function can answer by what it is asked.
func TestAFailingTool(t *testing.T) {
	broken := remittest.NewTool("harbour.berth", remittest.Return(errors.New("the radar is off")))
	rt := remittest.Open(t, remit.Options{PolicySource: []byte(policy), Tools: []remit.AgentTool{broken.AgentTool()}})
	s, err := rt.Begin(t.Context(), "radar")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Call(t.Context(), "harbour.berth", nil); !errors.Is(err, remit.ToolFailed) || !strings.Contains(err.Error(), "the radar is off") {
		t.Errorf("got %v", err)
	}
	if _, err := s.Call(t.Context(), "harbour.none", nil); !errors.Is(err, remit.ToolUnknown) {
		t.Errorf("a tool that there is not: %v", err)
	}
	if _, err := s.End(t.Context()); err != nil {
		t.Error(err)
	}
}

// recorder is a test whose failures are looked at.
type recorder struct {
	testing.TB
	errors []string
	ends   []func()
}

func (r *recorder) Errorf(format string, _ ...any) { r.errors = append(r.errors, format) }
func (r *recorder) Cleanup(f func())               { r.ends = append(r.ends, f) }

// The answers of a model are all asked for, and no more.
func TestAModelIsAskedAsOftenAsTheTestSays(t *testing.T) {
	for name, tc := range map[string]struct{ answers, asked, failures int }{"all": {2, 2, 0}, "one left": {2, 1, 1}, "one more": {1, 2, 1}} {
		t.Run(name, func(t *testing.T) {
			r := &recorder{TB: t}
			m := remittest.NewModel(r, make([]remit.ModelAnswer, tc.answers)...)
			for range tc.asked {
				_, _ = m.Provider().Chat(t.Context(), nil, remit.ModelRequest{}, nil)
			}
			for _, end := range r.ends {
				end()
			}
			if len(r.errors) != tc.failures {
				t.Errorf("%q", r.errors)
			}
		})
	}
}
