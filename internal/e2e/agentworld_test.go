package e2e_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// serving is remit serve as a process.
type serving struct {
	*world
	env   []string // besides the world's
	flags []string // besides those that all services get
	build string   // the program; "": binary
	enter []string // the command that runs it in its namespaces; nil: the test's
	cmd   *exec.Cmd
	url   string
	token string
	errs  bytes.Buffer
}

// patience is how long what should be quick may take on a machine that is busy.
const patience = 5 * time.Minute

// serveAgents starts the service in the workspace, under a policy.
func (w *world) serveAgents(policy string, env ...string) *serving {
	w.t.Helper()
	s := &serving{world: w, env: env}
	s.begin(policy)
	w.t.Cleanup(s.kill)
	return s
}

func (s *serving) begin(policy string) {
	s.t.Helper()
	s.cmd = s.command(append([]string{"serve", "--listen", "127.0.0.1:0", "-p", policy, "--rate", "100000"}, s.flags...)...)
	if s.build != "" {
		s.cmd.Path = s.build
	}
	if s.enter != nil {
		s.cmd = exec.CommandContext(context.Background(), s.enter[0], append(s.enter[1:], s.cmd.Args...)...)
		s.cmd.Env = s.environ()
	}
	s.cmd.Env = append(s.cmd.Env, s.env...)
	s.errs.Reset()
	s.cmd.Stderr = &s.errs
	out, err := s.cmd.StdoutPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	first := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(out).ReadString('\n')
		first <- line
		_, _ = io.Copy(io.Discard, out) // until it ends
	}()
	select {
	case line := <-first:
		_, at, ok := strings.Cut(strings.TrimSpace(line), "serving on ")
		if !ok {
			s.kill()
			s.t.Fatalf("remit serve says %q\n%s", line, s.errs.String())
		}
		s.url = at
	case <-time.After(patience):
		s.kill()
		s.t.Fatal("remit serve does not begin")
	}
	b, err := os.ReadFile(filepath.Join(fmt.Sprintf("/proc/%d/root", s.cmd.Process.Pid), s.home, "keys", "admin.token"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.token = strings.TrimSpace(string(b))
}

// kill ends the process as kill -9 does.
func (s *serving) kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill() // it may have ended
	_ = s.cmd.Wait()
	s.cmd = nil
}

// end ends it as an operator does.
func (s *serving) end() {
	s.t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Fatal(err)
	}
	if err := s.cmd.Wait(); err != nil {
		s.t.Errorf("remit serve: %v\n%s", err, s.errs.String())
	}
	s.cmd = nil
}

// raw makes a request.
func (s *serving) raw(method, path string, body any) (int, []byte, error) {
	var send io.Reader
	switch b := body.(type) {
	case nil:
	case []byte:
		send = bytes.NewReader(b)
	default:
		text, err := json.Marshal(b)
		if err != nil {
			return 0, nil, err
		}
		send = bytes.NewReader(text)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, s.url+path, send)
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Authorization", "Bearer "+s.token)
	r.Header.Set("Content-Type", "application/json")
	if method == http.MethodPut {
		r.Header.Set("Content-Type", "application/octet-stream")
	}
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = res.Body.Close() }() // read to its end
	b, err := io.ReadAll(res.Body)
	return res.StatusCode, b, err
}

// ask makes a request that must succeed.
func (s *serving) ask(method, path string, body, into any) {
	s.t.Helper()
	if err := s.try(method, path, body, into); err != nil {
		s.t.Fatal(err)
	}
}

// try is ask for goroutines.
func (s *serving) try(method, path string, body, into any) error {
	status, b, err := s.raw(method, path, body)
	if err == nil && status/100 != 2 {
		err = fmt.Errorf("status %d: %s", status, b)
	}
	if err == nil && into != nil {
		err = json.Unmarshal(b, into)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}

// agentIn is what the API is told of an agent.
type agentIn struct {
	Name         string `json:"name"`
	Model        string `json:"model"`
	Capabilities []any  `json:"capabilities"`
	SystemPrompt string `json:"system_prompt"`
}

type sessionOut struct {
	ID       string `json:"id"`
	Parent   string `json:"parent_id"`
	Status   string `json:"status"`
	Grant    string `json:"grant_id"`
	Run      string `json:"run_id"`
	Messages int    `json:"messages"`
	Usage    struct {
		Input, Output int64
	} `json:"usage"`
	Error *struct{ Code, Message string } `json:"error"`
}

type messageOut struct {
	Number  int    `json:"number"`
	Role    string `json:"role"`
	Content string `json:"content"`
	CallID  string `json:"tool_call_id"`
	Failed  bool   `json:"is_error"`
}

type turnOut struct {
	Reply    string       `json:"reply"`
	Messages []messageOut `json:"messages"`
	Session  sessionOut   `json:"session"`
}

type callOut struct {
	Index  int    `json:"index"`
	Tool   string `json:"tool"`
	Status string `json:"status"`
}

// agent makes an agent whose model says what a script holds, which a policy must
// let it read (.models/**).
func (s *serving) agent(name, script string, capabilities ...any) string {
	s.t.Helper()
	file := ".models/" + strings.ToLower(name) + ".yaml"
	s.write(filepath.Join(s.workspace, file), script)
	var out struct{ ID string }
	s.ask("POST", "/v1/agents", agentIn{name, "scripted:" + file, capabilities, "Do what is asked."}, &out)
	return out.ID
}

func (s *serving) session(agent string) string {
	s.t.Helper()
	var out sessionOut
	s.ask("POST", "/v1/sessions", map[string]string{"agent_id": agent}, &out)
	return out.ID
}

func (s *serving) say(session, text string) turnOut {
	s.t.Helper()
	var out turnOut
	s.ask("POST", "/v1/sessions/"+session+"/messages", map[string]string{"content": text}, &out)
	return out
}

// calls gives the calls of a run.
func (s *serving) calls(run string) []callOut {
	s.t.Helper()
	var out struct{ Items []callOut }
	s.ask("GET", "/v1/runs/"+run+"/calls?limit=500", nil, &out)
	return out.Items
}

// children gives the sessions that a session spawned.
func (s *serving) children(of string) []sessionOut {
	s.t.Helper()
	var list struct{ Items []sessionOut }
	s.ask("GET", "/v1/sessions?limit=500", nil, &list)
	var out []sessionOut
	for _, x := range list.Items {
		if x.Parent == of {
			out = append(out, x)
		}
	}
	return out
}

// until waits until something holds.
func (w *world) until(what string, holds func() bool) {
	w.t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("%s does not come", what)
		}
	}
}
