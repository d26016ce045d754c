package app_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/remitrun/remit/internal/agent"
)

const noteCapability = `id: notes
name: Notes
description: Reads notes.
version: 1
prompt: Read the note first.
tools:
  - {tool: fs.read, name: read_note, defaults: {path: note.txt}}
`

// What files of capabilities hold when a session works is in its record: a replay
// needs none of them, and does not care for what they hold now.
func TestAReplayHasTheCapabilitiesThatTheSessionHad(t *testing.T) {
	p := newPlace(t, agentsPolicy, "- tool_calls: [{name: read_note, args: {}}]\n- text: it says hello\n")
	p.write("note.txt", "hello")
	file := filepath.Join(p.home, "capabilities", "notes.yaml")
	keep := func(text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	keep(noteCapability)
	s := p.session(tester, p.agent(agent.Agent{Name: "Noter", Capabilities: []agent.CapabilityRef{{Ref: "notes"}}}))
	turn, err := p.svc.Send(t.Context(), tester, s.ID.String(), "what does it say?", nil)
	if err != nil || turn.Reply != "it says hello" {
		t.Fatalf("%+v %v", turn, err)
	}
	for name, change := range map[string]func(){
		"as it was": func() {},
		"changed":   func() { keep(noteCapability[:len(noteCapability)-1] + "\n  - {tool: fs.list, name: list_notes}\n") },
		"broken":    func() { keep("nonsense") },
		"gone": func() {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		},
	} {
		keep(noteCapability)
		change()
		p.again()
		res, err := p.app.ReplaySession(t.Context(), s.ID.String())
		if err != nil || res.Difference != nil || res.Mismatch() != nil || res.Messages != 4 {
			t.Errorf("%s: %+v, %v, %v", name, res, res.Mismatch(), err)
		}
	}
}
