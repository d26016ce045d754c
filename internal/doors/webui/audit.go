package webui

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/remitrun/remit/internal/doors/httpapi"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/history"
)

// auditView lists events of the record.
type auditView struct {
	Event, Tool, Run, Subject string
	Denied, Failed            bool
	Names                     []string // of events
	Items                     []auditLine
	Next, Export              string
	Verified                  *store.VerifyReport // nil: nobody asked
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

// auditQuery reads the filters of the page as a query of the API.
func auditQuery(asked url.Values) url.Values {
	query := url.Values{}
	for _, name := range []string{"event", "tool", "run_id", "subject", "cursor"} {
		if text := asked.Get(name); text != "" {
			query.Set(name, text)
		}
	}
	for _, name := range []string{"denied", "failed"} {
		if asked.Get(name) != "" {
			query.Set(name, "true")
		}
	}
	return query
}

func (s *Server) audit(x *exchange) (*page, error) { return s.auditPage(x, nil) }

func (s *Server) auditPage(x *exchange, verified *store.VerifyReport) (*page, error) {
	asked := x.r.URL.Query()
	v := auditView{
		Event: asked.Get("event"), Tool: asked.Get("tool"), Run: asked.Get("run_id"), Subject: asked.Get("subject"), Denied: asked.Get("denied") != "", Failed: asked.Get("failed") != "",
		Names: history.EventNames(), Verified: verified,
	}
	query := auditQuery(asked)
	query.Set("limit", "100")
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
	asked.Del("cursor")
	v.Export = pathWith("/ui/audit/export", asked)
	return &page{Title: "Audit", Nav: "Audit", Topics: []string{"record"}, Still: verified != nil, Body: v}, nil
}

// verify checks the whole record.
func (s *Server) verify(x *exchange) (string, *page, error) {
	report := &store.VerifyReport{}
	if err := x.api.post("/v1/audit/verify", nil, report); err != nil {
		return "", nil, err
	}
	p, err := s.auditPage(x, report)
	return "", p, err
}

// event shows one event.
func (s *Server) event(x *exchange) (*page, error) {
	var raw json.RawMessage
	if err := x.api.get("/v1/audit/"+url.PathEscape(x.r.PathValue("seq")), nil, &raw); err != nil {
		return nil, err
	}
	var e history.AuditEvent
	if err := json.Unmarshal(raw, &e); err != nil {
		return nil, err
	}
	v := struct {
		auditLine
		Values []value
	}{auditLine{e}, valuesOf(raw)}
	return &page{Title: "Event " + strconv.FormatUint(uint64(e.Seq), 10), Nav: "Audit", Still: true, Body: v}, nil
}

// maxExport is how many events an export has at most.
const maxExport = 20_000

// export passes the selected events on as JSON lines, newest first.
func (s *Server) export(x *exchange) {
	query := auditQuery(x.r.URL.Query())
	query.Set("limit", "500")
	query.Del("cursor")
	enc := json.NewEncoder(x.w)
	for sent := 0; sent < maxExport; {
		var list struct {
			Items []json.RawMessage `json:"items"`
			Next  string            `json:"next"`
		}
		if err := x.api.get("/v1/audit", query, &list); err != nil {
			if sent == 0 {
				s.refused(x, err)
				return
			}
			panic(http.ErrAbortHandler) // so that the browser sees that the file is incomplete
		}
		if sent == 0 {
			x.w.Header().Set("Content-Type", "application/x-ndjson")
			x.w.Header().Set("Content-Disposition", `attachment; filename="remit-audit.jsonl"`)
		}
		for _, e := range list.Items {
			if enc.Encode(e) != nil {
				return // the browser has gone
			}
		}
		sent += len(list.Items)
		if list.Next == "" {
			return
		}
		query.Set("cursor", list.Next)
	}
}

// ruleCount is how often a rule refused.
type ruleCount struct {
	Rule  string
	Tools []string
	Count int
	Share string // out of 100
}

// refusalsView counts the newest refusals by rule.
type refusalsView struct {
	Rules []ruleCount
	Calls int
	More  bool // older ones are not counted
}

// refusals counts the rules that refused calls.
func (s *Server) refusals(x *exchange) (*page, error) {
	var list httpapi.AuditList
	if err := x.api.get("/v1/audit", url.Values{"denied": {"true"}, "limit": {"500"}}, &list); err != nil {
		return nil, err
	}
	v := refusalsView{More: list.Next != ""}
	at := map[string]int{}
	for _, e := range list.Items {
		if e.Call == 0 || e.Status != "denied" {
			continue
		}
		v.Calls++
		rule := cmp.Or(e.Rule, "no rule")
		i, known := at[rule]
		if !known {
			i, at[rule] = len(v.Rules), len(v.Rules)
			v.Rules = append(v.Rules, ruleCount{Rule: rule})
		}
		v.Rules[i].Count++
		if t := string(e.Tool); t != "" && !slices.Contains(v.Rules[i].Tools, t) && len(v.Rules[i].Tools) < 5 {
			v.Rules[i].Tools = append(v.Rules[i].Tools, t)
		}
	}
	slices.SortStableFunc(v.Rules, func(a, b ruleCount) int { return cmp.Compare(b.Count, a.Count) })
	for i := range v.Rules {
		v.Rules[i].Share = strconv.FormatFloat(float64(v.Rules[i].Count)*100/float64(v.Rules[0].Count), 'f', 1, 64)
	}
	return &page{Title: "Refusals by rule", Nav: "Audit", Topics: []string{"record"}, Body: v}, nil
}
