package webui

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/doors/httpapi"
	"github.com/remitrun/remit/internal/service/logins"
)

// loginView asks for the code of a program that wants to sign in, or shows its request.
type loginView struct {
	Code   string
	Asks   *logins.Waiting // nil: no code was entered
	Form   url.Values      // as it was filled in
	Done   string          // the decision
	Grant  string          // ID of the grant that was made
	Holder string          // the person
	Alert  *httpapi.Problem
}

// Of is the typed text of a field.
func (v loginView) Of(field string) string { return v.Form.Get(field) }

// defaultHours is how long a program is signed in if it does not say how long it needs.
const defaultHours = 8

func loginPage(v loginView) *page {
	p := &page{Title: "Sign in a program", Nav: "Grants", Still: true, Body: v}
	if v.Alert != nil {
		p.Status = v.Alert.Status
	}
	return p
}

// find finds a request by its code. Codes can be tried only so often.
func (s *Server) findLogin(x *exchange, code string) (logins.Waiting, error) {
	if !s.tries.Take(x.now, x.device.ID) {
		return logins.Waiting{}, fault.New(fault.LimitReached, "too many codes were tried").WithHint("wait a second")
	}
	return s.o.Logins.Find(x.r.Context(), code)
}

// login shows a program's request. Only a form decides, so that a link does nothing.
func (s *Server) login(x *exchange) (*page, error) {
	v := loginView{Code: x.r.URL.Query().Get("code"), Holder: x.device.Holder}
	if v.Code == "" {
		return loginPage(v), nil
	}
	asks, err := s.findLogin(x, v.Code)
	if err != nil {
		v.Alert = problemOf(err)
		return loginPage(v), nil
	}
	hours := float64(defaultHours)
	if asks.Lasts > 0 {
		hours = asks.Lasts.Hours()
	}
	v.Asks, v.Code = &asks, asks.Code
	v.Form = url.Values{"policy": {asks.Policy}, "hours": {strconv.FormatFloat(hours, 'f', -1, 64)}}
	return loginPage(v), nil
}

// decideLogin signs a program in with a grant that is narrowed from the browser's, or refuses.
func (s *Server) decideLogin(x *exchange) (string, *page, error) {
	form := x.r.PostForm
	do := form.Get("do")
	if do != "allow" && do != "refuse" {
		return "", nil, fault.New(fault.Usage, "the form has no answer").WithHint("choose one of its buttons")
	}
	if do == "allow" {
		if ask := s.confirm(x, "To sign a program in"); ask != nil {
			return "", ask, nil
		}
	}
	v := loginView{Code: form.Get("code"), Form: form, Holder: x.device.Holder}
	asks, err := s.findLogin(x, v.Code)
	if err != nil {
		v.Alert = problemOf(err)
		return "", loginPage(v), nil
	}
	v.Done = "refused"
	grant := (func(logins.Waiting) (logins.Given, error))(nil)
	if do == "allow" {
		v.Done = "signed in"
		grant = func(w logins.Waiting) (logins.Given, error) {
			made, err := x.grantFor(w, form)
			v.Grant = made.ID
			return logins.Given{Token: made.Token, Until: untilOf(made.Until)}, err
		}
	}
	err = s.o.Logins.Decide(x.r.Context(), asks.Code, grant)
	if p := (*httpapi.Problem)(nil); errors.As(err, &p) && p.Status == http.StatusUnauthorized {
		return "", nil, err
	}
	v.Asks = &asks
	if err != nil {
		v.Done, v.Alert = "", problemOf(err)
	}
	return "", loginPage(v), nil
}

// grantFor makes the grant of a program.
func (x *exchange) grantFor(w logins.Waiting, form url.Values) (httpapi.NewGrant, error) {
	var made httpapi.NewGrant
	terms, err := termsOf(form)
	if err == nil {
		terms.Note = "login of " + w.Client + " (" + w.Device + ") from " + w.From
		err = x.api.post("/v1/grants", terms, &made)
	}
	return made, err
}

func untilOf(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}
