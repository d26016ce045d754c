package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/base/fault"
)

// sample puts IDs into an operation's path.
func sample(path, agentID, sessionID string) string {
	return strings.NewReplacer("{agent_id}", agentID, "{session_id}", sessionID, "{path}", "notes.md", "{tool_id}", "time.now", "{capability_id}", "current_time",
		"{run_id}", someID, "{grant_id}", someID, "{approval_id}", someID).Replace(path)
}

// Each operation, with no token, a wrong one, a revoked one, one that may nothing,
// and one that may everything else.
func TestEveryOperationIsGuarded(t *testing.T) {
	w := newWorld()
	s := server(t, w)
	var actions []string
	for _, o := range s.Operations() {
		actions = append(actions, o.Action)
	}
	w.caller("gone", "user:gone", "*")
	w.revoke("gone")
	w.caller("nothing", "agent:nothing")
	agentID, sessionID := agentAndSession(t, s, "admin")
	for _, o := range s.Operations() {
		if o.Open {
			wantStatus(t, ask{method: o.Method, path: o.Path}.of(s), 200)
			continue
		}
		a := ask{method: o.Method, path: sample(o.Path, agentID, sessionID), body: "{}"}
		if o.Method == http.MethodGet || o.Method == http.MethodDelete {
			a.body = ""
		}
		for token, want := range map[string]string{"": "E6001", "wrong": "E6001", "gone": "E6004"} {
			rec := a.as(token).of(s)
			if p := wantStatus(t, rec, http.StatusUnauthorized); p["code"] != want {
				t.Errorf("%s with %q: %v", o.ID, token, p)
			}
			if !strings.HasPrefix(rec.Header().Get("WWW-Authenticate"), "Bearer ") {
				t.Errorf("%s with %q: no challenge", o.ID, token)
			}
		}
		if o.Action == "" {
			continue
		}
		var rest []string
		for _, x := range actions {
			if x != o.Action {
				rest = append(rest, x)
			}
		}
		w.caller("rest", "agent:rest", rest...)
		for _, token := range []string{"nothing", "rest"} {
			if p := wantStatus(t, a.as(token).of(s), http.StatusForbidden); p["code"] != "E1001" || !strings.Contains(p["detail"].(string), o.Action) {
				t.Errorf("%s with %q: %v", o.ID, token, p)
			}
		}
	}
}

func TestOddAuthorizationHeaders(t *testing.T) {
	s := server(t, newWorld())
	for _, h := range []string{"admin", "Basic admin", "Bearer", "Bearer ", "bearer\tadmin", "Token admin"} {
		wantStatus(t, ask{method: "GET", path: "/v1/agents"}.with("Authorization", h).of(s), 401)
	}
	wantStatus(t, ask{method: "GET", path: "/v1/agents"}.with("Authorization", "bearer  admin").of(s), 200)
}

// Where the ledger cannot say whether a grant holds, nobody is let in, and nobody is
// told that the grant is bad.
func TestAGateThatCannotTellLetsNobodyIn(t *testing.T) {
	w := newWorld()
	s := server(t, w)
	w.gone["admin"] = fault.New(fault.StoreFailed, "/var/remit.db: no such file")
	if p := wantStatus(t, get("/v1/agents").of(s), 503); p["code"] != "E5001" || strings.Contains(p["detail"].(string), "remit.db") {
		t.Errorf("it says %v", p)
	}
}
