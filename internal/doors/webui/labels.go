package webui

import (
	"net/url"
	"path"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/doors/httpapi"
	"github.com/remitrun/remit/internal/service/filelabels"
)

// labelsView lists the labels of files.
type labelsView struct {
	Label, Below string // the filter of the list
	Contents     bool
	Items        []labelLine
	Next         string
	Ask          string // the path whose labels the person may clear; "": none
	Alert        *httpapi.Problem
}

// labelLine is a label in the list.
type labelLine struct {
	filelabels.Item
	Clear string // the page that asks whether to clear it; "": it is a content's
}

// Name is the file, the folder or the content that has the label.
func (l labelLine) Name() string {
	switch {
	case l.Folder:
		return path.Join(l.Path, "**")
	case l.Path == "":
		return "sha256:" + l.SHA256
	}
	return l.Path
}

func (s *Server) labels(x *exchange) (*page, error) {
	return s.labelsPage(x, labelsView{Ask: x.r.URL.Query().Get("clear")})
}

func (s *Server) labelsPage(x *exchange, v labelsView) (*page, error) {
	asked := x.r.URL.Query()
	asked.Del("clear")
	v.Label, v.Below, v.Contents = strings.TrimSpace(asked.Get("label")), strings.TrimSpace(asked.Get("below")), asked.Get("contents") != ""
	query := url.Values{"limit": {"100"}}
	for name, text := range map[string]string{"label": v.Label, "below": v.Below, "cursor": asked.Get("cursor")} {
		if text != "" {
			query.Set(name, text)
		}
	}
	if v.Contents {
		query.Set("contents", "true")
	}
	var list httpapi.LabelList
	if err := x.api.get("/v1/labels", query, &list); err != nil {
		return nil, err
	}
	for _, one := range list.Items {
		l := labelLine{Item: one}
		if one.Path != "" {
			with := url.Values{"clear": {one.Path}}
			for name := range asked {
				with.Set(name, asked.Get(name))
			}
			l.Clear = pathWith("/ui/labels", with)
		}
		v.Items = append(v.Items, l)
	}
	if list.Next != "" {
		asked.Set("cursor", list.Next)
		v.Next = pathWith("/ui/labels", asked)
	}
	p := &page{Title: "Labelled files", Nav: "Policies", Topics: []string{"record"}, Still: v.Ask != "", Body: v}
	if v.Alert != nil {
		p.Status = v.Alert.Status
	}
	return p, nil
}

// clearLabels takes the labels of a file that the person has looked at.
func (s *Server) clearLabels(x *exchange) (string, *page, error) {
	file := x.r.PostForm.Get("path")
	if file == "" {
		return "", nil, fault.New(fault.Usage, "the form does not name a file")
	}
	if ask := s.confirm(x, "To clear the labels of files"); ask != nil {
		return "", ask, nil
	}
	err := x.api.post("/v1/labels/clear", map[string]any{"path": file}, nil)
	switch {
	case err == nil:
		return "/ui/labels", nil, nil
	case signedOut(err):
		return "", nil, err
	}
	p, err := s.labelsPage(x, labelsView{Alert: problemOf(err)})
	return "", p, err
}
