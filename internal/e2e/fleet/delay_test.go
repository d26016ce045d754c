package fleet_test

import (
	"encoding/json"
	"fmt"
	"testing"
)

// TestADelayedRunStartsOnceWhateverTheClock: the clock of the database jumps ahead to the time of a delayed
// run, and is set back behind the time at which another one was queued. Two nodes look at the queue. Each
// run starts, and its effect happens once.
func TestADelayedRunStartsOnceWhateverTheClock(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "- {text: Done.}\n")
	a, b := f.start(), f.start()
	schema := schemaIn(t, f.db.Schema(t, f.dir))
	delayed := func(name string, seconds int) (path string) {
		plan := fmt.Sprintf("name: %s\nsteps:\n  - {tool: http.request, args: {method: POST, url: %q}}\n", name, f.world+"/"+name)
		body, err := json.Marshal(map[string]any{"plan": plan, "queue": map[string]any{"delay": seconds}})
		if err != nil {
			t.Fatal(err)
		}
		return "/v1/queue/" + fmt.Sprint(a.must(202, "POST", "/v1/runs", string(body))["run_id"])
	}
	for _, c := range []struct {
		name, by string
		seconds  int
	}{{"ahead", "1 hour", 3600}, {"back", "-1 hour", 1}} {
		path := delayed(c.name, c.seconds)
		if got := b.must(200, "GET", path, ""); c.seconds > 60 && got["status"] != "scheduled" {
			t.Errorf("before the clock moves: %v", got)
		}
		if err := execute(f.db.Made(f.dir), "DROP SCHEMA IF EXISTS "+clockSchema(schema)+" CASCADE;"+clockOf(schema, c.by)); err != nil {
			t.Fatal(err)
		}
		var status int
		var got map[string]any
		f.until("the end of the delayed run", func() bool { // a clock that is set back empties the buckets of requests
			status, got = b.ask("GET", path, "")
			return status == 200 && got["ended_at"] != nil
		})
		if got["status"] != "completed" || f.happened("/"+c.name) != 1 {
			t.Errorf("%d effects of %v", f.happened("/"+c.name), got)
		}
	}
	if a.ended() || b.ended() {
		t.Errorf("the nodes have ended: %q, %q", a.last, b.last)
	}
	verified(t, f)
}
