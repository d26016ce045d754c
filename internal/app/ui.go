package app

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"runtime"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/doors/webui"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/devices"
	"github.com/remitrun/remit/internal/service/logins"
	"github.com/remitrun/remit/internal/service/people"
)

// UILink gives a link that signs one browser in to the web UI of the running service, once
// and within a minute.
func (a *App) UILink(ctx context.Context) (string, error) {
	return (&devices.Devices{Home: a.Home, Grants: a.Grants}).Invite(ctx)
}

// UIRedirect writes a page that leads a browser to a link, and gives its path.
func (a *App) UIRedirect(link string) (string, error) {
	return (&devices.Devices{Home: a.Home}).RedirectFile(link)
}

// OpenUI opens the web UI in the person's browser, signed in.
func (a *App) OpenUI(ctx context.Context) error {
	link, err := a.UILink(ctx)
	if err != nil {
		return err
	}
	file, err := a.UIRedirect(link)
	if err != nil {
		return err
	}
	program := "xdg-open"
	if runtime.GOOS == "darwin" {
		program = "open"
	}
	page := url.URL{Scheme: "file", Path: file}
	if err := exec.CommandContext(ctx, program, page.String()).Run(); err != nil {
		return fault.Wrap(fault.NotFound, err, "no browser could be opened with %s", program).WithHint("remit ui --print prints the link")
	}
	return nil
}

// webUI is the web UI of a service.
type webUI struct {
	devices *devices.Devices
	people  *people.People
	host    string
	tls     bool
	hosts   []string
	logins  *logins.Logins
	address string // that the service listens on
	gate    webui.Gate
}

// origin is where browsers and programs reach the service: where issuers send browsers back to,
// if the settings say so, since a proxy may be there.
func (u *webUI) origin() string {
	page := u.url(u.address)
	if u.people != nil {
		page = cmp.Or(u.people.Page(), page)
	}
	return strings.TrimSuffix(page, "/ui")
}

// webUI prepares the web UI.
func (a *App) webUI(q ServeRequest, tls bool, st store.Backend) *webUI {
	host := devices.NewHost()
	d := &devices.Devices{Home: a.Home, Grants: a.Grants, Workspace: q.Workspace, Host: host}
	if tls && len(q.Hosts) > 0 { // the certificate proves the name, so that no other process gets the cookies
		d.Host, d.Lasting = "https://"+q.Hosts[0], true
	}
	_, nodes := st.(store.Turns)
	if page := a.People.Page(); nodes && !tls && strings.HasPrefix(page, "https://") { // the operator's proxy has the certificate, and sends a browser to any node
		d.Host, d.Lasting = "https proxy "+page, true // cookies of "proxy "+page were sent without encryption, too
	}
	return &webUI{devices: d, people: a.People, host: host, tls: tls, hosts: q.Hosts, logins: &logins.Logins{Store: a.Grants.Ephemera}}
}

// mount makes the handler of the web UI.
func (u *webUI) mount(api http.Handler) (http.Handler, error) {
	return webui.New(webui.Options{API: api, Devices: u.devices, Gate: u.gate, People: u.people, Logins: u.logins, Host: u.host, Hosts: u.hosts, TLS: u.tls || u.people.Encrypted()})
}

// lasting is where browsers find the web UI at each start; "": its name is made anew.
func (u *webUI) lasting(address string) string {
	if len(u.hosts) == 0 {
		return ""
	}
	return u.url(address)
}

// url is where browsers find the web UI. A certificate is for the names that clients use.
func (u *webUI) url(address string) string {
	scheme, host := "http", u.host
	if u.tls {
		scheme = "https"
	}
	if len(u.hosts) > 0 {
		host = u.hosts[0]
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return scheme + "://" + host + "/ui"
	}
	return scheme + "://" + net.JoinHostPort(host, port) + "/ui"
}
