package e2e_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// questionPolicy asks a person about each write.
const questionPolicy = `version: 1
name: questions
api: {allow: ["*"]}
models: {allow: ["scripted:**"]}
files: {read: {allow: ["**"]}, write: {ask: ["out/**"]}}
tools: {allow: ["*"]}
delegate: {actions: [api, files.read, files.write, models, tools], to: ["*"], depth: 4}
agents: {spawn: 4, depth: 2}
`

const (
	writeOnce = `{path: out/log.txt, mode: append, content: "once;"}`
	writePlan = "steps: [{tool: fs.write, args: " + writeOnce + "}]"
)

// asking is a service with a call that waits for a person.
type asking struct {
	*serving
	policy  string
	session string    // of the turn whose call waits; "": it is none
	process *exec.Cmd // that asked, besides the service; nil: the service did
}

type questionOut struct {
	ID          string `json:"id"`
	State       string `json:"state"`
	Interrupted string `json:"interrupted"`
}

func (a *asking) questions(query string) []questionOut {
	a.t.Helper()
	var out struct{ Items []questionOut }
	a.ask("GET", "/v1/approvals"+query, nil, &out)
	return out.Items
}

// waiting gives the one question that waits.
func (a *asking) waiting() (q questionOut) {
	a.t.Helper()
	a.until("one question", func() bool {
		list := a.questions("")
		if len(list) == 1 {
			q = list[0]
		}
		return len(list) == 1
	})
	return q
}

func (a *asking) state() string {
	var s sessionOut
	a.ask("GET", "/v1/sessions/"+a.session, nil, &s)
	return s.Status
}

// written is what the approved calls wrote.
func (a *asking) written() string {
	b, err := os.ReadFile(filepath.Join(a.workspace, "out", "log.txt"))
	if err != nil {
		a.t.Error(err)
	}
	return string(b)
}

// askingDoors begin a call that waits, each through a door.
var askingDoors = map[string]func(a *asking){
	"turn": func(a *asking) {
		a.session = a.serving.session(a.agent("Writer", "- tool_calls: [{name: fs_write, args: "+writeOnce+"}]\n- {text: done, repeat: true}\n", "workspace"))
		a.tell(a.session, "")
	},
	"sub-agent": func(a *asking) {
		child := a.agent("Child", "- tool_calls: [{name: fs_write, args: "+writeOnce+"}]\n- {text: done, repeat: true}\n", "workspace")
		a.session = a.serving.session(a.agent("Parent", `- tool_calls: [{name: spawn_agent, args: {agent: "`+child+`", name: helper, task: write}}]
- tool_calls: [{name: wait, args: {}}]
- {text: done, repeat: true}
`, "subagents", "workspace"))
		a.tell(a.session, "")
	},
	"queued message": func(a *asking) {
		a.session = a.serving.session(a.agent("Writer", "- tool_calls: [{name: fs_write, args: "+writeOnce+"}]\n- {text: done, repeat: true}\n", "workspace"))
		a.tell(a.session, `, "queue": {}`)
	},
	"run": func(a *asking) { a.ask("POST", "/v1/runs", map[string]any{"plan": writePlan}, nil) },
	"queued run": func(a *asking) {
		a.ask("POST", "/v1/runs", map[string]any{"plan": writePlan, "queue": map[string]any{}}, nil)
	},
	"mcp": func(a *asking) {
		cmd := exec.Command(binary, "mcp", "serve", "-w", a.workspace, "-p", a.policy, "--wait")
		cmd.Env = a.environ()
		a.process = cmd
		cs, err := mcp.NewClient(&mcp.Implementation{Name: "e2e", Version: "1"}, nil).Connect(context.Background(), &mcp.CommandTransport{Command: cmd}, nil)
		if err != nil {
			a.t.Fatal(err)
		}
		called := make(chan struct{})
		go func() {
			defer close(called)
			_, _ = cs.CallTool(context.Background(), &mcp.CallToolParams{Name: "fs_write", Arguments: map[string]any{"path": "out/log.txt", "content": "once;"}}) // ends with its server
		}()
		a.t.Cleanup(func() {
			_ = cs.Close() // its server may have ended
			<-called
		})
	},
}

// tell sends a message, and does not wait for the turn.
func (a *asking) tell(session, more string) {
	a.t.Helper()
	if status, b, err := a.raw("POST", "/v1/sessions/"+session+"/messages", []byte(`{"content":"go"`+more+`}`)); err != nil || status != 202 {
		a.t.Fatalf("a message: %d %s %v", status, b, err)
	}
}

// askingFaults end the process that asked.
var askingFaults = map[string]func(a *asking){
	"SIGTERM": func(a *asking) { a.fault(syscall.SIGTERM) },
	"kill -9": func(a *asking) { a.fault(syscall.SIGKILL) },
	"upgrade": func(a *asking) {
		a.fault(syscall.SIGTERM)
		a.build = newer(a.t)
	},
}

// fault ends the process that asked. The service gives turns an hour to finish, so a service that
// waits for its person does not end.
func (a *asking) fault(sig syscall.Signal) {
	a.t.Helper()
	cmd := a.process
	if cmd == nil {
		cmd = a.cmd
	}
	if err := cmd.Process.Signal(sig); err != nil {
		a.t.Fatal(err)
	}
	if a.process != nil {
		return // its client waits for it
	}
	_ = a.cmd.Wait() // an error, if it was killed
	a.cmd = nil
}

