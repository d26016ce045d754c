package webui

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/doors/httpapi"
	"github.com/remitrun/remit/internal/service/policyreview"
	"github.com/remitrun/remit/internal/service/replays"
)

// policiesView is the editor of a policy, and the questions asked about it.
type policiesView struct {
	Policy, Tool, Args, Run string // as they were typed
	Checked                 *checked
	Explained               *policyreview.Explanation
	Judged                  *judged
	Learned                 *httpapi.LearnedPolicy
	Alert                   *httpapi.Problem
}

// judged has the decisions that a policy would change.
type judged struct {
	Runs, Calls, Skipped int
	Changed              []rejudged
}

// rejudged is a changed decision with its run.
type rejudged struct {
	replays.Rejudged
	Run string
}

const (
	judgedRuns    = "20" // the newest runs that are judged where none is named
	maxRejudged   = 200  // changed decisions that are shown
	startOfPolicy = "version: 1\nname: draft\nfiles:\n  read: {allow: [\"**\"]}\n"
)

func (s *Server) policies(x *exchange) (*page, error) {
	return policiesPage(policiesView{Policy: startOfPolicy, Args: "{}", Run: x.r.URL.Query().Get("run")}), nil
}

func policiesPage(v policiesView) *page {
	p := &page{Title: "Policies", Nav: "Policies", Still: true, Body: v}
	if v.Alert != nil {
		p.Status = v.Alert.Status
	}
	return p
}

// askPolicy answers a question about the policy in the editor. Nothing is changed.
func (s *Server) askPolicy(x *exchange) (string, *page, error) {
	form := x.r.PostForm
	v := policiesView{Policy: strings.ReplaceAll(form.Get("policy"), "\r\n", "\n"), Tool: strings.TrimSpace(form.Get("tool")), Args: form.Get("args"), Run: strings.TrimSpace(form.Get("run"))}
	var err error
	switch form.Get("do") {
	case "check":
		v.Checked, err = x.check(v.Policy)
	case "explain":
		var args map[string]any
		if args, err = argsOf(v.Args); err == nil {
			v.Explained = &policyreview.Explanation{}
			err = x.api.post("/v1/policies/explain", map[string]any{"policy": v.Policy, "tool": v.Tool, "args": args}, v.Explained)
		}
	case "judge":
		v.Judged, err = x.judge(v.Policy, v.Run)
	case "learn":
		if v.Learned, err = x.learn(v.Run); err == nil {
			v.Policy = v.Learned.Policy
		}
	default:
		return "", nil, fault.New(fault.Usage, "the form names no action for the policy").WithHint("choose one of its buttons")
	}
	if err != nil {
		v.Checked, v.Explained, v.Alert = nil, nil, problemOf(err)
		if v.Alert.Status == http.StatusUnauthorized {
			return "", nil, err
		}
	}
	return "", policiesPage(v), nil
}

// learn asks for the policy that runs need, named by their IDs.
func (x *exchange) learn(runs string) (*httpapi.LearnedPolicy, error) {
	ids := strings.FieldsFunc(runs, func(r rune) bool { return r == ',' || r == ' ' })
	if len(ids) == 0 {
		return nil, fault.New(fault.ArgsInvalid, "a policy is learned from runs").WithHint("put the ID of a run, or of several, into the field")
	}
	out := &httpapi.LearnedPolicy{}
	return out, x.api.post("/v1/policies/learn", map[string]any{"run_ids": ids}, out)
}

// judge decides the calls of a run under a policy, or those of the newest runs.
func (x *exchange) judge(policy, run string) (*judged, error) {
	ids := []string{run}
	if run == "" {
		list, _, err := x.runs(url.Values{"limit": {judgedRuns}, "mode": {"run"}})
		if err != nil {
			return nil, err
		}
		ids = nil
		for _, r := range list {
			ids = append(ids, r.ID.String())
		}
	}
	out := &judged{}
	for _, id := range ids {
		var d httpapi.DryRun
		err := x.api.post("/v1/policies/dry-run", map[string]any{"policy": policy, "run_id": id}, &d)
		if p := (*httpapi.Problem)(nil); run == "" && errors.As(err, &p) && p.Status == http.StatusConflict {
			out.Skipped++ // the record of the run cannot be judged
			continue
		}
		if err != nil {
			return nil, err
		}
		out.Runs, out.Calls = out.Runs+1, out.Calls+d.Judged
		for _, c := range d.Changed {
			out.Changed = append(out.Changed, rejudged{c, id})
		}
	}
	return out, nil
}

// Shown are the first changed decisions.
func (j judged) Shown() []rejudged { return j.Changed[:min(len(j.Changed), maxRejudged)] }
