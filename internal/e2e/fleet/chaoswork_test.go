package fleet_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// slot is a limit that queued runs have, and how many of them may run at once.
const (
	slot  = "tool:http.request"
	slots = 2
)

// work is what the nodes were given to do, and what must come of it.
type work struct {
	number   int
	sessions map[string]bool
	runs     map[string]string // IDs of queued runs that must start, by their prefix
	most     map[string]int    // effects under a prefix
	asked    map[string]string // sessions whose calls need an approval, by their prefix
	answers  int               // that were given
}

// client does not wait for a node that is stopped.
var client = &http.Client{Timeout: 2 * time.Second}

// try makes a request that may fail, of any node that answers. A node that was asked before and
// whose answer was lost may have done it: the key says that it is one request.
func (c *chaos) try(method, path, body, token string) map[string]any {
	key := uuid.NewString()
	for _, i := range c.rnd.Perm(len(c.nodes)) {
		if c.nodes[i] == nil || c.nodes[i].url == "" {
			continue
		}
		r, err := http.NewRequestWithContext(c.Context(), method, c.nodes[i].url+path, strings.NewReader(body))
		if err != nil {
			c.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Prefer", "respond-async")
		if method == http.MethodPost {
			r.Header.Set("Idempotency-Key", key)
		}
		res, err := client.Do(r)
		if err != nil {
			continue
		}
		b, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		var m map[string]any
		if err == nil && res.StatusCode < 300 && json.Unmarshal(b, &m) == nil {
			return m
		}
	}
	return nil
}

// offer offers the nodes work under authority that ends, is spent or is not given. They may take it or
// fail. Plain work is that of the clients outside, where there are some.
func (c *chaos) offer() {
	c.Helper()
	for range 2 {
		if c.crowd == nil {
			c.offerSession(c.token, 0)
		}
	}
	if g := c.grant(4); g != nil { // fewer calls than the turn wants: each call of a model counts too
		c.offerSession(g["token"].(string), 4)
	}
	for range 3 {
		if prefix, id := c.offerRun(c.token, `{"limits": [{"key": "tool:http.request", "most": 2}]}`); id != "" {
			c.work.runs[prefix] = id
		}
	}
	c.offerEnded("revoke")
	c.offerEnded("pause")
	c.offerSpent()
	if c.long {
		c.offerCommands()
	}
	if c.long || len(c.work.asked) == 0 {
		c.offerAsked()
	}
	if prefix, id := c.offerRun(c.token, `{"delay": 1}`); id != "" && c.try("POST", "/v1/queue/"+id+"/cancel", "{}", c.token) != nil && !c.apart() {
		c.work.most[prefix] = 0
	}
}

func (c *chaos) next(kind string) string {
	c.work.number++
	return fmt.Sprintf("/%s%d/", kind, c.work.number)
}

// grant derives a grant of a number of calls.
func (c *chaos) grant(calls int) map[string]any {
	m := c.try("POST", "/v1/grants", fmt.Sprintf(`{"policies":["version: 1\nrest: inherit\n"],"calls":%d}`, calls), c.token)
	if _, ok := m["token"].(string); !ok {
		return nil
	}
	return m
}

// offerSession offers a turn of four calls, of which at most some are made; 0: no such bound.
func (c *chaos) offerSession(token string, most int) {
	c.Helper()
	prefix := c.next("s")
	if c.offerTurn(token, prefix, 4) != "" && most > 0 {
		c.work.most[prefix] = most
	}
}

// offerTurn offers a turn of some calls, and returns the session if there is one.
func (c *chaos) offerTurn(token, prefix string, calls int) string {
	c.Helper()
	var script strings.Builder
	for n := range calls {
		fmt.Fprintf(&script, "- tool_calls: [{name: act, args: {url: %q}}]\n", c.world+prefix+fmt.Sprint(n))
	}
	script.WriteString("- {text: Done., repeat: true}\n")
	name := strings.ReplaceAll(strings.Trim(prefix, "/"), "/", "-") + ".yaml"
	if err := os.WriteFile(filepath.Join(c.dir, "work", name), []byte(script.String()), 0o600); err != nil {
		c.Fatal(err)
	}
	agent := c.try("POST", "/v1/agents", fmt.Sprintf(`{"name":"Actor","model":"scripted:%s","capabilities":["world"]}`, name), c.token)
	if agent == nil {
		return ""
	}
	session := c.try("POST", "/v1/sessions", fmt.Sprintf(`{"agent_id":%q}`, agent["id"]), token)
	id, ok := session["id"].(string)
	if !ok {
		return ""
	}
	c.work.sessions[id] = true
	c.try("POST", "/v1/sessions/"+id+"/messages", `{"content":"go"}`, token)
	return id
}

// offerRun queues a run of three calls, and returns its ID if it was taken.
func (c *chaos) offerRun(token, terms string) (prefix, id string) {
	c.Helper()
	prefix = c.next("q")
	return prefix, c.offerPlan(token, prefix, terms, "{tool: http.request, args: {method: POST, url: %q}}")
}

// offerPlan queues a run of three steps with URLs, and returns its ID if it was taken.
func (c *chaos) offerPlan(token, prefix, terms, step string) (id string) {
	c.Helper()
	var plan strings.Builder
	fmt.Fprintf(&plan, "name: %s\nsteps:\n", strings.Trim(prefix, "/"))
	for n := range 3 {
		fmt.Fprintf(&plan, "  - "+step+"\n", c.world+prefix+fmt.Sprint(n))
	}
	body, err := json.Marshal(map[string]any{"plan": plan.String(), "queue": json.RawMessage(terms)})
	if err != nil {
		c.Fatal(err)
	}
	id, _ = c.try("POST", "/v1/runs", string(body), token)["run_id"].(string)
	return id
}

// offerEnded queues a run whose grant ends or is paused while it waits.
func (c *chaos) offerEnded(how string) {
	c.Helper()
	g := c.grant(100)
	if g == nil {
		return
	}
	began := time.Now()
	prefix, id := c.offerRun(g["token"].(string), `{"delay": 1}`)
	if id != "" && c.try("POST", "/v1/grants/"+g["id"].(string)+"/"+how, "{}", c.token) != nil && time.Since(began) < time.Second && !c.apart() {
		c.work.most[prefix] = 0 // a fault can delay the answer until the run has begun
	}
}

// offerSpent queues a run under a grant of fewer calls than its plan has.
func (c *chaos) offerSpent() {
	c.Helper()
	if g := c.grant(2); g != nil {
		prefix, _ := c.offerRun(g["token"].(string), `{}`)
		c.work.most[prefix] = 2
	}
}

// apart reports whether the only node begins with another clock, so that a run that is due in a second may
// begin at once. Several nodes go by the clock of the database.
func (c *chaos) apart() bool { return c.db == nil && c.clocks[0] != "" }

// logOf gives the lines of the nodes' log that have a text.
func (f *fleet) logOf(text string) (lines string) {
	b, err := os.ReadFile(filepath.Join(f.dir, "home", "logs", "remit.log"))
	if err != nil {
		return err.Error()
	}
	for line := range strings.Lines(string(b)) {
		if strings.Contains(line, text) {
			lines += line
		}
	}
	return lines
}

// newWork makes an empty list of work.
func newWork() work {
	return work{sessions: map[string]bool{}, runs: map[string]string{}, most: map[string]int{}, asked: map[string]string{}}
}

// settled waits until all work has ended, and checks the invariants.
func (c *chaos) settled() {
	c.Helper()
	if c.crowd != nil {
		c.crowd.stop(patience)
		for _, u := range c.users {
			u.leave()
			u.verdict(c.db != nil)
		}
	}
	for id := range c.work.sessions {
		var s map[string]any
		goesOn := func() bool { return s == nil || s["status"] == "working" || s["status"] == "waiting" }
		for began := time.Now(); goesOn() && time.Since(began) < time.Minute; time.Sleep(20 * time.Millisecond) {
			if s = c.try("GET", "/v1/sessions/"+id, "", c.token); s["status"] == "waiting" {
				c.answer()
			}
		}
		if goesOn() {
			c.Errorf("the turn of session %s has not ended: %v", id, s)
			c.Logf("its run: %v\nthe log of the nodes says of it:\n%s", c.try("GET", fmt.Sprintf("/v1/runs/%v", s["run_id"]), "", c.token), c.logOf(id))
		}
	}
	c.until("the end of the queue", func() bool {
		return c.try("GET", "/v1/queue", "", c.token)["waiting"] == float64(0)
	})
	for _, n := range c.nodes {
		n.signal(15)
		<-n.over
	}
	c.holds()
}

// holds checks the invariants.
func (c *chaos) holds() {
	c.Helper()
	s, err := c.open(false)
	if err != nil {
		c.Fatal(err)
	}
	defer func() { _ = s.Close() }() // its last checkpoint is not needed
	if c.crowd != nil {
		verify := exec.Command(os.Args[0], "verify")
		verify.Env = append(os.Environ(), "REMIT_TEST_CLI=1", "REMIT_HOME="+filepath.Join(c.dir, "home"), "REMIT_DB="+c.present(), "HOME="+c.dir, "USER=ann")
		if out, err := verify.CombinedOutput(); err != nil {
			c.Errorf("remit verify: %v\n%s", err, out)
		}
	}
	if _, err := s.Recover(c.Context()); err != nil {
		c.Error(err)
	}
	for _, note := range append(c.notes, nil) {
		if r, err := s.Verify(c.Context(), store.VerifyOptions{Checkpoint: note}); err != nil || !r.OK {
			c.Errorf("Verify: %v, %+v\n%s", err, r.Problems, note)
			for _, p := range r.Problems {
				c.explain(s, p.Key)
			}
			break
		}
	}
	intents, done := c.read(s)
	c.compare(s, intents, done)
	if c.crowd != nil {
		c.crowd.judge(recordOf(intents, done))
	}
}

// read gives how many intents the ledger has of each path, and which calls are completed. It also checks
// that no call was left open.
func (c *chaos) read(s store.Backend) (intents map[string]int, done map[string]bool) {
	c.Helper()
	intents, done = map[string]int{}, map[string]bool{}
	type call struct {
		run  ledger.Seq
		call uint32
	}
	open := map[call]string{}
	for e, err := range s.Events(c.Context(), 0) {
		if err != nil {
			c.Fatal(err)
		}
		at := call{e.Event.Run, e.Event.Call}
		switch e.Event.Kind {
		case ledger.CallIntent:
			var args struct {
				URL  string
				Argv []string // of a command
			}
			if json.Unmarshal(e.Parts[ledger.PartArgs].Inline, &args) != nil {
				continue
			}
			path, ours := strings.CutPrefix(append(args.Argv, args.URL)[max(0, len(args.Argv)-1)], c.world)
			if !ours {
				continue // of a model
			}
			intents[path]++
			open[at] = path
		case ledger.CallOutcome:
			done[open[at]] = e.Event.Status == tool.Completed
			delete(open, at)
		}
	}
	for at, path := range open {
		if strings.HasPrefix(path, outside+"hook") || strings.HasPrefix(path, outside+slow+"hook") {
			continue // the agent could not say how its call ended
		}
		c.Errorf("call %d of run %d, %s, was left open", at.call, at.run, path)
	}
	return intents, done
}

// recordOf is what the ledger says of each path.
func recordOf(intents map[string]int, done map[string]bool) map[string]recorded {
	out := map[string]recorded{}
	for path, n := range intents {
		out[path] = recorded{intents: n, done: done[path], unknown: !done[path]}
	}
	return out
}

// explain prints what the record says of a run.
func (c *chaos) explain(s store.Backend, id string) {
	c.Helper()
	r, err := s.Run(c.Context(), id)
	c.Logf("run %s: %+v, %v", id, r, err)
	if err != nil {
		return // it is not about a run
	}
	for e, err := range s.Events(c.Context(), 0) {
		if err == nil && (e.Event.Run == r.Seq || e.Seq == r.Seq) {
			c.Logf("%d: %+v", e.Seq, e.Event)
		}
	}
}

// compare compares the effects that happened with the record.
func (c *chaos) compare(s store.Backend, intents map[string]int, done map[string]bool) {
	c.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	under, unknown, commands := map[string]int{}, 0, 0
	for path, times := range c.effects {
		n := len(times)
		if ours(path) {
			continue // judged by what its client was told
		}
		if intents[path] != 1 || n != 1 {
			c.Errorf("%s: %d effects, %d intents", path, n, intents[path])
		}
		under[path[:strings.LastIndex(path, "/")+1]] += n
		if strings.HasPrefix(path, "/w") {
			commands++
		}
	}
	for path, n := range intents {
		if ours(path) {
			continue
		}
		if n != 1 {
			c.Errorf("%s: %d intents", path, n)
		}
		if !done[path] {
			unknown++
		} else if len(c.effects[path]) != 1 {
			c.Errorf("%s is recorded as done, and happened %d times", path, len(c.effects[path]))
		}
	}
	for prefix, most := range c.work.most {
		if under[prefix] > most {
			c.Errorf("%s: %d effects, at most %d were allowed", prefix, under[prefix], most)
		}
	}
	for prefix, id := range c.work.runs {
		if q, err := s.Queued(c.Context(), id); err != nil || q.Waits() || q.Ended.IsZero() {
			c.Errorf("the queued run %s has not ended: %+v, %v", prefix, q, err)
		}
	}
	c.Logf("%d effects, %d of them of commands on the worker, %d intents, %d with an unknown outcome or failed, %d sessions, %d answers, %d queued runs, %d checkpoints",
		len(c.effects), commands, len(intents), unknown, len(c.work.sessions), c.work.answers, len(c.work.runs), len(c.notes))
	if c.scene || os.Getenv("REMIT_CHAOS_ONLY") != "" {
		return
	}
	if len(c.effects) == 0 || c.far != nil && commands == 0 || c.work.answers == 0 {
		c.Error("no effects, commands or answers: the test shows nothing")
	}
}
