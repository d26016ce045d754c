package webui

import (
	"net/url"
	"slices"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/report"
	"github.com/remitrun/remit/internal/service/grants"
)

// chainLink is one thing that a call's authority comes from.
type chainLink struct {
	What, Name string
	Path       string // its page; "": it has none
}

// chainOf tells where a call's authority comes from: the agent, the capability that brings the
// tool, the tool, the rule that decided, and the grants up to the root. Parts that the browser may
// not read are left out.
func (x *exchange) chainOf(run ledger.Run, step report.Step) []chainLink {
	out := x.agentOf(run, step.Tool)
	out = append(out, chainLink{"tool", step.Tool, "/ui/tools/" + url.PathEscape(step.Tool)})
	if rule := step.Decision.Rule; rule != "" {
		out = append(out, chainLink{"rule", rule, ""})
	}
	var own grants.Described
	if run.Grant == uuid.Nil || x.api.get("/v1/grants/"+run.Grant.String(), nil, &own) != nil {
		return out
	}
	above, err := x.listAncestors(own)
	if err != nil {
		above = nil
	}
	line := append(above, x.grantLine(own, 0))
	for _, g := range slices.Backward(line) {
		what := "grant"
		if !g.HasParent() {
			what = "root grant"
		}
		out = append(out, chainLink{what, g.Holder, "/ui/grants/" + g.ID.String()})
	}
	return out
}

// agentOf gives the agent of a session's run, and its capability that brings a tool.
func (x *exchange) agentOf(run ledger.Run, tool string) []chainLink {
	if run.Session == uuid.Nil {
		return nil
	}
	var session struct {
		Agent string `json:"agent_id"`
	}
	if x.api.get("/v1/sessions/"+run.Session.String(), nil, &session) != nil || session.Agent == "" {
		return nil
	}
	path := "/v1/agents/" + url.PathEscape(session.Agent)
	var agent struct {
		Name string `json:"name"`
	}
	if x.api.get(path, nil, &agent) != nil {
		return nil
	}
	out := []chainLink{{"agent", agent.Name, "/ui/agents/" + url.PathEscape(session.Agent)}}
	var effective struct {
		Tools []struct {
			ID         string `json:"id"`
			Capability string `json:"capability"`
		} `json:"tools"`
	}
	if x.api.get(path+"/effective", nil, &effective) != nil {
		return out
	}
	for _, t := range effective.Tools {
		if t.ID == tool && t.Capability != "" {
			return append(out, chainLink{"capability", t.Capability, "/ui/capabilities/" + url.PathEscape(t.Capability)})
		}
	}
	return out
}
