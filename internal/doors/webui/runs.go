package webui

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/doors/httpapi"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/report"
	"github.com/remitrun/remit/internal/record/store"
)

// runLine is a run in a list.
type runLine struct {
	ledger.Run
	Now time.Time
}

// Title is the run's name, or a word for one without.
func (r runLine) Title() string {
	if r.Name == "" {
		return "run " + id8(r.ID)
	}
	return r.Name
}

// Conversation is the path of the session that the run belongs to; "": none.
func (r runLine) Conversation() string {
	if r.Session == uuid.Nil {
		return ""
	}
	return "/ui/sessions/" + r.Session.String()
}

// Lasted is how long the run took, or takes so far, in milliseconds.
func (r runLine) Lasted() float64 {
	end := r.Ended
	if end.IsZero() {
		end = r.Now
	}
	return float64(end.Sub(r.Started).Microseconds()) / 1000
}

// runs lists runs, newest first.
func (x *exchange) runs(query url.Values) ([]runLine, httpapi.RunList, error) {
	var list httpapi.RunList
	if err := x.api.get("/v1/runs", query, &list); err != nil {
		return nil, list, err
	}
	out := make([]runLine, len(list.Items))
	for i, r := range list.Items {
		out[i] = runLine{r, x.now}
	}
	return out, list, nil
}

// filter is a link that selects runs.
type filter struct {
	Name, Path string
	Here       bool
}

// runsView lists runs.
type runsView struct {
	Filters []filter
	Tool    string
	State   string
	Items   []runLine
	Stacks  []stack // their calls as a picture
	Next    string

	Unverified bool // some rows were not compared with the events
}

// runFilters are the selections of runs by name, as queries of the API.
var runFilters = []struct {
	name, key string
	query     url.Values
}{
	{"All", "", nil},
	{"Running", "running", url.Values{"status": {"running"}}},
	{"With refusals", "denied", url.Values{"denied": {"true"}}},
	{"With failures", "failed", url.Values{"failed": {"true"}}},
	{"Replays", "replays", url.Values{"mode": {"replay"}}},
}

func (s *Server) runs(x *exchange) (*page, error) {
	asked := x.r.URL.Query()
	v := runsView{Tool: asked.Get("tool"), State: asked.Get("state")}
	query := url.Values{"limit": {"50"}}
	for _, f := range runFilters {
		here := f.key == v.State
		link := url.Values{}
		if f.key != "" {
			link.Set("state", f.key)
		}
		if v.Tool != "" {
			link.Set("tool", v.Tool)
		}
		v.Filters = append(v.Filters, filter{f.name, pathWith("/ui/runs", link), here})
		if here {
			for k, values := range f.query {
				query[k] = values
			}
		}
	}
	if v.Tool != "" {
		query.Set("tool", v.Tool)
	}
	if c := asked.Get("cursor"); c != "" {
		query.Set("cursor", c)
	}
	items, list, err := x.runs(query)
	if err != nil {
		return nil, err
	}
	v.Items, v.Next, v.Unverified = items, list.Next, list.Unverified
	v.Stacks = stacks(v.Items)
	if v.Next != "" {
		asked.Set("cursor", v.Next)
		v.Next = pathWith("/ui/runs", asked)
	}
	return &page{Title: "Runs", Nav: "Runs", Topics: []string{"runs"}, Body: v}, nil
}

// pathWith is a path with a query.
func pathWith(path string, query url.Values) string {
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}

// runView is a run with a page of its calls.
type runView struct {
	runLine
	Calls    []callLine
	Timeline timeline
	Next     string
	First    bool                // the first page of calls
	Verified *store.VerifyReport // nil: nobody asked
	Replayed *httpapi.Replayed   // nil: nobody asked
	Alert    *httpapi.Problem
}

// CanReplay reports whether the run can be carried out again from its record.
func (v runView) CanReplay() bool { return v.Status != ledger.Running && v.Client == "" }

// CanCancel reports whether the run may be one that the service carries out for a client.
func (v runView) CanCancel() bool {
	return v.Status == ledger.Running && v.Session == uuid.Nil && v.Client == ""
}

// replayRun carries a run out again from its record, and shows what differs.
func (s *Server) replayRun(x *exchange) (string, *page, error) {
	var res httpapi.Replayed
	err := x.api.post(x.runPath()+"/replay", nil, &res)
	if signedOut(err) {
		return "", nil, err
	}
	if err != nil {
		p, err := s.runPage(x, runView{Alert: problemOf(err)})
		return "", p, err
	}
	p, err := s.runPage(x, runView{Replayed: &res})
	return "", p, err
}

func (s *Server) run(x *exchange) (*page, error) { return s.runPage(x, runView{}) }

func (s *Server) runPage(x *exchange, v runView) (*page, error) {
	v.First = true
	if err := x.api.get(x.runPath(), nil, &v.Run); err != nil {
		return nil, err
	}
	v.Now = x.now
	query := url.Values{"limit": {"100"}}
	if c := x.r.URL.Query().Get("cursor"); c != "" {
		query.Set("cursor", c)
		v.First = false
	}
	var list httpapi.CallList
	if err := x.api.get(x.runPath()+"/calls", query, &list); err != nil {
		return nil, err
	}
	for _, raw := range list.Items {
		step, err := readStep(raw)
		if err != nil {
			return nil, err
		}
		v.Calls = append(v.Calls, newCallLine(v.ID.String(), v.Started, step))
	}
	v.Timeline = newTimeline(v.Calls, v.Lasted(), v.First && list.Next == "")
	if list.Next != "" {
		v.Next = pathWith("/ui/runs/"+v.ID.String(), url.Values{"cursor": {list.Next}})
	}
	if x.r.URL.Query().Get("verify") != "" {
		v.Verified = &store.VerifyReport{}
		if err := x.api.get(x.runPath()+"/verify", nil, v.Verified); err != nil {
			return nil, err
		}
	}
	asked := v.Replayed != nil || v.Alert != nil // the page has an answer that another one would not have
	p := &page{Title: v.Title(), Nav: "Runs", Topics: []string{"run:" + v.ID.String()}, Still: asked, Body: v}
	if v.Alert != nil {
		p.Status = v.Alert.Status
	}
	return p, nil
}

// runPath is the run's path in the API.
func (x *exchange) runPath() string { return "/v1/runs/" + url.PathEscape(x.r.PathValue("id")) }

func readStep(raw json.RawMessage) (report.Step, error) {
	var s report.Step
	if err := json.Unmarshal(raw, &s); err != nil {
		return s, fault.Wrap(fault.Internal, err, "a call of the API cannot be read")
	}
	return s, nil
}

// report passes a report on, as a file to download.
func (s *Server) report(x *exchange) {
	format := x.r.URL.Query().Get("format")
	var b buffer
	err := x.api.serve(&b, http.MethodGet, x.runPath()+"/report", url.Values{"format": {format}}, nil, nil)
	if err == nil && b.status >= http.StatusBadRequest {
		err = b.problem()
	}
	if err != nil {
		s.refused(x, err)
		return
	}
	end := map[string]string{"html": "html", "text": "txt"}[format]
	if end == "" {
		end = "json"
	}
	h := x.w.Header()
	h.Set("Content-Type", b.Header().Get("Content-Type"))
	h.Set("Content-Disposition", `attachment; filename="remit-report.`+end+`"`)
	h.Set("Content-Length", strconv.Itoa(b.body.Len()))
	_, _ = x.w.Write(b.body.Bytes()) // the browser may have gone
}
