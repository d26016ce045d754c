package fleet_test

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
)

const actPath = "/v1/tools/http.request/invoke"

// act is the body of a call with an effect in an open run, and the headers of its request.
func (n *node) act(run, path, key string) (body string, headers map[string]string) {
	return fmt.Sprintf(`{"run_id":%q,"args":{"method":"POST","url":"%s%s"}}`, run, n.f.world, path),
		map[string]string{"Idempotency-Key": key, "Authorization": "Bearer " + n.f.token, "Content-Type": "application/json"}
}

// addTo adds a call with an effect to an open run at a node.
func (n *node) addTo(run, path, key string) (int, map[string]any) {
	body, headers := n.act(run, path, key)
	return n.request("POST", actPath, body, headers)
}

// leave makes the request of addTo, and gives no answer.
func (n *node) leave(run, path, key string) {
	body, headers := n.act(run, path, key)
	r, err := http.NewRequestWithContext(n.f.Context(), http.MethodPost, n.url+actPath, strings.NewReader(body))
	if err != nil {
		n.f.Error(err)
		return
	}
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	if res, err := http.DefaultClient.Do(r); err == nil {
		_ = res.Body.Close() // not read
	}
}

// TestAnOpenRunHasOneNode: another node makes no call of an open run. After kill -9 of its node the
// run is interrupted, and so is the call that was under way: no node makes it again.
func TestAnOpenRunHasOneNode(t *testing.T) {
	t.Parallel()
	f := newFleet(t, twoActs)
	a, b := f.start(), f.start()
	run := a.must(201, "POST", "/v1/runs", "{}")["run_id"].(string)
	if status, m := a.addTo(run, "/first", "k1"); status != 200 || m["call"] != 1.0 {
		t.Fatalf("%d %v", status, m)
	}
	for what, ask := range map[string]func() (int, map[string]any){
		"a call": func() (int, map[string]any) { return b.addTo(run, "/other", "k2") },
		"finish": func() (int, map[string]any) { return b.ask("POST", "/v1/runs/"+run+"/finish", "") },
		"cancel": func() (int, map[string]any) { return b.ask("POST", "/v1/runs/"+run+"/cancel", "") },
	} {
		if status, m := ask(); status != 409 || m["code"] != "E2010" || m["hint"] == nil {
			t.Errorf("%s at another node: %d %v", what, status, m)
		}
	}
	if status, m := b.addTo(run, "/first", "k1"); status != 200 || m["call"] != 1.0 || f.happened("/first") != 1 {
		t.Errorf("the first request again, at another node: %d %v", status, m)
	}
	f.hold("/held")
	left := make(chan struct{})
	go func() {
		defer close(left)
		a.leave(run, "/held", "k3")
	}()
	f.until("the held call", func() bool { return f.happened("/held") == 1 })
	a.kill()
	<-left
	f.until("the end of the run", func() bool {
		_, m := b.ask("GET", "/v1/runs/"+run, "")
		return m["status"] == "interrupted"
	})
	if status, m := b.addTo(run, "/after", "k4"); status != 409 || m["code"] != "E2010" || !strings.Contains(fmt.Sprint(m["detail"]), "interrupted") {
		t.Errorf("a call after the kill: %d %v", status, m)
	}
	if status, m := b.addTo(run, "/held", "k3"); status != 409 || m["code"] != "E2011" || m["outcome"] != "unknown" || m["run_id"] != run {
		t.Errorf("the held call again: %d %v", status, m)
	}
	if status, m := b.addTo(run, "/first", "k1"); status != 200 || m["call"] != 1.0 {
		t.Errorf("the first request again, after the kill: %d %v", status, m)
	}
	if n := f.happened("/other") + f.happened("/after"); f.happened("/held") != 1 || f.happened("/first") != 1 || n != 0 {
		t.Errorf("effects: %d held, %d first, %d others", f.happened("/held"), f.happened("/first"), n)
	}
	verified(t, f)
}

// TestAStoppedNodeLosesItsOpenRuns: a node that was stopped for longer than its lease makes no further
// call of its open runs, and says so.
func TestAStoppedNodeLosesItsOpenRuns(t *testing.T) {
	t.Parallel()
	f := newFleet(t, twoActs)
	a, b := f.start(), f.start()
	run := a.must(201, "POST", "/v1/runs", "{}")["run_id"].(string)
	a.signal(syscall.SIGSTOP)
	f.until("the end of the run", func() bool {
		_, m := b.ask("GET", "/v1/runs/"+run, "")
		return m["status"] == "interrupted"
	})
	a.signal(syscall.SIGCONT)
	a.isReady()
	if status, m := a.addTo(run, "/after", "k"); status != 409 || !strings.Contains(fmt.Sprint(m["detail"]), "interrupted") || f.happened("/after") != 0 {
		t.Errorf("%d %v", status, m)
	}
	again := a.must(201, "POST", "/v1/runs", "{}")["run_id"].(string)
	if status, m := a.addTo(again, "/again", "k5"); status != 200 {
		t.Errorf("another run: %d %v", status, m)
	}
	verified(t, f)
}
