package webui

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/doors/httpapi"
)

// agentsView lists agents.
type agentsView struct {
	Items []agent.Agent
	Next  string
}

func (s *Server) agents(x *exchange) (*page, error) {
	query := url.Values{"limit": {"50"}}
	if c := x.r.URL.Query().Get("cursor"); c != "" {
		query.Set("cursor", c)
	}
	var list httpapi.AgentList
	if err := x.api.get("/v1/agents", query, &list); err != nil {
		return nil, err
	}
	v := agentsView{Items: list.Items}
	if list.Next != "" {
		v.Next = pathWith("/ui/agents", url.Values{"cursor": {list.Next}})
	}
	return &page{Title: "Agents", Nav: "Agents", Topics: []string{"agents"}, Body: v}, nil
}

// agentView is an agent: its definition, and its effective settings.
type agentView struct {
	agent.Agent
	Form      url.Values // the fields, as they are or as they were typed
	Rows      []capabilityRow
	Addable   []httpapi.Capability
	Effective agent.Effective
	Preview   bool       // Effective is of the form as it is, which is not saved
	Conflict  []conflict // somebody else's changes meanwhile, beside the typed values
	Alert     *httpapi.Problem
}

// Of is the text of a field.
func (v agentView) Of(field string) string { return v.Form.Get(field) }

// capabilityRow is a capability of an agent.
type capabilityRow struct {
	agent.CapabilityRef
	Name        string // "": unknown
	First, Last bool
}

// conflict is a field that has another text now than the form that changes it.
type conflict struct {
	Field string
	Diff  []diffLine // from the text as it is to the one that was typed
}

// formOf gives the fields of an agent as a form has them.
func formOf(a agent.Agent) url.Values {
	number := func(n int64) string {
		if n == 0 {
			return ""
		}
		return strconv.FormatInt(n, 10)
	}
	return url.Values{
		"name": {a.Name}, "model": {a.Model}, "system_prompt": {a.SystemPrompt}, "policy": {a.Policy}, "version": {strconv.Itoa(a.Version)},
		"steps": {number(int64(a.Limits.Steps))}, "max_tokens": {number(a.Limits.MaxTokens)}, "output": {number(int64(a.Limits.Output))}, "context": {number(a.Limits.Context)},
	}
}

// agentFields are the fields of the form that changes an agent, by their names there.
var agentFields = []string{"name", "model", "system_prompt", "policy", "steps", "max_tokens", "output", "context"}

// agentOf reads the fields of an agent from a form.
func agentOf(form url.Values) (map[string]any, error) {
	text := func(field string) string { return strings.ReplaceAll(form.Get(field), "\r\n", "\n") }
	limits := map[string]int64{}
	for _, field := range agentFields[4:] {
		typed := strings.TrimSpace(form.Get(field))
		if typed == "" {
			continue
		}
		n, err := strconv.ParseInt(typed, 10, 64)
		if err != nil || n < 0 {
			return nil, fault.New(fault.ArgsInvalid, "%.40q is not a valid limit", typed).In("limits." + field).WithHint("leave the field empty for the default")
		}
		limits[field] = n
	}
	return map[string]any{
		"name": strings.TrimSpace(text("name")), "model": strings.TrimSpace(text("model")), "system_prompt": text("system_prompt"), "policy": text("policy"), "limits": limits,
	}, nil
}

func (s *Server) newAgent(*exchange) (*page, error) {
	return newAgentPage(agentView{Form: url.Values{}}), nil
}

func newAgentPage(v agentView) *page {
	p := &page{Title: "New agent", Nav: "Agents", Still: true, Body: v}
	if v.Alert != nil {
		p.Status = v.Alert.Status
	}
	return p
}

// createAgent makes an agent of a form, or shows what it would come to.
func (s *Server) createAgent(x *exchange) (string, *page, error) {
	form := x.r.PostForm
	v := agentView{Form: form, Preview: form.Get("do") == "preview"}
	fields, err := agentOf(form)
	if err == nil && v.Preview {
		if err = x.api.post("/v1/agents/effective", fields, &v.Effective); err == nil {
			return "", newAgentPage(v), nil
		}
	}
	var made agent.Agent
	if err == nil {
		err = x.api.post("/v1/agents", fields, &made)
	}
	if err == nil {
		return "/ui/agents/" + made.ID.String(), nil, nil
	}
	if signedOut(err) {
		return "", nil, err
	}
	return "", newAgentPage(agentView{Form: form, Alert: problemOf(err)}), nil
}

