package webui

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/doors/httpapi"
)

// schedulesView lists the schedules.
type schedulesView struct {
	httpapi.ScheduleList
	Alert *httpapi.Problem
}

func (s *Server) schedules(x *exchange) (*page, error) { return s.schedulesPage(x, nil) }

func (s *Server) schedulesPage(x *exchange, alert *httpapi.Problem) (*page, error) {
	v := schedulesView{Alert: alert}
	if err := x.api.get("/v1/schedules", nil, &v.ScheduleList); err != nil {
		return nil, err
	}
	return withAlert(&page{Title: "Schedules", Nav: "Runs", Topics: []string{"runs"}, Body: v}, alert), nil
}

// withAlert gives a page the status of the problem that it shows.
func withAlert(p *page, alert *httpapi.Problem) *page {
	if alert != nil {
		p.Status = alert.Status
	}
	return p
}

// scheduleView is a schedule with the runs that it queued last.
type scheduleView struct {
	httpapi.ScheduleRuns
	Last  []queueLine
	Alert *httpapi.Problem
}

// Addressee is the session that it sends messages to; "": it has a plan.
func (v scheduleView) Addressee() string { return addressee(v.Session) }

func (s *Server) schedule(x *exchange) (*page, error) { return s.schedulePage(x, nil) }

func (s *Server) schedulePage(x *exchange, alert *httpapi.Problem) (*page, error) {
	v := scheduleView{Alert: alert}
	if err := x.api.get(x.schedulePath(), nil, &v.ScheduleRuns); err != nil {
		return nil, err
	}
	for _, q := range v.Runs {
		v.Last = append(v.Last, queueLine{q, x.now})
	}
	return withAlert(&page{Title: v.Name, Nav: "Runs", Topics: []string{"runs"}, Body: v}, alert), nil
}

func (x *exchange) schedulePath() string {
	return "/v1/schedules/" + url.PathEscape(x.r.PathValue("id"))
}

// inSchedule changes a schedule, queues a run of it, or removes it.
func (s *Server) inSchedule(x *exchange) (string, *page, error) {
	id, err := uuid.Parse(x.r.PathValue("id"))
	if err != nil {
		return "", nil, fault.New(fault.Usage, "the address does not name a schedule")
	}
	form, to := x.r.PostForm, "/ui/schedules/"+id.String()
	switch do := form.Get("do"); do {
	case "run":
		err = x.api.post(x.schedulePath()+"/run", nil, nil)
	case "pause", "resume":
		paused := do == "pause"
		err = x.api.do(http.MethodPatch, x.schedulePath(), nil, nil, httpapi.SchedulePatch{Paused: &paused}, nil)
	case "change":
		err = x.api.do(http.MethodPatch, x.schedulePath(), nil, nil, httpapi.SchedulePatch{Cron: strings.TrimSpace(form.Get("cron")), Zone: strings.TrimSpace(form.Get("zone"))}, nil)
	case "remove":
		to, err = "/ui/schedules", x.api.do(http.MethodDelete, x.schedulePath(), nil, nil, nil, nil)
	default:
		return "", nil, fault.New(fault.Usage, "%q is not an action of a schedule", do)
	}
	switch {
	case err == nil:
		return to, nil, nil
	case signedOut(err):
		return "", nil, err
	}
	p, err := s.schedulePage(x, problemOf(err))
	return "", p, err
}

// newScheduleView is the form for a schedule, as it was filled in.
type newScheduleView struct {
	Name, Cron, Zone, Plan string
	Changeset              bool
	Alert                  *httpapi.Problem
}

func (s *Server) newSchedule(*exchange) (*page, error) {
	return newSchedulePage(newScheduleView{Plan: startOfPlan, Cron: "0 3 * * *", Zone: "UTC"}), nil
}

func newSchedulePage(v newScheduleView) *page {
	return withAlert(&page{Title: "New schedule", Nav: "Runs", Still: true, Body: v}, v.Alert)
}

// addSchedule makes a schedule of the plan in a form.
func (s *Server) addSchedule(x *exchange) (string, *page, error) {
	form := x.r.PostForm
	v := newScheduleView{Name: strings.TrimSpace(form.Get("name")), Cron: strings.TrimSpace(form.Get("cron")), Zone: strings.TrimSpace(form.Get("zone")),
		Plan: strings.ReplaceAll(form.Get("plan"), "\r\n", "\n"), Changeset: form.Get("changeset") != ""}
	var made struct {
		ID uuid.UUID `json:"schedule_id"`
	}
	err := x.api.post("/v1/schedules", httpapi.NewSchedule{Name: v.Name, Cron: v.Cron, Zone: v.Zone, Plan: v.Plan, Changeset: v.Changeset}, &made)
	switch {
	case err == nil:
		return "/ui/schedules/" + made.ID.String(), nil, nil
	case signedOut(err):
		return "", nil, err
	}
	v.Alert = problemOf(err)
	return "", newSchedulePage(v), nil
}
