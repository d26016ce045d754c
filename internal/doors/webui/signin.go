package webui

import (
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/doors/httpapi"
)

// cookieName is the name of the cookie of a session. The prefix makes browsers refuse it
// without encryption, and from any other host.
func (s *Server) cookieName() string {
	if s.o.TLS {
		return "__Host-remit-ui"
	}
	return "remit-ui"
}

func (s *Server) cookie(value string, lasts time.Duration) *http.Cookie {
	path := "/ui"
	if s.o.TLS {
		path = "/" // the prefix needs it
	}
	return &http.Cookie{
		Name: s.cookieName(), Value: value, Path: path, MaxAge: int(lasts / time.Second), HttpOnly: true, Secure: s.o.TLS, SameSite: http.SameSiteStrictMode,
	}
}

// maxChallenge bounds a challenge, in bytes.
const maxChallenge = 100

// prove shows remit ui that this process is the service of its $REMIT_HOME.
func (s *Server) prove(w http.ResponseWriter, r *http.Request) {
	text := r.URL.Query().Get("challenge")
	at, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok || text == "" || len(text) > maxChallenge {
		s.fail(w, r, http.StatusBadRequest, fault.New(fault.Usage, "the challenge cannot be read"))
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, s.o.Devices.Prove(text, at.String())) // the client may have gone
}

// outside is the part of the web UI for browsers without a sign-in.
type outside struct {
	Title   string
	Code    string // of a sign-in; "": none
	Problem *httpapi.Problem
	Back    string // a page of this server to try again, for those who come from another site
	Theme   string
	Issuers []string // at which people can sign in
	On      string   // a page to go on with; "": none
}

// signInPage shows a button: only using it uses the code up, so that programs which look at
// links do not.
func (s *Server) signInPage(w http.ResponseWriter, r *http.Request) {
	code := r.URL.Query().Get("code")
	if code == "" {
		s.signedOut(w, r, s.notSignedIn())
		return
	}
	s.renderOutside(w, r, http.StatusOK, outside{Title: "Sign in", Code: code})
}

// signIn uses a code up.
func (s *Server) signIn(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		s.fail(w, r, http.StatusBadRequest, fault.New(fault.Usage, "the form cannot be read"))
		return
	}
	cookie, d, err := s.o.Devices.SignIn(r.Context(), r.PostForm.Get("code"), browserOf(r.UserAgent()))
	if err != nil {
		s.signedOut(w, r, err)
		return
	}
	http.SetCookie(w, s.cookie(cookie, d.Until.Sub(s.o.Now())))
	http.Redirect(w, r, "/ui/", http.StatusSeeOther)
}

// signOut ends a session, this browser's or another one's.
func (s *Server) signOut(x *exchange) (string, *page, error) {
	id := x.r.PostForm.Get("device")
	list, err := s.o.Devices.List(x.r.Context())
	if err != nil {
		return "", nil, err
	}
	for _, d := range list {
		if d.ID != id || d.Holder != x.device.Holder { // only one's own
			continue
		}
		if err := s.o.Devices.SignOut(x.r.Context(), id); err != nil {
			return "", nil, err
		}
		if id != x.device.ID {
			return "/ui/settings", nil, nil
		}
		http.SetCookie(x.w, s.cookie("", -time.Second))
		return "/ui/", nil, nil
	}
	return "", nil, fault.New(fault.NotFound, "no browser of yours has this ID")
}

// signedOut answers a browser that is not signed in: it shows how to, and does not say more.
func (s *Server) signedOut(w http.ResponseWriter, r *http.Request, err error) {
	p := problemOf(err)
	p.Status = http.StatusUnauthorized
	o := outside{Title: "Signed out", Problem: p}
	if site := r.Header.Get("Sec-Fetch-Site"); r.Method == http.MethodGet && site != "" && site != "same-origin" && r.URL.Path != "/ui/sign-in" {
		o.Back = r.URL.RequestURI() // a browser does not send the cookie with a link of another site
	}
	o.Issuers = s.issuers()
	s.renderOutside(w, r, http.StatusUnauthorized, o)
}

// fail answers with an error outside of any session.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, status int, err error) {
	p := problemOf(err)
	p.Status = status
	s.renderOutside(w, r, status, outside{Title: http.StatusText(status), Problem: p})
}

// browserOf describes a browser, as "Firefox on Linux".
func browserOf(agent string) string {
	find := func(names ...string) string {
		if i := slices.IndexFunc(names, func(n string) bool { return strings.Contains(agent, n) }); i >= 0 {
			return names[i]
		}
		return ""
	}
	browser, system := find("Firefox", "Edg", "Chrome", "Safari", "curl"), find("Android", "iPhone", "iPad", "Windows", "Mac OS", "Linux")
	switch browser {
	case "Edg":
		browser = "Edge"
	case "":
		browser = "Browser"
	}
	if system == "" {
		return browser
	}
	return browser + " on " + system
}
