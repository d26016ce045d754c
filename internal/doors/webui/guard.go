package webui

import (
	"cmp"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/doors/httpapi"
	"github.com/remitrun/remit/internal/service/devices"
)

// maxForm bounds the body of a form, in bytes.
const maxForm = 256 << 10

// contentPolicy forbids everything that the pages do not use. Trusted types without any policy
// refuse every way of making markup or script out of text.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// headers are on every answer.
func headers(h http.Header) {
	for name, value := range map[string]string{
		"Content-Security-Policy":      contentPolicy,
		"X-Content-Type-Options":       "nosniff",
		"X-Frame-Options":              "DENY",
		"Referrer-Policy":              "no-referrer",
		"Cross-Origin-Opener-Policy":   "same-origin",
		"Cross-Origin-Resource-Policy": "same-origin",
		"Permissions-Policy":           "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
		"Cache-Control":                "no-store",
	} {
		h.Set(name, value)
	}
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	headers(w.Header())
	switch {
	case !s.named(r.Host):
		s.fail(w, r, http.StatusForbidden, fault.New(fault.Denied, "the web UI is not served under this name").WithHint("run remit ui, which opens it"))
	case http.NewCrossOriginProtection().Check(r) != nil:
		s.fail(w, r, http.StatusForbidden, fault.New(fault.Denied, "requests of other origins are not served"))
	default:
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		s.mux.ServeHTTP(w, r)
	}
}

// named reports whether a request is for a host of the web UI. Loopback's other names are not:
// browsers would send their cookies to every other server on this machine.
func (s *Server) named(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	return strings.EqualFold(name, s.o.Host) || slices.ContainsFunc(s.o.Hosts, func(h string) bool { return strings.EqualFold(h, name) })
}

// exchange is a request of a signed-in browser.
type exchange struct {
	w      http.ResponseWriter
	r      *http.Request
	device devices.Device
	api    client
	now    time.Time
	seq    string // of the newest event before the page was made
}

// signedIn serves requests of signed-in browsers. Others get the sign-in page.
func (s *Server) signedIn(pattern string, serve func(x *exchange)) {
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		d, err := s.device(r)
		if err != nil {
			s.signedOut(w, r, err)
			return
		}
		serve(&exchange{w: w, r: r, device: d, api: client{api: s.o.API, r: r, token: d.Token}, now: s.o.Now()})
	})
}

// device finds the signed-in browser of a request and checks its grant, also for actions without a
// request to the API.
func (s *Server) device(r *http.Request) (devices.Device, error) {
	c, err := r.Cookie(s.cookieName())
	if err != nil {
		return devices.Device{}, s.notSignedIn()
	}
	d, err := s.o.Devices.Enter(r.Context(), c.Value)
	if err != nil {
		return devices.Device{}, err
	}
	if err := s.o.Gate.Usable(r.Context(), d.Token); err != nil {
		return devices.Device{}, err
	}
	return d, nil
}

// handler makes a page.
type handler func(x *exchange) (*page, error)

// page serves a page with its template.
func (s *Server) page(pattern, file string, h handler) {
	s.signedIn(pattern, func(x *exchange) {
		x.seq = x.newest()
		p, err := h(x)
		if err != nil {
			s.refused(x, err)
			return
		}
		s.render(x, cmp.Or(p.File, file), p)
	})
}

// action carries out the action of a form. It returns the path to go on with; or, with that empty,
// a page.
type action func(x *exchange) (next string, p *page, err error)

// action serves the posts of a form.
func (s *Server) action(pattern, file string, do action) {
	s.signedIn(pattern, func(x *exchange) {
		if err := x.r.ParseForm(); err != nil {
			s.fail(x.w, x.r, http.StatusBadRequest, fault.New(fault.Usage, "the form cannot be read"))
			return
		}
		d, err := s.device(x.r) // again: a form can arrive long after the header
		if err != nil {
			s.signedOut(x.w, x.r, err)
			return
		}
		x.device, x.api.token = d, d.Token
		x.seq = x.newest()
		next, p, err := do(x)
		switch {
		case err != nil:
			s.refused(x, err)
		case next != "":
			http.Redirect(x.w, x.r, next, http.StatusSeeOther)
		default:
			s.render(x, cmp.Or(p.File, file), p)
		}
	})
}

// form serves a page, and the posts of its form.
func (s *Server) form(path, file string, h handler, do action) {
	s.page("GET "+path, file, h)
	s.action("POST "+path, file, do)
}

// refused answers with an error of the API. A grant that can no longer be used signs out.
func (s *Server) refused(x *exchange, err error) {
	p := problemOf(err)
	if p.Status == http.StatusUnauthorized {
		s.signedOut(x.w, x.r, err)
		return
	}
	s.renderProblem(x, p)
}

// unknown answers requests for paths without a page.
func (s *Server) unknown(w http.ResponseWriter, r *http.Request) {
	d, err := s.device(r)
	if err != nil {
		s.signedOut(w, r, err)
		return
	}
	x := &exchange{w: w, r: r, device: d, api: client{api: s.o.API, r: r, token: d.Token}, now: s.o.Now()}
	s.renderProblem(x, &httpapi.Problem{Status: http.StatusNotFound, Title: "Not Found", Detail: "no page is here"})
}
