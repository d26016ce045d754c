package servers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/secret"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/secrets"
	"github.com/remitrun/remit/internal/service/signin"
	mcpsource "github.com/remitrun/remit/internal/tools/source/mcp"
)

// LogIn is how somebody logs in at an MCP server elsewhere.
type LogIn struct {
	Service      bool   // the client's own tokens (client credentials), and no person's
	ClientID     string // of a client that is registered there; "": Remit registers itself
	ClientSecret string // the stored secret that is that client's; "": it has none
	MetadataURL  string // where the client describes itself
	Redirect     string // a URL of loopback where the browser brings the answer; "": a free port
	// Show tells the person the URL at which they sign in.
	Show func(url string)
	// Confirm asks whether requests may go to another origin, where the server says
	// that it is logged in at.
	Confirm func(origin string) (bool, error)
}

// loginTime is how long a person has to sign in.
const loginTime = 10 * time.Minute

// maxOrigins bounds the places that one login may lead to.
const maxOrigins = 4

// LogIn logs in at a server that was added, and keeps the tokens among the secrets. Requests go to
// the server's own origin, and to origins that are confirmed.
func (m *Servers) LogIn(ctx context.Context, name string, q LogIn) error {
	s, err := m.Find(name)
	if err != nil {
		return err
	}
	if s.URL == "" {
		return fault.New(fault.Usage, "the MCP server %q is started here: it asks for no login", name)
	}
	ctx, stop := context.WithTimeoutCause(ctx, loginTime, fault.New(fault.ToolTimeout, "no sign-in within %s", loginTime))
	defer stop()
	back, err := signin.Listen(ctx, q.Redirect)
	if err != nil {
		return err
	}
	defer back.Close()
	own, err := origin(s.URL)
	if err != nil {
		return err
	}
	origins := []string{own}
	for {
		l, elsewhere, err := m.logIn(ctx, s, q, back, origins)
		if err == nil {
			l.Server = s.URL
			return m.keepLogin(s, l)
		}
		if elsewhere == "" || len(origins) >= maxOrigins || slices.Contains(origins, elsewhere) {
			return err
		}
		yes, cerr := q.Confirm(elsewhere)
		if cerr != nil || !yes {
			return errors.Join(cerr, fault.New(fault.HandleRefused, "the login was not carried on at %s", elsewhere))
		}
		origins = append(origins, elsewhere)
	}
}

// origin is the scheme, host and port of a URL.
func origin(u string) (string, error) {
	to, err := target.Parse("POST", u)
	if err != nil {
		return "", err
	}
	parsed, err := url.Parse(u)
	if err != nil || to.Scheme != "https" && to.Scheme != "http" {
		return "", fault.New(fault.Usage, "%q is not a valid login URL", u)
	}
	return parsed.Scheme + "://" + parsed.Host, nil
}

// logIn makes one attempt, as a run of its own that may reach these origins alone.
// Elsewhere is another one that the server wants.
func (m *Servers) logIn(ctx context.Context, s Server, q LogIn, back *signin.Callback, origins []string) (l mcpsource.Login, elsewhere string, err error) {
	lines := make([]string, len(origins))
	for i, o := range origins {
		lines[i] = fmt.Sprintf("%q", o)
	}
	s.PolicyFile = "(remit mcp login " + s.Name + ")"
	s.Policy = fmt.Sprintf("version: 1\nname: %q\nnetwork: {allow: [%s], max_bytes: 4MiB, timeout: 1m}\n", "mcp login "+s.Name, strings.Join(lines, ", "))
	link, rt, err := m.reach(ctx, s, "mcp login "+s.Name)
	if err != nil {
		return l, "", err
	}
	defer link.Stop()
	only := mcpsource.Confined(rt, origins)
	before, err := m.login(s)
	if err != nil {
		return l, "", err
	}
	ask := mcpsource.Logins{
		URL: s.URL, Version: m.Home.Version, Before: before, Service: q.Service, ClientID: q.ClientID, MetadataURL: q.MetadataURL,
		Redirect: back.URL, Transport: only,
		Fetch: func(ctx context.Context, u string) (code, state, issuer string, err error) {
			q.Show(u)
			return back.Wait(ctx)
		},
	}
	if q.ClientSecret != "" {
		if ask.Secret, err = m.Secrets.Store.Get(q.ClientSecret); err != nil {
			return l, "", err
		}
	}
	l, err = mcpsource.LogIn(ctx, ask)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if wanted := only.Wanted(); wanted != "" {
		if o, oerr := origin(wanted); oerr == nil {
			elsewhere = o
		}
	}
	return l, elsewhere, err
}

// loginSecret is the name under which a server's login is kept.
func loginSecret(server string) string { return secrets.NameFor("mcp-login-", server) }

