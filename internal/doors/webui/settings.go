package webui

import (
	"errors"
	"net/http"
	"time"

	"github.com/remitrun/remit/internal/doors/httpapi"
	"github.com/remitrun/remit/internal/service/devices"
)

// Cookies with what a person prefers. They give nothing away.
const (
	themeCookie = "remit-theme"
	keysCookie  = "remit-keys"
	keepFor     = 365 * 24 * time.Hour
)

// themeOf gives the theme that the browser chose; "": as its system.
func themeOf(r *http.Request) string {
	if c, err := r.Cookie(themeCookie); err == nil && (c.Value == "light" || c.Value == "dark") {
		return c.Value
	}
	return ""
}

// keysOn reports whether letters are commands.
func keysOn(r *http.Request) bool {
	c, err := r.Cookie(keysCookie)
	return err != nil || c.Value != "off"
}

// settingsView holds the settings that a person can change.
type settingsView struct {
	Theme   string
	Keys    bool
	Devices []devices.Device
	This    string // ID of this browser
	Now     time.Time
	Parts   *httpapi.PartList // nil: the grant may not read them
}

func (s *Server) settings(x *exchange) (*page, error) {
	list, err := s.o.Devices.List(x.r.Context())
	if err != nil {
		return nil, err
	}
	v := settingsView{Theme: themeOf(x.r), Keys: keysOn(x.r), This: x.device.ID, Now: x.now}
	for _, d := range list {
		if d.Holder == x.device.Holder {
			v.Devices = append(v.Devices, d)
		}
	}
	var parts httpapi.PartList
	p := (*httpapi.Problem)(nil)
	switch err := x.api.get("/v1/parts", nil, &parts); {
	case err == nil:
		v.Parts = &parts
	case !errors.As(err, &p) || p.Status != http.StatusForbidden:
		return nil, err
	}
	return &page{Title: "Settings", Nav: "Settings", Topics: []string{"grants"}, Body: v}, nil
}

func (s *Server) setTheme(x *exchange) (string, *page, error) {
	s.prefer(x, themeCookie, x.r.PostForm.Get("theme"), "light", "dark")
	return "/ui/settings", nil, nil
}

func (s *Server) setKeys(x *exchange) (string, *page, error) {
	s.prefer(x, keysCookie, x.r.PostForm.Get("keys"), "off")
	return "/ui/settings", nil, nil
}

// prefer keeps one of some values in a cookie; any other is the default, which needs none.
func (s *Server) prefer(x *exchange, name, value string, known ...string) {
	c := &http.Cookie{Name: name, Path: "/ui", MaxAge: -1, HttpOnly: true, Secure: s.o.TLS, SameSite: http.SameSiteStrictMode}
	for _, k := range known {
		if k == value {
			c.Value, c.MaxAge = value, int(keepFor/time.Second)
		}
	}
	http.SetCookie(x.w, c)
}
