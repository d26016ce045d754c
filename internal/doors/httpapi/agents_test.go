package httpapi_test

import (
	"fmt"
	"testing"
)

func TestAnAgentIsDefinedToBeInQuarantine(t *testing.T) {
	s := server(t, newWorld())
	path := "/v1/agents/" + wantStatus(t, post("/v1/agents", `{"name":"Reader","quarantine":true,"answer":{"type":"object"}}`).of(s), 201)["id"].(string)
	for _, step := range []struct{ patch, want string }{
		{`{"name":"Sorter"}`, "true map[type:object]"},
		{`{"answer":{"type":"object","properties":{}}}`, "true map[properties:map[] type:object]"},
		{`{"quarantine":false}`, "<nil> <nil>"},
	} {
		m := wantStatus(t, ask{method: "PATCH", path: path, token: "admin", body: step.patch}.of(s), 200)
		if got := fmt.Sprint(m["quarantine"], m["answer"]); got != step.want {
			t.Errorf("after %s: %s, want %s", step.patch, got, step.want)
		}
	}
}
