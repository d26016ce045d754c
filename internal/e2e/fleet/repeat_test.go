package fleet_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// repeatable is an endpoint whose request has one effect, on a path of the world.
type repeatable struct {
	name    string
	request func(r *repeats, path string) (url string, body object)
	session bool // an unknown outcome is one of a session, and names no run
}

type object map[string]any

var repeatables = []repeatable{
	{name: "a call", request: func(r *repeats, path string) (string, object) {
		return "/v1/tools/http.request/invoke", object{"args": r.act(path)}
	}},
	{name: "a command", request: func(r *repeats, path string) (string, object) {
		return "/v1/commands", object{"line": "/call http.request '" + text(r.act(path)) + "'"}
	}},
	{name: "a run", request: func(r *repeats, path string) (string, object) {
		return "/v1/runs", object{"plan": r.plan(path)}
	}},
	{name: "a queued run", request: func(r *repeats, path string) (string, object) {
		return "/v1/runs", object{"plan": r.plan(path), "queue": object{}}
	}},
	{name: "a message", session: true, request: func(r *repeats, path string) (string, object) {
		return "/v1/sessions/" + r.actor(path) + "/messages", object{"content": "go"}
	}},
	{name: "a queued message", session: true, request: func(r *repeats, path string) (string, object) {
		return "/v1/sessions/" + r.actor(path) + "/messages", object{"content": "go", "queue": object{}}
	}},
}

// broken is a fault that a request meets at a node.
type broken struct {
	at     int  // the message from the node to the server, counted from 0; atEffect: the effect itself
	before bool // the message is lost
	kill   bool // the node is killed; else its connections end
	other  bool // the client repeats the request at another node; else at the same one, which is started again if need be
}

const atEffect = -1

func (b broken) String() string {
	at, how, where := "at the effect", "connections end", "the same node"
	if b.at != atEffect {
		at = fmt.Sprintf("at message %d (lost: %t)", b.at, b.before)
	}
	if b.kill {
		how = "kill -9"
	}
	if b.other {
		where = "the other node"
	}
	return how + " " + at + ", repeated at " + where
}

// repeats is a client that repeats its requests with the same key.
type repeats struct {
	*fleet
	wire     *wire
	faulty   *node // behind the wire
	sound    *node
	sessions map[string]string // by path
	number   int
	expected map[string]bool // paths whose effect is known to have happened
	doing    map[string]func() bool
}

// TestARepeatedRequestHasOneEffect: whatever happens to the node that carries out a request, a
// client that repeats it with the same Idempotency-Key causes one effect at most, and is told
// what came of the first request or that this is unknown. REMIT_SOAK tries more faults.
func TestARepeatedRequestHasOneEffect(t *testing.T) {
	t.Parallel()
	r := &repeats{fleet: newFleet(t, "- {text: Done.}\n"), sessions: map[string]string{}, expected: map[string]bool{}, doing: map[string]func() bool{}}
	r.wire = newWire(t, r.db.Socket)
	r.sound = r.start()
	seed := uint64(1)
	cases := []broken{{at: atEffect, kill: true, other: true}, {at: atEffect}, {at: atEffect, other: true}, {at: 3, before: true, other: true}, {at: 5, kill: true}, {at: atEffect, kill: true}}
	if os.Getenv("REMIT_SOAK") != "" {
		seed = uint64(time.Now().UnixNano())
		rnd := rand.New(rand.NewPCG(seed, 0))
		cases = nil
		for range 150 {
			cases = append(cases, broken{at: rnd.IntN(30) + atEffect, before: rnd.IntN(2) == 0, kill: rnd.IntN(2) == 0, other: rnd.IntN(2) == 0})
		}
	}
	t.Logf("seed %d", seed)
	for i, b := range cases {
		e := repeatables[i%len(repeatables)]
		if !t.Run(fmt.Sprintf("%d %s, %s", i, e.name, b), func(t *testing.T) { r.once(t, e, b) }) {
			break
		}
	}
	for path, over := range r.doing {
		r.until("the end of "+path, over)
		if n := r.happened(path); n > 1 || n == 0 && r.expected[path] {
			t.Errorf("%s: %d effects", path, n)
		}
	}
	verified(t, r.fleet)
}

