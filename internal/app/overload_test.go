package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/app"
)

// answered is the response to one client at overload.
type answered struct {
	status int
	retry  string
	run    string // of an acknowledged call
	took   time.Duration
}

// invokeOnce has one client call a tool.
func (s *service) invokeOnce(client *http.Client) (a answered, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/tools/time.now/invoke", strings.NewReader("{}"))
	if err != nil {
		return a, err
	}
	r.Header.Set("Authorization", "Bearer "+s.token)
	r.Header.Set("Content-Type", "application/json")
	began := time.Now()
	res, err := client.Do(r)
	if err != nil {
		return a, err
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return a, err
	}
	var body struct {
		Run string `json:"run_id"`
	}
	if err := json.Unmarshal(b, &body); err != nil {
		return a, fmt.Errorf("%d %s: %w", res.StatusCode, b, err)
	}
	return answered{res.StatusCode, res.Header.Get("Retry-After"), body.Run, time.Since(began)}, nil
}

// Many clients call at once while many sessions are open. Each call is acknowledged, and then is
// in the record, or refused with the time after which to come again. The record has no call that
// was refused.
func TestOverloadLosesNothing(t *testing.T) {
	sessions, clients, soak := 20, 60, os.Getenv("REMIT_SOAK") != ""
	if soak {
		sessions, clients = 5000, 2000
	}
	s := newService(t, func(q *app.ServeRequest) {
		if !soak {
			q.Limits.Requests = 8
		}
	})
	a := s.must(201, "POST", "/v1/agents", `{"name":"Open","model":"scripted:clock.yaml","capabilities":["current_time"]}`)
	for range sessions {
		s.must(201, "POST", "/v1/sessions", fmt.Sprintf(`{"agent_id":%q}`, a["id"]))
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	defer client.CloseIdleConnections()
	all := make([]answered, clients)
	var calls sync.WaitGroup
	begin := make(chan struct{})
	for i := range clients {
		calls.Go(func() {
			<-begin
			var err error
			if all[i], err = s.invokeOnce(client); err != nil {
				t.Errorf("client %d: %v", i, err)
			}
		})
	}
	close(begin)
	calls.Wait()
	s.judge(all, soak)
}

// judge checks the responses to all clients against the record.
func (s *service) judge(all []answered, soak bool) {
	s.t.Helper()
	var took []time.Duration
	acknowledged := 0
	for i, a := range all {
		took = append(took, a.took)
		switch {
		case a.status == http.StatusOK:
			acknowledged++
			if run := s.must(200, "GET", "/v1/runs/"+a.run, ""); run["status"] != "completed" {
				s.t.Errorf("client %d: its acknowledged call is recorded as %v", i, run["status"])
			}
		case a.status != http.StatusServiceUnavailable && a.status != http.StatusTooManyRequests || a.retry == "":
			s.t.Errorf("client %d: %d with Retry-After %q", i, a.status, a.retry)
		}
	}
	recorded, cursor := 0, ""
	for {
		m := s.must(200, "GET", "/v1/runs?tool=time.now&limit=500"+cursor, "")
		recorded += len(m["items"].([]any))
		next, _ := m["next"].(string)
		if next == "" {
			break
		}
		cursor = "&cursor=" + next
	}
	if acknowledged == 0 || recorded != acknowledged {
		s.t.Errorf("%d calls were acknowledged, and %d are recorded", acknowledged, recorded)
	}
	slices.Sort(took)
	p99 := took[len(took)*99/100]
	s.t.Logf("%d clients: %d acknowledged, %d refused, p99 %v", len(all), acknowledged, len(all)-acknowledged, p99)
	if soak && (acknowledged == len(all) || p99 > 30*time.Second) {
		s.t.Errorf("%d of %d were acknowledged, p99 %v; want some refused, and at most 30 s", acknowledged, len(all), p99)
	}
}

// A request's work does not grow with the number of open sessions, each of which is a run.
func TestOpenSessionsCostARequestNothing(t *testing.T) {
	s := newService(t)
	a := s.must(201, "POST", "/v1/agents", `{"name":"Open","model":"scripted:clock.yaml","capabilities":["current_time"]}`)
	begin := func(sessions int) {
		for range sessions {
			s.must(201, "POST", "/v1/sessions", fmt.Sprintf(`{"agent_id":%q}`, a["id"]))
		}
	}
	// allocations is the number of a request's, the least of some rounds: other parts of
	// the service allocate meanwhile.
	allocations := func() uint64 {
		const rounds, each = 5, 10
		least := uint64(math.MaxUint64)
		for range rounds {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range each {
				s.must(200, "POST", "/v1/tools/time.now/invoke", "{}")
			}
			runtime.ReadMemStats(&after)
			least = min(least, (after.Mallocs-before.Mallocs)/each)
		}
		return least
	}
	begin(2)
	few := allocations()
	const more = 200
	begin(more)
	many := allocations()
	t.Logf("%d allocations with 2 open sessions, %d with %d more", few, many, more)
	if many > few+more {
		t.Errorf("a request makes %d allocations with 2 open sessions, and %d with %d more", few, many, more)
	}
}
