package devices

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"html"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/store"
)

// serviceFile says where the web UI is served; redirectFile leads a browser there.
const (
	serviceFile  = "ui/service.json"
	redirectFile = "ui/open.html"
)

// ProofPath is the path below the web UI's at which the service proves itself. The query
// has the challenge.
const ProofPath = "/proof"

const (
	answerWithin = 2 * time.Second  // for the service to prove itself
	retireWithin = 10 * time.Second // for revoking the grants of browsers
)

// service is the content of the file.
type service struct {
	URL     string `json:"url"`     // of the web UI, without a slash at the end
	Address string `json:"address"` // that the service listens on
	Host    string `json:"host"`    // that codes and cookies are of
	Key     string `json:"key"`     // proves the service
	TLS     bool   `json:"tls"`     // its certificate proves it to browsers
	Lasting bool   `json:"lasting"` // browsers stay signed in to it
}

// Announce writes down where this service serves the web UI, until withdraw is called, which also signs its browsers
// out, unless they stay signed in. Browsers of a service that ended without withdraw are signed out now.
func (d *Devices) Announce(ctx context.Context, page, address string) (withdraw func(), err error) {
	var old service
	if err := d.Home.Read(serviceFile, &old); err == nil && old.Host != "" && !old.Lasting && old.check(ctx) != nil {
		d.retire(ctx, old.Host)
	}
	d.key = newSecret()
	mine := service{URL: page, Address: address, Host: d.Host, Key: d.key, TLS: strings.HasPrefix(page, "https:"), Lasting: d.Lasting}
	if err := d.Home.Write(serviceFile, mine); err != nil {
		return nil, err
	}
	return func() {
		if !d.Lasting {
			d.retire(ctx, d.Host)
		}
		var now service
		if err := d.Home.Read(serviceFile, &now); err == nil && now == mine { // another service may have taken over
			_ = os.Remove(filepath.Join(d.Home.Dir, serviceFile)) // Invite checks whether the service answers
		}
	}, nil
}

// retire signs all browsers of a host out. Their cookies count no more in any case, so a failed
// step is left to the end of the grants.
func (d *Devices) retire(ctx context.Context, host string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), retireWithin)
	defer cancel()
	all, err := d.records(ctx, host)
	if err != nil {
		return
	}
	for _, r := range all {
		_, _ = d.Grants.SetStanding(ctx, r.ID, store.Revoked, "the service ended")
		_ = d.forget(ctx, r)
	}
}

// Prove answers a challenge that reached the service at one of its addresses. Only a process
// that knows the key in $REMIT_HOME can. The address is part of the proof: an answer that
// another process fetched from the service proves nothing for that process.
func (d *Devices) Prove(challenge, address string) string { return proofOf(d.key, challenge, address) }

func proofOf(key, challenge, address string) string {
	m := hmac.New(sha256.New, []byte(key))
	_, _ = io.WriteString(m, "remit web ui 1\n"+address+"\n"+challenge) // never fails
	return hex.EncodeToString(m.Sum(nil))
}

// check makes sure that the service answers, and at each address where a browser may look for
// its host: another process there would receive the code and the cookie.
func (s service) check(ctx context.Context) error {
	if s.URL == "" || s.Key == "" {
		return errNoService()
	}
	ctx, stop := context.WithTimeout(ctx, answerWithin)
	defer stop()
	if s.TLS {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.Address)
		if err != nil {
			return errNoService()
		}
		return c.Close()
	}
	answers := 0
	for _, address := range s.addresses() {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			continue // no program listens on it
		}
		if err := s.challenge(ctx, c, address); err != nil {
			return err
		}
		answers++
	}
	if answers == 0 {
		return errNoService()
	}
	return nil
}

// addresses are where a browser may look for the URL's host.
func (s service) addresses() []string {
	ip, port, err := net.SplitHostPort(s.Address)
	if err != nil {
		return nil
	}
	local := []string{net.JoinHostPort("127.0.0.1", port), net.JoinHostPort("::1", port)}
	if u, err := url.Parse(s.URL); err != nil || u.Hostname() == s.Host {
		return local
	}
	if at := net.ParseIP(ip); at == nil || at.IsUnspecified() {
		return local
	}
	return []string{s.Address}
}

// challenge has the process at the other end of a connection prove that it is the service.
func (s service) challenge(ctx context.Context, c net.Conn, address string) error {
	defer func() { _ = c.Close() }() // the transport has
	foreign := fault.New(fault.Denied, "the program that listens on %s is not this service; it would receive the sign-in code", address).
		WithHint("stop that program, or start remit serve with another --listen")
	text := newSecret()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+ProofPath+"?challenge="+text, http.NoBody)
	if err != nil {
		return errNoService()
	}
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) { return c, nil }}
	res, err := transport.RoundTrip(r)
	if err != nil {
		return foreign
	}
	defer func() { _ = res.Body.Close() }()
	got, err := io.ReadAll(io.LimitReader(res.Body, 128))
	if err != nil || res.StatusCode != http.StatusOK || !equal(string(got), proofOf(s.Key, text, address)) {
		return foreign
	}
	return nil
}

func errNoService() error {
	return fault.New(fault.NotFound, "no service with a web UI is running").WithHint("start one with remit serve, and leave it running")
}

// Invite gives a link that signs one browser in to the running service.
func (d *Devices) Invite(ctx context.Context) (string, error) {
	var s service
	if err := d.Home.Read(serviceFile, &s); err != nil {
		return "", errNoService()
	}
	if err := s.check(ctx); err != nil {
		return "", err
	}
	code, err := d.Code(ctx, s.Host)
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