// once makes a request, breaks the node, and repeats the request until it is answered.
func (r *repeats) once(t *testing.T, e repeatable, b broken) {
	if r.faulty == nil || r.faulty.ended() {
		r.restart(t)
	}
	r.number++
	path, key := fmt.Sprintf("/repeat%d", r.number), uuid.NewString()
	url, body := e.request(r, path)
	r.put(path, b)
	at := r.faulty
	var trail []string
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatalf("no answer: %v", trail)
		}
		status, got := r.try(at, url, key, body)
		if step := fmt.Sprint(status, got["code"], got["outcome"]); len(trail) == 0 || trail[len(trail)-1] != step {
			trail = append(trail, step)
		}
		r.wire.at(trap{})
		if b.other {
			at = r.sound
		} else if at.ended() {
			r.restart(t)
			at = r.faulty
		}
		if status == 0 || status == 503 || status == 429 || got["outcome"] == "in_progress" || got["code"] == "E8004" {
			continue // what a client repeats
		}
		r.check(t, e, path, status, got)
		break
	}
	t.Log(trail)
	for _, n := range []*node{r.faulty, r.sound} {
		if n.ended() {
			continue
		}
		if status, got := r.try(n, url, key, object{"another": "body"}); status != 422 && status != 0 && status != 503 {
			t.Errorf("the same key with another body: %d %v", status, got)
		}
	}
	if n := r.happened(path); n > 1 {
		t.Errorf("%d effects: %v", n, trail)
	}
}

// put arms a fault. It disarms that of the request before.
func (r *repeats) put(path string, b broken) {
	n := r.faulty
	hit := func() {
		if b.kill {
			_ = n.cmd.Process.Kill() // it may have ended
			return
		}
		go r.wire.reset() // not within the message
	}
	r.mu.Lock()
	r.seen = nil
	if b.at == atEffect {
		r.seen = func(at string) {
			if at == path {
				hit()
			}
		}
	}
	r.mu.Unlock()
	if b.at != atEffect {
		r.wire.at(trap{left: b.at, before: b.before, call: hit})
	}
}

// check notes what the answer says must have happened.
func (r *repeats) check(t *testing.T, e repeatable, path string, status int, got map[string]any) {
	t.Helper()
	call, _ := got["call"].(map[string]any) // of a command
	run, _ := got["run_id"].(string)
	done := func() bool { return true }
	switch {
	case e.session:
		done = func() bool {
			s, at := r.get("/v1/sessions/" + r.sessions[path])
			return s == 200 && at["status"] != "working" && at["status"] != "waiting"
		}
	case run != "":
		done = func() bool { return r.over(run) }
	}
	switch {
	case status < 300 && (got["status"] == "completed" || call["status"] == "completed"):
		r.expected[path] = true
	case status < 300:
	case status == 409 && got["outcome"] == "unknown":
		if run == "" && !e.session {
			t.Errorf("the answer names no run: %v", got)
		}
	case status == 409 && strings.Contains(fmt.Sprint(got["detail"]), "answered with 20"):
	default:
		t.Errorf("%d %v", status, got)
	}
	r.doing[path] = done
}

// over reports whether a run has ended, or is not in the record or the queue.
func (r *repeats) over(run string) bool {
	for _, at := range []string{"/v1/queue/", "/v1/runs/"} {
		status, got := r.get(at + run)
		switch {
		case status == 404:
		case status != 200 || got["status"] == "running" || got["status"] == "waiting" || got["status"] == "scheduled" || got["status"] == "stopping":
			return false
		}
	}
	return true
}

func (r *repeats) get(path string) (int, map[string]any) { return r.sound.ask("GET", path, "") }