// login is the stored login of a server; the zero Login if there is none, or if it is for another
// server that had its name. Its values are masked from then on.
func (m *Servers) login(s Server) (mcpsource.Login, error) {
	var l mcpsource.Login
	text, err := m.Secrets.Store.Get(loginSecret(s.Name))
	if errors.Is(err, fault.NotFound) {
		return l, nil
	}
	if err == nil {
		err = json.Unmarshal([]byte(text), &l)
	}
	if err != nil {
		return l, fault.Wrap(fault.StoreFailed, err, "the login at the MCP server %q cannot be read", s.Name).WithHint("remit mcp login %s", s.Name)
	}
	m.maskLogin(s.Name, l)
	if l.Server != s.URL {
		return mcpsource.Login{}, nil
	}
	return l, nil
}

// renewLogin keeps what the use of a login gave, unless another one has been kept
// since, or none is.
func (m *Servers) renewLogin(s Server, was, is mcpsource.Login) error {
	return m.Home.Locked(mcpLock, func() error {
		kept, err := m.login(s)
		if err != nil {
			return err
		}
		before, err := encoded(was)
		if err != nil {
			return err
		}
		if now, err := encoded(kept); err != nil || now != before {
			return fault.New(fault.LoginNeeded, "the login at the MCP server %q is not the one any more that this connection was made with", s.Name).
				WithHint("call again; or, after a logout, remit mcp login %s", s.Name)
		}
		return m.setLogin(s.Name, is)
	})
}

// encoded is a login as it is kept.
func encoded(l mcpsource.Login) (string, error) {
	text, err := json.Marshal(l)
	if err != nil {
		return "", fault.Wrap(fault.Internal, err, "the login cannot be encoded")
	}
	return string(text), nil
}

func (m *Servers) maskLogin(server string, l mcpsource.Login) {
	for what, v := range map[string]string{"access": l.Access, "refresh": l.Refresh, "client": l.Secret} {
		if len(v) >= secret.MinValue {
			m.Secrets.Mask.Add(loginSecret(server)+"-"+what, v)
		}
	}
}

// setLogin keeps a login's tokens.
func (m *Servers) setLogin(server string, l mcpsource.Login) error {
	text, err := encoded(l)
	if err != nil {
		return err
	}
	m.maskLogin(server, l)
	_, err = m.Secrets.Store.Set(loginSecret(server), text, time.Now())
	return err
}

// keepLogin keeps a login, and lets the server's requests reach where its tokens are renewed. The
// server's other settings in the list stay as they are by now.
func (m *Servers) keepLogin(s Server, l mcpsource.Login) error {
	return m.added().Change("login", s.Name, func(list []Server) ([]Server, error) {
		now, there := home.Entry(list, s.Name)
		if !there || now.URL != s.URL {
			return nil, fault.New(fault.Conflict, "the MCP server %q was removed or changed meanwhile: the login is not kept", s.Name).WithHint("remit mcp login %s", s.Name)
		}
		now.TokenURL = l.TokenURL
		if err := m.checkMCP(now); err != nil {
			return nil, err
		}
		return home.With(list, now), m.setLogin(s.Name, l)
	}, nil)
}

// LogOut forgets a login. The server is not told.
func (m *Servers) LogOut(name string) error {
	if _, err := m.Find(name); err != nil {
		return err
	}
	return m.Home.Locked(mcpLock, func() error {
		if _, err := m.Secrets.Store.Get(loginSecret(name)); errors.Is(err, fault.NotFound) {
			return fault.New(fault.Usage, "no login is stored for the MCP server %q", name)
		}
		return m.Home.Recorded("mcp.logout", ledger.OperatorAction{Target: name}, func() error { return m.Secrets.Store.Remove(loginSecret(name)) })
	})
}

// dropSecret removes a stored secret of a server that is not in the list any more.
func (m *Servers) dropSecret(stored string) error {
	if err := m.Secrets.Store.Remove(stored); err != nil && !errors.Is(err, fault.NotFound) {
		return err
	}
	return nil
}

// reachLoggedIn gets ready to reach a server: requests carry its login.
func (m *Servers) reachLoggedIn(ctx context.Context, s Server) (*mcpsource.Link, error) {
	l, err := m.login(s)
	if err != nil {
		return nil, err
	}
	link, rt, err := m.reach(ctx, s, "mcp server "+s.Name)
	if err != nil {
		return nil, err
	}
	rt.Secret = m.Secrets.Value
	link.Transport = mcpsource.HTTP(s.URL, rt, mcpsource.LoggedIn(s.Name, l, rt, func(was, is mcpsource.Login) error { return m.renewLogin(s, was, is) }))
	return link, nil
}
