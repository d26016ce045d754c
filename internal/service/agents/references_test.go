package agents_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/tools/model"
)

// last sends a message and gives the result of the turn's last tool call.
func (p *place) last(id string) agent.Message {
	p.t.Helper()
	turn, err := p.svc.Send(p.t.Context(), tester, id, "go on", nil)
	if err != nil {
		p.t.Fatal(err)
	}
	list := results(turn.Messages)
	return list[len(list)-1]
}

// replays repeats sessions from their record, in another process.
func (p *place) replays(ids ...string) {
	p.t.Helper()
	p.again()
	for _, id := range ids {
		if res, err := p.app.Replays.Session(p.t.Context(), id, nil); err != nil || res.Difference != nil || res.Mismatch() != nil {
			p.t.Errorf("replay of %s: %v, %v, %v", id, res.Difference, res.Mismatch(), err)
		}
	}
}

func outputIDOf(t *testing.T, m agent.Message) string {
	t.Helper()
	var cut struct {
		ID string `json:"output_id"`
	}
	if err := json.Unmarshal([]byte(m.Text), &cut); err != nil || cut.ID == "" {
		t.Fatalf("no output_id in %s: %v", m.Text, err)
	}
	return cut.ID
}

// A long output is given to another call without a second way through the model. It must be an
// output of the session, or of one that the session is a fork of.
func TestAnOutputIsAnArgumentOfAnotherCall(t *testing.T) {
	p := newPlace(t, strings.NewReplacer("tokens: 100000", "tokens: 10000000", "calls: 40", "calls: 400").Replace(agentsPolicy), "")
	text := strings.Repeat("line ~/1 of a long file\n", 2000)
	p.write("long.txt", text)
	a := p.agent(agent.Agent{Name: "Boss", Capabilities: []agent.CapabilityRef{{Ref: "workspace"}}})
	s, other := p.session(tester, a).ID.String(), p.session(tester, a).ID.String()
	read := "- tool_calls: [{name: fs_read, args: {path: long.txt}}]\n- text: read\n"
	p.write("answers.yaml", read)
	id := outputIDOf(t, p.last(s))
	use := func(content string) string {
		return fmt.Sprintf("- tool_calls: [{name: fs_write, args: {path: out/copy.txt, content: %s}}]\n- text: tried\n", content)
	}
	script := read
	try := func(session, content string) agent.Message {
		t.Helper()
		script += use(content)
		p.write("answers.yaml", script)
		return p.last(session)
	}
	if m := try(s, `{$output: `+id+`, at: /content}`); m.Failed {
		t.Fatal(m.Text)
	}
	if got, err := os.ReadFile(filepath.Join(p.dir, "out/copy.txt")); err != nil || string(got) != text {
		t.Errorf("the copy has %d bytes, %v", len(got), err)
	}
	for content, want := range map[string]string{
		`{$output: ` + id + `}`:                         "E2002", // an object is not a text
		`{$output: ` + id + `, at: /nothing}`:           "has nothing at",
		`{$output: ` + id + `, at: content}`:            "has nothing at",
		`{$output: out_0123456789abcdef, at: /content}`: "unknown output",
		`{$output: "%", at: /content}`:                  "unknown output",
		`{$output: ` + id + `, at: /content, more: 1}`:  "E2002", // not exactly a reference, so an object
	} {
		if m := try(s, content); !m.Failed || !strings.Contains(m.Text, want) {
			t.Errorf("%s: want %s, got %s", content, want, m.Text)
		}
	}
	fork, err := p.svc.Fork(t.Context(), tester, s, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	if m := try(fork.ID.String(), `{$output: `+id+`, at: /content}`); m.Failed {
		t.Errorf("in a fork: %s", m.Text)
	}
	p.write("answers.yaml", use(`{$output: `+id+`, at: /content}`))
	if m := p.last(other); !m.Failed || !strings.Contains(m.Text, "unknown output") {
		t.Errorf("of another session: %s", m.Text)
	}
	p.write("answers.yaml", script)
	p.replays(s, fork.ID.String(), other)
	ms, err := p.svc.Messages(t.Context(), s, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range ms {
		if m.Role == model.Assistant && strings.Contains(m.Text, "line ~/1") {
			t.Errorf("the model wrote %s", m.Text)
		}
	}
}
