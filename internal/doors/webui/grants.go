package webui

import (
	"errors"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/doors/httpapi"
	"github.com/remitrun/remit/internal/service/grants"
)

// grantLine is a grant in a list.
type grantLine struct {
	grants.Described
	Now  time.Time
	In   int  // how far it is moved in, below the grant that it derives from
	Here bool // it is the one of this browser
}

// maxIn is how far a grant is moved in at most.
const maxIn = 4

func (x *exchange) grantLine(g grants.Described, in int) grantLine {
	return grantLine{g, x.now, min(in, maxIn), g.ID.String() == x.device.ID}
}

// State is the standing of the grant, or that it has expired.
func (g grantLine) State() string {
	if g.Expired && g.Standing != "revoked" {
		return "expired"
	}
	return g.Standing
}

// HasParent reports whether it derives from another grant.
func (g grantLine) HasParent() bool { return g.Parent != uuid.Nil }

// Own reports whether its standing is its own, not that of a grant above it.
func (g grantLine) Own() bool { return g.Because == uuid.Nil }

// Meters are the budgets of the grant.
func (g grantLine) Meters() []meter {
	out := make([]meter, len(g.Budgets))
	for i, m := range g.Budgets {
		out[i] = newMeter(m)
	}
	return out
}

// meter is a budget as people read it.
type meter struct {
	What                       string
	Spent, Leased, Limit, Left string
	Share                      int // percent used
}

func newMeter(m grants.Meter) meter {
	v := meter{What: m.What, Spent: amountOf(m.What, m.Spent), Leased: amountOf(m.What, m.Leased), Limit: amountOf(m.What, m.Limit), Left: amountOf(m.What, max(0, m.Limit-m.Spent-m.Leased)), Share: 100}
	if m.Limit > 0 {
		v.Share = int(math.Min(100, (float64(m.Spent)+float64(m.Leased))/float64(m.Limit)*100))
	}
	return v
}

// amountOf is an amount of a budget in its unit.
func amountOf(what string, n int64) string {
	switch what {
	case grant.MeterMoney:
		return grant.MoneyText(n)
	case grant.MeterTime:
		return (time.Duration(n) * time.Microsecond).Round(time.Millisecond).String()
	}
	return grouped(n)
}

// grantsView lists grants.
type grantsView struct {
	Holder string
	Items  []grantLine
	First  bool
	Tree   *treePicture
	Next   string // of the next page; "": there is none
}

func (s *Server) grants(x *exchange) (*page, error) {
	asked := x.r.URL.Query()
	v := grantsView{Holder: asked.Get("holder"), First: asked.Get("cursor") == ""}
	query := url.Values{"limit": {"100"}}
	for _, name := range []string{"holder", "cursor"} {
		if value := asked.Get(name); value != "" {
			query.Set(name, value)
		}
	}
	var list httpapi.GrantList
	if err := x.api.get("/v1/grants", query, &list); err != nil {
		return nil, err
	}
	v.Items = x.tree(list.Items)
	v.Tree = pictureOf(v.Items)
	if list.Next != "" {
		query.Del("limit")
		query.Set("cursor", list.Next)
		v.Next = pathWith("/ui/grants", query)
	}
	return &page{Title: "Grants", Nav: "Grants", Topics: []string{"grants"}, Body: v}, nil
}

// tree puts grants below their parents, if these are in the list.
func (x *exchange) tree(list []grants.Described) []grantLine {
	has, below := map[uuid.UUID]bool{}, map[uuid.UUID][]grants.Described{}
	for _, g := range list {
		has[g.ID] = true
	}
	var tops []grants.Described
	for _, g := range list {
		if has[g.Parent] {
			below[g.Parent] = append(below[g.Parent], g)
		} else {
			tops = append(tops, g)
		}
	}
	var out []grantLine
	var put func(list []grants.Described, in int)
	put = func(list []grants.Described, in int) {
		for _, g := range list {
			out = append(out, x.grantLine(g, in))
			put(below[g.ID], in+1)
		}
	}
	put(tops, 0)
	return out
}

// maxBelow bounds the grants below one that are shown and counted.
const maxBelow = 200

// listDescendants lists the grants that derive from one, and reports whether there are more.
func (x *exchange) listDescendants(id uuid.UUID) (list []grants.Described, more bool, err error) {
	for next := []uuid.UUID{id}; len(next) > 0; next = next[1:] {
		var page httpapi.GrantList
		if err := x.api.get("/v1/grants", url.Values{"parent_id": {next[0].String()}, "limit": {strconv.Itoa(maxBelow)}}, &page); err != nil {
			return nil, false, err
		}
		for _, g := range page.Items {
			if len(list) == maxBelow {
				return list, true, nil
			}
			list, next = append(list, g), append(next, g.ID)
		}
		if page.Next != "" {
			return list, true, nil
		}
	}
	return list, false, nil
}

