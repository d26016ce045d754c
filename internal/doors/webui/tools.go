package webui

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/call/catalog"
	"github.com/remitrun/remit/internal/doors/httpapi"
	"github.com/remitrun/remit/internal/service/policyreview"
)

// toolLine is a tool in a list.
type toolLine struct{ catalog.Described }

// RiskClass is the class of the tool's risk in the style sheet.
func (t toolLine) RiskClass() string { return riskClass(t.Risk) }

// State says whether the tool can be called.
func (t toolLine) State() string {
	switch {
	case t.Changed:
		return "changed"
	case !t.Enabled:
		return "off"
	}
	return "enabled"
}

// Path is the tool's page.
func (t toolLine) Path() string { return "/ui/tools/" + url.PathEscape(string(t.ID)) }

// toolsView lists tools.
type toolsView struct {
	Search, Risk string
	Risks        []string
	Items        []toolLine
	Total        int
	Failing      []httpapi.FailingSource
	Next         string
}

// maxTools is how many tools are on a page.
const maxTools = 100

// risks are the levels of risk, lowest first.
var risks = []string{"low", "medium", "high", "critical"}

func (s *Server) tools(x *exchange) (*page, error) {
	asked := x.r.URL.Query()
	v := toolsView{Search: asked.Get("q"), Risk: asked.Get("risk"), Risks: risks}
	query := url.Values{}
	if v.Search != "" {
		query.Set("q", v.Search)
	}
	if v.Risk != "" {
		query.Set("max_risk", v.Risk)
	}
	var list httpapi.ToolList
	if err := x.api.get("/v1/tools", query, &list); err != nil {
		return nil, err
	}
	slices.SortFunc(list.Items, func(a, b catalog.Described) int { return strings.Compare(string(a.ID), string(b.ID)) })
	after := asked.Get("after")
	for _, t := range list.Items {
		if after != "" && string(t.ID) <= after {
			continue
		}
		if len(v.Items) == maxTools {
			asked.Set("after", string(v.Items[maxTools-1].ID))
			v.Next = pathWith("/ui/tools", asked)
			break
		}
		v.Items = append(v.Items, toolLine{t})
	}
	v.Total, v.Failing = list.Total, list.Failing
	return &page{Title: "Tools", Nav: "Tools", Still: v.Search != "", Body: v}, nil
}

// toolView is one tool.
type toolView struct {
	toolLine
	Input, Output string // schemas
	Change        []diffLine
	Accept        string // digest of the changed tool; "": it did not change
	Args          string // as they were typed
	Result        *httpapi.Invocation
	Values        []value // of the result
	Explained     *policyreview.Explanation
	Alert         *httpapi.Problem
}

// toolPath is the tool's path in the API.
func (x *exchange) toolPath() string { return "/v1/tools/" + url.PathEscape(x.r.PathValue("id")) }

func (s *Server) tool(x *exchange) (*page, error) { return s.toolPage(x, toolView{Args: "{}"}) }

func (s *Server) toolPage(x *exchange, v toolView) (*page, error) {
	if err := x.api.get(x.toolPath(), nil, &v.Described); err != nil {
		return nil, err
	}
	v.Input, v.Output = indented(v.Described.Input), indented(v.Described.Output)
	if v.Changed {
		var c httpapi.ToolChange
		err := x.api.get(x.toolPath()+"/change", nil, &c)
		if p := (*httpapi.Problem)(nil); err != nil && !(errors.As(err, &p) && p.Status == http.StatusForbidden) {
			return nil, err
		}
		v.Change, v.Accept = rowsOf(c.Hunks, c.Diff), c.Digest
	}
	p := &page{Title: string(v.ID), Nav: "Tools", Still: true, Body: v}
	if v.Alert != nil {
		p.Status = v.Alert.Status
	}
	return p, nil
}

// indented is JSON for people; "" for none.
func indented(raw json.RawMessage) string {
	var b bytes.Buffer
	if len(raw) == 0 || json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}

// setTool accepts a changed tool, explains what would decide a call of it, or calls it.
func (s *Server) setTool(x *exchange) (string, *page, error) {
	form := x.r.PostForm
	v := toolView{Args: form.Get("args")}
	var err error
	switch form.Get("do") {
	case "accept":
		if ask := s.confirm(x, "To accept a changed tool"); ask != nil {
			return "", ask, nil
		}
		if err = x.api.post(x.toolPath()+"/accept", map[string]any{"digest": form.Get("digest")}, nil); err == nil {
			return "/ui/tools/" + url.PathEscape(x.r.PathValue("id")), nil, nil
		}
	case "explain":
		var args map[string]any
		if args, err = argsOf(v.Args); err == nil {
			v.Explained = &policyreview.Explanation{}
			err = x.api.post("/v1/policies/explain", map[string]any{"tool": x.r.PathValue("id"), "args": args}, v.Explained)
		}
	case "call":
		var args map[string]any
		if args, err = argsOf(v.Args); err == nil {
			v.Result = &httpapi.Invocation{}
			err = x.api.post(x.toolPath()+"/invoke", map[string]any{"args": args}, v.Result)
		}
	default:
		return "", nil, fault.New(fault.Usage, "the form names no action for the tool").WithHint("choose one of its buttons")
	}
	if err != nil {
		v.Result, v.Explained, v.Alert = nil, nil, problemOf(err)
		if v.Alert.Status == http.StatusUnauthorized {
			return "", nil, err
		}
	} else if v.Result != nil {
		v.Values = valuesOf(v.Result.Output)
	}
	shown, err := s.toolPage(x, v)
	return "", shown, err
}

// argsOf reads arguments that a person typed.
func argsOf(text string) (map[string]any, error) {
	args := map[string]any{}
	if strings.TrimSpace(text) == "" {
		return args, nil
	}
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&args); err != nil || args == nil || dec.More() {
		return nil, fault.New(fault.ArgsInvalid, "the arguments are not a JSON object").WithHint(`write them as {"path": "README.md"}`)
	}
	return args, nil
}