// try makes the request with a key. Status 0: there was no answer.
func (r *repeats) try(n *node, url, key string, body object) (int, map[string]any) {
	q, err := http.NewRequestWithContext(r.Context(), http.MethodPost, n.url+url, strings.NewReader(text(body)))
	if err != nil {
		r.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+r.token)
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("Idempotency-Key", key)
	res, err := client.Do(q)
	if err != nil {
		return 0, nil
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	var got map[string]any
	if err != nil || json.Unmarshal(b, &got) != nil {
		return 0, nil
	}
	return res.StatusCode, got
}

func (r *repeats) restart(t *testing.T) {
	t.Helper()
	if r.faulty != nil {
		<-r.faulty.over
	}
	r.wire.at(trap{})
	r.faulty = r.launch(r.db.Via(filepath.Dir(r.wire.addr), r.dir))
	if r.faulty.url == "" {
		<-r.faulty.over
		t.Fatalf("a node does not begin: %s", r.faulty.last)
	}
}

// act are the arguments of http.request for an effect.
func (r *repeats) act(path string) object { return object{"method": "POST", "url": r.world + path} }

func (r *repeats) plan(path string) string {
	return "name: repeat\nsteps:\n  - {tool: http.request, args: " + text(r.act(path)) + "}\n"
}

// actor makes the session of an agent that acts once for each message.
func (r *repeats) actor(path string) string {
	script := "- tool_calls: [{name: act, args: {url: " + text(r.world+path) + "}}]\n- {text: Done.}\n- tool_calls: [{name: act, args: {url: " + text(r.world+path) + "}}]\n- {text: Done., repeat: true}\n"
	name := strings.Trim(path, "/") + ".yaml"
	if err := os.WriteFile(filepath.Join(r.dir, "work", name), []byte(script), 0o600); err != nil {
		r.Fatal(err)
	}
	a := r.sound.must(201, "POST", "/v1/agents", text(object{"name": "Actor", "model": "scripted:" + name, "capabilities": []string{"world"}}))
	id, _ := r.sound.must(201, "POST", "/v1/sessions", text(object{"agent_id": a["id"]}))["id"].(string)
	r.sessions[path] = id
	return id
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // values of tests can be written
	}
	return string(b)
}

// TestAKeyBelongsToItsCaller: a repeated request gets the recorded answer, at another node and after
// the node has ended. The same key of another caller, and a request without a key, are new requests.
func TestAKeyBelongsToItsCaller(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "- {text: Done.}\n")
	a := f.start()
	b := f.start()
	const path = "/v1/tools/http.request/invoke"
	body := text(object{"args": object{"method": "POST", "url": f.world + "/once"}})
	call := func(n *node, token, key string) (int, map[string]any) {
		headers := map[string]string{"Authorization": "Bearer " + token, "Content-Type": "application/json"}
		if key != "" {
			headers["Idempotency-Key"] = key
		}
		return n.request("POST", path, body, headers)
	}
	status, first := call(a, f.token, "k")
	if status != 200 || f.happened("/once") != 1 {
		t.Fatalf("%d %v", status, first)
	}
	again := func(n *node) {
		t.Helper()
		had := f.happened("/once")
		status, got := call(n, f.token, "k")
		if status != 200 || got["run_id"] != first["run_id"] || text(got["output"]) != text(first["output"]) || got["status"] != "completed" || f.happened("/once") != had {
			t.Errorf("%d %v, want %v", status, got, first)
		}
	}
	again(a)
	again(b)
	a.kill()
	again(b)
	g := b.must(201, "POST", "/v1/grants", `{"policies":["version: 1\nrest: inherit\n"]}`)
	if status, got := call(b, g["token"].(string), "k"); status != 200 || got["run_id"] == first["run_id"] || f.happened("/once") != 2 {
		t.Errorf("the key of another caller: %d %v", status, got)
	}
	for n := 3; n <= 4; n++ {
		if status, got := call(b, f.token, ""); status != 200 || f.happened("/once") != n {
			t.Errorf("without a key: %d %v", status, got)
		}
	}
	again(b)
	verified(t, f)
}
