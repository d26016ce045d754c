package webui

import (
	"encoding/json"
	"net/url"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/doors/httpapi"
	"github.com/remitrun/remit/internal/record/ledger"
)

const startOfPlan = "name: plan\nsteps:\n  - {id: now, tool: time.now}\n"

// newRunView is the form for a run of a plan, as it was filled in.
type newRunView struct {
	Plan, Inputs        string
	Changeset, Planning bool
	Alert               *httpapi.Problem
}

func (s *Server) newRun(*exchange) (*page, error) {
	return newRunPage(newRunView{Plan: startOfPlan, Inputs: "{}"}), nil
}

func newRunPage(v newRunView) *page {
	p := &page{Title: "Run a plan", Nav: "Runs", Still: true, Body: v}
	if v.Alert != nil {
		p.Status = v.Alert.Status
	}
	return p
}

// startRun starts a run of the plan in a form.
func (s *Server) startRun(x *exchange) (string, *page, error) {
	form := x.r.PostForm
	v := newRunView{Plan: strings.ReplaceAll(form.Get("plan"), "\r\n", "\n"), Inputs: form.Get("inputs"), Changeset: form.Get("changeset") != "", Planning: form.Get("planning") != ""}
	q := httpapi.NewRun{Plan: v.Plan, Changeset: v.Changeset, CallMode: httpapi.CallMode{Planning: v.Planning}}
	var err error
	if text := strings.TrimSpace(v.Inputs); text != "" {
		if json.Unmarshal([]byte(text), &q.Inputs) != nil || q.Inputs == nil {
			err = fault.New(fault.ArgsInvalid, "the inputs are not a JSON object").WithHint(`write them as {"name": "value"}`)
		}
	}
	var run ledger.Run
	if err == nil {
		err = x.api.post("/v1/runs", q, &run)
	}
	switch {
	case err == nil:
		return "/ui/runs/" + run.ID.String(), nil, nil
	case signedOut(err):
		return "", nil, err
	}
	v.Alert = problemOf(err)
	return "", newRunPage(v), nil
}

// inRun replays a run, or cancels it.
func (s *Server) inRun(x *exchange) (string, *page, error) {
	if x.r.PostForm.Get("do") != "cancel" {
		return s.replayRun(x)
	}
	err := x.api.post(x.runPath()+"/cancel", nil, nil)
	switch {
	case err == nil:
		return "/ui/runs/" + url.PathEscape(x.r.PathValue("id")), nil, nil
	case signedOut(err):
		return "", nil, err
	}
	p, err := s.runPage(x, runView{Alert: problemOf(err)})
	return "", p, err
}
