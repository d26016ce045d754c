package agents_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/service/extensions"
	"github.com/remitrun/remit/internal/service/home"
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
	file := filepath.Join(p.homeDir, "capabilities", "notes.yaml")
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
		res, err := p.app.Replays.Session(t.Context(), s.ID.String(), nil)
		if err != nil || res.Difference != nil || res.Mismatch() != nil || res.Messages != 4 {
			t.Errorf("%s: %+v, %v, %v", name, res, res.Mismatch(), err)
		}
	}
}

const echoCapability = `id: echoes
name: Echoes
description: Says things.
version: 1
prompt: Say it.
tools:
  - {tool: "ext:one:echo", name: echo}
`

// installOne installs the extension one, which has the command /one echo.
func installOne(t *testing.T, a *app.App) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"manifest.json": `{"id": "one", "name": "Test", "version": "1.0.0", "description": "Tests.", "author": "Ann", "license": "MIT", "permissions_required": ["exec", "filesystem.write"]}`,
		"commands/commands.yaml": `slash_commands:
  - name: /one
    summary: Tests
    maps_to: {actions: [{id: echo, description: Says it., runner: exec.echo, arguments: [{name: text, description: What.}]}]}
`} {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	yes := func(extensions.Offer) (bool, error) { return true, nil }
	if _, err := a.Extensions.Install(t.Context(), extensions.Installation{Path: dir, Confirm: yes}); err != nil {
		t.Fatal(err)
	}
}

// What another process does to an extension holds for the next call of a session
// that goes on.
func TestASessionSeesThatAnExtensionIsSwitchedOff(t *testing.T) {
	p := newPlace(t, agentsPolicy, "- tool_calls: [{name: echo, args: {text: a}}]\n- text: one\n- tool_calls: [{name: echo, args: {text: a}}]\n- text: two\n")
	installOne(t, p.app)
	file := filepath.Join(p.homeDir, "capabilities", "echoes.yaml")
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(echoCapability), 0o600)); err != nil {
		t.Fatal(err)
	}
	p.again()
	s := p.session(tester, p.agent(agent.Agent{Name: "Echo", Capabilities: []agent.CapabilityRef{{Ref: "echoes"}}}))
	say := func() string {
		t.Helper()
		turn, err := p.svc.Send(t.Context(), tester, s.ID.String(), "say it", nil)
		r := results(turn.Messages)
		if err != nil || len(r) != 1 {
			t.Fatalf("%+v, %v", turn, err)
		}
		return r[0].Text
	}
	if got := say(); strings.Contains(got, "E2001") || strings.Contains(got, "E6016") {
		t.Errorf("while it is on: %s", got)
	}
	cfg, err := home.FromEnv([]string{"REMIT_HOME=" + p.homeDir, "HOME=" + p.homeDir, "USER=tester"})
	if err != nil {
		t.Fatal(err)
	}
	other, err := app.New(cfg, app.Own{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	if _, err := other.Extensions.Enable("one", false); err != nil {
		t.Fatal(err)
	}
	if got := say(); !strings.Contains(got, "E2001") && !strings.Contains(got, "E6016") {
		t.Errorf("switched off: %s", got)
	}
}
