package devices

import (
	"context"
	"html"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
)

// serviceFile says where the web UI is served; redirectFile leads a browser there.
const (
	serviceFile  = "ui/service.json"
	redirectFile = "ui/open.html"
)

// dialWithin is how long the service may take to answer.
const dialWithin = 2 * time.Second

type service struct {
	URL     string `json:"url"`     // of the web UI, without a slash at the end
	Address string `json:"address"` // that the service listens on
}

// Host gives the host name of this home's web UI. It is random and does not change.
func (d *Devices) Host() (string, error) {
	s, err := d.read()
	if err != nil || s.Host != "" {
		return s.Host, err
	}
	var host string
	err = d.change(func(s *state) error {
		if s.Host == "" {
			s.Host = newHost()
		}
		host = s.Host
		return nil
	})
	return host, err
}

// Announce writes down where the web UI is served, until withdraw is called.
func (d *Devices) Announce(url, address string) (withdraw func(), err error) {
	mine := service{URL: url, Address: address}
	if err := d.Home.Write(serviceFile, mine); err != nil {
		return nil, err
	}
	return func() {
		var now service
		if err := d.Home.Read(serviceFile, &now); err == nil && now == mine { // another service may have taken over
			_ = os.Remove(filepath.Join(d.Home.Dir, serviceFile)) // Invite checks whether the service answers
		}
	}, nil
}

// Invite gives a link that signs one browser in to the running service.
func (d *Devices) Invite(ctx context.Context) (string, error) {
	var s service
	err := d.Home.Read(serviceFile, &s)
	if err == nil && s.URL != "" {
		ctx, stop := context.WithTimeout(ctx, dialWithin)
		defer stop()
		var c net.Conn
		if c, err = (&net.Dialer{}).DialContext(ctx, "tcp", s.Address); err == nil {
			_ = c.Close() // it was opened only to see that the service listens
		}
	}
	if err != nil || s.URL == "" {
		return "", fault.New(fault.NotFound, "no service with a web UI is running").WithHint("start one with remit serve, and leave it running")
	}
	code, err := d.Code()
	if err != nil {
		return "", err
	}
	return s.URL + "/sign-in?code=" + url.QueryEscape(code), nil
}

// RedirectFile writes a page that leads a browser to a link, and gives its path. Only its
// owner can read it, so the link is on no command line.
func (d *Devices) RedirectFile(link string) (string, error) {
	href := html.EscapeString(link)
	page := "<!doctype html><meta charset=utf-8><meta name=referrer content=no-referrer><title>Remit</title>" +
		"<meta http-equiv=refresh content=\"0;url=" + href + "\"><p><a href=\"" + href + "\">Sign in to Remit</a>\n"
	return filepath.Join(d.Home.Dir, redirectFile), d.Home.WriteFile(redirectFile, []byte(page))
}
