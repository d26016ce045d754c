package webui

import (
	"net/url"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/doors/httpapi"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/queue"
)

// queueLine is a queued run in a list.
type queueLine struct {
	store.QueuedRun
	Now time.Time
}

// Title is the run's name, or a word for one without.
func (q queueLine) Title() string {
	if q.Name == "" {
		return "run " + id8(q.ID)
	}
	return q.Name
}

// Begun reports whether the run has a record of its own.
func (q queueLine) Begun() bool { return !q.Started.IsZero() }

// Live reports whether the run can be cancelled.
func (q queueLine) Live() bool {
	return q.Status == "waiting" || q.Status == "scheduled" || q.Status == "running" || q.Dead()
}

// Dead reports whether the run can be queued again.
func (q queueLine) Dead() bool { return q.Status == "dead" }

// Time is when the run ended, or started, or is due.
func (q queueLine) Time() time.Time {
	switch {
	case !q.Ended.IsZero():
		return q.Ended
	case q.Begun():
		return q.Started
	}
	return q.Due
}

// queueView lists queued runs.
type queueView struct {
	queue.State
	Filters []filter
	Items   []queueLine
	Next    string
	Alert   *httpapi.Problem
}

// Addressee is the session that a queued message is for; "": it is a plan.
func (q queueLine) Addressee() string { return addressee(q.Session) }

func addressee(session uuid.UUID) string {
	if session == uuid.Nil {
		return ""
	}
	return session.String()
}

func (s *Server) queue(x *exchange) (*page, error) { return s.queuePage(x, queueView{}) }

func (s *Server) queuePage(x *exchange, v queueView) (*page, error) {
	asked := x.r.URL.Query()
	state := asked.Get("state")
	ended, dead := state == "ended", state == "dead"
	v.Filters = []filter{{"Waiting and running", "/ui/queue", !ended && !dead}, {"Ended", "/ui/queue?state=ended", ended}, {"Dead", "/ui/queue?state=dead", dead}}
	query := url.Values{"limit": {"100"}}
	if ended || dead {
		query.Set(state, "true")
	}
	if c := asked.Get("cursor"); c != "" {
		query.Set("cursor", c)
	}
	var list httpapi.QueueList
	if err := x.api.get("/v1/queue", query, &list); err != nil {
		return nil, err
	}
	v.State = list.State
	for _, q := range list.Items {
		v.Items = append(v.Items, queueLine{q, x.now})
	}
	if list.Next != "" {
		asked.Set("cursor", list.Next)
		v.Next = pathWith("/ui/queue", asked)
	}
	p := &page{Title: "Queue", Nav: "Runs", Topics: []string{"runs"}, Body: v}
	if v.Alert != nil {
		p.Status = v.Alert.Status
	}
	return p, nil
}

// inQueue cancels a queued run or queues it again, or pauses or resumes the queue.
func (s *Server) inQueue(x *exchange) (string, *page, error) {
	path := ""
	switch do := x.r.PostForm.Get("do"); do {
	case "pause", "resume":
		path = "/v1/queue/" + do
	case "cancel", "requeue":
		id, err := uuid.Parse(x.r.PostForm.Get("run"))
		if err != nil {
			return "", nil, fault.New(fault.Usage, "the form does not name a queued run")
		}
		path = "/v1/queue/" + id.String() + "/" + do
	default:
		return "", nil, fault.New(fault.Usage, "%q is not an action of the queue", do)
	}
	err := x.api.post(path, nil, nil)
	switch {
	case err == nil:
		return "/ui/queue", nil, nil
	case signedOut(err):
		return "", nil, err
	}
	p, err := s.queuePage(x, queueView{Alert: problemOf(err)})
	return "", p, err
}
