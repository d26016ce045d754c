package webui_test

import (
	"strings"
	"testing"
)

func TestAChainLeavesOutWhatCannotBeRead(t *testing.T) {
	s, a, _ := newServer(t)
	path := "/ui/runs/" + runID + "/calls/3"
	has := func(texts ...string) {
		t.Helper()
		body := ask(s, path, nil).Body.String()
		for _, want := range texts {
			if want, not := strings.CutPrefix(want, "!"); strings.Contains(body, want) == not {
				t.Errorf("with %v: %q: %s", a.fail, want, body)
			}
		}
	}
	has(`/ui/agents/`+agentID, `/ui/capabilities/current_time`, `/ui/tools/current_time.get_current_time`, "root grant")
	forbidden := `{"status":403,"title":"Forbidden","code":"E1001","detail":"denied"}`
	a.fail["/v1/agents/"+agentID+"/effective"] = forbidden
	has(`/ui/agents/`+agentID, "!/ui/capabilities/current_time")
	a.fail["/v1/agents/"+agentID] = forbidden
	has("!/ui/agents/"+agentID, `/ui/tools/current_time.get_current_time`)
	a.fail["/v1/grants/"+grantID] = forbidden
	has(`/ui/tools/current_time.get_current_time`, "!root grant")
}
