package webui

import (
	"maps"
	"net/http"
	"net/url"
	"slices"

	"github.com/remitrun/remit/internal/doors/httpapi"
)

// codeField is the field of the one-time code that confirms what another form asked for.
const codeField = "confirm-code"

// confirmView asks the person to confirm a dangerous action with a one-time code.
type confirmView struct {
	What   string // as "To accept a changed tool"
	Path   string // that the form was sent to
	Fields []field
	Issuer string // where the person signs in again; "": a code is used
	Alert  *httpapi.Problem
}

// field is a field of the form that waits for the confirmation.
type field struct{ Name, Value string }

// confirm makes sure that the person was confirmed lately. It gives the page that asks for a
// code, which sends the form again with it; nil: the action can go on.
func (s *Server) confirm(x *exchange, what string) *page {
	code := x.r.PostForm.Get(codeField)
	x.r.PostForm.Del(codeField)
	if x.device.Fresh(x.now) {
		return nil
	}
	v := confirmView{What: what, Path: x.r.URL.EscapedPath(), Fields: fieldsOfForm(x.r.PostForm), Issuer: s.issuerOf(x.device.Holder)}
	if code != "" {
		err := s.o.Devices.Confirm(x.r.Context(), x.device.ID, code)
		if err == nil {
			return nil
		}
		v.Alert = problemOf(err)
	}
	return &page{Title: "Confirm that it is you", Still: true, Status: http.StatusForbidden, File: "confirm.html", Body: v}
}

func fieldsOfForm(form url.Values) (out []field) {
	for _, name := range slices.Sorted(maps.Keys(form)) {
		for _, value := range form[name] {
			out = append(out, field{name, value})
		}
	}
	return out
}