// listAncestors lists the grants that one derives from, the root first, as far as they can be read.
func (x *exchange) listAncestors(g grants.Described) ([]grantLine, error) {
	var out []grantLine
	for up := g.Parent; up != uuid.Nil; {
		var parent grants.Described
		err := x.api.get("/v1/grants/"+up.String(), nil, &parent)
		if p := (*httpapi.Problem)(nil); errors.As(err, &p) && p.Status == http.StatusNotFound {
			break
		}
		if err != nil {
			return nil, err
		}
		out = append([]grantLine{x.grantLine(parent, 0)}, out...)
		up = parent.Parent
	}
	return out, nil
}

// grantView is one grant with its place in the tree.
type grantView struct {
	grantLine
	Above  []grantLine // the root first
	Below  []grantLine
	More   bool   // there are further grants below it
	Live   int    // grants below it that can still be used
	Ask    string // "revoke", "pause": the person is asked whether to
	Reason string // as it was typed
	Alert  *httpapi.Problem
}

// Lot says how many grants below it a change concerns.
func (v grantView) Lot() string {
	if v.More {
		return "more than " + count(maxBelow, "grant")
	}
	return count(v.Live, "grant")
}

// Shown is the number of grants that a confirmation was shown with.
func (v grantView) Shown() string { return strconv.Itoa(v.Live) + "/" + strconv.Itoa(len(v.Below)) }

func (s *Server) grant(x *exchange) (*page, error) {
	ask := x.r.URL.Query().Get("ask")
	if ask != "" && ask != "revoke" && ask != "pause" {
		return nil, fault.New(fault.Usage, "%q cannot be done to a grant", ask).WithHint("use the links of the page")
	}
	return s.grantPage(x, ask, "", nil)
}

func (s *Server) grantPage(x *exchange, ask, reason string, alert *httpapi.Problem) (*page, error) {
	var g grants.Described
	if err := x.api.get("/v1/grants/"+url.PathEscape(x.r.PathValue("id")), nil, &g); err != nil {
		return nil, err
	}
	v := grantView{grantLine: x.grantLine(g, 0), Ask: ask, Reason: reason, Alert: alert}
	var err error
	if v.Above, err = x.listAncestors(g); err != nil {
		return nil, err
	}
	list, more, err := x.listDescendants(g.ID)
	if err != nil {
		return nil, err
	}
	v.Below, v.More = x.tree(list), more
	for _, b := range v.Below {
		if s := b.State(); s != "revoked" && s != "expired" {
			v.Live++
		}
	}
	p := &page{Title: "Grant of " + g.Holder, Nav: "Grants", Topics: []string{"grants"}, Still: ask != "" || alert != nil, Body: v}
	if alert != nil {
		p.Status = alert.Status
	}
	return p, nil
}

// setGrant pauses, resumes or revokes a grant. The other grants that end with it must be the ones
// shown.
func (s *Server) setGrant(x *exchange) (string, *page, error) {
	form := x.r.PostForm
	do, reason := form.Get("do"), form.Get("reason")
	if do != "pause" && do != "resume" && do != "revoke" {
		return "", nil, fault.New(fault.Usage, "the form names no action for the grant").WithHint("choose one of its buttons")
	}
	id := url.PathEscape(x.r.PathValue("id"))
	if do != "resume" {
		now, err := s.grantPage(x, do, reason, nil)
		if err != nil {
			return "", nil, err
		}
		if v := now.Body.(grantView); v.Shown() != form.Get("shown") { //nolint:forcetypeassert // grantPage makes it
			v.Alert = &httpapi.Problem{Status: http.StatusConflict, Title: "Conflict", Detail: "the grants below this one differ from the ones shown: nothing was changed", Hint: "read what it concerns now, and confirm again"}
			now.Status, now.Body = v.Alert.Status, v
			return "", now, nil
		}
	}
	in := map[string]any{}
	if reason != "" {
		in["reason"] = reason
	}
	err := x.api.post("/v1/grants/"+id+"/"+do, in, nil)
	if p := (*httpapi.Problem)(nil); errors.As(err, &p) && p.Status != http.StatusUnauthorized {
		shown, perr := s.grantPage(x, "", reason, p)
		return "", shown, perr
	}
	return "/ui/grants/" + id, nil, err
}