func (s *Server) agent(x *exchange) (*page, error) { return x.agentPage(nil, nil) }

// agentPage makes the page of an agent. Alert says why the form that was typed could not be
// saved. Without an alert, the page shows what that form would come to.
func (x *exchange) agentPage(alert *httpapi.Problem, typed url.Values) (*page, error) {
	v := agentView{Alert: alert}
	path := "/v1/agents/" + url.PathEscape(x.r.PathValue("id"))
	if err := x.api.get(path, nil, &v.Agent); err != nil {
		return nil, err
	}
	if err := x.api.get(path+"/effective", nil, &v.Effective); err != nil {
		return nil, err
	}
	now := formOf(v.Agent)
	if v.Form = now; typed != nil {
		v.Form, v.Preview = typed, alert == nil
		if v.Preview {
			alert = v.preview(x)
			v.Alert = alert
		}
		if alert != nil && alert.Status == http.StatusPreconditionFailed {
			v.Conflict = conflictsOf(now, typed)
			v.Form.Set("version", now.Get("version"))
		}
	}
	known := map[string]httpapi.Capability{}
	var list httpapi.CapabilityList
	if err := x.api.get("/v1/capabilities", nil, &list); err == nil { // a grant may not allow it; the page is still right
		for _, c := range list.Items {
			known[c.ID] = c
			if c.Status == "available" && !slices.ContainsFunc(v.Capabilities, func(r agent.CapabilityRef) bool { return r.Ref == c.ID }) {
				v.Addable = append(v.Addable, c)
			}
		}
	}
	for i, r := range v.Capabilities {
		v.Rows = append(v.Rows, capabilityRow{r, known[r.Ref].Name, i == 0, i == len(v.Capabilities)-1})
	}
	p := &page{Title: v.Name, Nav: "Agents", Still: true, Body: v} // a form that is filled in keeps the version that it was shown
	if alert != nil {
		p.Status = alert.Status
	}
	return p, nil
}

// preview finds out what the form would come to with the capabilities that the agent has.
func (v *agentView) preview(x *exchange) *httpapi.Problem {
	fields, err := agentOf(v.Form)
	if err == nil {
		fields["capabilities"] = v.Capabilities
		if len(v.Commitments) > 0 {
			fields["commitments"] = v.Commitments
		}
		if v.Quarantine {
			fields["quarantine"], fields["answer"] = true, v.Answer
		}
		err = x.api.post("/v1/agents/effective", fields, &v.Effective)
	}
	if v.Preview = err == nil; v.Preview {
		return nil
	}
	return problemOf(err)
}

// conflictsOf lists the fields whose saved and typed values differ.
func conflictsOf(now, typed url.Values) (out []conflict) {
	for _, field := range agentFields {
		was, next := now.Get(field), strings.ReplaceAll(typed.Get(field), "\r\n", "\n")
		if was != next {
			out = append(out, conflict{strings.ReplaceAll(field, "_", " "), differences(was, next)})
		}
	}
	return out
}

// changeAgent carries out the action of a form on an agent's page.
func (s *Server) changeAgent(x *exchange) (string, *page, error) {
	form, id := x.r.PostForm, x.r.PathValue("id")
	here := "/ui/agents/" + url.PathEscape(id)
	var typed url.Values
	var change map[string]any
	var err error
	switch do := form.Get("do"); do {
	case "preview":
		p, err := x.agentPage(nil, form)
		return "", p, err
	case "save":
		typed = form
		change, err = agentOf(form)
	case "add", "up", "down", "remove":
		if do == "add" && x.needsConfig(form.Get("ref")) {
			return "/ui/agents/" + url.PathEscape(id) + "/capabilities/" + url.PathEscape(form.Get("ref")) + "?add=1", nil, nil
		}
		change, err = x.arranged(id, do, form)
		here += "#capabilities"
	case "delete":
		if err = x.api.do(http.MethodDelete, "/v1/agents/"+url.PathEscape(id), nil, nil, nil, nil); err == nil {
			return "/ui/agents", nil, nil
		}
	default:
		err = fault.New(fault.Usage, "the form names no action").WithHint("use one of its buttons")
	}
	if err == nil {
		err = x.patchAgent(id, form.Get("version"), change)
	}
	switch {
	case err == nil:
		return here, nil, nil
	case signedOut(err):
		return "", nil, err
	}
	p, perr := x.agentPage(problemOf(err), typed)
	return "", p, perr
}

