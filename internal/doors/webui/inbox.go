package webui

import (
	"net/url"
	"slices"
	"strconv"

	"github.com/remitrun/remit/internal/doors/httpapi"
	"github.com/remitrun/remit/internal/service/grants"
)

// inboxView is the list of questions for a person.
type inboxView struct {
	Waiting     []question
	More        bool       // further questions wait
	Interrupted []question // whose calls do not wait any more
	Running     []runLine  // newest first
	Denied      []runLine  // recent runs with a refused call
	Failed      []runLine
	Held        []heldLine // changes that wait for review
	Budgets     []budget   // near their end
}

// budget is a limit that is nearly used up.
type budget struct {
	Grant  grants.Described
	Meter  grants.Meter
	Share  int // percent used
	Filled string
}

// nearEnd is the used percentage from which a budget is shown.
const nearEnd = 80

func (s *Server) inbox(x *exchange) (*page, error) {
	var v inboxView
	var err error
	var next string
	if v.Waiting, next, err = x.questions(url.Values{"limit": {"20"}}); err != nil {
		return nil, err
	}
	v.More = next != ""
	if v.Interrupted, _, err = x.questions(url.Values{"interrupted": {"true"}, "limit": {"10"}}); err != nil {
		return nil, err
	}
	for _, part := range []struct {
		into  *[]runLine
		query url.Values
	}{
		{&v.Running, url.Values{"status": {"running"}, "limit": {"10"}}},
		{&v.Denied, url.Values{"denied": {"true"}, "limit": {"5"}}},
		{&v.Failed, url.Values{"failed": {"true"}, "limit": {"5"}}},
	} {
		if *part.into, _, err = x.runs(part.query); err != nil {
			return nil, err
		}
	}
	held, _, err := x.listHeld(url.Values{"limit": {"20"}})
	if err != nil {
		return nil, err
	}
	v.Held = slices.DeleteFunc(held, func(c heldLine) bool { return c.State != "review" })
	if v.Budgets, err = x.budgets(); err != nil {
		return nil, err
	}
	return &page{Title: "Inbox", Nav: "Inbox", Topics: []string{"approvals", "runs", "grants"}, Body: v}, nil
}

// budgets lists the limits of the newest grants that are nearly used up.
func (x *exchange) budgets() ([]budget, error) {
	var list httpapi.GrantList
	if err := x.api.get("/v1/grants", url.Values{"limit": {"50"}}, &list); err != nil {
		return nil, err
	}
	var out []budget
	for _, g := range list.Items {
		for _, m := range g.Budgets {
			if g.Standing != "active" || g.Expired || m.Limit <= 0 {
				continue
			}
			if share := int(min(100, (m.Spent+m.Leased)*100/m.Limit)); share >= nearEnd {
				out = append(out, budget{g, m, share, strconv.Itoa(share)})
			}
		}
	}
	return out, nil
}
