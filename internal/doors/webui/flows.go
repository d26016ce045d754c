package webui

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/remitrun/remit/internal/authority/reach"
	"github.com/remitrun/remit/internal/authority/reach/waymap"
	"github.com/remitrun/remit/internal/doors/httpapi"
	"github.com/remitrun/remit/internal/service/policyreview"
)

// flowsView is a question about possible movements of data, with its answer.
type flowsView struct {
	From, To string // as they were typed
	Found    *policyreview.Authority
	Picture  waymap.Picture
	Alert    *httpapi.Problem
}

// flows answers a question about everything that the policies allow together, or shows the most
// common ones.
func (s *Server) flows(x *exchange) (*page, error) {
	asked := x.r.URL.Query()
	v := flowsView{From: strings.TrimSpace(asked.Get("from")), To: strings.TrimSpace(asked.Get("to")), Found: &policyreview.Authority{}}
	p := &page{Title: "Flows", Nav: "Policies", Still: true}
	if err := x.api.post("/v1/policies/authority", map[string]any{"from": v.From, "to": v.To}, v.Found); err != nil {
		v.Found, v.Alert = nil, problemOf(err)
		if p.Status = v.Alert.Status; p.Status == http.StatusUnauthorized {
			return nil, err
		}
	}
	if v.Found != nil && v.Found.Ways != nil {
		v.Picture = waymap.New(v.Found.Ways.Map)
	}
	p.Body = v
	return p, nil
}

// Rows are the questions that are asked first.
func (v flowsView) Rows() []flowsRow {
	var out []flowsRow
	for _, r := range v.Found.Overview.Rows {
		row := flowsRow{From: r.From}
		for i, verdict := range r.Verdicts {
			to := v.Found.Overview.To[i]
			row.Answers = append(row.Answers, flowsAnswer{verdict, pathWith("/ui/flows", url.Values{"from": {r.From}, "to": {to}})})
		}
		out = append(out, row)
	}
	return out
}

// flowsRow is the answers for one place that data comes from.
type flowsRow struct {
	From    string
	Answers []flowsAnswer
}

// flowsAnswer is an answer, with the page that shows why.
type flowsAnswer struct {
	Verdict reach.Verdict
	Path    string
}
