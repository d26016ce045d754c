package webui

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/call/approval"
	"github.com/remitrun/remit/internal/doors/httpapi"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/report"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/approvals"
)

// question is a question in a list.
type question struct {
	store.Approval
	Asks approval.Body
	Now  time.Time
}

// About is the most telling argument of the call.
func (q question) About() string { return report.About(q.Asks.Args) }

// RiskClass is the class of the question's risk in the style sheet.
func (q question) RiskClass() string { return riskClass(q.Asks.Risk) }

// riskClass is a risk as a class of the style sheet; an unknown one has that of the highest.
func riskClass(risk string) string {
	if slices.Contains([]string{"low", "medium", "high"}, risk) {
		return "risk-" + risk
	}
	return "risk-critical"
}

func newQuestion(q store.Approval, now time.Time) (question, error) {
	b, err := approvals.BodyOf(q)
	return question{q, b, now}, err
}

// questions lists questions, newest first.
func (x *exchange) questions(query url.Values) ([]question, string, error) {
	var list httpapi.ApprovalList
	if err := x.api.get("/v1/approvals", query, &list); err != nil {
		return nil, "", err
	}
	out := make([]question, len(list.Items))
	for i, q := range list.Items {
		var err error
		if out[i], err = newQuestion(q, x.now); err != nil {
			return nil, "", err
		}
	}
	return out, list.Next, nil
}

// approvalsView lists questions.
type approvalsView struct {
	All   bool
	Items []question
	Next  string // of the next page; "": there is none
}

func (s *Server) approvals(x *exchange) (*page, error) {
	v := approvalsView{All: x.r.URL.Query().Get("all") != ""}
	query := url.Values{"limit": {"50"}}
	if c := x.r.URL.Query().Get("cursor"); c != "" {
		query.Set("cursor", c)
	}
	if v.All {
		query.Set("all", "true")
	}
	var err error
	if v.Items, v.Next, err = x.questions(query); err != nil {
		return nil, err
	}
	if v.Next != "" {
		next := url.Values{"cursor": {v.Next}}
		if v.All {
			next.Set("all", "1")
		}
		v.Next = "/ui/approvals?" + next.Encode()
	}
	return &page{Title: "Approvals", Nav: "Inbox", Topics: []string{"approvals"}, Body: v}, nil
}

// cardView is one question with all that it asks.
type cardView struct {
	question
	Run     *ledger.Run // nil: the grant may not read it
	Args    []value
	Pattern []string // the calls that an approval of matching calls covers; nil: there is no such approval
	Before  []string // the record's evidence about similar questions
	Yes     int      // approvals so far
	Voted   bool     // the person has answered
	Reason  string   // as it was typed
	Alert   *httpapi.Problem
	Others  int    // questions that wait besides this one
	NextID  string // one of them
	Within  string // ID of the session that it is shown in; "": it has a page of its own
}

// editView is a proposed change of a policy.
type editView struct {
	File  string
	Lines []diffLine
}

// Edits are the proposed changes.
func (v cardView) Edits() []editView {
	out := make([]editView, len(v.Asks.Edits))
	for i, e := range v.Asks.Edits {
		out[i] = editView{e.File, rowsOf(e.Hunks, e.Diff)}
	}
	return out
}

func (s *Server) approval(x *exchange) (*page, error) { return s.card(x, nil, "") }

// card makes the page of a question. Alert says why an answer did not count.
func (s *Server) card(x *exchange, alert *httpapi.Problem, reason string) (*page, error) {
	v, err := x.cardOf(x.r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	v.Alert, v.Reason = alert, reason
	waiting, _, err := x.questions(url.Values{"limit": {"50"}})
	if err != nil {
		return nil, err
	}
	for _, other := range waiting {
		if other.ID != v.ID {
			v.Others, v.NextID = v.Others+1, other.ID.String()
		}
	}
	p := &page{Title: "May " + v.Holder + " call " + string(v.Asks.Tool) + "?", Nav: "Inbox", Topics: []string{"approvals"}, Body: v}
	if alert != nil {
		p.Status = alert.Status
	}
	return p, nil
}

// cardOf reads a question with all that it asks.
func (x *exchange) cardOf(id string) (cardView, error) {
	var q store.Approval
	if err := x.api.get("/v1/approvals/"+url.PathEscape(id), nil, &q); err != nil {
		return cardView{}, err
	}
	one, err := newQuestion(q, x.now)
	if err != nil {
		return cardView{}, err
	}
	v := cardView{question: one, Args: valuesOf(one.Asks.Args)}
	if one.Asks.Pattern != nil {
		v.Pattern = one.Asks.Pattern.Lines()
	}
	var h approval.History
	if err := x.api.get("/v1/approvals/"+url.PathEscape(id)+"/history", nil, &h); err != nil {
		return cardView{}, err
	}
	v.Before = h.Lines()
	for _, vote := range q.Votes {
		if vote.Yes {
			v.Yes++
		}
		v.Voted = v.Voted || vote.By == x.device.Holder
	}
	if q.RunID != uuid.Nil {
		var run ledger.Run
		if err := x.api.get("/v1/runs/"+q.RunID.String(), nil, &run); err == nil {
			v.Run = &run
		}
	}
	return v, nil
}

// critical reports whether a question is about a call of critical risk. One that cannot be
// read might be.
func (x *exchange) critical(id string) bool {
	var q store.Approval
	if x.api.get("/v1/approvals/"+url.PathEscape(id), nil, &q) != nil {
		return true
	}
	one, err := newQuestion(q, x.now)
	return err != nil || one.RiskClass() == riskClass("critical")
}

// answer takes an answer. It counts for the question whose digest the form has.
func (s *Server) answer(x *exchange) (string, *page, error) {
	form := x.r.PostForm
	digest, reason := form.Get("digest"), form.Get("reason")
	path, in := "/approve", map[string]any{"digest": digest}
	switch form.Get("answer") {
	case "refuse":
		path = "/deny"
		if reason != "" {
			in["reason"] = reason
		}
	case "once":
	case "matching":
		in["session"] = true
	default:
		return "", nil, fault.New(fault.Usage, "the form has no answer").WithHint("choose one of its buttons")
	}
	if digest == "" {
		return "", nil, fault.New(fault.Usage, "the form does not say which question was shown").WithHint("open the question again")
	}
	id := x.r.PathValue("id")
	if path == "/approve" && x.critical(id) {
		if ask := s.confirm(x, "To approve a call of critical risk"); ask != nil {
			return "", ask, nil
		}
	}
	err := x.api.post("/v1/approvals/"+url.PathEscape(id)+path, in, nil)
	var p *httpapi.Problem
	if errors.As(err, &p) && p.Status != http.StatusUnauthorized {
		card, cerr := s.card(x, p, reason)
		return "", card, cerr
	}
	if err != nil {
		return "", nil, err
	}
	if session, err := uuid.Parse(form.Get("session")); err == nil { // it was shown in a conversation
		return "/ui/sessions/" + session.String() + "#end", nil, nil
	}
	return "/ui/approvals/" + url.PathEscape(id), nil, nil
}