// newer builds a later version.
func newer(t testing.TB) string {
	out := filepath.Join(folder, "remit-newer")
	if _, err := os.Stat(out); err == nil {
		return out
	}
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w -X main.version=99.0.0", "-o", out, "github.com/remitrun/remit/cmd/remit")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if b, err := build.CombinedOutput(); err != nil {
		t.Fatalf("a newer remit cannot be built: %v\n%s", err, b)
	}
	return out
}

// TestAWaitingQuestionSurvivesItsProcess: the process that asked ends while a call waits for a person,
// in each way and for each door. A turn's question waits on, and the answer continues the turn: the
// call is made once. Another call cannot be continued: its question is closed, with the reason.
func TestAWaitingQuestionSurvivesItsProcess(t *testing.T) {
	for door, begin := range askingDoors {
		for name, fault := range askingFaults {
			if always := name == "SIGTERM" || door == "turn" && name == "kill -9"; !always && !soak() {
				continue
			}
			t.Run(door+", "+name, func(t *testing.T) {
				w := newWorld(t)
				w.mkdir("out")
				a := &asking{policy: w.beside("policy.yaml", questionPolicy)}
				a.serving = &serving{world: w, flags: []string{"--drain", "1h"}}
				a.begin(a.policy)
				t.Cleanup(func() { a.kill() })
				begin(a)
				q := a.waiting()
				fault(a)
				if a.cmd == nil {
					a.begin(a.policy)
				}
				if a.session == "" {
					a.interrupted(q)
					return
				}
				if again := a.waiting(); again.ID != q.ID {
					t.Errorf("the question is %s after the restart, and was %s", again.ID, q.ID)
				}
				a.answered(q, func() { a.ask("POST", "/v1/approvals/"+q.ID+"/approve", map[string]any{}, nil) })
			})
		}
	}
}

// TestAnAnswerIsKeptForATurn: the answer comes while no process carries the turn, for this call or
// for all like it.
func TestAnAnswerIsKeptForATurn(t *testing.T) {
	for _, how := range [][]string{{"approve"}, {"approve", "--session"}} {
		if len(how) == 1 && !soak() {
			continue
		}
		t.Run(strings.Join(how, " "), func(t *testing.T) {
			w := newWorld(t)
			w.mkdir("out")
			a := &asking{policy: w.beside("policy.yaml", questionPolicy)}
			a.serving = &serving{world: w, flags: []string{"--drain", "1h"}}
			a.begin(a.policy)
			t.Cleanup(func() { a.kill() })
			askingDoors["turn"](a)
			q := a.waiting()
			a.fault(syscall.SIGKILL)
			a.answered(q, func() {
				w.must(0, append(append([]string{"approvals"}, how...), q.ID)...)
				a.begin(a.policy)
			})
		})
	}
}

// interrupted checks that a question is closed with its reason.
func (a *asking) interrupted(q questionOut) {
	a.t.Helper()
	var list []questionOut
	a.until("the interrupted question", func() bool {
		list = a.questions("?interrupted=true")
		return len(list) > 0
	})
	if len(list) != 1 || list[0].ID != q.ID || !strings.Contains(list[0].Interrupted, "run it again") {
		a.t.Errorf("the interrupted questions are %+v, want %s", list, q.ID)
	}
	if shown := a.must(0, "approvals", "show", q.ID); !strings.Contains(shown, "run it again") {
		a.t.Errorf("remit approvals show does not say why the question was interrupted:\n%s", shown)
	}
	if left := a.questions(""); len(left) != 0 {
		a.t.Errorf("%+v still waits", left)
	}
	var all struct {
		Items []struct {
			ID     string `json:"run_id"`
			Status string `json:"status"`
			Denied int    `json:"denied"`
		}
	}
	a.until("the end of the run", func() bool {
		all.Items = nil
		a.ask("GET", "/v1/runs", nil, &all)
		return len(all.Items) > 0 && all.Items[0].Status != "running"
	})
	for _, r := range all.Items {
		if r.Denied > 0 || r.Status == "denied" {
			a.t.Errorf("the run is %+v: nobody refused it", r)
		}
	}
	a.kill()
	a.world.must(0, "verify")
}

// answered checks that an answer continues the turn, and that its call is made once.
func (a *asking) answered(q questionOut, answer func()) {
	a.t.Helper()
	if a.cmd != nil {
		a.until("the state waiting", func() bool { return a.state() == "waiting" || a.working() })
	}
	answer()
	a.until("the end of the turn", func() bool { return a.state() == "idle" })
	if got := a.written(); got != "once;" {
		for _, id := range append([]sessionOut{{ID: a.session}}, a.children(a.session)...) {
			_, b, _ := a.raw("GET", "/v1/sessions/"+id.ID+"/messages", nil)
			_, c, _ := a.raw("GET", "/v1/sessions/"+id.ID, nil)
			a.t.Logf("%s %s", b, c)
		}
		a.t.Errorf("the approved call wrote %q", got)
	}
	var one questionOut
	if a.ask("GET", "/v1/approvals/"+q.ID, nil, &one); one.State == "lapsed" || one.State == "waiting" {
		a.t.Errorf("the question is %s", one.State)
	}
	if left := a.questions("?interrupted=true"); len(left) != 0 {
		a.t.Errorf("%+v is listed as interrupted", left)
	}
	a.kill()
	a.world.must(0, "verify")
	if out := a.world.must(0, "replay", a.session); !strings.Contains(out, "all messages are identical") {
		a.t.Errorf("replay: %s", out)
	}
}

// working reports whether the session itself works, and its sub-agent waits.
func (a *asking) working() bool {
	for _, c := range a.children(a.session) {
		if c.Status == "waiting" {
			return true
		}
	}
	return false
}

var _ = fmt.Sprint
