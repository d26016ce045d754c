package webui

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/doors/httpapi"
)

// sessionLine is a session in a list.
type sessionLine struct {
	agent.Session
	AgentName string // "": unknown
	Now       time.Time
}

// Name is the session's title, or a word for one without.
func (s sessionLine) Name() string {
	if s.Title == "" {
		return "session " + id8(s.ID)
	}
	return s.Title
}

// Money is what the session's model calls cost; "": nothing is known.
func (s sessionLine) Money() string { return dollars(s.Usage.Money) }

// Tokens is the number of tokens of all model calls.
func (s sessionLine) Tokens() string { return grouped(s.Usage.Tokens()) }

// agentNames gives the names of agents by their IDs, of the newest ones. A grant may not
// allow to read them: then there are none.
func (x *exchange) agentNames() map[string]string {
	names := map[string]string{}
	var list httpapi.AgentList
	if err := x.api.get("/v1/agents", url.Values{"limit": {"500"}}, &list); err == nil {
		for _, a := range list.Items {
			names[a.ID.String()] = a.Name
		}
	}
	return names
}

// sessionsView lists sessions.
type sessionsView struct {
	Filters []filter
	Agent   string // ID of the agent whose sessions are listed; "": of all
	Of      string // its name
	Items   []sessionLine
	Next    string
}

// sessionFilters are the selections of sessions by name, as the API's status.
var sessionFilters = []struct{ name, status string }{
	{"All", ""}, {"Working", "working"}, {"Waiting", "waiting"}, {"Paused", "paused"}, {"Failed", "failed"},
}

func (s *Server) sessions(x *exchange) (*page, error) {
	asked := x.r.URL.Query()
	query, link := url.Values{"limit": {"50"}}, url.Values{}
	v := sessionsView{Agent: asked.Get("agent")}
	if v.Agent != "" {
		query.Set("agent_id", v.Agent)
		link.Set("agent", v.Agent)
	}
	if c := asked.Get("cursor"); c != "" {
		query.Set("cursor", c)
	}
	state := asked.Get("state")
	if state != "" {
		query.Set("status", state)
	}
	for _, f := range sessionFilters {
		to := url.Values{}
		if v.Agent != "" {
			to.Set("agent", v.Agent)
		}
		if f.status != "" {
			to.Set("state", f.status)
		}
		v.Filters = append(v.Filters, filter{f.name, pathWith("/ui/sessions", to), f.status == state})
	}
	var list httpapi.SessionList
	if err := x.api.get("/v1/sessions", query, &list); err != nil {
		return nil, err
	}
	names := x.agentNames()
	v.Of = names[v.Agent]
	for _, one := range list.Items {
		v.Items = append(v.Items, sessionLine{one, names[one.Agent.String()], x.now})
	}
	if list.Next != "" {
		asked.Set("cursor", list.Next)
		v.Next = pathWith("/ui/sessions", asked)
	}
	return &page{Title: "Sessions", Nav: "Sessions", Topics: []string{"sessions"}, Body: v}, nil
}

// newSessionView is the form for a session, as it was filled in.
type newSessionView struct {
	Agents []agent.Agent
	Form   url.Values
	Alert  *httpapi.Problem
}

// Of is the typed text of a field.
func (v newSessionView) Of(field string) string { return v.Form.Get(field) }

func (s *Server) newSession(x *exchange) (*page, error) {
	return x.newSessionPage(newSessionView{Form: x.r.URL.Query()})
}

func (x *exchange) newSessionPage(v newSessionView) (*page, error) {
	var list httpapi.AgentList
	if err := x.api.get("/v1/agents", url.Values{"limit": {"200"}}, &list); err != nil {
		return nil, err
	}
	for _, a := range list.Items {
		if a.Status == "active" {
			v.Agents = append(v.Agents, a)
		}
	}
	p := &page{Title: "New session", Nav: "Sessions", Still: true, Body: v}
	if v.Alert != nil {
		p.Status = v.Alert.Status
	}
	return p, nil
}

// startSession makes a session, and says the first message in it.
func (s *Server) startSession(x *exchange) (string, *page, error) {
	form := x.r.PostForm
	var made agent.Session
	err := error(fault.New(fault.Usage, "no agent is chosen").WithHint("choose the agent to talk to"))
	if form.Get("agent") != "" {
		err = x.api.post("/v1/sessions", map[string]string{"agent_id": form.Get("agent"), "title": strings.TrimSpace(form.Get("title"))}, &made)
	}
	if err != nil {
		if signedOut(err) {
			return "", nil, err
		}
		p, perr := x.newSessionPage(newSessionView{Form: form, Alert: problemOf(err)})
		return "", p, perr
	}
	if text := messageOf(form); text != "" {
		return s.say(x, made.ID.String(), text)
	}
	return "/ui/sessions/" + made.ID.String(), nil, nil
}

// signedOut reports whether an error of the API says that the grant can no longer be used.
func signedOut(err error) bool { return problemOf(err).Status == http.StatusUnauthorized }

// messageOf reads a message of a form. Browsers end its lines with \r\n.
func messageOf(form url.Values) string {
	return strings.TrimSpace(strings.ReplaceAll(form.Get("content"), "\r\n", "\n"))
}
