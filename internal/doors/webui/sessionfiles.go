package webui

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/remitrun/remit/internal/doors/httpapi"
)

// filesView lists the files of a session.
type filesView struct {
	sessionLine
	Files []httpapi.File
}

func (s *Server) sessionFiles(x *exchange) (*page, error) {
	v := filesView{sessionLine: sessionLine{Now: x.now}}
	path := "/v1/sessions/" + url.PathEscape(x.r.PathValue("id"))
	if err := x.api.get(path, nil, &v.Session); err != nil {
		return nil, err
	}
	var list httpapi.FileList
	if err := x.api.get(path+"/files", nil, &list); err != nil {
		return nil, err
	}
	v.Files = list.Items
	return &page{Title: "Files of " + v.Name(), Nav: "Sessions", Topics: []string{"session:" + v.ID.String()}, Body: v}, nil
}

// filePathOf is the address of a file's page.
func filePathOf(session, path string) string {
	u := url.URL{Path: "/ui/sessions/" + session + "/files" + path}
	return u.EscapedPath()
}

// fileView is one file of a session.
type fileView struct {
	sessionLine
	File  httpapi.File
	Text  []value // of a text
	Fetch string  // path that downloads it
}

func (s *Server) sessionFile(x *exchange) {
	x.seq = x.newest()
	var v fileView
	path := "/v1/sessions/" + url.PathEscape(x.r.PathValue("id"))
	err := x.api.get(path, nil, &v.Session)
	if err == nil && x.r.URL.Query().Get("download") != "" {
		s.download(x, path+"/files/"+escaped(x.r.PathValue("path")))
		return
	}
	if err == nil {
		err = x.api.do(http.MethodGet, path+"/files/"+escaped(x.r.PathValue("path")), nil, http.Header{"Accept": {"application/json"}}, nil, &v.File)
	}
	if err != nil {
		s.refused(x, err)
		return
	}
	if v.File.Content != nil && v.File.Encoding == "text" {
		v.Text = []value{newValue("", *v.File.Content)}
	}
	v.Fetch = filePathOf(v.ID.String(), v.File.Path) + "?download=1"
	s.render(x, "file.html", &page{Title: v.File.Path, Nav: "Sessions", Topics: []string{"session:" + v.ID.String()}, Body: v})
}

// download passes a file on, as one to keep: a browser does not show it.
func (s *Server) download(x *exchange, path string) {
	var b buffer
	err := x.api.serve(&b, http.MethodGet, path, nil, nil, nil)
	if err == nil && b.status >= http.StatusBadRequest {
		err = b.problem()
	}
	if err != nil {
		s.refused(x, err)
		return
	}
	h := x.w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", "attachment; filename*=UTF-8''"+url.PathEscape(path[strings.LastIndex(path, "/")+1:]))
	h.Set("Content-Length", strconv.Itoa(b.body.Len()))
	_, _ = x.w.Write(b.body.Bytes()) // the browser may have gone
}

// completions gives the continuations of a slash command, for the script.
func (s *Server) completions(x *exchange) {
	var out httpapi.CommandCompletions
	if err := x.api.get("/v1/commands", url.Values{"line": {x.r.URL.Query().Get("line")}}, &out); err != nil {
		out.Items = []httpapi.CommandCompletion{} // the line can still be sent
	}
	x.w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(x.w).Encode(out) // the browser may have gone
}
