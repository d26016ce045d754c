package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	killPolicy = `version: 1
name: killed
api: {allow: ["*"]}
models: {allow: ["scripted:**"]}
files: {read: {allow: ["**"]}, write: {allow: ["out/**"]}}
tools: {allow: ["*"]}
`
	killSteps = 40
)

// killed is a session whose service is killed while it works.
type killed struct {
	*serving
	policy string
	at     string // path of the session
	kills  int
}

func (k *killed) killAndBegin() {
	k.kill()
	k.kills++
	k.begin(k.policy)
}

// send posts something, and kills the service where that takes longer than chance
// gives it.
func (k *killed) send(path string, body any) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = k.try("POST", k.at+path, body, nil) // what became of it is looked up
	}()
	var chance <-chan time.Time
	if k.kills < 20 { // where each resumption took longer it would never end
		chance = time.After(time.Duration(10+rand.IntN(150)) * time.Millisecond)
	}
	select {
	case <-done:
	case <-chance:
		_ = k.cmd.Process.Kill()
		<-done
		k.killAndBegin()
	}
}

// drive brings the session to its end.
func (k *killed) drive(message string) {
	k.t.Helper()
	k.until("the session's end", func() bool {
		var now sessionOut
		k.ask("GET", k.at, nil, &now)
		switch {
		case now.Messages == 0:
			k.send("/messages", map[string]any{"content": message})
		case now.Status == "idle":
			return true
		case now.Status != "working":
			k.send("/resume", nil)
		case k.kills < 6:
			time.Sleep(time.Duration(rand.IntN(60)) * time.Millisecond) // the moment is the point
			k.killAndBegin()
		}
		return false
	})
}

// check compares what the session says with what happened.
func (k *killed) check() {
	k.t.Helper()
	var list struct{ Items []messageOut }
	k.ask("GET", k.at+"/messages?limit=200", nil, &list)
	interrupted, missing := 0, 0
	for _, m := range list.Items {
		if strings.Contains(m.Content, "E2011") {
			interrupted++
		}
	}
	log, err := os.ReadFile(filepath.Join(k.workspace, "out", "log.txt"))
	if err != nil {
		k.t.Fatal(err)
	}
	for i := range killSteps {
		switch n := strings.Count(string(log), fmt.Sprintf("step %d;", i)); {
		case n > 1:
			k.t.Errorf("step %d happened %d times", i, n)
		case n == 0:
			missing++
		}
	}
	if missing > interrupted {
		k.t.Errorf("%d steps did not happen, %d calls are told as interrupted: %s", missing, interrupted, log)
	}
	if last := list.Items[len(list.Items)-1]; last.Content != "all done" {
		k.t.Errorf("it ends with %+v", last)
	}
	k.t.Logf("%d kills, %d calls interrupted, %d messages", k.kills, interrupted, len(list.Items))
}

// The service is killed at any moment of a turn, again and again. The session comes
// to its end, no step's effect happened twice, the ledger is sound, and the whole
// session is replayed to the byte.
func TestAServiceThatIsKilledAtAnyMomentGoesOn(t *testing.T) {
	w := newWorld(t)
	w.write("out/log.txt", "")
	var script strings.Builder
	for i := range killSteps {
		fmt.Fprintf(&script, "- tool_calls: [{name: fs_write, args: {path: out/log.txt, mode: append, content: \"step %d;\"}}, {name: fs_read, args: {path: out/log.txt}}]\n", i)
	}
	script.WriteString("- text: all done\n")
	policy := w.beside("policy.yaml", killPolicy)
	k := &killed{serving: w.serveAgents(policy), policy: policy}
	session := k.session(k.agent("Writer", script.String(), "workspace"))
	k.at = "/v1/sessions/" + session
	k.drive("write it down")
	k.check()
	if k.kills == 0 {
		t.Error("it was never killed: the test shows nothing")
	}
	k.kill()
	w.must(0, "verify")
	if out := w.must(0, "replay", session); !strings.Contains(out, "all messages are identical") {
		t.Errorf("replay: %s", out)
	}
}
