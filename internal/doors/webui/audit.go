package webui

import (
	"net/url"

	"github.com/remitrun/remit/internal/doors/httpapi"
	"github.com/remitrun/remit/internal/service/history"
)

// auditView lists events of the record.
type auditView struct {
	Event, Tool    string
	Denied, Failed bool
	Names          []string // of events
	Items          []auditLine
	Next           string
}

// auditLine is an event in the list.
type auditLine struct{ history.AuditEvent }

// About says what the event concerns.
func (e auditLine) About() string {
	switch {
	case e.Tool != "":
		return string(e.Tool)
	case e.Action != "":
		if e.Target != "" {
			return e.Action + " " + e.Target
		}
		return e.Action
	}
	return ""
}

func (s *Server) audit(x *exchange) (*page, error) {
	asked := x.r.URL.Query()
	v := auditView{Event: asked.Get("event"), Tool: asked.Get("tool"), Denied: asked.Get("denied") != "", Failed: asked.Get("failed") != "", Names: history.EventNames()}
	query := url.Values{"limit": {"100"}}
	for _, name := range []string{"event", "tool", "cursor"} {
		if text := asked.Get(name); text != "" {
			query.Set(name, text)
		}
	}
	for name, on := range map[string]bool{"denied": v.Denied, "failed": v.Failed} {
		if on {
			query.Set(name, "true")
		}
	}
	var list httpapi.AuditList
	if err := x.api.get("/v1/audit", query, &list); err != nil {
		return nil, err
	}
	for _, e := range list.Items {
		v.Items = append(v.Items, auditLine{e})
	}
	if list.Next != "" {
		asked.Set("cursor", list.Next)
		v.Next = pathWith("/ui/audit", asked)
	}
	return &page{Title: "Audit", Nav: "Audit", Topics: []string{"record"}, Body: v}, nil
}
