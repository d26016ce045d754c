package webui

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/doors/admission"
	"github.com/remitrun/remit/internal/service/people"
)

const (
	// attemptLife is how long a browser keeps the cookie of a sign-in at an identity provider.
	attemptLife = 10 * time.Minute
	// maxFinish is how many sign-ins of one address the identity provider confirms at a time.
	maxFinish  = 8
	turnWithin = 15 * time.Second // for one of them to begin
)

// issuers are the identity providers at which people can sign in.
func (s *Server) issuers() []string {
	if s.o.People == nil {
		return nil
	}
	return s.o.People.Issuers()
}

// notSignedIn is the error of a browser without a session.
func (s *Server) notSignedIn() error {
	e := fault.New(fault.GrantInvalid, "this browser is not signed in")
	if len(s.issuers()) > 0 {
		return e
	}
	return e.WithHint("run remit ui")
}

// attempt is the cookie of a sign-in under way. A browser sends it when the identity provider
// leads it back, as it would not send that of a session.
func (s *Server) attempt(value string, lasts time.Duration) *http.Cookie {
	c := s.cookie(value, lasts)
	c.Name, c.SameSite = c.Name+"-sign-in", http.SameSiteLaxMode
	return c
}

// finish has the identity provider confirm an answer. The provider gets few requests of one address
// at a time. An answer that is not for the browser's sign-in gets no turn, so it delays nobody.
func (s *Server) finish(r *http.Request, cookie string) (people.Entered, error) {
	if err := s.o.People.Expects(cookie, r.URL.Query()); err != nil {
		return people.Entered{}, err
	}
	ctx, stop := context.WithTimeout(r.Context(), turnWithin)
	defer stop()
	leave, ok := s.turns.Wait(ctx, admission.Address(r.RemoteAddr))
	if !ok {
		return people.Entered{}, fault.New(fault.LimitReached, "too many sign-ins from this address wait for the identity provider").WithHint("reload this page")
	}
	defer leave()
	return s.o.People.Finish(r.Context(), cookie, r.URL.Query())
}

// signInAt leads the browser to an identity provider. It is a link, and no form: a page's
// forms may be sent to this server alone.
func (s *Server) signInAt(w http.ResponseWriter, r *http.Request) {
	if s.o.People == nil {
		s.unknown(w, r)
		return
	}
	address, cookie, err := s.o.People.Start(r.Context(), r.PathValue("issuer"), r.URL.Query().Has("again"))
	if err != nil {
		s.signedOut(w, r, err)
		return
	}
	http.SetCookie(w, s.attempt(cookie, attemptLife))
	http.Redirect(w, r, address, http.StatusSeeOther)
}

// signedInAt ends a sign-in at an identity provider. It answers with a page, since a browser
// that comes from another site would not send the session's cookie with a redirect.
func (s *Server) signedInAt(w http.ResponseWriter, r *http.Request) {
	if s.o.People == nil {
		s.unknown(w, r)
		return
	}
	text := ""
	if c, err := r.Cookie(s.attempt("", 0).Name); err == nil {
		text = c.Value
	}
	who, err := s.finish(r, text)
	if fault.CodeOf(err) == fault.LimitReached {
		s.fail(w, r, http.StatusServiceUnavailable, err)
		return
	}
	if err != nil {
		s.signedOut(w, r, err)
		return
	}
	cookie, d, err := s.o.Devices.Admit(r.Context(), who.Token, who.Confirmed, browserOf(r.UserAgent()))
	if err != nil {
		s.signedOut(w, r, err)
		return
	}
	http.SetCookie(w, s.attempt("", -time.Second))
	http.SetCookie(w, s.cookie(cookie, d.Until.Sub(s.o.Now())))
	w.Header().Set("Refresh", "0; url=/ui/")
	s.renderOutside(w, r, http.StatusOK, outside{Title: "Signed in", On: "/ui/"})
}

// issuerOf is the identity provider at which the person of a device signs in; "": none.
func (s *Server) issuerOf(holder string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(holder, "user:"), ":")
	for _, known := range s.issuers() {
		if known == name {
			return name
		}
	}
	return ""
}
