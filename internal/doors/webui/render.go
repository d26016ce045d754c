package webui

import (
	"bytes"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/authority/reach/waymap"
	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/redact"
	"github.com/remitrun/remit/internal/doors/admission"
	"github.com/remitrun/remit/internal/doors/httpapi"
)

// page is what a handler returns.
type page struct {
	Title   string
	Nav     string   // the entry of the navigation that it belongs to
	Topics  []string // the changes after which it is out of date
	Still   bool     // it is never asked for again: it has a form to fill in, or is shown once
	Status  int      // 0: 200
	Session string   // the conversation that it shows; "": none
	File    string   // its template; "": that of its route
	Body    any      // the view that its template shows
}

// frame holds the parts of every page of a signed-in browser around its body.
type frame struct {
	*page
	Links   []link
	Waiting int    // questions
	More    bool   // there are more than Waiting
	Theme   string // "light", "dark"; "": as the system
	Keys    bool   // letters are commands
	Holder  string
	Seq     string // of the newest event that the page can show
}

// link is an entry of the navigation.
type link struct {
	Name, Path string
	Key        string // after g
	Here       bool
}

// links are the entries of the navigation: the pages that exist.
func links(here string) []link {
	list := []link{
		{"Inbox", "/ui/", "i", false},
		{"Sessions", "/ui/sessions", "s", false},
		{"Agents", "/ui/agents", "n", false},
		{"Runs", "/ui/runs", "r", false},
		{"Grants", "/ui/grants", "g", false},
		{"Tools", "/ui/tools", "t", false},
		{"Policies", "/ui/policies", "p", false},
		{"Audit", "/ui/audit", "a", false},
		{"Settings", "/ui/settings", "e", false},
	}
	for i := range list {
		list[i].Here = list[i].Name == here
	}
	return list
}

// parsePages reads the templates: every page in the frame, with the parts in parts.html.
func parsePages(files fs.FS) (map[string]*template.Template, error) {
	base, err := template.New("frame.html").Funcs(functions).ParseFS(files, "templates/frame.html", "templates/parts.html")
	if err == nil {
		_, err = base.Parse(waymap.Template)
	}
	if err != nil {
		return nil, err
	}
	names, err := fs.Glob(files, "templates/*.html")
	if err != nil {
		return nil, err
	}
	out := map[string]*template.Template{}
	for _, name := range names {
		if file := path.Base(name); file != "frame.html" && file != "parts.html" {
			t := template.Must(base.Clone())
			if out[file], err = t.ParseFS(files, name); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// functions are the functions that templates can call.
var functions = template.FuncMap{
	"show": redact.Show, "lines": redact.ShowLines, "short": func(s string) string { return clip.Text(redact.Show(s), 200) },
	"stamp":  func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	"when":   func(t time.Time) string { return t.UTC().Format("2 Jan 2006, 15:04:05 MST") },
	"day":    func(t time.Time) string { return t.UTC().Format("2 Jan 2006") },
	"moment": func(t time.Time) string { return t.UTC().Format("2 Jan, 15:04:05") },
	"clock":  func(t time.Time) string { return t.UTC().Format("15:04:05") },
	"ago":    ago, "left": timeLeft, "span": spanOf, "size": sizeOf, "word": wordOf, "id8": id8, "count": count, "compact": compactJSON, "riskclass": riskClass,
	"filepath": func(id fmt.Stringer, path string) string { return filePathOf(id.String(), path) }, "size64": func(n int64) string { return sizeOf(int(n)) },
	"join": func(list []string) string { return strings.Join(list, " ") },
}

// render writes a page.
func (s *Server) render(x *exchange, file string, p *page) {
	f := frame{page: p, Links: links(p.Nav), Theme: themeOf(x.r), Keys: keysOn(x.r), Holder: x.device.Holder, Seq: x.seq}
	var waiting httpapi.ApprovalList
	if err := x.api.get("/v1/approvals", url.Values{"limit": {"100"}}, &waiting); err == nil { // a grant may not allow it; the page is still right
		f.Waiting, f.More = len(waiting.Items), waiting.Next != ""
	}
	s.write(x.w, file, "frame.html", p.Status, f)
}

// renderProblem writes an error as a page.
func (s *Server) renderProblem(x *exchange, p *httpapi.Problem) {
	s.render(x, "problem.html", &page{Title: p.Title, Status: p.Status, Body: p})
}

// renderOutside writes a page for a browser that is not signed in.
func (s *Server) renderOutside(w http.ResponseWriter, r *http.Request, status int, o outside) {
	o.Theme = themeOf(r)
	s.write(w, "outside.html", "outside", status, o)
}

func (s *Server) write(w http.ResponseWriter, file, name string, status int, data any) {
	var b bytes.Buffer // a page cut short by an error would look like a whole one
	if err := s.pages[file].ExecuteTemplate(&b, name, data); err != nil {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = w.Write([]byte("the page cannot be shown\n")) // the browser may have gone
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if status == 0 {
		status = http.StatusOK
	}
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // as above
}

// kinds are the content types of the files in static that are served.
var kinds = map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}

// keep lets a signed-in browser keep its connection. Pages are admitted by the API.
func (s *Server) keep(r *http.Request) {
	if d, err := s.device(r); err == nil {
		admission.Admit(r.Context(), d.Holder)
	}
}

// static serves the style sheet and the scripts.
func (s *Server) static(w http.ResponseWriter, r *http.Request) {
	s.keep(r)
	name := r.PathValue("name")
	b, err := files.ReadFile("static/" + path.Base(name))
	kind, ok := kinds[path.Ext(name)]
	if err != nil || !ok {
		s.unknown(w, r)
		return
	}
	w.Header().Set("Content-Type", kind)
	_, _ = w.Write(b) // the browser may have gone
}

// icon draws the favicon, with the number of waiting questions.
func (s *Server) icon(w http.ResponseWriter, r *http.Request) {
	s.keep(r)
	n, _ := strconv.Atoi(r.URL.Query().Get("n")) // not a number: as none
	w.Header().Set("Content-Type", "image/svg+xml")
	_, _ = fmt.Fprint(w, iconSVG(n)) // the browser may have gone
}

func iconSVG(n int) string {
	badge := ""
	if n > 0 {
		text := strconv.Itoa(min(n, 9))
		if n > 9 {
			text = "9+"
		}
		badge = `<circle cx="22" cy="10" r="10" fill="#b4531a"/><text x="22" y="15" font-family="sans-serif" font-size="13" font-weight="700" fill="#fff" text-anchor="middle">` + text + `</text>`
	}
	return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect x="1" y="3" width="26" height="26" rx="6" fill="#2f5d8a"/>` +
		`<path d="M9 23V10h6a4 4 0 0 1 0 8H9m6 0 4 5" fill="none" stroke="#fff" stroke-width="3"/>` + badge + `</svg>`
}
