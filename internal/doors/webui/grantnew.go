package webui

import (
	"errors"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/doors/httpapi"
)

// newGrantView is the form for a narrower grant, as it was filled in, or the grant that was made.
type newGrantView struct {
	Form  url.Values
	Made  *httpapi.NewGrant // with its token, which is shown once
	Alert *httpapi.Problem
}

// Of is the typed text of a field.
func (v newGrantView) Of(field string) string { return v.Form.Get(field) }

func (s *Server) newGrant(*exchange) (*page, error) { return newGrantPage(newGrantView{}), nil }

func newGrantPage(v newGrantView) *page {
	p := &page{Title: "Make a grant", Nav: "Grants", Still: true, Body: v}
	if v.Alert != nil {
		p.Status = v.Alert.Status
	}
	return p
}

// narrowGrant makes a grant from that of the browser.
func (s *Server) narrowGrant(x *exchange) (string, *page, error) {
	if ask := s.confirm(x, "To make a grant, whose token others can use"); ask != nil {
		return "", ask, nil
	}
	v := newGrantView{Form: x.r.PostForm}
	terms, err := termsOf(v.Form)
	if err == nil {
		var made httpapi.NewGrant
		if err = x.api.post("/v1/grants", terms, &made); err == nil {
			v.Made = &made
			return "", newGrantPage(v), nil
		}
	}
	if p := (*httpapi.Problem)(nil); errors.As(err, &p) && p.Status == http.StatusUnauthorized {
		return "", nil, err
	}
	v.Alert = problemOf(err)
	return "", newGrantPage(v), nil
}

// termsOf reads the form for a narrower grant.
func termsOf(form url.Values) (httpapi.GrantTerms, error) {
	t := httpapi.GrantTerms{Holder: strings.TrimSpace(form.Get("holder")), Note: form.Get("note"), Sealed: form.Get("sealed") != ""}
	if text := strings.ReplaceAll(form.Get("policy"), "\r\n", "\n"); strings.TrimSpace(text) != "" {
		t.Policies = []string{text}
	}
	for _, f := range []struct {
		name string
		unit float64
		into *int64
	}{{"hours", 3600, &t.Seconds}, {"calls", 1, &t.Calls}, {"tokens", 1, &t.Tokens}, {"dollars", 1e6, &t.Money}} {
		text := strings.TrimSpace(form.Get(f.name))
		if text == "" {
			continue
		}
		n, err := strconv.ParseFloat(text, 64)
		amount := math.Round(n * f.unit)
		if err != nil || !(amount >= 1 && amount <= 1<<53) || f.unit == 1 && n != amount {
			return t, fault.New(fault.ArgsInvalid, "%q is not a valid number of %s", text, f.name).WithHint("leave the field empty for no limit of its own")
		}
		*f.into = int64(amount)
	}
	return t, nil
}
