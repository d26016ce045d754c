package e2e_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const crashAgentPolicy = `version: 1
name: crash
api: {allow: ["*"]}
files: {read: {allow: ["**"]}, write: {allow: ["out/**"]}}
commands: {allow: ["./append **"], timeout: 300s}
models: {allow: ["scripted:**"]}
`

// append notes that it ran, and stays where it is asked to.
const appendScript = "#!/bin/sh\necho \"$1\" >> out/log\nif [ -n \"$2\" ]; then sleep \"$2\"; fi\n"

const crashAnswers = `
- tool_calls: [{name: shell_run, args: {argv: [./append, one]}}]
- tool_calls:
    - {name: shell_run, args: {argv: [./append, two]}}
    - {name: shell_run, args: {argv: [./append, three, "250"]}}
    - {name: shell_run, args: {argv: [./append, four]}}
- tool_calls: [{name: shell_run, args: {argv: [./append, five]}}]
- text: All is done.
- text: And the session goes on.
`

// A command with side effects is under way when the service is killed. Another
// process goes on with the turn: what is done is not done again, nobody knows of the
// command that was cut off what it did, so it is not repeated, and what had not begun
// is done.
func TestKillNineInTheMiddleOfATurn(t *testing.T) {
	t.Parallel()
	w := newWorld(t).durability("power")
	w.write("append", appendScript)
	if err := os.Chmod(filepath.Join(w.workspace, "append"), 0o700); err != nil {
		t.Fatal(err)
	}
	w.mkdir(filepath.Join(w.workspace, "out"))
	policy := w.beside("crash.yaml", crashAgentPolicy)
	s := w.serveAgents(policy)
	id := s.session(s.agent("Worker", crashAnswers, "workspace"))
	said := make(chan error, 1)
	go func() {
		said <- s.try(http.MethodPost, "/v1/sessions/"+id+"/messages", map[string]string{"content": "do it"}, nil)
	}()
	log := func() string {
		b, err := os.ReadFile(filepath.Join(w.workspace, "out", "log"))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
		return strings.Join(strings.Fields(string(b)), " ")
	}
	w.until("the third command", func() bool { return log() == "one two three" })
	s.kill()
	if err := <-said; err == nil {
		t.Error("who spoke was told that all went well")
	}

	s.begin(policy)
	var now sessionOut
	s.ask("GET", "/v1/sessions/"+id, nil, &now)
	if now.Status != "paused" {
		t.Errorf("after the crash the session is %s", now.Status)
	}
	s.ask("POST", "/v1/sessions/"+id+"/resume", nil, nil)
	w.until("the end of the turn", func() bool {
		s.ask("GET", "/v1/sessions/"+id, nil, &now)
		return now.Status != "working"
	})
	if now.Status != "idle" || log() != "one two three four five" {
		t.Errorf("the session is %s (%+v), and ran: %s", now.Status, now.Error, log())
	}
	if turn := s.say(id, "go on"); turn.Reply != "And the session goes on." {
		t.Errorf("%+v", turn)
	}
	var all struct{ Items []messageOut }
	s.ask("GET", "/v1/sessions/"+id+"/messages?limit=500", nil, &all)
	check(t, "the worker", toolResults(all.Items), []string{"", "", "E2011", "", ""})
	s.end()
	s.must(0, "verify")
	s.must(0, "replay", id)
	if log() != "one two three four five" {
		t.Errorf("the replay ran something: %s", log())
	}
}

const manyAnswers = `
- tool_calls: [{name: read_file, args: {path: /who.txt}}, {name: add, args: {a: 2, b: 3}}]
- tool_calls: [{name: write_file, args: {path: /out.txt, content: five}}]
- text: "It is 5."
`

func TestManySessionsAtOnce(t *testing.T) {
	t.Parallel()
	n := 24
	if soak() {
		n = 200
	}
	w := newWorld(t).durability("process")
	s := w.serveAgents(w.beside("many.yaml", "version: 1\nname: many\napi: {allow: ['*']}\nfiles: {read: {allow: ['.models/**']}}\nmodels: {allow: ['scripted:**']}\n"))
	agent := s.agent("Many", manyAnswers, "session_file_system", "test_math")
	ids := make([]string, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			if err := s.one(agent, i, &ids[i]); err != nil {
				t.Errorf("session %d: %v", i, err)
			}
		})
	}
	all.Wait()
	s.end()
	s.must(0, "verify")
	for _, id := range ids[:min(3, n)] {
		s.must(0, "replay", id)
	}
}

// one has one session of its own, whose file only it can see.
func (s *serving) one(agent string, i int, id *string) error {
	var made sessionOut
	if err := s.try(http.MethodPost, "/v1/sessions", map[string]string{"agent_id": agent}, &made); err != nil {
		return err
	}
	*id = made.ID
	me := fmt.Sprintf("session number %d.", i)
	if err := s.try(http.MethodPut, "/v1/sessions/"+made.ID+"/files/who.txt", []byte(me), nil); err != nil {
		return err
	}
	var turn turnOut
	if err := s.try(http.MethodPost, "/v1/sessions/"+made.ID+"/messages", map[string]string{"content": "who are you?"}, &turn); err != nil {
		return err
	}
	got := toolResults(turn.Messages)
	if turn.Reply != "It is 5." || len(got) != 3 || !strings.Contains(got[0].Content, me) || got[0].Failed || got[1].Failed || got[2].Failed {
		return fmt.Errorf("%+v", turn)
	}
	return nil
}
