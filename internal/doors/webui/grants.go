package webui

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/doors/httpapi"
	"github.com/remitrun/remit/internal/service/grants"
)

// maxTree is how many grants, the newest, are drawn as a tree.
const maxTree = 500

// grantLine is a grant in the tree.
type grantLine struct {
	grants.Described
	Depth int // below a root, or below a grant that is not shown
	Below int // grants that derive from it, of those shown
}

// State is the grant's standing, or that its time is over.
func (g grantLine) State() string {
	if g.Expired && g.Standing == "active" {
		return "expired"
	}
	return g.Standing
}

// HasParent reports whether the grant was narrowed or handed on.
func (g grantLine) HasParent() bool { return g.Parent != uuid.Nil }

// DepthClass is the indentation in the style sheet.
func (g grantLine) DepthClass() string { return "depth-" + strconv.Itoa(min(g.Depth, 8)) }

// grantsView is the tree of grants.
type grantsView struct {
	Items []grantLine
	More  bool // older ones are not shown
}

// allGrants reads the newest grants.
func (x *exchange) allGrants() ([]grants.Described, bool, error) {
	var list httpapi.GrantList
	err := x.api.get("/v1/grants", url.Values{"limit": {strconv.Itoa(maxTree)}}, &list)
	return list.Items, list.Next != "", err
}

// treeOf orders grants so that each stands below the one that it derives from.
func treeOf(list []grants.Described) []grantLine {
	known, below := map[uuid.UUID]bool{}, map[uuid.UUID][]grants.Described{}
	for _, g := range list {
		known[g.ID] = true
	}
	for _, g := range list {
		parent := g.Parent
		if !known[parent] {
			parent = uuid.Nil
		}
		below[parent] = append(below[parent], g)
	}
	var out []grantLine
	var add func(parent uuid.UUID, depth int) int
	add = func(parent uuid.UUID, depth int) int {
		n := 0
		for _, g := range below[parent] {
			at := len(out)
			out = append(out, grantLine{Described: g, Depth: depth})
			out[at].Below = add(g.ID, depth+1)
			n += 1 + out[at].Below
		}
		return n
	}
	add(uuid.Nil, 0)
	return out
}

func (s *Server) grants(x *exchange) (*page, error) {
	list, more, err := x.allGrants()
	if err != nil {
		return nil, err
	}
	return &page{Title: "Grants", Nav: "Grants", Topics: []string{"grants"}, Body: grantsView{treeOf(list), more}}, nil
}

// grantView is one grant.
type grantView struct {
	grantLine
	Meters []meterView
	This   bool // this browser's
	More   bool // further grants may derive from it
	Alert  *httpapi.Problem
	Reason string // as it was typed
}

// meterView is a budget with the used part of it.
type meterView struct {
	grants.Meter
	Share int // percent
}

func (s *Server) grant(x *exchange) (*page, error) { return s.grantCard(x, nil, "") }

func (s *Server) grantCard(x *exchange, alert *httpapi.Problem, reason string) (*page, error) {
	v := grantView{Alert: alert, Reason: reason}
	if err := x.api.get(x.grantPath(), nil, &v.Described); err != nil {
		return nil, err
	}
	list, more, err := x.allGrants()
	if err != nil {
		return nil, err
	}
	tree := treeOf(list)
	if i := slices.IndexFunc(tree, func(g grantLine) bool { return g.ID == v.ID }); i >= 0 {
		v.Below = tree[i].Below
	}
	v.More, v.This = more, v.ID.String() == x.device.ID
	for _, m := range v.Budgets {
		share := 100
		if m.Limit > 0 {
			share = int(min(100, (m.Spent+m.Leased)*100/m.Limit))
		}
		v.Meters = append(v.Meters, meterView{m, share})
	}
	p := &page{Title: "Grant of " + v.Holder, Nav: "Grants", Topics: []string{"grants"}, Body: v}
	if alert != nil {
		p.Status = alert.Status
	}
	return p, nil
}

// grantPath is the grant's path in the API.
func (x *exchange) grantPath() string { return "/v1/grants/" + url.PathEscape(x.r.PathValue("id")) }

// setGrant pauses, resumes or revokes a grant.
func (s *Server) setGrant(x *exchange) (string, *page, error) {
	verb, reason := x.r.PostForm.Get("set"), x.r.PostForm.Get("reason")
	if !slices.Contains([]string{"pause", "resume", "revoke"}, verb) {
		return "", nil, fault.New(fault.Usage, "the form does not say what to do").WithHint("choose one of its buttons")
	}
	in := map[string]string{}
	if reason != "" {
		in["reason"] = reason
	}
	err := x.api.post(x.grantPath()+"/"+verb, in, nil)
	var p *httpapi.Problem
	if errors.As(err, &p) && p.Status != http.StatusUnauthorized {
		card, cerr := s.grantCard(x, p, reason)
		return "", card, cerr
	}
	if err != nil {
		return "", nil, err
	}
	return "/ui/grants/" + url.PathEscape(x.r.PathValue("id")), nil, nil
}