// needsConfig reports whether a capability cannot be had without a configuration.
func (x *exchange) needsConfig(ref string) bool {
	var c httpapi.CapabilityDetail
	if x.api.get("/v1/capabilities/"+url.PathEscape(ref), nil, &c) != nil {
		return false // adding it says why
	}
	return slices.ContainsFunc(fieldsOf(c.Config, nil), func(f configField) bool { return f.Required })
}

// patchAgent changes an agent, if it is at a version.
func (x *exchange) patchAgent(id, version string, change map[string]any) error {
	if _, err := strconv.Atoi(version); err != nil {
		return fault.New(fault.Usage, "the form does not say which version of the agent was shown").WithHint("open the agent again")
	}
	return x.api.do(http.MethodPatch, "/v1/agents/"+url.PathEscape(id), nil, http.Header{"If-Match": {`"v` + version + `"`}}, change, nil)
}

// arranged gives an agent's capabilities with one of them moved, removed or added.
func (x *exchange) arranged(id, do string, form url.Values) (map[string]any, error) {
	var a agent.Agent
	if err := x.api.get("/v1/agents/"+url.PathEscape(id), nil, &a); err != nil {
		return nil, err
	}
	list, ref := a.Capabilities, form.Get("ref")
	at := slices.IndexFunc(list, func(r agent.CapabilityRef) bool { return r.Ref == ref })
	switch {
	case do == "add" && ref != "":
		c := agent.CapabilityRef{Ref: ref}
		list = append(list, c)
	case at < 0:
		return nil, fault.New(fault.NotFound, "the agent does not have the capability %.100q", ref)
	case do == "remove":
		list = slices.Delete(list, at, at+1)
	case do == "up" && at > 0:
		list[at-1], list[at] = list[at], list[at-1]
	case do == "down" && at < len(list)-1:
		list[at+1], list[at] = list[at], list[at+1]
	}
	return map[string]any{"capabilities": list}, nil
}

// capabilitiesView lists capabilities by category.
type capabilitiesView struct {
	Groups []capabilityGroup
}

type capabilityGroup struct {
	Name  string
	Items []httpapi.Capability
}

func (s *Server) capabilities(x *exchange) (*page, error) {
	var list httpapi.CapabilityList
	if err := x.api.get("/v1/capabilities", nil, &list); err != nil {
		return nil, err
	}
	var v capabilitiesView
	for _, c := range list.Items {
		name := c.Category
		if name == "" {
			name = "Others"
		}
		i := slices.IndexFunc(v.Groups, func(g capabilityGroup) bool { return g.Name == name })
		if i < 0 {
			i = len(v.Groups)
			v.Groups = append(v.Groups, capabilityGroup{Name: name})
		}
		v.Groups[i].Items = append(v.Groups[i].Items, c)
	}
	slices.SortStableFunc(v.Groups, func(a, b capabilityGroup) int { return strings.Compare(a.Name, b.Name) })
	return &page{Title: "Capabilities", Nav: "Agents", Body: v}, nil
}

// capabilityView is one capability.
type capabilityView struct {
	httpapi.CapabilityDetail
	Fields []configField
}

func (s *Server) capability(x *exchange) (*page, error) {
	var v capabilityView
	if err := x.api.get("/v1/capabilities/"+url.PathEscape(x.r.PathValue("id")), nil, &v.CapabilityDetail); err != nil {
		return nil, err
	}
	v.Fields = fieldsOf(v.Config, nil)
	return &page{Title: v.Name, Nav: "Agents", Body: v}, nil
}

// compactJSON is JSON on one line; "": none.
func compactJSON(raw json.RawMessage) string {
	if len(raw) == 0 {
		return ""
	}
	return strings.Join(strings.Fields(string(raw)), " ")
}
